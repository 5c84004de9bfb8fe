"""Digests remembered between starts, so that a model is hashed once and not at every start."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recycle_cpp.models.digest import sha256
from recycle_cpp.models.folders import cache_folder
from recycle_cpp.models.progress import byte_bar


@dataclass(frozen=True, slots=True)
class KnownDigests:
    """The SHA-256 of files as they were when they were hashed.

    A digest counts for one path with one size and one modification time; a file that changed is hashed
    again. Losing the memory costs time only, so it is passed over in silence if it cannot be read or written.

    Attributes:
        memory: the JSON file: path -> {size, mtime_ns, sha256}.
    """

    memory: Path

    @classmethod
    def of_user(cls) -> KnownDigests:
        """Return the memory in the user's cache folder."""
        return cls(cache_folder() / "digests.json")

    def get(self, path: Path, *, progress: bool) -> str:
        """Return a file's SHA-256, from memory where it is known.

        Raises:
            ModelFileError: if the file cannot be read.
        """
        key, stamp = str(path.resolve()), _stamp(path)
        known = self._read().get(key, {})
        digest = known.get("sha256") if isinstance(known, dict) else None
        if stamp and isinstance(digest, str) and {**stamp, "sha256": digest} == known:
            return digest
        with byte_bar(f"checking {path.name}", stamp.get("size"), show=progress) as show:
            digest = sha256(path, show)
        # Only what did not change while it was read is worth remembering.
        if stamp == _stamp(path):
            self.remember(path, digest)
        return digest

    def remember(self, path: Path, digest: str) -> None:
        """Keep a digest that was just computed from a file."""
        with contextlib.suppress(OSError):
            self.memory.parent.mkdir(parents=True, exist_ok=True)
            here = {key: value for key, value in self._read().items() if Path(key).exists()}
            here[str(path.resolve())] = {**_stamp(path), "sha256": digest}
            beside = self.memory.with_name(f"{self.memory.name}.{os.getpid()}")
            beside.write_text(json.dumps(here, indent=1) + "\n", encoding="utf-8")
            beside.replace(self.memory)

    def _read(self) -> dict[str, Any]:
        try:
            values = json.loads(self.memory.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return values if isinstance(values, dict) else {}


def _stamp(path: Path) -> dict[str, int]:
    try:
        found = path.stat()
    except OSError:
        return {}
    return {"size": found.st_size, "mtime_ns": found.st_mtime_ns}
