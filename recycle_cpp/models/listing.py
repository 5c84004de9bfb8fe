"""What `recycle-cpp models` says about a model: where it is, or how it would come here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from recycle_cpp.errors import ModelNotFoundError
from recycle_cpp.models.folders import find_in_folders
from recycle_cpp.models.package import packaged_file
from recycle_cpp.models.progress import size_text
from recycle_cpp.models.registry import ModelEntry


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """Whether a model is here, found without fetching or hashing anything.

    Attributes:
        entry: the model.
        path: its file; None if it is not here.
    """

    entry: ModelEntry
    path: Path | None

    @property
    def where(self) -> str:
        """Where the file is, or how large it is and where it would come from."""
        if self.path is not None:
            return str(self.path)
        size = f"{size_text(self.entry.size_bytes)} " if self.entry.size_bytes else ""
        how = f": {self.entry.install_command}" if self.entry.package else ""
        return f"not here ({size}from {self.entry.source}{how})"

    @property
    def digest(self) -> str:
        """What the file is checked against."""
        if self.entry.sha256:
            return "SHA-256 in models.toml"
        return "SHA-256 as the hub reports it, when fetched" if self.entry.hub else "not checked"


def status(entry: ModelEntry) -> ModelStatus:
    """Return whether and where a model is here."""
    found = find_in_folders(entry.file)
    if found is not None:
        return ModelStatus(entry, found)
    if entry.path is not None:
        return ModelStatus(entry, entry.path.absolute() if entry.path.is_file() else None)
    if entry.package is not None:
        try:
            return ModelStatus(entry, packaged_file(entry))
        except ModelNotFoundError:
            pass
    return ModelStatus(entry, None)
