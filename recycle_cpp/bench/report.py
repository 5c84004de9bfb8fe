"""Sums up benchmark results: speeds of all arms over each other, accepted and promised tokens, times to first token."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from recycle_cpp.bench.arms import PLAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recycle_cpp.bench.arms import Answer
    from recycle_cpp.bench.run import TurnResult
    from recycle_cpp.types import Timings

SUBJECT = "auto"
FIRST = "first_token_over_plain"


def summary(results: Sequence[TurnResult], *, warm: bool = False, fresh_prompts: bool = False) -> dict[str, Any]:
    """Return the report as one JSON object.

    A speed is an arm's tokens per second over all turns of a group together; with repeats the median over them.
    `over` of an arm is its speed over each other arm's in the same repeat: median, lowest, highest. `speedup` is the
    subject's (`auto`, or the last arm) over plain decoding's.

    Args:
        results: of all repeats.
        warm: knowledge was kept between repeats: the first one is reported apart, as `cold`.
        fresh_prompts: no arm found its prompt in the cache: only then can times to the first token be compared.
    """
    cold = [result for result in results if result.repeat == 0]
    main = [result for result in results if result.repeat > 0] if warm else list(results)
    n_same = _n_same(main, subject_of(main))
    report = {
        **_group(main, fresh_prompts),
        "subject": subject_of(main),
        "identical": n_same == len(main),
        "identical_turns": n_same,
        "turns": len(main),
        "prompts": len({(result.prompt.question_id, result.prompt.category) for result in main}),
        "repeats": len({result.repeat for result in main}),
        "categories": _categories(main, fresh_prompts),
    }
    if warm:
        report["cold"] = {**_group(cold, fresh_prompts), "categories": _categories(cold, fresh_prompts)}
    return report


def subject_of(results: Sequence[TurnResult]) -> str:
    """Return the arm that the benchmark is about."""
    names = list(results[0].answers)
    return SUBJECT if SUBJECT in names else names[-1]


def _categories(results: Sequence[TurnResult], fresh_prompts: bool) -> dict[str, Any]:
    groups: dict[str, list[TurnResult]] = defaultdict(list)
    for result in results:
        groups[result.prompt.category].append(result)
    return {name: _group(group, fresh_prompts) for name, group in groups.items()}


def _group(results: Sequence[TurnResult], fresh_prompts: bool) -> dict[str, Any]:
    arms = list(results[0].answers)
    speeds = {arm: _speeds(results, arm) for arm in arms}
    subject = subject_of(results)
    found = {arm: _arm(results, arm, speeds) for arm in arms}
    if fresh_prompts:
        for arm in arms:
            found[arm] |= _first_token(results, arm)
    over = _over(speeds[subject], speeds[PLAIN])
    return {
        "speedup": over[0] if over else None,
        "speedup_spread": over[1:] if over else None,
        "mean_accepted_tokens": found[subject].get("mean_accepted_tokens"),
        "host_ms_per_step": found[subject].get("host_ms_per_step"),
        "arms": found,
    }


def _arm(results: Sequence[TurnResult], arm: str, speeds: dict[str, list[float | None]]) -> dict[str, Any]:
    known = [speed for speed in speeds[arm] if speed is not None]
    answers = [result.answers[arm] for result in results]
    return {
        "tokens_per_second": round(statistics.median(known), 2) if known else None,
        "by_repeat": [None if speed is None else round(speed, 2) for speed in speeds[arm]],
        "over": {other: _over(speeds[arm], speeds[other]) for other in speeds if other != arm},
        "identical_turns": _n_same(results, arm),
        **_steps([answer.timings for answer in answers if answer.timings is not None]),
    }


def _first_token(results: Sequence[TurnResult], arm: str) -> dict[str, float]:
    """Return the median time to an arm's first token, and the median of its ratio to plain decoding's, turn by turn."""
    seconds = [result.answers[arm].first_seconds for result in results]
    plain = [result.answers[PLAIN].first_seconds for result in results]
    ratios = [one / other for one, other in zip(seconds, plain, strict=True)]
    return {
        "first_token_ms": round(1000 * statistics.median(seconds), 3),
        FIRST: round(statistics.median(ratios), 4),
    }


def _speeds(results: Sequence[TurnResult], arm: str) -> list[float | None]:
    """Return an arm's tokens per second in each repeat; None where nothing was timed."""
    answers: dict[int, list[Answer]] = defaultdict(list)
    for result in results:
        answers[result.repeat].append(result.answers[arm])
    return [_speed(answers[repeat]) for repeat in sorted(answers)]


