"""The same completions asked of llama_cpp.Llama and of ours: the same dictionaries, whole and streamed."""

from __future__ import annotations

import pytest
from comparing import assert_same_responses, assert_same_streams, said, streamed

COUNT = "1, 2, 3, 4,"
FRANCE = "The capital of France is"
SMILEYS = "A line of smileys: 😀😁😀😁😀😁😀😁"
TURN = "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n"
CALLS = {
    "by default": {"prompt": FRANCE},
    "one token": {"prompt": FRANCE, "max_tokens": 1},
    "echo": {"prompt": FRANCE, "max_tokens": 8, "echo": True},
    "another name": {"prompt": FRANCE, "max_tokens": 4, "model": "a name"},
    "control tokens in the prompt": {"prompt": TURN, "max_tokens": 16},
    "characters of several tokens": {"prompt": SMILEYS, "max_tokens": 12},
    "a stop string": {"prompt": FRANCE, "stop": ["\n"]},
    "a stop string as text": {"prompt": FRANCE, "stop": "United"},
    "a stop string over tokens": {"prompt": COUNT, "max_tokens": 24, "stop": ["9, 1", "0,"]},
    "a stop string inside a token": {"prompt": FRANCE, "stop": ["ited"]},
    "a stop string at once": {"prompt": FRANCE, "stop": [" Paris"]},
    "a stop string that never comes": {"prompt": COUNT, "max_tokens": 12, "stop": ["7, 9", "x"]},
    "an emoji as stop string": {"prompt": SMILEYS, "max_tokens": 12, "stop": ["😁😁😁"]},
    "echo and a stop string": {"prompt": COUNT, "echo": True, "stop": ["7"]},
    "settings that do nothing at 0": {
        "prompt": FRANCE,
        "max_tokens": 6,
        "top_k": 3,
        "top_p": 0.5,
        "tfs_z": 0.5,
        "seed": 1,
    },
    "a logit bias": {"prompt": FRANCE, "max_tokens": 6, "logit_bias": {7042: -100.0, 28: 3.0}},
    "a repeat penalty": {"prompt": SMILEYS, "max_tokens": 12, "repeat_penalty": 1.3},
    "presence and frequency penalties": {
        "prompt": COUNT,
        "max_tokens": 16,
        "presence_penalty": 1.5,
        "frequency_penalty": 0.7,
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_a_whole_answer_is_the_same(ours, theirs, name: str) -> None:
    call = {"temperature": 0.0, **CALLS[name]}
    assert_same_responses(ours.create_completion(**call), theirs.create_completion(**call))


@pytest.mark.parametrize("name", CALLS)
def test_a_stream_is_the_same_chunk_by_chunk(ours, theirs, name: str) -> None:
    call = {"temperature": 0.0, "stream": True, **CALLS[name]}
    assert_same_streams(list(ours(**call)), list(theirs(**call)))


@pytest.mark.parametrize("name", ["a stop string over tokens", "characters of several tokens"])
def test_exact_drafts_change_nothing(opened, theirs, name: str) -> None:
    call = {"temperature": 0.0, **CALLS[name]}
    assert_same_responses(opened("exact")(**call), theirs(**call))


def test_tokens_as_a_prompt_answer_the_same(ours, theirs) -> None:
    tokens = theirs.tokenize(FRANCE.encode())
    for stream in (False, True):
        call = {"prompt": tokens, "max_tokens": 8, "temperature": 0.0, "stream": stream}
        mine, other = ours(**call), theirs(**call)
        if stream:
            assert_same_streams(list(mine), list(other))
        else:
            assert_same_responses(mine, other)


def test_an_answer_ends_at_the_models_own_end(ours, theirs) -> None:
    call = {"prompt": TURN, "max_tokens": 60, "temperature": 0.0}
    mine = ours(**call)
    assert mine["choices"][0]["finish_reason"] == "stop"
    assert_same_responses(mine, theirs(**call))


def test_without_a_limit_an_answer_goes_on_to_the_end_of_the_context(llama, theirs) -> None:
    prompt = (theirs.tokenize(b"1, 2, 3, 4,") * 50)[:504]
    for max_tokens in (None, 0, -1, 100):
        mine = llama(prompt, max_tokens=max_tokens, temperature=0.0)
        assert_same_responses(mine, theirs(prompt, max_tokens=max_tokens, temperature=0.0))
        assert mine["usage"]["total_tokens"] == 512


def test_no_answer_is_longer_than_asked_for_even_where_a_character_is_incomplete(llama, theirs) -> None:
    call = {"prompt": "Repeat: 你好世界 你好世界 你好世界", "max_tokens": 24, "temperature": 0.0}
    mine = llama(**call)
    assert mine["usage"]["completion_tokens"] == 24
    assert theirs(**call)["usage"]["completion_tokens"] == 25  # the fault that is not copied
    assert streamed(list(llama(**call, stream=True))) == said(mine)


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 4, 5])
def test_what_is_left_of_a_character_at_the_end_is_shown_in_neither_way(llama, max_tokens: int) -> None:
    call = {"prompt": SMILEYS, "max_tokens": max_tokens, "temperature": 0.0}
    mine, chunks = llama(**call), list(llama(**call, stream=True))
    assert said(mine) == streamed(chunks) == "😁" * (max_tokens // 3)
    assert mine["usage"]["completion_tokens"] == max_tokens


def test_of_two_stop_strings_the_first_in_the_text_cuts_it(llama) -> None:
    call = {"prompt": FRANCE, "stop": ["ris", "Pa"], "temperature": 0.0}
    assert said(llama(**call)) == streamed(list(llama(**call, stream=True))) == " "


def test_a_suffix_is_put_behind_the_answer_where_the_model_cannot_fill_in(llama) -> None:
    plain = said(llama(FRANCE, max_tokens=4, temperature=0.0))
    assert said(llama(FRANCE, "END", max_tokens=4, temperature=0.0)) == plain + "END"


def test_an_empty_stop_string_stops_nothing(llama) -> None:
    assert said(llama(FRANCE, max_tokens=4, temperature=0.0, stop=[""])) == said(
        llama(FRANCE, max_tokens=4, temperature=0.0)
    )
