"""Run the set-up from a checkout: `python3 -m recycle_cpp.setup [--dev]`.

Only this file must be readable by old Pythons: it checks the version before it imports the rest.
"""

import argparse
import os
import signal
import sys

OLDEST = (3, 11)
INTERRUPTED = 130  # what a shell reports for a command ended by Ctrl-C
ENDED = ("SIGTERM", "SIGHUP")  # taken like Ctrl-C, so that a build does not outlive us
NOT_INSTALLED = 2


def unsupported(version: "tuple[int, ...]", platform: str) -> "str | None":
    """Return one line that says why the set-up cannot run here, None if it can."""
    if platform == "win32":
        return "the set-up needs Linux or macOS: on Windows run it inside WSL"
    if version < OLDEST:
        found, needed = ".".join(map(str, version)), ".".join(map(str, OLDEST))
        return f"Python {found} is too old, {needed} or newer is needed: run `make PYTHON=python{needed} setup`"
    return None


def main() -> int:
    """Set the checkout up; return the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m recycle_cpp.setup", description="Set this checkout up.")
    parser.add_argument("--dev", action="store_true", help="also install the tools that `make check` runs")
    arguments = parser.parse_args()
    if reason := unsupported(sys.version_info[:2], sys.platform):
        print(f"error: {reason}", file=sys.stderr)
        return NOT_INSTALLED

    from recycle_cpp.errors import RecycleError
    from recycle_cpp.setup.layout import find_layout
    from recycle_cpp.setup.steps import set_up

    for name in ENDED:
        if signal.getsignal(number := getattr(signal, name)) != signal.SIG_IGN:  # nohup stays in force
            signal.signal(number, signal.default_int_handler)
    try:
        set_up(find_layout(os.environ), os.environ, dev=arguments.dev)
    except RecycleError as error:
        for note in getattr(error, "__notes__", []):
            print(f"    {note}", file=sys.stderr)
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        print(
            f"error: the set-up stopped: {error.strerror or error}{where}: cure that, run again",
            file=sys.stderr,
        )
        return NOT_INSTALLED
    except KeyboardInterrupt:
        print("\nstopped; the next run goes on from the last finished step", file=sys.stderr)
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
