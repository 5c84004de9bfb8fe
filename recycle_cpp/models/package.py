"""Models that come inside an installed Python package."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from recycle_cpp.errors import ModelNotFoundError
from recycle_cpp.models.entry import ModelEntry


def packaged_file(entry: ModelEntry) -> Path:
    """Return the path of a model's file inside its installed package.

    Raises:
        ModelNotFoundError: if the package is not installed, has another version, or lacks the file.
    """
    assert entry.package is not None
    assert entry.package_file is not None
    name, _, version = entry.package.partition("==")
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        raise ModelNotFoundError(
            f"{entry.name}: not here; its package {name} is not installed: {entry.install_command}"
        ) from error
    if distribution.version != version:
        raise ModelNotFoundError(
            f"{entry.name}: package {name} is here in version {distribution.version}, "
            f"models.toml names {version}: {entry.install_command}"
        )
    path = Path(str(distribution.locate_file(entry.package_file)))
    if not path.is_file():
        raise ModelNotFoundError(
            f"{entry.name}: package {name} lacks {path}: {entry.install_command} --force-reinstall"
        )
    return path
