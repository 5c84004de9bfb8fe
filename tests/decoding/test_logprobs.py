"""Log probabilities: those of the very row that a token was chosen from, drafted or not."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import HashSampler, ToyModel, fake_backend
from hypothesis import given, settings
from hypothesis import strategies as st

from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.logprobs import LogprobReader
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting.drafter import PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.template import published
from recycle_cpp.types import Step, TokenLogprobs

PROMPT = list(range(1, 12))


def run(model: ToyModel, drafter, sampler, logprobs: int | None, max_tokens: int = 30) -> list[Step]:
    engine = Engine(fake_backend(model, n_ctx=160)[0])
    engine.prepare(PROMPT)
    return list(engine.steps(Request(drafter, sampler, max_tokens, logprobs=logprobs)))


def records(steps: list[Step]) -> list[TokenLogprobs]:
    return [record for step in steps for record in step.logprobs]


def by_numpy(row: np.ndarray) -> np.ndarray:
    row = row.astype(np.float64)
    return row - row.max() - np.log(np.exp(row - row.max()).sum())


@pytest.mark.parametrize("make_sampler", [GreedySampler, HashSampler])
def test_a_drafted_tokens_record_is_what_plain_decoding_says_there(make_sampler) -> None:
    model = ToyModel(3, eog=-50)
    matrix = AdjacencyMatrix(model.n_vocab)
    drafter = TemplateDrafter(matrix, published())
    run(model, drafter, GreedySampler(), None)
    plain, drafted = (run(model, d, make_sampler(), 5) for d in (PlainDrafter(), drafter))
    assert max(step.n_accepted for step in drafted) > 0
    assert records(drafted) == records(plain)
    tokens = [token for step in drafted for token in step.tokens]
    assert [record.token for record in records(drafted)] == tokens
    for n, record in enumerate(records(drafted)):
        row = by_numpy(model.row_after([*PROMPT, *tokens[:n]]))
        best = np.argsort(-row, kind="stable")[:5]
        assert record.logprob == pytest.approx(row[record.token], abs=1e-6)
        assert [token for token, _ in record.top] == best.tolist()
        assert [value for _, value in record.top] == pytest.approx(row[best].tolist(), abs=1e-6)


@settings(max_examples=40)
@given(seed=st.integers(0, 3), n_best=st.sampled_from([0, 1, 3, 48, 60]), max_tokens=st.integers(1, 12))
def test_every_step_has_one_record_per_token_with_as_many_candidates_as_asked_for(seed, n_best, max_tokens) -> None:
    model = ToyModel(seed)
    drafter = TemplateDrafter(AdjacencyMatrix(model.n_vocab), published())
    for step in run(model, drafter, HashSampler(seed), n_best, max_tokens):
        assert [record.token for record in step.logprobs] == list(step.tokens)
        assert {len(record.top) for record in step.logprobs} == {min(n_best, model.n_vocab)}


def test_nothing_is_recorded_unless_asked_for_not_even_after_a_run_that_was() -> None:
    engine = Engine(fake_backend(ToyModel(1, eog=-50))[0])
    engine.prepare(PROMPT)
    for logprobs, wanted in ((2, 1), (None, 0), (0, 1)):
        step = next(iter(engine.steps(Request(PlainDrafter(), GreedySampler(), 3, logprobs=logprobs))))
        assert len(step.logprobs) == wanted


def test_a_token_that_the_model_rules_out_has_no_probability_at_all() -> None:
    row = np.array([0, -np.inf, 0], np.float32)
    record = LogprobReader(3, 3).read(row, 1)
    assert record.logprob == -np.inf
    assert record.top == ((0, pytest.approx(-np.log(2))), (2, pytest.approx(-np.log(2))), (1, -np.inf))
