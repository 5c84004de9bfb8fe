"""From what a user typed to a model file that can be loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from recycle_cpp.errors import DigestError, ModelNotFoundError
from recycle_cpp.models.digest import SHORT, short
from recycle_cpp.models.folders import expanded, find_in_folders, writable_folder
from recycle_cpp.models.gguf_file import require_gguf
from recycle_cpp.models.hub import Download
from recycle_cpp.models.known_digests import KnownDigests
from recycle_cpp.models.listing import status
from recycle_cpp.models.package import packaged_file
from recycle_cpp.models.registry import ModelEntry, Registry

FETCH_ANEW = "delete it to have it fetched anew"
LISTING_HINT = "`recycle-cpp models` lists the names"


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model file that is here and begins like a GGUF.

    Attributes:
        name: the name in models.toml, or the file's name without suffix.
        path: the file, absolute.
        entry: the model's table; None for a file that was given by its path.
    """

    name: str
    path: Path
    entry: ModelEntry | None


def resolve(model: str, registry: Registry | None = None, *, progress: bool = True) -> ResolvedModel:
    """Return the file of a model, and fetch it first if it is not here.

    A name is looked for in the models folders first, then at its source. Text with a path separator or the
    suffix .gguf is a path; so is text that is no known name but stands in the current folder.

    Args:
        model: a name or alias in models.toml, or a path.
        registry: the known models; None loads models.toml.
        progress: show a bar on a terminal while a file is fetched or hashed.

    Raises:
        ModelNotFoundError: if it is neither a name nor a file, or its package is not installed.
        ModelFileError: if the file cannot be read or is no GGUF.
        DigestError: if the file is not the one that models.toml names.
        DownloadError: if the file cannot be fetched.
        ModelError: if models.toml cannot be used.
    """
    found = _known_or_path(model, registry)
    if isinstance(found, ModelEntry):
        return ResolvedModel(found.name, _file_of(found, progress=progress), found)
    return found


def find(model: str, registry: Registry | None = None) -> Path | None:
    """Return where a model's file is, as `resolve` does but fetching and hashing nothing; None if it is not here.

    Raises:
        ModelNotFoundError: if it is neither a name nor a file.
        ModelFileError: if the file cannot be read or is no GGUF.
        ModelError: if models.toml cannot be used.
    """
    found = _known_or_path(model, registry)
    return status(found).path if isinstance(found, ModelEntry) else found.path


def _known_or_path(model: str, registry: Registry | None) -> ModelEntry | ResolvedModel:
    """Return the entry of a name, or the file that a path names."""
    if _looks_like_path(model):
        return _from_path(model)
    registry = Registry.load() if registry is None else registry
    entry = registry.get(model)
    if entry is not None:
        return entry
    if _exists(model):
        return _from_path(model)
    close = registry.closest(model)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    raise ModelNotFoundError(f"no model or file is named {model!r}; {hint}{LISTING_HINT}")


def _looks_like_path(model: str) -> bool:
    separators = [os.sep, os.altsep] if os.altsep else [os.sep]
    return any(separator in model for separator in separators) or model.lower().endswith(".gguf")


def _exists(model: str) -> bool:
    try:
        return bool(model.strip()) and Path(model).exists()
    except (OSError, ValueError):  # too long for a file name, or a NUL in it
        return False


def _from_path(model: str) -> ResolvedModel:
    path = expanded(model)
    require_gguf(path, f"give the path of a .gguf file, or a name ({LISTING_HINT})")
    return ResolvedModel(path.stem, path.absolute(), None)


def _file_of(entry: ModelEntry, *, progress: bool) -> Path:
    """Return the checked file of a known model."""
    found = find_in_folders(entry.file)
    if found is not None:
        return _checked(entry, found, FETCH_ANEW, progress=progress)
    if entry.path is not None:
        return _checked(entry, entry.path.absolute(), "correct path in models.toml", progress=progress)
    if entry.package is not None:
        remedy = f"{entry.install_command} --force-reinstall"
        return _checked(entry, packaged_file(entry), remedy, progress=progress)
    path = writable_folder() / entry.file
    Download(entry, path, progress).run()
    return _checked(entry, path, FETCH_ANEW, progress=progress)


def _checked(entry: ModelEntry, path: Path, remedy: str, *, progress: bool) -> Path:
    """Return a path after checking the file there, by digest where models.toml names one."""
    require_gguf(path, remedy)
    if not entry.sha256:
        return path
    digest = KnownDigests.of_user().get(path, progress=progress)
    if digest not in entry.sha256:
        raise DigestError(
            f"{path}: has SHA-256 {digest[:SHORT]}, models.toml names {short(entry.sha256)} for "
            f"{entry.name}; {remedy}, or give its path instead of the name to use it as it is"
        )
    return path
