"""Where a prompt comes from: -p, -f or standard input; always UTF-8, whatever the locale."""

from __future__ import annotations

import sys

from recycle_cpp.cli import text_input
from recycle_cpp.cli.text_input import argument_text, bounded, decoded, file_text, without_mark
from recycle_cpp.errors import UsageError

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
        prompt = _without_newline(file_text(file, "prompt file", "-f"), raw=raw)
    else:
        prompt = _without_newline(without_mark(decoded(_read_standard_input(), "standard input")), raw=raw)
    if not prompt:
        raise UsageError(f"the prompt is empty; {HOW}")
    return prompt


def _read_standard_input() -> bytes:
    # The stream is None when the shell has closed it.
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(f"there is no prompt; {HOW}")
    try:
        data = sys.stdin.buffer.read(text_input.MOST_BYTES + 1)
    except OSError as error:  # a directory, for one
        raise UsageError(f"standard input cannot be read ({error.strerror}); {HOW}") from error
    if data is None:  # a stream set not to wait, with nothing in it yet
        raise UsageError(f"standard input has nothing to read yet; {HOW}")
    return bounded(data, "standard input")


def _without_newline(text: str, *, raw: bool) -> str:
    return text if raw else text.removesuffix("\n").removesuffix("\r")
