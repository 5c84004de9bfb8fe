"""What pyproject.toml asks for, and the stamp that says it is installed."""

import hashlib
import json
import re
import tomllib
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from recycle_cpp.errors import InstallError


@dataclass(frozen=True)
class Project:
    """The parts of pyproject.toml that an installation depends on."""

    llama_version: str
    digest: str


@dataclass(frozen=True)
class Stamp:
    """What a finished set-up installed, and where: an environment does not survive a move."""

    root: str
    project: str
    build_key: str
    dev: bool

    def covers(self, wanted: "Stamp") -> bool:
        """Return whether nothing is left to do for `wanted`: the development tools may be there unasked."""
        same = (self.root, self.project, self.build_key) == (wanted.root, wanted.project, wanted.build_key)
        return same and (self.dev or not wanted.dev)


def read_project(root: Path, extra: tuple[str, ...] = ()) -> Project:
    """Read pyproject.toml.

    Args:
        root: The checkout.
        extra: Further requirements that the set-up installs; part of the digest.

    Raises:
        InstallError: The file cannot be read, or does not pin llama-cpp-python with ==.
    """
    path = root / "pyproject.toml"
    try:
        table = tomllib.loads(path.read_text())["project"]
        asked = [
            *table["dependencies"],
            table.get("optional-dependencies", {}),
            table.get("scripts", {}),
            *extra,
        ]
    except (OSError, ValueError, KeyError) as error:
        raise InstallError(f"{path} cannot be read ({error}): restore it from git") from error
    pins = [re.fullmatch(r"llama[-_]cpp[-_]python\s*==\s*([\w.]+)", line.strip()) for line in table["dependencies"]]
    versions = [pin.group(1) for pin in pins if pin]
    if len(versions) != 1:
        raise InstallError(f"{path} must pin llama-cpp-python==VERSION in dependencies, once: put the pin back")
    return Project(versions[0], hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12])


def read_stamp(path: Path) -> Stamp | None:
    """Return the stamp, None if there is none that can be read."""
    try:
        found = json.loads(path.read_text())
        return Stamp(**{field.name: found[field.name] for field in fields(Stamp)})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_stamp(path: Path, stamp: Stamp, system_info: str) -> None:
    """Write the stamp, with what llama.cpp says of itself for people to read."""
    path.write_text(json.dumps({**asdict(stamp), "system_info": system_info}, indent=2) + "\n")
