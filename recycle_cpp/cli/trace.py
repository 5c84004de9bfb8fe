"""recycle-cpp trace and replay: record what a model says, and draft on it again on the cost curve of any machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recycle_cpp.cli import options, show
from recycle_cpp.cli.prompt_sets import prompt_set_options, prompts_from
from recycle_cpp.cli.sections import SectionedCommand

if TYPE_CHECKING:
    from recycle_cpp.bench.replay import Tally

HEADS = ("cost curve", "auto", "tree", "best chain", "plain", "tokens per step", "promised / got")


@click.command(cls=SectionedCommand, short_help="Record what a model says on a file of prompts, to replay it.")
@options.model_option
@click.argument("file", metavar="FILE")
@prompt_set_options
@options.request_options
@options.raw_option
@options.load_options
def trace(file: str, **params: Any) -> None:
    """Decode prompts plainly and keep the best candidates of every position in FILE (numpy's .npz)."""
    from recycle_cpp.bench.trace import Trace, record_trace
    from recycle_cpp.cli.bench import DEFAULT_MAX_TOKENS
    from recycle_cpp.cli.output_file import writable
    from recycle_cpp.errors import UsageError
    from recycle_cpp.runtime import Runtime

    target = writable(file)
    if params["max_tokens"] is None:
        params["max_tokens"] = DEFAULT_MAX_TOKENS
    request, loading = options.generate_options_from(params), options.load_options_from(params)
    prompts = prompts_from(params)
    with Runtime.load(options.model_from(params), loading, show.dim) as runtime:
        turns = tuple(record_trace(runtime, prompts, request))
        if not turns:
            raise UsageError(f"no prompt fits the context of {runtime.n_ctx} tokens: raise --ctx-size")
        Trace(runtime.name, runtime.n_vocab, turns).save(target)
    emitted = sum(len(turn.emitted) for turn in turns)
    show.dim(f"{target}: {len(turns)} turns, {emitted} tokens")


@click.command(short_help="Replay a trace on the cost curves of other machines.")
@click.argument("file", metavar="TRACE")
@click.option(
    "--curve",
    "curves",
    multiple=True,
    metavar="NAME|FILE",
    help="A machine's name, or the JSON of `bench` or of a curve; may be repeated.  [default: all machines known]",
)
@click.option("--ablation", is_flag=True, help="Report what each source of candidates is worth instead.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
def replay(file: str, curves: tuple[str, ...], ablation: bool, as_json: bool) -> None:
    """Report how fast the planner, the fixed tree, the best fixed chain and plain decoding would be on a trace.

    Speeds are ratios to plain decoding, by the curves, without our own time. No model is run.
    """
    from recycle_cpp.bench import replay as replays
    from recycle_cpp.bench.curves import MACHINES, find_curve
    from recycle_cpp.bench.trace import Trace

    kept = Trace.load(Path(file))
    if ablation:
        found = replays.ablation(kept)
        widths = [str(width) for width in next(iter(found.values()))]
        rows = [[name, *(f"{value:.3f}" for value in by_width.values())] for name, by_width in found.items()]
        return show.json_object(found) if as_json else show.table(("sources", *(f"W = {w}" for w in widths)), rows)
    compared = {name: replays.compare(kept, find_curve(name)) for name in curves or MACHINES}
    if as_json:
        return show.json_object({name: _as_json(tallies) for name, tallies in compared.items()})
    return show.table(HEADS, [_row(name, tallies) for name, tallies in compared.items()])


def _best_chain(compared: dict[str, dict[str, Tally]]) -> str:
    chains = [name for name in compared if name.startswith("chain")]
    return max(chains, key=lambda name: compared[name]["all"].speedup)


def _row(name: str, compared: dict[str, dict[str, Tally]]) -> list[str]:
    planned, chain = compared["auto"]["all"], _best_chain(compared)
    return [
        name,
        f"{planned.speedup:.2f}",
        f"{compared['tree']['all'].speedup:.2f}",
        f"{compared[chain]['all'].speedup:.2f} ({chain.removeprefix('chain ')} rows)",
        f"{compared['plain']['all'].speedup:.2f}",
        f"{planned.mean_accepted_tokens:.2f}",
        f"{planned.expected / planned.emitted:.2f}",
    ]


def _as_json(compared: dict[str, dict[str, Tally]]) -> dict[str, Any]:
    return {
        name: {
            category: {
                "speedup": round(tally.speedup, 4),
                "mean_accepted_tokens": round(tally.mean_accepted_tokens, 4),
                "promised_over_got": round(tally.expected / tally.emitted, 4),
                "widths": dict(sorted(tally.widths.items())),
            }
            for category, tally in tallies.items()
        }
        for name, tallies in compared.items()
    }
