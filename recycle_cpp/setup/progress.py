"""Show how far the set-up is: one line for a step, a bar (or a line every 10 percent) for the build."""

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TextIO

NINJA = re.compile(r"^\s*\[(\d+)/(\d+)\] ")
MAKE = re.compile(r"^\s*\[ *(\d+)%\] ")
BAR = 16
PLAIN_STRIDE = 10  # percent between two lines where the output is no terminal
KNOWN_AFTER_SECONDS = 20.0  # the first files say little about the rest
KNOWN_AFTER_FRACTION = 0.08


def fraction_done(line: str) -> float | None:
    """Return how much of the build a line of Ninja's or Make's output says is done, None if none."""
    if found := NINJA.match(line):
        done, total = int(found.group(1)), int(found.group(2))
        return done / total if 0 < done <= total else None
    found = MAKE.match(line)
    return int(found.group(1)) / 100 if found else None


def duration(seconds: float) -> str:
    """Return a duration for people: 0.4 s, 38 s, 5 min 12 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def time_left(fraction: float, elapsed: float) -> str:
    """Return an estimate of the time left in words, empty while there is nothing to base it on."""
    if elapsed < KNOWN_AFTER_SECONDS or fraction < KNOWN_AFTER_FRACTION:
        return ""
    left = elapsed / fraction - elapsed
    return f"about {max(1, round(left / 60))} min left" if left > 45 else "less than a minute left"


@contextmanager
def step(text: str, out: TextIO | None = None) -> Iterator[None]:
    """Announce a step, then end its line with the time it took."""
    out = out or sys.stderr
    started = time.monotonic()
    print(f"  {text} ...", end="", flush=True, file=out)
    try:
        yield
    except BaseException:
        print(" failed", flush=True, file=out)
        raise
    print(f" {duration(time.monotonic() - started)}", flush=True, file=out)


def say(text: str, out: TextIO | None = None) -> None:
    """Print one line of the set-up's own."""
    print(f"  {text}", flush=True, file=out or sys.stderr)


class BuildProgress:
    """Follows the output of a build and shows how far it is."""

    def __init__(self, title: str, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._title = title
        self._out = out or sys.stderr
        self._clock = clock
        self._started = clock()
        self._first: float | None = None
        self._fraction = 0.0
        self._shown = 0
        self._drawn = ""

    def __enter__(self) -> "BuildProgress":
        """Show the title."""
        if not self._out.isatty():
            print(f"  {self._title} ...", flush=True, file=self._out)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the line with the time it took, or say that it failed."""
        elapsed = duration(self._clock() - self._started)
        start = "\r\x1b[K" if self._out.isatty() else ""
        end = f"{self._title}: failed after" if kind else f"{self._title}: done in"
        print(f"{start}  {end} {elapsed}", flush=True, file=self._out)

    def line(self, text: str) -> None:
        """Take one line of the build's output; an empty text means that a second went by without one."""
        fraction = fraction_done(text)
        if fraction is not None and fraction > self._fraction:
            self._first = self._clock() if self._first is None else self._first
            self._fraction = fraction
        if self._out.isatty():
            self._draw()
        elif int(self._fraction * 100) >= self._shown + PLAIN_STRIDE:
            self._shown = int(self._fraction * 100) // PLAIN_STRIDE * PLAIN_STRIDE
            print(f"    {self._status(self._shown)}", flush=True, file=self._out)

    def _status(self, percent: int) -> str:
        now = self._clock()
        left = time_left(self._fraction, now - self._first) if self._first is not None else ""
        return ", ".join(filter(None, [f"{percent:3d} %", duration(now - self._started), left]))

    def _draw(self) -> None:
        filled = int(self._fraction * BAR)
        bar = "#" * filled + "." * (BAR - filled)
        text = f"  {self._title} [{bar}] {self._status(int(self._fraction * 100))}"
        text = text[: shutil.get_terminal_size().columns - 1]
        if text != self._drawn:
            self._drawn = text
            self._out.write(f"\r{text}\x1b[K")
            self._out.flush()
