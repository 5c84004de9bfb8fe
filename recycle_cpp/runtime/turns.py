"""Who may use the model now: one caller at a time, first come, first served."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING

from recycle_cpp.errors import BusyError, CancelledError

if TYPE_CHECKING:
    from collections.abc import Iterator

POLL_SECONDS = 0.05  # how soon a caller in the queue sees that it was cancelled


class Turns:
    """A fair queue in front of the model. A lock would let whoever comes at the right moment overtake the others."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()  # one ticket per caller; the first one's turn it is
        self._owner: int | None = None

    @property
    def waiting(self) -> int:
        """Callers in the queue, the one whose turn it is included."""
        return len(self._queue)

    @contextlib.contextmanager
    def hold(self, cancel: threading.Event | None = None) -> Iterator[None]:
        """Wait for the turn and hold it.

        Args:
            cancel: set by another thread to leave the queue.

        Raises:
            BusyError: if this very thread holds the turn, and so would wait for itself.
            CancelledError: if `cancel` was set before the turn came.
        """
        if self._owner == threading.get_ident():
            raise BusyError("this thread has a generation open on the model: finish or close it first")
        ticket = object()
        try:  # an interrupt may come at any line: whatever was taken is given back
            with self._changed:
                self._queue.append(ticket)
                self._wait(ticket, cancel)
                self._owner = threading.get_ident()
            yield
        finally:
            self._leave(ticket)

    def resume(self) -> None:
        """Note that the turn is now used by this thread: a stream may go from one to another."""
        self._owner = threading.get_ident()

    def _wait(self, ticket: object, cancel: threading.Event | None) -> None:
        while True:
            if cancel is not None and cancel.is_set():
                raise CancelledError("cancelled while waiting for the model")
            if self._queue[0] is ticket:
                return
            self._changed.wait(None if cancel is None else POLL_SECONDS)

    def _leave(self, ticket: object) -> None:
        with self._changed:
            if self._queue and self._queue[0] is ticket:
                self._owner = None
            if ticket in self._queue:
                self._queue.remove(ticket)
            self._changed.notify_all()
