"""The runtime's streams under llama_cpp's habits: who leaves a stream half read may start another at once."""

from __future__ import annotations

import asyncio
import threading
import weakref
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

from recycle_cpp.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from recycle_cpp.types import Chunk


# Who calls, in threads that work for many: a web server reads each answer piece by piece in whatever thread of its pool
# is free, and runs every piece in a copy of that request's own context, so what is set there is not seen by others.
_CALLER: ContextVar[tuple[int, object] | None] = ContextVar("recycle_cpp_caller", default=None)


class OpenStreams:
    """Ends a caller's own unfinished stream where the caller starts another; those of others it leaves alone."""

    def __init__(self) -> None:
        self._readers: weakref.WeakKeyDictionary[Generator[Chunk, None, None], object] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def run(self, start: Callable[[], Generator[Chunk, None, None]]) -> Iterator[Chunk]:
        """Yield the chunks of a stream that is started now.

        Raises:
            BusyError: if the stream is ended from elsewhere before its last chunk.
        """
        self._end_own()
        stream = start()
        finished = False
        try:
            while True:
                with self._lock:
                    self._readers[stream] = _caller()
                chunk = next(stream, None)
                if chunk is None:
                    break
                finished = chunk.finish_reason is not None
                yield chunk
        finally:
            stream.close()
            with self._lock:
                self._readers.pop(stream, None)
        if not finished:
            raise BusyError("this answer was cut off: its caller began another, or the model was closed")

    def _end_own(self) -> None:
        me = _caller()
        with self._lock:
            own = [stream for stream, reader in self._readers.items() if reader == me]
        for stream in own:
            with suppress(ValueError):  # another thread has taken it up just now
                stream.close()


def _caller() -> object:
    """Return who asks: a thread, told apart by whom it works for at the moment."""
    thread = threading.get_ident()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        known = _CALLER.get()
        if known is None or known[0] != thread:  # not what another thread has handed down with its context
            known = (thread, object())
            _CALLER.set(known)
        return known
    return thread  # of an event loop: who waits there for another stream of the thread would wait for ever
