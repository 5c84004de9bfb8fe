"""Whether a path leads to a GGUF file at all; llama.cpp judges the rest."""

from __future__ import annotations

import stat
from pathlib import Path

from recycle_cpp.errors import ModelFileError, ModelNotFoundError

MAGIC = b"GGUF"
HEADER_BYTES = 24  # magic, version, number of tensors, number of metadata entries
LFS_POINTER = b"version https://git-lfs"


def require_gguf(path: Path, remedy: str) -> None:
    """Check that a path leads to a file that can be read and begins like a GGUF.

    Args:
        path: the file.
        remedy: what the user can do about a file that is not one; ends the message.

    Raises:
        ModelNotFoundError: if there is nothing at the path.
        ModelFileError: if it is a folder, cannot be read, is empty, or is no GGUF.
    """
    head = _head(path, remedy)
    if not head:
        raise ModelFileError(f"{path}: is empty; {remedy}")
    if head.startswith(LFS_POINTER):
        raise ModelFileError(f"{path}: is a Git LFS pointer, not the model; run `git lfs pull` in its checkout")
    if not head.startswith(MAGIC):
        raise ModelFileError(
            f"{path}: is no GGUF file (it begins with {_shown(head[:4])}, not {_shown(MAGIC)}); {remedy}"
        )
    if len(head) < HEADER_BYTES:
        raise ModelFileError(f"{path}: is cut off after {len(head)} bytes; {remedy}")


def _head(path: Path, remedy: str) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ModelFileError(f"{path}: is a folder; {_choice(path)}")
        if not stat.S_ISREG(mode):  # a pipe would block, a device would never end
            raise ModelFileError(f"{path}: is no regular file; {remedy}")
        with path.open("rb") as file:
            return file.read(HEADER_BYTES)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelNotFoundError(f"{path}: no such file; {remedy}") from error
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read ({error.strerror}); check its rights and its disk") from error
    except ValueError as error:  # a NUL in the path
        raise ModelNotFoundError(f"{str(path)!r}: is no path; {remedy}") from error


def _choice(folder: Path) -> str:
    inside = sorted(folder.glob("*.gguf"))
    return f"give the file in it, such as {inside[0]}" if inside else "give a .gguf file (it holds none)"


def _shown(head: bytes) -> str:
    """Return bytes as a quoted text; those that are none are escaped."""
    return '"' + head.decode("ascii", "backslashreplace") + '"'
