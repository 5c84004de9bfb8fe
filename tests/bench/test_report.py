"""The arithmetic of reports, on made-up answers."""

from __future__ import annotations

import pytest
from made_up import answer, foreign, result

from recycle_cpp.bench import report


def test_speed_is_tokens_over_time_of_a_group_and_repeats_give_median_and_spread() -> None:
    results = [
        result("a", 0, plain=answer(ms=100), auto=answer(ms=50, steps=1)),
        result("a", 1, plain=answer(ms=100), auto=answer(ms=100, steps=1)),
        result("a", 2, plain=answer(ms=100), auto=answer(ms=200, steps=1)),
        result("b", 0, "2", plain=answer(ms=300), auto=answer((1,), ms=100, steps=1)),
    ]
    found = report.summary(results)
    assert found["categories"]["a"]["speedup"] == 1.0
    assert found["categories"]["a"]["speedup_spread"] == [0.5, 2.0]
    assert found["categories"]["a"]["arms"]["auto"]["by_repeat"] == [40.0, 20.0, 10.0]
    assert found["categories"]["a"]["mean_accepted_tokens"] == 2.0
    assert found["categories"]["b"]["speedup"] == 1.5
    assert (found["prompts"], found["repeats"]) == (2, 3)
    assert found["host_ms_per_step"] == 1.0
    assert (found["identical"], found["identical_turns"], found["turns"]) == (False, 3, 4)


def test_any_arm_is_set_against_any_other() -> None:
    found = report.summary([result("a", plain=answer(ms=100), auto=answer(ms=50), stock=answer(ms=200))])
    over = {arm: values["over"] for arm, values in found["arms"].items()}
    assert over["auto"] == {"plain": [2.0, 2.0, 2.0], "stock": [4.0, 4.0, 4.0]}
    assert over["stock"]["auto"] == [0.25, 0.25, 0.25]
    assert found["subject"] == "auto"


def test_the_first_token_of_a_foreign_arm_is_not_timed() -> None:
    found = report.summary([result("a", plain=answer((1, 2, 3)), lookup=foreign((1, 2, 3), ms=100))])
    assert found["arms"]["lookup"]["tokens_per_second"] == 20.0
    assert found["identical"] is True
    assert "widths" not in found["arms"]["lookup"]


def test_an_arm_that_was_never_timed_has_no_speed_and_breaks_nothing() -> None:
    found = report.summary([result("a", plain=answer(), binding=foreign((1,), ms=0))])
    assert found["arms"]["binding"]["tokens_per_second"] is None
    assert found["speedup"] is None
    assert report.rows(found)[-1][:3] == ["all", "20.0", "-"]


@pytest.mark.parametrize(("other", "same"), [((1, 3), False), ((1,), False), ((1, 2), True)])
def test_tokens_that_differ_are_not_called_identical(other: tuple[int, ...], same: bool) -> None:
    found = report.summary([result("a", plain=answer(), auto=answer(other), tree=answer())])
    assert found["identical"] is same
    assert found["arms"]["auto"]["identical_turns"] == int(same)
    assert found["arms"]["tree"]["identical_turns"] == 1


def test_promised_tokens_are_set_against_those_got_and_widths_counted_per_category() -> None:
    results = [
        result("a", plain=answer(), auto=answer((1, 2, 3), promised=3.3, steps=2)),
        result("a", plain=answer(), auto=answer((1,), promised=1.1, steps=1)),
        result("b", plain=answer(), auto=answer((1, 2), promised=1.0, steps=2)),
    ]
    found = report.summary(results)
    first = found["categories"]["a"]["arms"]["auto"]
    assert (first["promised_n"], first["got_n"], first["promised_over_got"]) == (4.4, 4, 1.1)
    assert first["widths"] == {"1": 1, "3": 2}
    assert found["arms"]["auto"]["promised_over_got"] == 0.9
    assert "promised_n" not in found["arms"]["plain"]


def test_times_to_the_first_token_are_compared_turn_by_turn() -> None:
    results = [
        result("a", plain=answer(first_ms=10), auto=answer(first_ms=11)),
        result("a", plain=answer(first_ms=100), auto=answer(first_ms=90)),
        result("a", plain=answer(first_ms=1000), auto=answer(first_ms=1020)),
    ]
    assert "first_token_ms" not in report.summary(results)["arms"]["auto"]
    found = report.summary(results, fresh_prompts=True)
    assert found["arms"]["auto"]["first_token_over_plain"] == 1.02
    assert found["arms"]["auto"]["first_token_ms"] == 90.0
    assert report.rows(found)[-1][-1] == "1.02"


def test_warm_repeats_are_reported_apart_from_the_cold_first_one() -> None:
    results = [
        result("a", 0, plain=answer(ms=100), auto=answer(ms=100)),
        result("a", 1, plain=answer(ms=100), auto=answer(ms=50)),
        result("a", 2, plain=answer(ms=100), auto=answer(ms=40)),
    ]
    found = report.summary(results, warm=True)
    assert (found["speedup"], found["repeats"], found["turns"]) == (2.25, 2, 2)
    assert found["cold"]["speedup"] == found["cold"]["categories"]["a"]["speedup"] == 1.0
    assert [row[0] for row in report.rows(found)] == ["a", "all", "all, cold"]


def test_a_table_has_a_cell_for_every_head_with_seven_arms_too() -> None:
    arms = {name: answer() for name in ("plain", "auto", "tree", "chain", "stock")}
    arms |= {"lookup": foreign(), "binding": foreign()}
    results = [result("a", repeat, **arms) for repeat in range(2)]
    for fresh_prompts in (False, True):
        found = report.summary(results, fresh_prompts=fresh_prompts)
        assert {len(row) for row in report.rows(found)} == {len(report.heads(found))}


def test_every_turn_is_in_the_report_file_with_its_counts() -> None:
    kept = report.turns([result("a", plain=answer(), lookup=foreign((1, 3), ms=50))])
    assert kept[0]["prompt_tokens"] == 7
    assert kept[0]["arms"]["plain"]["timings"]["steps"] == 2
    assert kept[0]["arms"]["lookup"] == {"n": 2, "timed_n": 1, "ms": 50.0, "first_token_ms": 10.0, "identical": False}
