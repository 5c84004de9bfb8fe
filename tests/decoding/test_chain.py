"""The sampler chain chooses what llama.cpp's whole chain over the whole vocabulary chooses, draw by draw."""

from __future__ import annotations

import numpy as np
import pytest
from chains_reference import WholeChain
from fakes import EOG, toy_vocabulary
from hypothesis import given, settings
from hypothesis import strategies as st

from recycle_cpp.backend.model import SamplerVocabulary
from recycle_cpp.decoding.sampling.chain import ChainSampler, plan_chain
from recycle_cpp.decoding.sampling.samplers import NOTHING
from recycle_cpp.errors import UsageError
from recycle_cpp.types import SAMPLERS, SamplingOptions

N_CTX = 256
SEEDS = st.integers(0, 2**32 - 2)


def some(values):
    """Draw one of the values, the first (which changes nothing) as often as all others."""
    return st.one_of(st.just(values[0]), st.sampled_from(values))


@st.composite
def any_options(draw) -> SamplingOptions:
    order = draw(st.one_of(st.just(SAMPLERS), st.permutations(SAMPLERS).map(tuple)))
    left_out = draw(st.sets(st.sampled_from(SAMPLERS), max_size=3))
    tokens = st.integers(0, 47)
    return SamplingOptions(
        temperature=draw(st.sampled_from([0.0, 0.0, 0.1, 0.8, 1.0, 2.5])),
        dynatemp_range=draw(some([0.0, 0.05, 1.0])),
        dynatemp_exponent=draw(some([1.0, 0.0, 2.0])),
        top_k=draw(st.sampled_from([0, 1, 2, 5, 40, 100, 300])),
        top_p=draw(some([1.0, 0.95, 0.3, 0.0])),
        min_p=draw(some([0.0, 0.05, 0.5, 1.0])),
        typical_p=draw(some([1.0, 0.9, 0.2])),
        top_n_sigma=draw(some([-1.0, 0.0, 1.0, 3.0])),
        xtc_probability=draw(some([0.0, 0.3, 1.0])),
        xtc_threshold=draw(st.sampled_from([0.05, 0.1, 0.5, 0.6])),
        repeat_last_n=draw(st.sampled_from([-1, 0, 1, 7, 64, 2**31 - 1])),
        repeat_penalty=draw(some([1.0, 1.3, 0.7])),
        presence_penalty=draw(some([0.0, 1.5, -1.0])),
        frequency_penalty=draw(some([0.0, 0.3, -0.2])),
        dry_multiplier=draw(some([0.0, 0.8, 1000.0])),
        dry_base=draw(st.sampled_from([1.0, 1.75, 1000.0])),
        dry_allowed_length=draw(st.integers(0, 3)),
        dry_penalty_last_n=draw(st.sampled_from([-1, 0, 10, 2**31 - 1])),
        dry_sequence_breakers=(),
        mirostat=draw(some([0, 0, 1, 2])),
        mirostat_tau=draw(st.sampled_from([0.0, 1.0, 5.0])),
        mirostat_eta=draw(st.sampled_from([0.0, 0.1, 1.0])),
        logit_bias=tuple(
            draw(st.dictionaries(tokens, st.sampled_from([-np.inf, -2.0, 3.5, 30.0]), max_size=4)).items()
        ),
        ignore_eos=draw(st.booleans()),
        samplers=tuple(name for name in order if name not in left_out),
        seed=draw(SEEDS),
    )


@settings(max_examples=150)
@given(options=any_options(), seed=SEEDS, n_vocab=st.sampled_from([48, 48, 600, 1100]), n_prompt=st.integers(0, 300))
def test_every_draw_is_that_of_the_whole_chain_over_the_whole_vocabulary(options, seed, n_vocab, n_prompt) -> None:
    rng = np.random.default_rng(seed)
    prompt = rng.integers(0, n_vocab, n_prompt).tolist()
    vocab = toy_vocabulary(n_vocab, N_CTX)
    whole = WholeChain(options, vocab, prompt)
    sampler = ChainSampler(options, vocab, prompt)
    spread = rng.uniform(0.5, 6)
    favourites = rng.normal(0, 2, n_vocab)  # so that tokens come again, and are penalised
    for _ in range(60):
        logits = (rng.normal(0, spread, n_vocab) + favourites).astype(np.float32)
        token = sampler.sample(logits, int(np.argmax(logits)))
        assert token == whole.sample(logits)
        if token == NOTHING:  # nobody asks again
            break
    sampler.close()
    whole.close()


