"""The registry: models.toml in memory."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recycle_cpp.errors import ModelError
from recycle_cpp.models.entry import ModelEntry, read_entry

__all__ = ["ModelEntry", "Registry"]


@dataclass(frozen=True, slots=True)
class Registry:
    """The models known by name.

    Attributes:
        default: the name of the model that is taken when none is given.
        entries: every model, in the order of models.toml.
    """

    default: str
    entries: tuple[ModelEntry, ...]

    @classmethod
    def load(cls, path: Path | None = None) -> Registry:
        """Return the registry that a models.toml describes.

        Args:
            path: the file; None takes the one that belongs to this installation or checkout.

        Raises:
            ModelError: if the file cannot be read or used; names file, table and key.
        """
        path = own_models_toml() if path is None else path
        values = _parse(path)
        default = values.pop("default", None)
        entries = tuple(_entries(path, values))
        _require_unique(path, entries)
        registry = cls(default=str(default), entries=entries)
        if not isinstance(default, str) or registry.get(default) is None:
            known = ", ".join(entry.name for entry in entries) or "none"
            raise ModelError(f"{path}: top level, key default: is {default!r}; give one of the models: {known}")
        return registry

    def get(self, name: str) -> ModelEntry | None:
        """Return the entry of a name or alias in any case; None if there is none."""
        wanted = name.strip().casefold()
        for entry in self.entries:
            if wanted in (known.casefold() for known in (entry.name, *entry.aliases)):
                return entry
        return None

    def closest(self, name: str) -> list[str]:
        """Return up to three names and aliases that look like a name, the closest first."""
        known = {text.casefold(): text for entry in self.entries for text in (entry.name, *entry.aliases)}
        close = difflib.get_close_matches(name.strip().casefold(), known, n=3, cutoff=0.4)
        return [known[text] for text in close]


def own_models_toml() -> Path:
    """Return the path of this installation's models.toml, or of the checkout's."""
    # Only a wheel has the file inside the package, so that goes first: beside site-packages nothing is ours.
    inside = Path(__file__).with_name("models.toml")
    return inside if inside.is_file() else Path(__file__).parents[2] / "models.toml"


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); reinstall recycle-cpp") from error
    except (ValueError, RecursionError) as error:  # bad TOML, bad UTF-8, brackets without end
        reason = " ".join(str(error).split())
        raise ModelError(f"{path}: is not valid TOML ({reason}); correct it there") from error


def _entries(path: Path, values: dict[str, Any]) -> list[ModelEntry]:
    for name, table in values.items():
        if not isinstance(table, dict):
            raise ModelError(f"{path}: top level, key {name}: unknown key; a model is a table, [{name}]")
    return [read_entry(path, name, table) for name, table in values.items()]


def _require_unique(path: Path, entries: tuple[ModelEntry, ...]) -> None:
    names: dict[str, str] = {}
    files: dict[str, str] = {}
    for entry in entries:
        # Names and aliases share one space; a repetition within one table is a slip as well.
        taken = [("aliases", name, names) for name in (entry.name, *entry.aliases)]
        for key, value, seen in [*taken, ("file", entry.file, files)]:
            if other := seen.get(value.casefold()):
                raise ModelError(
                    f"{path}: table [{entry.name}], key {key}: {value!r} is taken by [{other}]; change one"
                )
            seen[value.casefold()] = entry.name
