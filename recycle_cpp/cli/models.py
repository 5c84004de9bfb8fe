"""recycle-cpp models: what is known by name and what is here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from recycle_cpp.cli import show

if TYPE_CHECKING:
    from recycle_cpp.models import ModelStatus

HEADS = ("model", "", "parameters", "type", "kind", "licence", "where")


@click.command(short_help="List the models known by name.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
def models(as_json: bool) -> None:
    """List the models known by name, and where each file is.

    A table on a terminal; into a pipe, tab-separated lines: name, "default" or nothing, parameters,
    quantisation, kind, licence, where. Nothing is fetched.
    """
    from recycle_cpp.models import Registry, status

    registry = Registry.load()
    found = [status(entry) for entry in registry.entries]
    if as_json:
        show.json_object({"default": registry.default, "models": [_fields(model) for model in found]})
    else:
        show.table(HEADS, [_row(model, registry.default) for model in found])


def _row(model: ModelStatus, default: str) -> tuple[str, ...]:
    entry = model.entry
    mark = "default" if entry.name == default else ""
    return (entry.name, mark, entry.parameters, entry.quantisation, entry.kind, entry.licence, model.where)


def _fields(model: ModelStatus) -> dict[str, Any]:
    return {
        **asdict(model.entry),
        "path": None if model.path is None else str(model.path),
        "source": model.entry.source,
        "digest": model.digest,
    }