def draws(options: SamplingOptions, n: int = 300, n_vocab: int = 2000) -> list[int]:
    rng = np.random.default_rng(5)
    favourites = rng.normal(0, 3, n_vocab)
    sampler = ChainSampler(options, toy_vocabulary(n_vocab, N_CTX), [1, 2, 3])
    return [sampler.sample((rng.normal(0, 1, n_vocab) + favourites).astype(np.float32), 0) for _ in range(n)]


@pytest.mark.parametrize(
    "change",
    [
        {"top_k": 2},
        {"top_p": 0.1},
        {"min_p": 0.9},
        {"typical_p": 0.2},
        {"top_n_sigma": 0.5},
        {"xtc_probability": 1.0},
        {"repeat_penalty": 1.5},
        {"presence_penalty": 3.0},
        {"frequency_penalty": 1.0},
        {"dry_multiplier": 5.0, "dry_allowed_length": 1, "dry_sequence_breakers": ()},
        {"temperature": 3.0},
        {"dynatemp_range": 0.7},
        {"mirostat": 1},
        {"mirostat": 2},
        {"logit_bias": ((7, 20.0),)},
        {"samplers": ("temperature", "top_k")},
        {"seed": 4},
        {"repeat_penalty": 1.5, "repeat_last_n": -1},
    ],
    ids=str,
)
def test_each_setting_changes_what_is_drawn(change: dict) -> None:
    base = {"temperature": 0.9, "seed": 3, "dry_sequence_breakers": ()}
    assert draws(SamplingOptions(**{**base, **change})) != draws(SamplingOptions(**base))


def test_a_seed_repeats_the_draws_and_none_draws_a_fresh_one() -> None:
    fixed, fresh = SamplingOptions(temperature=2.0, seed=9), SamplingOptions(temperature=2.0)
    assert draws(fixed) == draws(fixed)
    assert draws(fresh) != draws(fresh)


@pytest.mark.parametrize("n_vocab", [48, 600])
@pytest.mark.parametrize("mirostat", [0, 1, 2])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_row_without_any_token_to_choose_ends_the_answer(n_vocab: int, mirostat: int, temperature: float) -> None:
    forbidden = tuple((token, -np.inf) for token in range(n_vocab))
    for extra in (
        {},
        {"top_k": 0, "typical_p": 0.9},
        {"top_k": 0, "top_p": 1.0, "min_p": 0.0},
        {"xtc_probability": 1.0},
    ):
        options = SamplingOptions(temperature=temperature, mirostat=mirostat, logit_bias=forbidden, **extra)
        sampler = ChainSampler(options, toy_vocabulary(n_vocab), [1, 2])
        assert sampler.sample(np.zeros(n_vocab, np.float32), 0) == NOTHING


def test_the_last_allowed_token_is_chosen_whatever_the_settings() -> None:
    forbidden = tuple((token, -np.inf) for token in range(600) if token != 77)
    row = np.random.default_rng(1).normal(0, 3, 600).astype(np.float32)
    for options in (
        SamplingOptions(logit_bias=forbidden),
        SamplingOptions(logit_bias=forbidden, temperature=1.0),
        SamplingOptions(logit_bias=forbidden, temperature=1.0, top_k=0, mirostat=1),
        SamplingOptions(logit_bias=forbidden, temperature=0.1, dynatemp_range=0.1, dynatemp_exponent=30),
    ):
        assert ChainSampler(options, toy_vocabulary(600), []).sample(row, 0) == 77


