"""recycle-cpp bench: recycled against plain decoding on a file of prompts."""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recycle_cpp import __version__
from recycle_cpp.bench.prompts import BUILT_IN
from recycle_cpp.cli import options, show
from recycle_cpp.cli.prompt import argument_text
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recycle_cpp.bench.run import TurnResult

DEFAULT_MAX_TOKENS = 128
FILES = ("prompts", "json_file")  # options that name places on this machine, which a report need not tell


@click.command(short_help="Measure the speed on a file of prompts.")
@options.model_option
@click.option("--prompts", metavar="FILE", help="Prompts in Spec-Bench's JSON lines.  [default: a built-in set]")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Take N prompts, spread evenly over the file.")
@click.option(
    "--repeats", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Run all N times."
)
@options.request_options
@options.sampling_options
@options.load_options
@click.option("--json", "json_file", metavar="FILE", help="Write the report, with every turn, to a file too.")
@click.option("--verbose", is_flag=True, help="Show llama.cpp's own log.")
def bench(**params: Any) -> None:
    """Decode prompts with plain and with recycled decoding in turn, and compare.

    Prints a table per category and, as the last line of standard output, one JSON object.
    """
    from recycle_cpp.bench.prompts import read_prompts

    params["stop"] = tuple(argument_text(stop, "the text of --stop") for stop in params["stop"])
    if params["max_tokens"] is None:
        params["max_tokens"] = DEFAULT_MAX_TOKENS
    request = options.generate_options_from(params)
    loading = options.load_options_from(params)
    prompts = read_prompts(Path(params["prompts"]) if params["prompts"] else BUILT_IN, params["limit"])
    target = None if params["json_file"] is None else writable(Path(params["json_file"]))
    model = options.model_from(params)
    from recycle_cpp.bench import report
    from recycle_cpp.bench.run import arms_of, run_arms
    from recycle_cpp.runtime import Runtime

    with Runtime.load(model, loading, show.dim) as runtime:
        turns = params["repeats"] * sum(len(prompt.turns) for prompt in prompts)
        results = list(_with_progress(run_arms(runtime, prompts, arms_of(request), params["repeats"]), turns))
        if not results:
            raise UsageError(f"no prompt fits the context of {runtime.n_ctx} tokens: raise --ctx-size")
        show.notes(runtime.notes)
        found = report.summary(results)
        if target is not None:
            _write(target, {**found, **_circumstances(runtime, params), "results": report.turns(results)})
    show.table(report.HEADS, report.rows(found))
    show.json_object(found)


def writable(path: Path) -> Path:
    """Return a path after checking that a file can be made there, before minutes are spent on it.

    Raises:
        UsageError: if not.
    """
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no plain file: give the name of a file")
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            path.with_name(f"{path.name}.partial").exists()  # fails if the name is too long
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{path} cannot be written ({reason}): give the name of a file in a folder of yours"
        ) from error
    return path


def _write(path: Path, value: dict[str, Any]) -> None:
    """Write the report beside its place and rename it."""
    beside = path.with_name(f"{path.name}.partial")
    try:
        beside.write_text(json.dumps(value, indent=1) + "\n", "utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written ({error.strerror}): give another name") from error


def _circumstances(runtime: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Return what a number means nothing without: date, machine, model, versions, settings."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "recycle_cpp": __version__,
        "machine": {"system": platform.platform(), "python": platform.python_version()},
        "model": runtime.name,
        **runtime.facts,
        "prompts_file": Path(params["prompts"] or BUILT_IN).name,
        "options": {name: params[name] for name in params if params[name] is not None and name not in FILES},
    }


def _with_progress(results: Iterator[TurnResult], total: int) -> Iterator[TurnResult]:
    """Yield results, with a bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(results, description="decoding", total=total, console=Console(stderr=True), transient=True)
