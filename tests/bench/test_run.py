"""The order in which arms are asked, and what they are asked."""

from __future__ import annotations

import pytest
from made_up import scripted

from recycle_cpp.bench.arms import ARMS, parse_arms
from recycle_cpp.bench.prompts import BenchPrompt
from recycle_cpp.bench.run import WARM_UP_TOKENS, Plan, run_arms
from recycle_cpp.errors import UsageError
from recycle_cpp.types import GenerateOptions, Grammar, Message, SamplingOptions

PROMPTS = [BenchPrompt(str(i), "a", (f"question {i}",)) for i in range(3)]


def generations(calls: list[tuple[object, ...]]) -> list[str]:
    return [str(call[0]) for call in calls if len(call) == 3 and call[2] != WARM_UP_TOKENS]


def test_all_arms_warm_up_before_any_is_measured_and_then_forget() -> None:
    opened, calls = scripted("plain", "auto")
    list(run_arms(opened, PROMPTS[:1], Plan(32)))
    assert [call[2] for call in calls[:2]] == [WARM_UP_TOKENS] * 2
    assert calls[2:4] == [("plain", "forget"), ("auto", "forget")]
    assert [call[2] for call in calls[4:]] == [32, 32]


def test_each_arm_goes_first_in_turn_from_prompt_to_prompt_and_from_repeat_to_repeat() -> None:
    opened, calls = scripted("plain", "auto", "stock")
    list(run_arms(opened, PROMPTS, Plan(32, repeats=2)))
    asked = generations(calls)
    orders = [tuple(asked[i : i + 3]) for i in range(0, len(asked), 3)]
    one, two, three = ("plain", "auto", "stock"), ("auto", "stock", "plain"), ("stock", "plain", "auto")
    assert orders == [one, two, three, two, three, one]


def test_later_turns_follow_the_plain_answers_whichever_arm_went_first() -> None:
    opened, calls = scripted("plain", "auto")
    prompts = [BenchPrompt("0", "a", ("zero",)), BenchPrompt("1", "a", ("one", "two"))]
    list(run_arms(opened, prompts, Plan(32)))
    second = (Message("user", "one"), Message("assistant", "answer of plain"), Message("user", "two"))
    assert [(call[0], call[1]) for call in calls[-2:]] == [("auto", second), ("plain", second)]


def test_every_repeat_starts_cold_unless_it_is_to_be_warm() -> None:
    for warm, times in ((False, 3), (True, 1)):
        opened, calls = scripted("plain", "auto")
        list(run_arms(opened, PROMPTS, Plan(32, repeats=3, warm=warm)))
        assert calls.count(("auto", "forget")) == times


def test_fresh_prompts_are_forgotten_before_each_answer_and_nothing_else_is() -> None:
    opened, calls = scripted("plain", "auto")
    list(run_arms(opened, PROMPTS, Plan(32, fresh_prompts=True)))
    measured = calls[4:]
    assert [call[1] for call in measured[::2]] == ["forget the prompt"] * 6
    assert [call[0] for call in measured[::2]] == [call[0] for call in measured[1::2]]


def test_a_conversation_ends_where_it_no_longer_fits_and_the_next_goes_on() -> None:
    opened, _ = scripted("plain", "auto", too_long_from=3)
    prompts = [BenchPrompt("1", "a", ("one", "two")), BenchPrompt("2", "a", ("three",))]
    results = list(run_arms(opened, prompts, Plan(32)))
    assert [(r.prompt.question_id, r.turn, r.prompt_tokens) for r in results] == [("1", 0, 1), ("2", 0, 1)]


def test_results_name_the_arms_in_the_order_asked_for() -> None:
    opened, _ = scripted("plain", "auto", "stock")
    results = list(run_arms(opened, PROMPTS, Plan(32)))
    assert [list(result.answers) for result in results] == [["plain", "auto", "stock"]] * 3


def test_plain_decoding_is_always_among_the_arms_and_none_runs_twice() -> None:
    assert parse_arms("auto, stock,auto", GenerateOptions()) == ("plain", "auto", "stock")
    assert set(parse_arms(",".join(ARMS), GenerateOptions())) == set(ARMS)
    with pytest.raises(UsageError, match="'fast'"):
        parse_arms("plain,fast", GenerateOptions())


@pytest.mark.parametrize("arm", ["lookup", "binding"])
def test_greedy_arms_are_refused_where_more_is_asked_for(arm: str) -> None:
    hot, penal = SamplingOptions(temperature=0.8), SamplingOptions(repeat_penalty=1.1)
    asked = [GenerateOptions(sampling=sampling) for sampling in (hot, penal)]
    asked += [GenerateOptions(stop=("x",)), GenerateOptions(grammar=Grammar("root ::= [a-z]+"))]
    for request in [*asked, GenerateOptions(context_shift=True)]:
        with pytest.raises(UsageError, match=f"the arm {arm} is greedy"):
            parse_arms(arm, request)
        assert parse_arms("tree,stock", request) == ("plain", "tree", "stock")
