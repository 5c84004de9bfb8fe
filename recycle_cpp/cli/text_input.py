"""Texts of a command line: arguments and files; always UTF-8, whatever the locale."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from recycle_cpp.cli import show
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 64 << 20
PATIENCE = 1.0  # seconds
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


def argument_text(text: str, name: str) -> str:
    """Return a command line argument after checking that its bytes were text.

    Raises:
        UsageError: if they were not; Python passes such bytes on as lone surrogates.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return decoded(os.fsencode(text), name)
    return text


def unescaped(text: str) -> str:
    r"""Return a text with \n, \t, \r and \\ read as what they stand for; any other backslash stays."""
    return re.sub(r"\\([ntr\\])", lambda found: ESCAPES[found[1]], text)


def file_text(file: str, what: str, option: str) -> str:
    """Return the text of a file that an option names.

    Args:
        file: its path.
        what: what it holds, for the error.
        option: by which another can be given, for the error.

    Raises:
        UsageError: if it cannot be read, is too large or is not UTF-8.
    """
    try:
        with _told_if_slow(file), Path(file).open("rb") as stream:
            return without_mark(decoded(bounded(stream.read(MOST_BYTES + 1), file), file))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{file}: the {what} cannot be read ({reason}); give another with {option}") from error


@contextlib.contextmanager
def _told_if_slow(file: str) -> Iterator[None]:
    """Say what is waited for where a file does not come at once: a named pipe has no end before its writer's."""
    timer = threading.Timer(PATIENCE, show.dim, [f"waiting for {file}"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def without_mark(text: str) -> str:
    """Return the text of a file without the mark of byte order that some editors put first: it is no text."""
    return text.removeprefix("\ufeff")


def bounded(data: bytes, name: str) -> bytes:
    """Return bytes after checking that they are not more than any context holds.

    Raises:
        UsageError: if they are.
    """
    if len(data) > MOST_BYTES:
        raise UsageError(f"{name}: is larger than {MOST_BYTES >> 20} MiB, more than any context holds; shorten it")
    return data


def decoded(data: bytes, name: str) -> str:
    """Return bytes as text.

    Raises:
        UsageError: if they are not UTF-8; names the first byte that is not.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name}: the byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8; "
            "convert the text to UTF-8"
        ) from error
