"""Files that a command writes: checked before the work, written beside their place and renamed."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from recycle_cpp.errors import UsageError


def writable(name: str) -> Path:
    """Return a path after checking that a file can be made there, before minutes are spent on it.

    Raises:
        UsageError: if not.
    """
    path = Path(name)
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no plain file: give the name of a file")
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            path.with_name(f"{path.name}.partial").exists()  # fails if the name is too long
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{path} cannot be written ({reason}): give the name of a file in a folder of yours"
        ) from error
    return path


def write(path: Path, text: str) -> None:
    """Write a text beside its place and rename it.

    Raises:
        UsageError: if that fails.
    """
    beside = path.with_name(f"{path.name}.partial")
    try:
        beside.write_text(text, "utf-8", "backslashreplace")  # a model's file may have a name that is no text
        beside.replace(path)
    except BaseException as error:  # an interrupt, too, leaves nothing half-written
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UsageError(f"{path} cannot be written ({error.strerror}): give another name") from error
        raise
