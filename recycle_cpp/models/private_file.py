"""Files of the user's words: whole or not at all, and for nobody else to read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PARTIAL = ".partial"


def write_private(path: Path, parts: Iterable[bytes]) -> None:
    """Write bytes to a file of mode 0600 beside a path, and rename it to the path; whatever fails leaves nothing.

    Of two processes that do so at once the last one wins.

    Raises:
        OSError: if it cannot be written.
    """
    handle, name = tempfile.mkstemp(PARTIAL, f"{path.stem}.", path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