def _speed(answers: Sequence[Answer]) -> float | None:
    seconds = sum(answer.seconds for answer in answers)
    return sum(answer.timed_n for answer in answers) / seconds if seconds > 0 else None


def _over(speeds: Sequence[float | None], others: Sequence[float | None]) -> list[float] | None:
    """Return median, lowest and highest ratio over the repeats; None if there is none."""
    ratios = [one / other for one, other in zip(speeds, others, strict=True) if one and other]
    if not ratios:
        return None
    return [round(ratio, 4) for ratio in (statistics.median(ratios), min(ratios), max(ratios))]


def _steps(timings: Sequence[Timings]) -> dict[str, Any]:
    """Return what only our own decoding counts: tokens per step, promised and got, widths, host time."""
    if not timings:
        return {}
    got, steps = sum(t.predicted_n for t in timings), sum(t.steps for t in timings)
    promised = sum(t.expected_n for t in timings)
    widths: Counter[int] = Counter()
    for one in timings:
        widths.update(one.widths)
    found = {
        "mean_accepted_tokens": round(got / steps, 4),
        "host_ms_per_step": round(sum(t.host_ms for t in timings) / steps, 4),
        "widths": {str(width): widths[width] for width in sorted(widths)},
    }
    if promised > 0:
        found |= {"promised_n": round(promised, 1), "got_n": got, "promised_over_got": round(promised / got, 4)}
    return found


def _n_same(results: Sequence[TurnResult], arm: str) -> int:
    """Return in how many turns an arm emitted plain decoding's tokens."""
    return sum(result.answers[arm].tokens == result.answers[PLAIN].tokens for result in results)


def turns(results: Sequence[TurnResult]) -> list[dict[str, Any]]:
    """Return every turn's counts and speeds, for the report file."""
    return [
        {
            "question_id": result.prompt.question_id,
            "category": result.prompt.category,
            "turn": result.turn,
            "repeat": result.repeat,
            "prompt_tokens": result.prompt_tokens,
            "arms": {arm: _turn(answer, result.answers[PLAIN]) for arm, answer in result.answers.items()},
        }
        for result in results
    ]


def _turn(answer: Answer, plain: Answer) -> dict[str, Any]:
    return {
        "n": len(answer.tokens),
        "timed_n": answer.timed_n,
        "ms": round(1000 * answer.seconds, 3),
        "first_token_ms": round(1000 * answer.first_seconds, 3),
        "identical": answer.tokens == plain.tokens,
        **({} if answer.timings is None else {"timings": asdict(answer.timings)}),
    }


def heads(report: dict[str, Any]) -> list[str]:
    """Return the heads of the table that `rows` fills."""
    subject = report["subject"]
    last = [f"{subject}: first token"] if FIRST in report["arms"][subject] else []
    others = [arm for arm in report["arms"] if arm != PLAIN]
    return ["category", "plain tok/s", *others, f"{subject}: tokens per step", "promised / got", *last]


def rows(report: dict[str, Any]) -> list[list[str]]:
    """Return the report as table rows, one per category and one for all; arms as their speed over plain decoding's."""
    groups = [*report["categories"].items(), ("all", report)]
    if "cold" in report:
        groups.append(("all, cold", report["cold"]))
    return [_row(name, group["arms"], report["subject"]) for name, group in groups]


def _row(name: str, arms: dict[str, Any], subject: str) -> list[str]:
    of = arms[subject]
    return [
        name,
        _number(arms[PLAIN]["tokens_per_second"], 1),
        *(_ratio(found["over"][PLAIN]) for arm, found in arms.items() if arm != PLAIN),
        _number(of.get("mean_accepted_tokens"), 2),
        _number(of.get("promised_over_got"), 2),
        *([_number(of[FIRST], 2)] if FIRST in of else []),
    ]


def _ratio(over: list[float] | None) -> str:
    """Return a ratio, with half its spread where there is one."""
    if over is None:
        return "-"
    median, low, high = over
    return f"{median:.2f}" if low == high else f"{median:.2f} ±{(high - low) / 2:.2f}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
