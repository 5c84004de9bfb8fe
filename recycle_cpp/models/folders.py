"""The folders that hold models and what is remembered about them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from recycle_cpp.errors import DownloadError

FOLDER_VARIABLE = "RECYCLE_CPP_MODELS"


def expanded(path: str) -> Path:
    """Return a path with `~` replaced by the home folder; as it is if there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def cache_folder() -> Path:
    """Return recycle-cpp's cache folder; XDG_CACHE_HOME is honoured, and nothing is made."""
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification has relative values ignored.
    if base and Path(base).is_absolute():
        return Path(base) / "recycle-cpp"
    try:
        return Path.home() / ".cache" / "recycle-cpp"
    except RuntimeError:  # a user without a home, as in some containers
        return Path(tempfile.gettempdir()) / f"recycle-cpp-{os.getuid()}"


def models_folders() -> list[Path]:
    """Return the folders that are searched for models, the first one first."""
    own = os.environ.get(FOLDER_VARIABLE)
    folders = [expanded(own).absolute()] if own else []
    standard = cache_folder() / "models"
    return folders if standard in folders else [*folders, standard]


def find_in_folders(file: str) -> Path | None:
    """Return where a file stands in the models folders, the first folder first; None if it is in none."""
    for folder in models_folders():
        with contextlib.suppress(OSError):  # a folder that may not be entered holds nothing for us
            if (folder / file).exists():
                return folder / file
    return None


def writable_folder() -> Path:
    """Return the first models folder that takes files, and make it if need be.

    Raises:
        DownloadError: if none does.
    """
    folders = models_folders()
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    tried = ", ".join(map(str, folders))
    raise DownloadError(f"no models folder can be written: {tried}; set {FOLDER_VARIABLE} to a folder that can")
