"""Replays: counted by hand, exact for plain decoding, and won by the planner on every curve that is shipped."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from traces import N_VOCAB, as_trace, mixed_trace, random_trace, repetitive_trace, turn

from recycle_cpp.backend.cost import Curve
from recycle_cpp.bench.curves import MACHINES, named_curve
from recycle_cpp.bench.replay import ReplayCosts, Tally, ablation, compare, flat_curve, mean_accepted, replay
from recycle_cpp.drafting.drafter import PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.knowledge import SOURCES
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.template import chain


def test_a_chain_on_a_short_text_counted_by_hand() -> None:
    trace = as_trace(turn([1], [2, 1, 2, 1, 2, 1, 2]))
    costs = ReplayCosts(Curve((1, 2, 3), (1.0, 1.5, 1.7), (0.01, 0.01, 0.01), 0.1))
    found = replay(trace, TemplateDrafter(AdjacencyMatrix(N_VOCAB), chain(3)), costs)
    # Two steps learn that 2 follows 1 and 1 follows 2; then 1 2 1 hits with all rows; then only two tokens are left.
    tally = found["all"]
    assert found == {"made": tally, "all": tally}
    assert (tally.emitted, tally.steps, dict(tally.widths)) == (7, 4, {1: 2, 3: 1, 2: 1})
    assert tally.seconds == pytest.approx(1.0 + 1.01 + (1.72 + 0.1) + (1.55 + 0.1))
    assert tally.plain_seconds == pytest.approx(7 + 0.01 * (0 + 1 + 2 + 3 + 4 + 5 + 6))
    assert tally.speedup == pytest.approx(7.21 / 5.48)
    assert tally.mean_accepted_tokens == 1.75


@pytest.mark.parametrize("name", MACHINES)
def test_plain_decoding_is_as_fast_as_itself_and_emits_a_token_a_step(name: str) -> None:
    trace = mixed_trace()
    for tally in replay(trace, PlainDrafter(), ReplayCosts(named_curve(name))).values():
        assert tally.speedup == 1
        assert (tally.mean_accepted_tokens, tally.expected) == (1, 0)
        assert dict(tally.widths) == {1: tally.emitted}


def test_tallies_of_the_categories_add_up_to_all() -> None:
    trace = mixed_trace()
    found = compare(trace, named_curve("apple-like"))["auto"]
    whole = found.pop("all")
    assert set(found) == {"copying", "noise"}
    for name in ("emitted", "steps", "expected", "seconds", "plain_seconds"):
        assert getattr(whole, name) == pytest.approx(sum(getattr(tally, name) for tally in found.values()))
    assert whole.widths == Counter(found["copying"].widths) + Counter(found["noise"].widths)
    assert whole.emitted == sum(len(one.emitted) for one in trace.turns)
    assert sum(whole.widths.values()) == whole.steps
    assert found["copying"].speedup > 1.5 > found["noise"].speedup > 0.98


def test_a_tally_divides_what_it_has_counted() -> None:
    tally = Tally(emitted=12, steps=4, seconds=3.0, plain_seconds=6.0)
    assert (tally.speedup, tally.mean_accepted_tokens) == (2.0, 3.0)


@pytest.mark.parametrize("make", [repetitive_trace, random_trace, mixed_trace])
@pytest.mark.parametrize("name", MACHINES)
def test_the_planner_is_the_fastest_on_every_curve_or_within_two_percent_of_it(name: str, make) -> None:
    speeds = {arm: tallies["all"].speedup for arm, tallies in compare(make(), named_curve(name)).items()}
    assert set(speeds) == {"auto", "tree", "plain", *(f"chain {width}" for width in (2, 3, 4, 6, 8, 12, 16))}
    assert speeds["auto"] >= 0.98 * max(speeds.values()), speeds


def test_a_change_of_width_is_charged_once_and_widths_between_rungs_lie_on_a_line() -> None:
    costs = ReplayCosts(Curve((1, 2, 4), (1.0, 2.0, 3.0), (0.1, 0.2, 0.4), 0.5))
    assert costs.spend(1, 0) == 1.0
    assert costs.spend(3, 10) == pytest.approx((4.0 + 7.0) / 2 + 0.5)
    costs.observe(3, 10, 0.0)
    assert costs.spend(3, 10) == pytest.approx(5.5)
    assert costs.spend(8, 0) == pytest.approx(6.0 + 0.5), "past the last rung rows cost what they cost there"
    assert costs.plain(10) == 2.0


def test_the_price_of_a_change_that_the_planner_sees_grows_with_how_often_it_comes() -> None:
    costs = ReplayCosts(Curve((1, 8), (1.0, 2.0), (0.0, 0.0), 1.0))

    def charge() -> float:
        """Return what the planner is told that the next change costs."""
        return float(costs.seconds(0).sum()) - 3.0  # one of the two widths is a change

    first = charge()
    for width in (1, 8) * 30:
        costs.observe(width, 0, 0.0)
    often = charge()
    for _ in range(200):
        costs.observe(8, 0, 0.0)
    assert charge() < first < often <= 1.0
    assert charge() == pytest.approx(0.1, abs=0.01)


def test_on_the_flat_curve_every_width_takes_a_second() -> None:
    costs = ReplayCosts(flat_curve())
    assert [costs.spend(width, 100) for width in (1, 2, 7, 81, 96)] == [1.0] * 5


def test_wider_trees_accept_more_and_each_source_alone_no_more_than_all() -> None:
    trace = mixed_trace()
    by_width = [mean_accepted(trace, width) for width in (1, 2, 8, 32)]
    assert by_width[0] == 1
    assert by_width == sorted(by_width)
    assert by_width[-1] > 2
    found = ablation(trace, (8,))
    assert set(found) == {"all", *(f"{name} alone" for name in SOURCES), *(f"without {name}" for name in SOURCES)}
    assert all(1 <= value[8] <= 1.02 * found["all"][8] for value in found.values())
    assert found["suffix alone"][8] > found["frequent alone"][8]


def test_a_replay_leaves_its_trace_as_it_was() -> None:
    trace, same = mixed_trace(), mixed_trace()
    compare(trace, named_curve("b200-like"))
    for one, other in zip(trace.turns, same.turns, strict=True):
        assert all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("prompt", "emitted", "top"))
