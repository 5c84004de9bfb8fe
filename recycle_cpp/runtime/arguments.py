"""Checks of what a caller hands to a Runtime, which no record has checked before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from recycle_cpp.errors import UsageError
from recycle_cpp.types import GenerateOptions
from recycle_cpp.types.checks import shown

if TYPE_CHECKING:
    import threading

Options = TypeVar("Options")


def checked_options(options: Options | None, kind: type[Options]) -> Options:
    """Return options, the defaults of their kind where there are none.

    Raises:
        UsageError: if they are something else.
    """
    if options is None:
        return kind()
    if not isinstance(options, kind):
        raise UsageError(f"the options are {shown(options)}; give {kind.__name__}")
    return options


def checked_request(options: GenerateOptions | None, cancel: threading.Event | None) -> GenerateOptions:
    """Return the options of a request, after checking what else comes with it.

    Raises:
        UsageError: if something is of another kind.
    """
    if cancel is not None and not callable(getattr(cancel, "is_set", None)):
        raise UsageError(f"cancel is {shown(cancel)}; give a threading.Event")
    return checked_options(options, GenerateOptions)


def checked_path(path: str | os.PathLike[str], what: str) -> str:
    """Return a path as text.

    Raises:
        UsageError: if it is none; `what` says what it is the path of.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str):
        raise UsageError(f"{what} is {shown(path)}; give a text or a Path")
    return text


def session_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a session's file.

    Raises:
        UsageError: if it is none.
    """
    return Path(checked_path(path, "the session's file"))
