"""The folder that holds what drafting has learned, one small file per model."""

from __future__ import annotations

import contextlib
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recycle_cpp.models.folders import cache_folder
from recycle_cpp.models.private_file import PARTIAL, write_private

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX = ".learned"
MOST_BYTES = 8 << 20  # of one file
MOST_MODELS = 16  # the files changed last are kept
STALE_SECONDS = 3600.0  # a file that is being written for longer was left by a process that is gone


@dataclass(frozen=True, slots=True)
class LearnedFile:
    """The file of one model. It holds tokens of the user's texts: nobody else may read it or list its folder.

    Attributes:
        path: where it is, or would be.
    """

    path: Path

    @classmethod
    def of_user(cls, fingerprint: str) -> LearnedFile:
        """Return the file of a model, by its fingerprint, in the user's cache folder."""
        return cls(learned_folder() / f"{fingerprint}{SUFFIX}")

    @property
    def size(self) -> int:
        """Bytes that `remove` would free; 0 if there is nothing.

        Raises:
            OSError: if its folder cannot be listed.
        """
        n_bytes = 0
        for path in self._parts():
            with contextlib.suppress(OSError):  # renamed or removed meanwhile by another process
                n_bytes += path.lstat().st_size
        return n_bytes

    def read(self) -> bytes | None:
        """Return its content, or None if it is not there.

        Raises:
            OSError: if it cannot be read.
            ValueError: if it is no plain file or larger than any of ours.
        """
        try:
            if not stat.S_ISREG(self.path.stat().st_mode):  # a pipe would have us wait
                raise ValueError("no plain file")
            with self.path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return None
        if len(data) > MOST_BYTES:
            raise ValueError(f"larger than {MOST_BYTES >> 20} MiB")
        return data

    def write(self, data: bytes) -> None:
        """Write it beside and rename it, and remove the files of models that were not used for longest.

        Of two processes that do so at once the last one wins.

        Raises:
            OSError: if it cannot be written.
        """
        folder = self.path.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self.path, [data])
        _bound(folder)

    def remove(self) -> None:
        """Remove it, and what a process that was ended left beside it.

        Raises:
            OSError: if it cannot be removed.
        """
        for path in self._parts():
            path.unlink(missing_ok=True)

    def _parts(self) -> list[Path]:
        return [path for path in _listed(self.path.parent) if _fingerprint(path) == self.path.stem]


def learned_folder() -> Path:
    """Return the folder; nothing is made."""
    return cache_folder() / "learned"


def learned_files() -> list[LearnedFile]:
    """Return the files of all models that something is kept of, the one changed last first.

    Raises:
        OSError: if the folder cannot be listed.
    """
    fingerprints = dict.fromkeys(_fingerprint(path) for path in _listed(learned_folder()))
    return [LearnedFile.of_user(fingerprint) for fingerprint in fingerprints]


def _fingerprint(path: Path) -> str:
    return path.name.partition(".")[0]


def _listed(folder: Path) -> list[Path]:
    """Return our files in a folder, finished or not, the one changed last first; none if there is no such folder.

    Raises:
        OSError: if it cannot be listed: what is in it is not known then.
    """
    try:
        found = [path for path in folder.iterdir() if path.suffix in (SUFFIX, PARTIAL)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found, key=_changed, reverse=True)


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _bound(folder: Path) -> None:
    """Remove all but the files changed last, and what processes that are gone have left."""
    listed: list[Path] = []
    with contextlib.suppress(OSError):
        listed = _listed(folder)
    finished = [path for path in listed if path.suffix == SUFFIX]
    stale = [path for path in listed if path.suffix == PARTIAL and _changed(path) < time.time() - STALE_SECONDS]
    for path in [*finished[MOST_MODELS:], *stale]:
        with contextlib.suppress(OSError):
            path.unlink()
