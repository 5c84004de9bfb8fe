"""The llama.cpp library itself: found, checked, started, and kept quiet."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from collections import deque
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recycle_cpp.errors import InstallError

if TYPE_CHECKING:
    from collections.abc import Callable

# OpenMP's threads spin at each of llama.cpp's many barriers, by default for about a millisecond: where another process
# takes a core, a token then takes 100 times as long. This many turns are some tens of microseconds: as fast on a quiet
# machine, and 2 to 4 times slower instead of 100 on a busy one (docs/LOG.md).
SPIN_COUNT = "1000"
TESTED_VERSION = "0.3.36"  # the C structures change between versions; the same pin stands in pyproject.toml
INSTALL_HINT = "run `make setup` in a checkout, or `python -m recycle_cpp.setup`"
MARK = "recycle_cpp_build.json"  # the set-up puts it into the package of a llama.cpp that it has changed
STOCK = "stock"
_WARN, _ERROR, _CONTINUED = 3, 4, 5  # enum ggml_log_level


class Log:
    """Takes llama.cpp's log: remembers the last complaints, and prints all of it when asked to.

    Attributes:
        verbose: whether it prints.
        callbacks: other functions that the library calls back, and whose interrupts are kept, too.
    """

    def __init__(self) -> None:
        self.verbose = False
        self.callbacks: list[Callable[..., object]] = []
        self._complaints = {level: deque[str](maxlen=20) for level in (_ERROR, _WARN)}
        self._level = 0
        self._interrupted = False

    def keep_interrupts(self, hook: Callable[[Any], object]) -> Callable[[Any], object]:
        """Return a hook for `sys.unraisablehook` that takes interrupts of callbacks, and hands all else to another.

        An interrupt that comes while the library logs cannot pass through it: it is kept for `raise_interrupt`. No
        `try` in `write` would do, since it may come before the first line of it or after the last. The same holds for
        other callbacks.
        """

        def keep(unraisable: Any) -> None:
            if unraisable.exc_type is KeyboardInterrupt and unraisable.object in (self.write, *self.callbacks):
                self._interrupted = True
            else:
                hook(unraisable)

        return keep

    @property
    def is_interrupted(self) -> bool:
        """Whether an interrupt is kept for this thread; the main one alone is interrupted."""
        return self._interrupted and threading.current_thread() is threading.main_thread()

    def raise_interrupt(self) -> None:
        """Raise the interrupt that came while the library called back, if one did.

        Raises:
            KeyboardInterrupt: then.
        """
        if self.is_interrupted:
            self._interrupted = False
            raise KeyboardInterrupt

    def write(self, level: int, text: bytes, _user_data: object) -> None:
        """Take one piece of log; called by the library, from whichever thread it logs on."""
        self._level = self._level if level == _CONTINUED else level
        line = text.decode("utf-8", "replace")
        if self.verbose:
            sys.stderr.write(line)
        if self._level in self._complaints and line.strip():
            self._complaints[self._level].append(line.strip())

    def forget(self) -> None:
        """Drop the complaints so far, before a call whose failure is to be explained."""
        for complaints in self._complaints.values():
            complaints.clear()

    def why(self) -> str:
        """Return the library's first error since `forget`, or else its first warning, on one line."""
        first = next(chain(*self._complaints.values()), "llama.cpp gave no reason")
        return " ".join(first.split())


def read_build(package: Path) -> str:
    """Return which build lies in the folder of the package llama_cpp: its key and patch, or "stock"."""
    try:
        mark = json.loads((package / MARK).read_text("utf-8"))
        return f"{mark['key']} patch {mark['patch']}"
    except (OSError, ValueError, KeyError, TypeError):
        return STOCK


class Library:
    """The low-level bindings and their log. One per process: llama.cpp's log and backends are global.

    Attributes:
        c: the bindings.
        log: what llama.cpp says.
        build: which build this is; "stock" if the set-up did not change llama.cpp.
    """

    def __init__(self, bindings: Any) -> None:
        self.c = bindings
        self.log = Log()
        self.build = read_build(Path(bindings.__file__).parent)
        self._callback = bindings.llama_log_callback(self.log.write)  # ctypes does not keep it alive
        sys.unraisablehook = self.log.keep_interrupts(sys.unraisablehook)
        bindings.llama_log_set(self._callback, ctypes.c_void_p(0))
        bindings.llama_backend_init()


@cache
def load_library() -> Library:
    """Return the library, loading and checking it at the first call.

    Raises:
        InstallError: if llama-cpp-python is missing, of another version, or does not load.
    """
    try:
        found = version("llama-cpp-python")
    except PackageNotFoundError:
        raise InstallError(f"llama-cpp-python is not installed: {INSTALL_HINT}") from None
    if found != TESTED_VERSION:
        raise InstallError(f"llama-cpp-python is {found}, recycle_cpp needs {TESTED_VERSION}: {INSTALL_HINT}")
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # else an abort starts a debugger, which may hang
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)  # read once, as the library is loaded
    try:
        from llama_cpp import llama_cpp as bindings
    except (ImportError, OSError, RuntimeError) as error:
        raise InstallError(f"llama-cpp-python {found} does not load ({error}): {INSTALL_HINT}") from error
    return Library(bindings)
