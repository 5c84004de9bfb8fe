"""recycle-cpp bench: ways of decoding, side by side on a set of prompts."""

from __future__ import annotations

import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recycle_cpp.bench.prompts import EVERYDAY
from recycle_cpp.cli import options, output_file, show
from recycle_cpp.cli.prompt_sets import prompt_set_options, prompts_from
from recycle_cpp.cli.sections import SectionedCommand
from recycle_cpp.errors import UsageError
from recycle_cpp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recycle_cpp.bench.arms import OpenArms
    from recycle_cpp.bench.run import Plan, TurnResult
    from recycle_cpp.types import GenerateOptions

DEFAULT_MAX_TOKENS = 128
# Options that name places on this machine: no part of a report.
FILES = ("prompts", "json_file", "svg_file", "grammar_file", "json_schema_file")
ARMS_HELP = (
    "Ways of decoding, with commas between: plain; auto, tree, chain (as --draft); stock (llama-server's settings); "
    "lookup (llama-cpp-python's prompt lookup); binding (llama_cpp.Llama as it comes). Plain is always among them."
)


@click.command(cls=SectionedCommand, short_help="Measure the speed on a set of prompts.")
@options.model_option
@prompt_set_options
@click.option("--arms", metavar="NAMES", help=f"{ARMS_HELP}  [default: plain and what --draft says]")
@click.option(
    "--repeats", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Run all N times."
)
@click.option("--warm", is_flag=True, help="Keep what drafting learns from repeat to repeat; the first counts apart.")
@click.option("--fresh-prompts", is_flag=True, help="Evaluate each prompt anew, to compare times to the first token.")
@options.request_options
@options.raw_option
@options.load_options
@click.option("--json", "json_file", metavar="FILE", help="Write the report, with every turn, to a file too.")
@click.option("--svg", "svg_file", metavar="FILE", help="Draw speeds and the cost curve (needs matplotlib).")
@click.option("--verbose", is_flag=True, help="Show llama.cpp's own log.")
def bench(**params: Any) -> None:
    """Decode prompts in several ways in turn, and compare.

    Prints a table per category (speeds over plain decoding's) and, as the last line of standard output, one JSON
    object.
    """
    request, plan = _asked(params)
    loading = options.load_options_from(params)
    names = _arm_names(params, request)
    prompts = prompts_from(params)
    json_file = None if params["json_file"] is None else output_file.writable(params["json_file"])
    svg_file = None if params["svg_file"] is None else output_file.writable(params["svg_file"])
    if svg_file is not None:
        from recycle_cpp.bench.plot import require_matplotlib

        require_matplotlib()
    model = options.model_from(params)
    from recycle_cpp.bench import report
    from recycle_cpp.bench.arms import open_arms
    from recycle_cpp.bench.run import run_arms

    with open_arms(names, model, loading, request, show.dim) as opened:
        turns = plan.repeats * sum(len(prompt.turns) for prompt in prompts)
        results = list(_with_progress(run_arms(opened, prompts, plan), turns))
        if not results:
            raise UsageError(f"no prompt fits the context of {opened.runtime.n_ctx} tokens: raise --ctx-size")
        show.notes(opened.runtime.notes)
        found = report.summary(results, warm=plan.warm, fresh_prompts=plan.fresh_prompts)
        whole = {**found, **_circumstances(opened, params), "results": report.turns(results)}
    if json_file is not None:
        output_file.write(json_file, json.dumps(whole, indent=1) + "\n")
    if svg_file is not None:
        from recycle_cpp.bench.plot import draw

        output_file.write(svg_file, draw(whole))
    show.table(report.heads(found), report.rows(found))
    show.json_object(found)


def _asked(params: dict[str, Any]) -> tuple[GenerateOptions, Plan]:
    """Return what every arm is asked for, and how prompts are run.

    Raises:
        UsageError: if an option's value cannot be used.
    """
    from recycle_cpp.bench.run import Plan

    if params["max_tokens"] is None:
        params["max_tokens"] = DEFAULT_MAX_TOKENS
    if params["warm"] and params["repeats"] < 2:
        raise UsageError("--warm compares later repeats with the first: give --repeats 2 or more")
    request = options.generate_options_from(params)
    plan = Plan(params["max_tokens"], params["repeats"], params["warm"], params["fresh_prompts"], request.raw)
    return request, plan


def _arm_names(params: dict[str, Any], request: GenerateOptions) -> tuple[str, ...]:
    """Return the arms: those of --arms, or plain decoding and what --draft says.

    Raises:
        UsageError: if both are given, or an arm cannot be used.
    """
    from recycle_cpp.bench.arms import PLAIN, parse_arms

    if params["arms"] is not None and params["draft"] is not None:
        raise UsageError("--draft and --arms both say how to draft: give one of them")
    return parse_arms(params["arms"] or (PLAIN if request.draft == "off" else request.draft), request)


def _circumstances(opened: OpenArms, params: dict[str, Any]) -> dict[str, Any]:
    """Return what a number means nothing without: date, machine, model, versions, settings, the cost curve."""
    runtime = opened.runtime
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "recycle_cpp": __version__,
        "system": {"system": platform.platform(), "python": platform.python_version()},
        "model": runtime.name,
        **runtime.facts,
        "settings": {arm.name: arm.settings for arm in opened.arms},
        "cost_curve": None if runtime.cost_curve is None else runtime.cost_curve._asdict(),
        "prompts_from": Path(params["prompts"]).name if params["prompts"] else params["prompt_set"] or EVERYDAY,
        "options": {name: params[name] for name in params if params[name] not in (None, ()) and name not in FILES},
    }


def _with_progress(results: Iterator[TurnResult], total: int) -> Iterator[TurnResult]:
    """Yield results, with a bar on standard error where that is a terminal.

    The bar is drawn between turns only: a thread that redraws it would take time from what is measured.
    """
    if not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import track

    bar = Console(stderr=True)
    yield from track(results, description="decoding", total=total, console=bar, transient=True, auto_refresh=False)
