"""A chat on a pseudo-terminal of its own: keys in, what a person sees out."""

from __future__ import annotations

import fcntl
import os
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

ENTER, CTRL_C, CTRL_D, CTRL_J, ESCAPE, TAB = "\r", "\x03", "\x04", "\n", "\x1b", "\t"
PASTE, PASTED = "\x1b[200~", "\x1b[201~"
ANSI = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|[=>])")

FAKE = (sys.executable, str(Path(__file__).with_name("fake_runtime.py")), "chat", "-m", "m")


class Terminal:
    """A chat on a terminal of its own."""

    def __init__(self, cache: Path, *arguments: str, command: Sequence[str] = FAKE, **environment: str) -> None:
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, b"\x18\x00\xc8\x00\x00\x00\x00\x00")  # 24 lines of 200
        self.process = subprocess.Popen(
            [*command, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 (no threads here)
            env={**os.environ, "TERM": "xterm-256color", "XDG_CACHE_HOME": str(cache), "NO_COLOR": "", **environment},
        )
        os.close(slave)
        self.master = master
        self.seen = ""

    def type(self, *keys: str) -> None:
        os.write(self.master, "".join(keys).encode("utf-8", "surrogateescape"))

    def wait_for(self, text: str) -> str:
        """Read until a text appears behind what earlier calls have returned, and return all up to its end."""
        return self._wait_for(re.escape(text))

    def prompt(self, seconds: float = 15) -> None:
        """Wait for the prompt: the editor jumps over the space behind it."""
        self._wait_for(">(\x08| )", seconds)

    def _wait_for(self, pattern: str, seconds: float = 15) -> str:
        end = time.monotonic() + seconds
        while (found := re.search(pattern, shown := ANSI.sub("", self.seen))) is None:
            assert time.monotonic() < end, f"{pattern!r} did not come: {self.seen!r}"
            self.read(0.1)
        self.seen = shown[found.end() :]
        return shown[: found.end()]

    def status(self) -> int:
        """Read on to the end and return the exit status."""
        end = time.monotonic() + 15
        while self.process.poll() is None:
            assert time.monotonic() < end, f"the chat has not ended: {self.seen!r}"
            self.read(0.1)
        self.read(0.1)
        return self.process.returncode

    def read(self, seconds: float) -> None:
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.seen += os.read(self.master, 65536).decode("utf-8", "replace")
            except OSError:  # Linux reports so that the other end was closed
                time.sleep(0.01)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        assert "Traceback" not in self.seen
