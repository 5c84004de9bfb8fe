"""Where a prompt comes from: -p, -f or standard input; always UTF-8, whatever the locale."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from recycle_cpp.errors import UsageError

MOST_BYTES = 64 << 20
HOW = "give it with -p TEXT, with -f FILE or on standard input"


def read_prompt(text: str | None, file: str | None, *, raw: bool) -> str:
    """Return the prompt of a command line.

    Args:
        text: the value of -p, or None.
        file: the value of -f, or None; "-" is standard input.
        raw: keep the newline that ends a file. Else it is dropped: it ends the line, not the message.

    Raises:
        UsageError: if there is no prompt or more than one, or it cannot be read, is empty or is not UTF-8.
    """
    if text is not None and file is not None:
        raise UsageError("there are two prompts, -p and -f; give one of them")
    if text is not None:
        prompt = argument_text(text, "the prompt of -p")
    elif file is not None and file != "-":
        prompt = _without_newline(_decoded(_read_file(file), file), raw=raw)
    else:
        prompt = _without_newline(_decoded(_read_standard_input(), "standard input"), raw=raw)
    if not prompt:
        raise UsageError(f"the prompt is empty; {HOW}")
    return prompt


def argument_text(text: str, name: str) -> str:
    """Return a command line argument after checking that its bytes were text.

    Raises:
        UsageError: if they were not; Python passes such bytes on as lone surrogates.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return _decoded(os.fsencode(text), name)
    return text


def _read_file(file: str) -> bytes:
    try:
        with Path(file).open("rb") as stream:
            return _bounded(stream.read(MOST_BYTES + 1), file)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{file}: the prompt file cannot be read ({reason}); give another with -f") from error


def _read_standard_input() -> bytes:
    # The stream is None when the shell has closed it.
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(f"there is no prompt; {HOW}")
    try:
        data = sys.stdin.buffer.read(MOST_BYTES + 1)
    except OSError as error:  # a directory, for one
        raise UsageError(f"standard input cannot be read ({error.strerror}); {HOW}") from error
    if data is None:  # a stream set not to wait, with nothing in it yet
        raise UsageError(f"standard input has nothing to read yet; {HOW}")
    return _bounded(data, "standard input")


def _bounded(data: bytes, name: str) -> bytes:
    if len(data) > MOST_BYTES:
        raise UsageError(f"{name}: is larger than {MOST_BYTES >> 20} MiB, more than any context holds; shorten it")
    return data


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name}: the byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8; "
            "convert the text to UTF-8"
        ) from error


def _without_newline(text: str, *, raw: bool) -> str:
    return text if raw else text.removesuffix("\n").removesuffix("\r")
