"""Run the long commands: their output goes to a log, the user sees what matters of it."""

import contextlib
import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from recycle_cpp.errors import InstallError

EXCERPT_LINES = 15
EXCERPT_WIDTH = 160
TICK_SECONDS = 1.0

TELLING = re.compile(
    r"\b[Ee]rror\b|\bERROR\b|FAILED|undefined reference|Killed|No space left|Could not (find|open|fetch)"
    r"|command not found|No such file|Permission denied|Connection|timed out|Temporary failure"
)
NOISE = re.compile(r"^\s*(\[[\d/ %]+\] |WARNING: |\[notice\]|note: |error: subprocess-exited|$)|finished with status")

# The first pattern that the log holds decides what the user is told to do.
ADVICE = (
    (
        r"No space left on device",
        "free some disk space (a build needs about 2 GB in the temporary folder), run again",
    ),
    (r"Killed signal|: Killed|out of memory", "memory ran out: run again with CMAKE_BUILD_PARALLEL_LEVEL=1"),
    (
        r"Temporary failure in name resolution|NewConnectionError|Connection(Error| refused| reset)"
        r"|Failed to establish a new connection|Read timed out",
        "the package index was not reached: check the network, run again",
    ),
    (
        r"No matching distribution|Could not find a version",
        "the package index lacks it or was not reached: check the network and pip's settings, run again",
    ),
    (
        r"unrecognized command-line option|unknown argument:",
        "the compiler refuses a flag: check CFLAGS, CXXFLAGS and CMAKE_ARGS, run again",
    ),
    (
        r"CMAKE_C(XX)?_COMPILER|compiler .*not able to compile",
        "the compiler does not work: reinstall it, run again",
    ),
    (
        r"nvcc (fatal|error)|CUDA_ARCHITECTURES|CUDAToolkit",
        "the CUDA toolkit fails: run again with CMAKE_ARGS='-DLLAVA_BUILD=OFF -DGGML_CUDA=OFF'",
    ),
)
OTHERWISE = "read the log, cure the first error in it, run again"


class Listener(Protocol):
    """Follows a command while it runs."""

    def line(self, text: str) -> None:
        """Take one line of its output; an empty text means that a second went by without one."""


def pip_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for pip: it asks nothing and installs into its own environment alone."""
    return {**environ, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_USER": "0"}


def excerpt(log: str) -> list[str]:
    """Return the last lines of a log that tell of errors; its last lines of any kind if none does."""
    lines = [line.rstrip()[:EXCERPT_WIDTH] for line in log.splitlines() if not NOISE.search(line)]
    telling = [line for line in lines if TELLING.search(line)]
    return (telling or lines)[-EXCERPT_LINES:]


def advice(log: str) -> str:
    """Return what to do about a failed command, told from its log."""
    return next((cure for pattern, cure in ADVICE if re.search(pattern, log)), OTHERWISE)


def _lines(pipe: IO[str]) -> Iterator[str]:
    """Yield each line of a pipe as it comes, and an empty string after every second without one."""
    arrived: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def pump() -> None:
        with contextlib.suppress(ValueError):  # closed under us, after an interrupt
            for line in pipe:
                arrived.put(line)
        arrived.put(None)

    threading.Thread(target=pump, daemon=True).start()
    while True:
        try:
            line = arrived.get(timeout=TICK_SECONDS)
        except queue.Empty:
            yield ""
            continue
        if line is None:
            return
        yield line


def _start(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a command in a process group of its own, so that it can be ended with all that it starts."""
    return subprocess.Popen(
        command,
        env=dict(environ),
        process_group=0,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )


def _stop(process: subprocess.Popen[str]) -> None:
    """End a command and all that it started: a compiler that outlives pip would hold on to our pipe."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


def _failure(what: str, log: Path) -> InstallError:
    text = log.read_text(encoding="utf-8", errors="replace")
    error = InstallError(f"{what} failed: {advice(text)}; the whole log is {log}")
    for line in excerpt(text):
        error.add_note(line)
    return error


def run_logged(
    what: str, command: Sequence[str], log: Path, environ: Mapping[str, str], listener: Listener | None = None
) -> None:
    """Run a command with its output in `log`; if the caller is interrupted, end it and its children.

    Args:
        what: The step in words, for the error.
        command: The command and its arguments.
        log: Where the output goes; an older log is overwritten.
        environ: The whole environment of the command.
        listener: Follows the output, if given.

    Raises:
        InstallError: The command failed; its notes are the telling lines of the output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("w", encoding="utf-8", errors="replace") as file,
        _start(command, environ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in _lines(process.stdout):
                file.write(line)
                if listener:
                    listener.line(line)
        except BaseException:
            _stop(process)
            raise
    if process.returncode != 0:
        raise _failure(what, log)
