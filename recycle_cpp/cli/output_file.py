"""Files that a command writes: checked before the work, written beside their place and renamed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from recycle_cpp.bench.whole_file import written_whole
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
    with written_whole(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))  # a model's file may have a name that is no text
