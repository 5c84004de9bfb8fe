"""The runtime's streams under llama_cpp's habits: who leaves a stream half read may start another at once."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from recycle_cpp.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from recycle_cpp.types import Chunk


class OpenStreams:
    """Ends a thread's own unfinished stream where the thread starts another; those of others it leaves alone."""

    def __init__(self) -> None:
        self._readers: weakref.WeakKeyDictionary[Generator[Chunk, None, None], int] = weakref.WeakKeyDictionary()
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
                    self._readers[stream] = threading.get_ident()
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
            raise BusyError("this answer was cut off: its thread began another, or the model was closed")

    def _end_own(self) -> None:
        me = threading.get_ident()
        with self._lock:
            own = [stream for stream, reader in self._readers.items() if reader == me]
        for stream in own:
            with suppress(ValueError):  # another thread has taken it up just now
                stream.close()
