"""Log probabilities under llama_cpp's keys; they need no `logits_all` here."""

from __future__ import annotations

import json

import pytest
from comparing import assert_same_responses, assert_same_streams

FRANCE = "The capital of France is"
TURN = "<|im_start|>user\nHi"
COUNT = "1, 2, 3, 4,"
ROUNDED = 0.3  # rows that are evaluated together round differently: SmolLM2's by this much at most, here
EXACT = pytest.mark.parametrize("kind", ["plain", "exact"])


@EXACT
@pytest.mark.parametrize("prompt", [FRANCE, TURN])
@pytest.mark.parametrize("n_top", [0, 1, 4])
def test_a_whole_answers_logprobs_are_the_same(opened, theirs, kind: str, prompt: str, n_top: int) -> None:
    call = {"prompt": prompt, "max_tokens": 6, "temperature": 0.0, "logprobs": n_top}
    assert_same_responses(opened(kind)(**call), theirs(**call))


@EXACT
@pytest.mark.parametrize("stop", [[], ["United States"]])
def test_a_streams_logprobs_are_the_same(opened, theirs, kind: str, stop: list[str]) -> None:
    call = {"prompt": FRANCE, "max_tokens": 7, "temperature": 0.0, "logprobs": 3, "stream": True, "stop": stop}
    assert_same_streams(list(opened(kind)(**call)), list(theirs(**call)))


def test_tokens_that_were_drafted_have_the_same_logprobs_but_for_rounding(llama, theirs) -> None:
    call = {"prompt": COUNT, "max_tokens": 16, "temperature": 0.0, "logprobs": 1}
    mine, other = (model(**call)["choices"][0]["logprobs"] for model in (llama, theirs))
    assert list(mine) == list(other)
    assert (mine["tokens"], mine["text_offset"]) == (other["tokens"], other["text_offset"])
    assert mine["token_logprobs"] == pytest.approx(other["token_logprobs"], abs=ROUNDED)
    assert [list(top) for top in mine["top_logprobs"]] == [list(top) for top in other["top_logprobs"]]


@EXACT
def test_an_echoed_prompts_logprobs_are_the_same_behind_the_token_that_begins_a_text(opened, theirs, kind: str) -> None:
    call = {"prompt": TURN, "max_tokens": 3, "temperature": 0.0, "logprobs": 2, "echo": True}
    assert_same_responses(opened(kind)(**call), theirs(**call))


def test_an_echoed_prompts_logprobs_are_those_of_its_own_tokens(llama) -> None:
    """llama_cpp shifts them by one place where the prompt begins with any other token."""
    words = llama(FRANCE, max_tokens=1, temperature=0.0, logprobs=1, echo=True)["choices"][0]["logprobs"]
    assert words["tokens"][:5] == ["The", " capital", " of", " France", " is"]
    assert words["text_offset"][:5] == [0, 3, 11, 14, 21]
    assert words["token_logprobs"][0] is None
    after = llama("The capital", max_tokens=1, temperature=0.0, logprobs=1)["choices"][0]["logprobs"]
    assert after["tokens"] == [" of"]
    assert words["token_logprobs"][2] == pytest.approx(after["token_logprobs"][0], abs=ROUNDED)


def test_a_response_with_logprobs_can_be_written_as_json(llama) -> None:
    assert "NaN" not in json.dumps(llama(FRANCE, max_tokens=2, temperature=0.0, logprobs=2))


def test_a_chats_logprobs_are_the_same_but_for_rounding(ours, theirs) -> None:
    call = {
        "messages": [{"role": "user", "content": "Name three colours."}],
        "max_tokens": 4,
        "temperature": 0.0,
        "logprobs": True,
        "top_logprobs": 2,
    }
    mine, other = (model.create_chat_completion(**call)["choices"][0]["logprobs"] for model in (ours, theirs))
    assert list(mine) == list(other) == ["content", "refusal"]
    for one, two in zip(mine["content"], other["content"], strict=True):
        assert list(one) == list(two)
        assert one["token"] == two["token"]
        assert one["logprob"] == pytest.approx(two["logprob"], abs=ROUNDED)
