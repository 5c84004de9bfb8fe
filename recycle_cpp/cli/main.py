"""recycle-cpp: the entry point, and the one place where errors become a line and an exit status."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recycle_cpp.cli import show
from recycle_cpp.cli.bench import bench
from recycle_cpp.cli.chat.command import chat
from recycle_cpp.cli.forget import forget
from recycle_cpp.cli.generate import generate
from recycle_cpp.cli.models import models
from recycle_cpp.cli.trace import replay, trace
from recycle_cpp.errors import RecycleError
from recycle_cpp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "recycle-cpp"
USAGE_STATUS = 2
INTERRUPTED_STATUS = 130  # 128 + SIGINT, as a shell reports it
BROKEN_PIPE_STATUS = 1
FAILED_STATUS = 1


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def commands(context: click.Context) -> None:
    """Run one GGUF model as fast as this machine can, losslessly."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


commands.add_command(generate)
commands.add_command(chat)
commands.add_command(models)
commands.add_command(bench)
commands.add_command(trace)
commands.add_command(replay)
commands.add_command(forget)


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 something given cannot be used, 130 interrupted."""
    _open_output()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status; errors go to standard error, one line each."""
    try:
        status = commands.main(list(arguments), prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except RecycleError as error:
        return _fail(str(error), error.exit_code)
    except click.ClickException as error:
        # Not error.ctx: click leaves it empty for some errors.
        command = [name for name in arguments[:1] if name in commands.commands]
        where = " ".join([PROGRAM, *command, "--help"])
        return _fail(f"{error.format_message().rstrip('.')} (see {where})", USAGE_STATUS)
    except click.Abort:  # click has made this of KeyboardInterrupt, and ended the line of the ^C
        return INTERRUPTED_STATUS
    except KeyboardInterrupt:
        click.echo(err=True)
        return INTERRUPTED_STATUS
    except BrokenPipeError:  # at the last flush; of an earlier one click makes a quiet exit
        return _leave_broken_pipe()
    except OSError as error:  # files that the user named are read with care elsewhere: this is the output
        status = _fail(f"the output cannot be written ({error.strerror or error})", FAILED_STATUS)
        _leave_broken_pipe()
        return status
    return status if isinstance(status, int) else 0


def _open_output() -> None:
    """Make both outputs UTF-8, whatever the locale, and there, even if the shell has closed them."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (never closed)
        elif isinstance(stream, io.TextIOWrapper):
            # Paths may hold bytes that are no text; they are to be shown, not to fail.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _fail(message: str, status: int) -> int:
    """Write an error as one line, whatever is in its message."""
    show.error(message)
    return status


def _leave_broken_pipe() -> int:
    # What is still buffered has no reader; without this the interpreter complains about it as it exits.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE_STATUS


if __name__ == "__main__":
    main()