def test_what_is_not_a_number_is_never_chosen() -> None:
    row = np.full(600, np.nan, np.float32)
    row[[5, 590]] = [1.0, 2.0]
    for options in (
        SamplingOptions(temperature=1.0, seed=1),
        SamplingOptions(temperature=1.0, seed=1, top_k=0, typical_p=0.9),
        SamplingOptions(repeat_penalty=1.1),
    ):
        sampler = ChainSampler(options, toy_vocabulary(600), [7])
        assert {sampler.sample(row, 590) for _ in range(20)} <= {5, 590}


def test_a_temperature_that_falls_to_nearly_nothing_is_greedy() -> None:
    options = SamplingOptions(temperature=0.5, dynatemp_range=0.5, dynatemp_exponent=60, seed=1)
    row = np.random.default_rng(1).normal(0, 3, 600).astype(np.float32)
    row[123] = 60
    sampler = ChainSampler(options, toy_vocabulary(600), [])
    assert {sampler.sample(row, 123) for _ in range(20)} == {123}


def test_biases_of_one_token_add_up_and_eos_can_be_ignored() -> None:
    row = np.zeros(48, np.float32)
    row[EOG] = 50
    row[3] = 1.5
    options = SamplingOptions(logit_bias=((9, 1.0), (9, 1.0)), ignore_eos=True)
    assert ChainSampler(options, toy_vocabulary(), []).sample(row, EOG) == 9
    suppressed = SamplerVocabulary(None, 48, (EOG,), 64, suppressed=(9,))
    assert ChainSampler(options, suppressed, []).sample(row, EOG) == 3


def test_however_often_a_token_is_lifted_it_is_chosen_from_a_large_vocabulary() -> None:
    row = np.random.default_rng(0).normal(0, 3, 4000).astype(np.float32)
    for n in (1, 3000):
        options = SamplingOptions(temperature=1.0, top_k=500, seed=1, logit_bias=((9, 1e6),) * n)
        assert ChainSampler(options, toy_vocabulary(4000), []).sample(row, int(row.argmax())) == 9


@pytest.mark.parametrize(
    "change, line",
    [
        ({"logit_bias": ((48, 1.0),)}, r"logit_bias has token 48; give tokens from 0 to 47"),
        ({"temperature": 1e-9}, r"temperature is 1e-09; give 0 or a number from 1e-06 up"),
        ({"dry_sequence_breakers": ("a\0b",)}, r"dry_sequence_breakers has 'a\\x00b'; give texts without NUL"),
        ({"dry_sequence_breakers": ("\ud800",)}, r"dry_sequence_breakers has '\\ud800'; give texts without NUL"),
    ],
)
def test_what_llama_cpp_cannot_take_is_one_line(change: dict, line: str) -> None:
    with pytest.raises(UsageError, match=line) as caught:
        ChainSampler(SamplingOptions(**change), toy_vocabulary(), [])
    assert "\n" not in str(caught.value)


def test_little_of_a_vocabulary_is_shown_where_that_is_enough() -> None:
    penalised = {"repeat_penalty": 1.1, "dry_multiplier": 0.8}
    assert plan_chain(SamplingOptions(temperature=0.8, **penalised)).n_best == 40
    assert plan_chain(SamplingOptions(**penalised)).n_best == 1
    for options in (
        SamplingOptions(temperature=0.8, top_k=0),
        SamplingOptions(temperature=0.8, top_n_sigma=1.0),
        SamplingOptions(temperature=0.8, top_k=1000),
        SamplingOptions(temperature=0.8, samplers=("temperature", "top_k")),
        SamplingOptions(temperature=0.8, repeat_penalty=1.1, samplers=("top_k", "penalties")),
        SamplingOptions(typical_p=0.9, top_k=0),
        SamplingOptions(mirostat=2),
    ):
        assert plan_chain(options).n_best == 0


def test_memory_can_be_freed_twice() -> None:
    sampler = ChainSampler(SamplingOptions(temperature=1.0), toy_vocabulary(), [1])
    sampler.close()
    sampler.close()
