"""Options that say which prompts to decode, shared by the commands that measure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recycle_cpp.bench.prompts import EVERYDAY, SETS
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from recycle_cpp.bench.prompts import BenchPrompt


def prompt_set_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; read them with `prompts_from`."""
    for option in (
        click.option(
            "--limit", type=click.IntRange(min=1), metavar="N", help="Take N prompts, spread evenly over the set."
        ),
        click.option(
            "--set",
            "prompt_set",
            type=click.Choice(list(SETS)),
            help=f"A built-in set of prompts.  [default: {EVERYDAY}]",
        ),
        click.option("--prompts", metavar="FILE", help="Prompts in Spec-Bench's JSON lines, instead of --set."),
    ):
        command = option(command)
    return command


def prompts_from(params: Mapping[str, Any]) -> list[BenchPrompt]:
    """Return the prompts of the file or the built-in set.

    Raises:
        UsageError: if both are given, or the file cannot be used.
    """
    from recycle_cpp.bench.prompts import read_prompts, take

    if params["prompts"] is None:
        return take(SETS[params["prompt_set"] or EVERYDAY](), params["limit"])
    if params["prompt_set"] is not None:
        raise UsageError("--prompts and --set both say what to decode: give one of them")
    return take(read_prompts(Path(params["prompts"])), params["limit"])
