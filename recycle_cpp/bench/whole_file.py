"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
from typing import IO, TYPE_CHECKING

from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Open a file beside a path for writing, and rename it to the path at the end; whatever fails leaves nothing.

    Raises:
        UsageError: if the file cannot be written.
    """
    beside = path.with_name(f"{path.name}.partial")
    try:
        with beside.open("wb") as file:
            yield file
        beside.replace(path)
    except BaseException as error:  # an interrupt, too, leaves nothing half-written
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UsageError(f"{path} cannot be written ({error.strerror}): give another name") from error
        raise
