"""Messages of a chat from a pipe or a file: one a line, always UTF-8."""

from __future__ import annotations

from typing import IO

from recycle_cpp.cli import text_input
from recycle_cpp.cli.text_input import decoded, without_mark
from recycle_cpp.errors import UsageError


class PipedLines:
    """Reads messages line by line, as they come; lines without any text are passed over."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._number = 0
        self._ended = False

    def read(self) -> str | None:
        """Return the next message, or None at the end.

        Raises:
            UsageError: if a line is no UTF-8 or too long, or nothing can be read; the next call goes on behind it.
        """
        while not self._ended:
            data = self._line()
            if not data:
                self._ended = True
                break
            text = decoded(data, f"line {self._number} of standard input").removesuffix("\n").removesuffix("\r")
            if self._number == 1:
                text = without_mark(text)
            if text.strip():
                return text
        return None

    def _line(self) -> bytes:
        most = text_input.MOST_BYTES
        self._number += 1
        try:
            data = self._stream.readline(most + 1)
            if len(data) <= most or data.endswith(b"\n"):
                return data
            while data and not data.endswith(b"\n"):
                data = self._stream.readline(most)
        except OSError as error:  # a directory, for one
            self._ended = True
            raise UsageError(f"standard input cannot be read ({error.strerror}): give messages, one a line") from error
        raise UsageError(
            f"line {self._number} of standard input: is larger than {most >> 20} MiB, more than any context holds; "
            "shorten it"
        )
