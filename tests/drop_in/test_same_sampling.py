"""Draws, processors, criteria, grammars: what llama_cpp.Llama takes of them, and what it makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from comparing import assert_same_responses, said
from llama_cpp import LlamaGrammar, LogitsProcessorList, StoppingCriteriaList
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from recycle_cpp import UsageError

FRANCE = "The capital of France is"
COUNT = "1, 2, 3, 4,"
DRAWN = {
    "by default": {},
    "hot": {"temperature": 1.4, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    "narrow": {"top_k": 3, "top_p": 0.6, "min_p": 0.2},
    "typical": {"typical_p": 0.5},
    "unfiltered": {"temperature": -1.0},
    "mirostat 1": {"mirostat_mode": 1, "mirostat_tau": 3.0},
    "mirostat 2": {"mirostat_mode": 2, "mirostat_eta": 0.2},
    "penalised": {"repeat_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.5},
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_draws_the_same_text_as_there(opened, theirs, name: str) -> None:
    call = {"prompt": FRANCE, "max_tokens": 10, "seed": 7, **DRAWN[name]}
    assert_same_responses(opened("plain")(**call), theirs(**call))


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_draws_the_same_text_again(opened, name: str) -> None:
    ours = opened("exact")
    call = {"prompt": FRANCE, "max_tokens": 10, "seed": 7, **DRAWN[name]}
    assert said(ours(**call)) == said(ours(**call))


def test_seeds_follow_from_set_seed_as_there(opened, theirs) -> None:
    mine, other = opened("plain"), theirs.llama
    texts = []
    for llama in (mine, other):
        llama.set_seed(5)
        texts.append([said(llama(FRANCE, max_tokens=6)) for _ in range(3)])
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 1


def test_the_seed_of_minus_one_draws_anew(llama) -> None:
    assert len({said(llama(FRANCE, max_tokens=8, temperature=1.5, seed=-1)) for _ in range(4)}) > 1


def only(*tokens: int):
    """Return a processor that allows some tokens."""

    def process(seen, scores):
        assert seen.dtype == np.intc and scores.dtype == np.single
        allowed = np.full_like(scores, -np.inf)
        allowed[list(tokens)] = scores[list(tokens)]
        return allowed

    return process


def test_a_logits_processor_is_asked_for_every_token(ours, theirs) -> None:
    five, comma = theirs.tokenize(b"5,")
    lengths: list[int] = []

    def look(seen, scores):
        lengths.append(len(seen))
        return scores

    call = {"prompt": FRANCE, "max_tokens": 4, "temperature": 0.0}
    processors = LogitsProcessorList([only(five, comma), look])
    mine = ours(**call, logits_processor=processors)
    assert lengths == [5, 6, 7, 8]
    assert set(said(mine)) <= {"5", ","}
    assert said(mine) == said(theirs.llama(**call, logits_processor=processors))


def test_processors_and_biases_work_together(llama) -> None:
    """llama_cpp loses the processors there: it extends the list and keeps what that returns."""
    five, comma = llama.tokenize(b"5,")
    processors = LogitsProcessorList([only(five, comma)])
    answer = llama(FRANCE, max_tokens=3, temperature=0.0, logits_processor=processors, logit_bias={five: 100.0})
    assert said(answer) == "555"


def test_stopping_criteria_end_an_answer_before_the_token(ours, theirs) -> None:
    def enough(seen, scores):
        assert len(scores) == 49152
        return len(seen) >= 9

    criteria = StoppingCriteriaList([enough])
    call = {"prompt": FRANCE, "max_tokens": 12, "temperature": 0.0, "stopping_criteria": criteria}
    mine = ours(**call)
    assert mine["choices"][0]["finish_reason"] == "stop"
    assert mine["usage"]["completion_tokens"] == 4
    assert_same_responses(mine, theirs.llama(**call))


def test_criteria_that_are_met_at_once_leave_an_empty_answer(llama) -> None:
    answer = llama(FRANCE, max_tokens=4, stopping_criteria=StoppingCriteriaList([lambda seen, scores: True]))
    assert said(answer) == ""
    assert answer["usage"]["completion_tokens"] == 0


@pytest.mark.parametrize("rules", ['root ::= " " ("yes" | "no") "!"', "root ::= [0-9]+ [.]", 'root ::= "😀" "你好"'])
def test_a_grammar_holds_and_ends_the_answer_as_there(ours, theirs, rules: str) -> None:
    call = {"prompt": FRANCE, "max_tokens": 8, "temperature": 0.0}
    mine = ours(**call, grammar=LlamaGrammar.from_string(rules, verbose=False))
    assert_same_responses(mine, theirs.llama(**call, grammar=LlamaGrammar.from_string(rules, verbose=False)))


@pytest.mark.parametrize(
    "call",
    [
        {"repeat_penalty": 0.0},
        {"logit_bias": {49152: 1.0}},
        {"grammar": "root ::= 1"},
        {"stop": [b"x"]},
        {"prompt": 5},
        {"prompt": [1, "a"]},
        {"suffix": 3},
        {"logprobs": 1000},
        {"temperature": float("nan")},
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_in_one_line(llama, call: dict) -> None:
    with pytest.raises(UsageError) as caught:
        llama(**{"prompt": FRANCE, **call})
    assert "\n" not in str(caught.value)


def test_a_setting_that_there_is_not_is_refused(llama) -> None:
    with pytest.raises(TypeError, match="unknown"):
        llama(FRANCE, unknown=1)


def test_a_draft_model_is_accepted_and_not_needed(smollm_file, cache_home, capfd) -> None:
    from comparing import SETTINGS

    from recycle_cpp import Llama

    settings = {**SETTINGS, "verbose": True, "draft_model": LlamaPromptLookupDecoding(num_pred_tokens=2)}
    with Llama(smollm_file, **settings, f16_kv=True) as llama:
        assert said(llama(COUNT, max_tokens=2, temperature=0.0)) == " 5"
    shown = capfd.readouterr().err
    assert "recycle_cpp ignores f16_kv, draft_model (drafting is built in)" in shown
    assert "tokens/s" in shown
