"""What a C library writes to standard error by itself, where it has no other way to say what is wrong."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_STANDARD_ERROR = 2
_one_at_a_time = threading.Lock()


class Captured:
    """What was written meanwhile.

    Attributes:
        text: all of it, once the capture has ended; what is left in it by whoever reads it is not lost.
    """

    def __init__(self) -> None:
        self.text = b""


@contextlib.contextmanager
def captured_complaints() -> Iterator[Captured]:
    """Keep what is written to standard error meanwhile, by whichever thread, so keep it short."""
    captured = Captured()
    with _one_at_a_time, contextlib.ExitStack() as restoring:
        try:
            own = os.dup(_STANDARD_ERROR)
        except OSError:  # it is closed: nothing can be written there
            yield captured
            return
        restoring.callback(os.close, own)
        file = restoring.enter_context(tempfile.TemporaryFile())
        os.dup2(file.fileno(), _STANDARD_ERROR)
        try:
            yield captured
        finally:
            os.dup2(own, _STANDARD_ERROR)
            file.seek(0)
            captured.text = file.read()
