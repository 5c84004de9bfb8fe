"""Real SmolLM2: every kind of sampling and grammars give the same text drafted and plain, and JSON parses."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from real_prompts import PROMPTS

from recycle_cpp.decoding.engine import Request
from recycle_cpp.decoding.sampling.grammar import GrammarSampler
from recycle_cpp.decoding.sampling.samplers import NOTHING, Sampler, make_sampler
from recycle_cpp.drafting.drafter import PlainDrafter
from recycle_cpp.errors import UsageError
from recycle_cpp.runtime import Runtime
from recycle_cpp.types import Completion, GenerateOptions, Grammar, SamplingOptions

NEAR_TIE = 0.6  # as in test_exact_real.py
MAX_TOKENS = 40
JSON = r"""
root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value){0,3})? "}" ws
array ::= "[" ws (value ("," ws value){0,3})? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4})){0,24} "\"" ws
number ::= "-"? ([0-9] | [1-9] [0-9]{0,5}) ("." [0-9]{1,4})? ws
ws ::= " "?
"""
LIST = Grammar(r'root ::= ("- " [A-Za-z ]{3,14} "\n"){4}')
SETTINGS = {
    "repeat penalty": {"sampling": SamplingOptions(repeat_penalty=1.3)},
    "presence penalty": {"sampling": SamplingOptions(presence_penalty=1.0, repeat_last_n=-1)},
    "frequency penalty": {"sampling": SamplingOptions(frequency_penalty=0.7)},
    "dry": {"sampling": SamplingOptions(dry_multiplier=0.8)},
    "bias": {"sampling": SamplingOptions(logit_bias=((28, -np.inf), (30, 3.0)), ignore_eos=True)},
    "all at once": {
        "sampling": SamplingOptions(
            temperature=0.8, repeat_penalty=1.1, dry_multiplier=0.5, typical_p=0.95, xtc_probability=0.2, seed=5
        )
    },
    "dynamic temperature": {"sampling": SamplingOptions(temperature=0.8, dynatemp_range=0.4, seed=5)},
    "mirostat": {"sampling": SamplingOptions(temperature=0.8, mirostat=2, seed=5)},
    "json": {"grammar": Grammar(JSON)},
    "warm json": {"grammar": Grammar(JSON), "sampling": SamplingOptions(temperature=0.8, seed=5)},
    "list": {"grammar": LIST},
}


def ask(runtime: Runtime, prompt: str, draft: str, **options) -> Completion:
    return runtime.generate(prompt, GenerateOptions(**{"max_tokens": MAX_TOKENS, "draft": draft, **options}))


@pytest.mark.parametrize("name", SETTINGS)
def test_exact_drafting_is_plain_decoding_to_the_byte(smollm: Runtime, name: str) -> None:
    n_accepted = 0
    for prompt in PROMPTS[8:10]:
        for _ in range(2):  # the second time the way is known
            exact = ask(smollm, prompt, "tree", exact=True, **SETTINGS[name])
            n_accepted += exact.timings.draft_n_accepted
        plain = ask(smollm, prompt, "off", exact=True, **SETTINGS[name])
        assert (exact.tokens, exact.text, exact.finish_reason) == (plain.tokens, plain.text, plain.finish_reason)
    assert n_accepted > 0 or smollm._loaded.exact_widths().width == 1


class Recorder(Sampler):
    """Keeps what the sampler inside chose, and what it chose among: logits after biases and penalties."""

    def __init__(self, inner: Sampler) -> None:
        self.inner = inner
        self.chosen: list[int] = []
        self.among: list[dict[int, float]] = []

    def sample(self, logits: np.ndarray, best: int) -> int:
        self.chosen.append(self.inner.sample(logits, best))
        chain = self.inner._chain if isinstance(self.inner, GrammarSampler) else self.inner
        candidates = chain.candidates
        touched = dict(zip(candidates.tokens.tolist(), candidates.values.tolist(), strict=True))
        self.among.append({**dict(enumerate(logits.tolist())), **touched})
        return self.chosen[-1]


def plain_run(runtime: Runtime, prompt: str, options: GenerateOptions) -> Recorder:
    tokens, engine = runtime.tokenize(prompt), runtime._requests._engine
    recorder = Recorder(make_sampler(options, runtime._loaded.model.sampler_vocabulary(runtime.n_ctx), tokens))
    engine.prepare(tokens, reuse="fresh")
    list(engine.steps(Request(PlainDrafter(), recorder, options.max_tokens)))
    return recorder


@pytest.mark.parametrize("name", ["repeat penalty", "frequency penalty", "json", "list"])
def test_tree_drafting_leaves_plain_decodings_text_at_near_ties_only(smollm: Runtime, name: str) -> None:
    accepted = n_agreed = 0
    for prompt in PROMPTS[6:9]:
        options = GenerateOptions(max_tokens=MAX_TOKENS, draft="tree", **SETTINGS[name])
        smollm.generate(prompt, options)
        tree = smollm.generate(prompt, options)  # now the way is known
        accepted += tree.timings.draft_n_accepted
        plain = plain_run(smollm, prompt, options)
        text = [token for token in plain.chosen if token != NOTHING]
        first = next((i for i, pair in enumerate(zip(text, tree.tokens, strict=False)) if pair[0] != pair[1]), None)
        if first is None:
            assert tree.tokens == tuple(text)
            n_agreed += len(text)
        else:
            distance = plain.among[first][text[first]] - plain.among[first][tree.tokens[first]]
            assert abs(distance) < NEAR_TIE, f"token {first} after {prompt!r} was no near-tie: {distance:.2f}"
            n_agreed += first
    assert accepted > 5 and n_agreed > 20


@pytest.mark.parametrize("draft", ["off", "tree", "auto"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_json_by_grammar_parses(smollm: Runtime, draft: str, temperature: float) -> None:
    finished = 0
    for seed, prompt in enumerate(PROMPTS[:4]):
        sampling = SamplingOptions(temperature=temperature, seed=seed)
        answer = ask(smollm, prompt, draft, grammar=Grammar(JSON), sampling=sampling, max_tokens=120, exact=False)
        if answer.finish_reason == "stop":
            json.loads(answer.text)
            finished += 1
    assert finished >= 2


def test_a_grammar_that_is_finished_ends_the_answer_and_the_next_request_goes_on_from_it(smollm: Runtime) -> None:
    first = ask(smollm, PROMPTS[1], "tree", grammar=LIST, sampling=SamplingOptions(ignore_eos=True), max_tokens=90)
    assert first.finish_reason == "stop"
    assert re.fullmatch(r"(- [A-Za-z ]{3,14}\n){4}", first.text)
    again = ask(smollm, PROMPTS[1], "off", grammar=LIST, sampling=SamplingOptions(ignore_eos=True), max_tokens=90)
    assert again.finish_reason == "stop"
    assert again.timings.prompt_n == 0


def test_a_lazy_grammar_holds_from_its_trigger_on_only(smollm: Runtime) -> None:
    rules = Grammar(
        r'root ::= "def " [a-z_]{2,12} "(" [a-z_, ]{1,12} "): return " [a-z0-9 +]{1,10} "\n"', triggers=("def ",)
    )
    for draft in ("off", "tree"):
        answer = ask(
            smollm, PROMPTS[8], draft, grammar=rules, sampling=SamplingOptions(ignore_eos=True), max_tokens=120
        )
        before, found, after = answer.text.partition("def ")
        assert found and len(before) > 3
        assert re.fullmatch(r"[a-z_]{2,12}\([a-z_, ]{1,12}\): return [a-z0-9 +]{1,10}\n", after)
        assert answer.finish_reason == "stop"


def test_a_broken_grammar_is_refused_and_the_model_stays_usable(smollm: Runtime) -> None:
    with pytest.raises(UsageError, match="the grammar cannot be read: unexpected end of input"):
        ask(smollm, PROMPTS[4], "tree", grammar=Grammar("root ::= [a"))
    assert ask(smollm, PROMPTS[4], "tree", max_tokens=3).usage.completion_tokens == 3


def test_a_processor_that_fails_leaves_the_model_usable(smollm: Runtime) -> None:
    def fails(tokens, logits):
        raise LookupError("the caller's own")

    with pytest.raises(LookupError, match="the caller's own"):
        ask(smollm, PROMPTS[4], "tree", logits_processors=(fails,))
    shouts = ask(
        smollm, PROMPTS[4], "tree", logits_processors=(lambda tokens, row: np.where(row == row[500], 50, -9.0),)
    )
    assert set(shouts.tokens) == {500}
