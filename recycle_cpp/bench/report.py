"""Sums up benchmark results: speed ratios, accepted tokens, and whether texts are the same."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from recycle_cpp.bench.run import PLAIN, RECYCLED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recycle_cpp.bench.run import TurnResult


def summary(results: Sequence[TurnResult]) -> dict[str, Any]:
    """Return the report as one JSON object.

    `speedup` is recycled over plain tokens per second, all turns of a group together; with repeats the median over
    them, and `speedup_spread` the lowest and the highest.
    """
    groups: dict[str, list[TurnResult]] = defaultdict(list)
    for result in results:
        groups[result.prompt.category].append(result)
    same = sum(_same(result) for result in results)
    return {
        **_group(results),
        "identical": same == len(results),
        "identical_turns": same,
        "turns": len(results),
        "prompts": len({(result.prompt.question_id, result.prompt.category) for result in results}),
        "categories": {name: _group(group) for name, group in groups.items()},
        "host_ms_per_step": _host_ms_per_step(results),
    }


def _group(results: Sequence[TurnResult]) -> dict[str, Any]:
    repeats = sorted({result.repeat for result in results})
    parts = [[result for result in results if result.repeat == repeat] for repeat in repeats]
    ratios = [_speed(part, RECYCLED) / _speed(part, PLAIN) for part in parts]
    emitted = sum(result.completions[RECYCLED].timings.predicted_n for result in results)
    steps = sum(result.completions[RECYCLED].timings.steps for result in results)
    return {
        "speedup": round(statistics.median(ratios), 4),
        "speedup_spread": [round(min(ratios), 4), round(max(ratios), 4)],
        "mean_accepted_tokens": round(emitted / steps, 4),
        "tokens_per_second": {
            arm: round(statistics.median(_speed(part, arm) for part in parts), 2) for arm in (PLAIN, RECYCLED)
        },
    }


def _speed(results: Sequence[TurnResult], arm: str) -> float:
    """Return an arm's emitted tokens per second over some turns."""
    timings = [result.completions[arm].timings for result in results]
    return 1000 * sum(t.predicted_n for t in timings) / sum(t.predicted_ms for t in timings)


def _host_ms_per_step(results: Sequence[TurnResult]) -> float:
    timings = [result.completions[RECYCLED].timings for result in results]
    return round(sum(t.host_ms for t in timings) / sum(t.steps for t in timings), 4)


def _same(result: TurnResult) -> bool:
    plain, recycled = result.completions[PLAIN], result.completions[RECYCLED]
    return (plain.tokens, plain.text, plain.finish_reason) == (
        recycled.tokens,
        recycled.text,
        recycled.finish_reason,
    )


def turns(results: Sequence[TurnResult]) -> list[dict[str, Any]]:
    """Return every turn's counts and speeds, for the report file."""
    return [
        {
            "question_id": result.prompt.question_id,
            "category": result.prompt.category,
            "turn": result.turn,
            "repeat": result.repeat,
            "identical": _same(result),
            "arms": {arm: asdict(completion.timings) for arm, completion in result.completions.items()},
        }
        for result in results
    ]


def rows(report: dict[str, Any]) -> list[list[str]]:
    """Return the report as table rows, one per category and one for all: see HEADS."""
    groups = [*report["categories"].items(), ("all", report)]
    return [
        [
            name,
            f"{group['tokens_per_second'][PLAIN]:.1f}",
            f"{group['tokens_per_second'][RECYCLED]:.1f}",
            f"{group['speedup']:.2f}",
            f"{group['mean_accepted_tokens']:.2f}",
        ]
        for name, group in groups
    ]


HEADS = ("category", "plain tok/s", "recycled tok/s", "speed-up", "tokens per step")
