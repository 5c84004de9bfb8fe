"""The terminal of a chat between its prompts: Ctrl-C stops an answer and not the program, keys wait for the prompt."""

from __future__ import annotations

import contextlib
import signal
import sys
import termios
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType


class Interruption:
    """Holds Ctrl-C back for the time of a chat, and the keys that are typed while an answer comes.

    A Ctrl-C that comes a moment too late, when the answer has just ended, does nothing. At the prompt the editor
    reads it as a key.
    """

    def __init__(self) -> None:
        self._cancel = threading.Event()
        self._stack = contextlib.ExitStack()

    def of_answer(self) -> threading.Event:
        """Return an event that Ctrl-C sets from now on, until the next call."""
        self._cancel = threading.Event()
        return self._cancel

    def __enter__(self) -> Interruption:
        before = signal.signal(signal.SIGINT, lambda *_: self._cancel.set())
        self._stack.callback(signal.signal, signal.SIGINT, before)
        self._stack.enter_context(_typing_unseen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


@contextlib.contextmanager
def _typing_unseen() -> Iterator[None]:
    """Keep keys as they are for the editor: not echoed into an answer, Enter still Enter, Ctrl-D still Ctrl-D."""
    try:
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
    except (OSError, ValueError, termios.error):  # the terminal has gone; reading from it will tell
        yield
        return
    unseen = list(before)
    unseen[0] &= ~termios.ICRNL
    unseen[3] &= ~(termios.ECHO | termios.ICANON)
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, unseen)
        yield
    finally:
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(terminal, termios.TCSANOW, before)
