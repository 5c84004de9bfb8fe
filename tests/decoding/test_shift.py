"""A full context goes on without its older half, at the same token whatever is drafted."""

from __future__ import annotations

import pytest
from fakes import HashSampler, ToyModel, fake_backend
from hypothesis import given, settings
from hypothesis import strategies as st

from recycle_cpp.backend.measure import ExactWidths
from recycle_cpp.decoding.engine import LEAST_MOVING, Engine, Request
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting.drafter import PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.template import chain, published
from recycle_cpp.errors import UsageError

MODELS = [ToyModel(seed, eog=-50) for seed in range(3)]
SHAPES = {"plain": None, "tree": published(), "chain": chain(5)}


def engine_and_drafter(model: ToyModel, shape: str, **settings):
    backend, context = fake_backend(model, **settings)
    matrix = AdjacencyMatrix(model.n_vocab)
    drafter = PlainDrafter() if SHAPES[shape] is None else TemplateDrafter(matrix, SHAPES[shape])
    return Engine(backend), drafter, context


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2),
    shape=st.sampled_from(sorted(SHAPES)),
    n_ctx=st.sampled_from([4, 5, 16, 33]),
    n_keep=st.sampled_from([0, 1, 3, 12, 28]),
    n_prompt=st.integers(1, 33),
    max_tokens=st.integers(1, 90),
    make_sampler=st.sampled_from([GreedySampler, HashSampler]),
)
def test_a_run_that_shifts_has_plain_decodings_text(seed, shape, n_ctx, n_keep, n_prompt, max_tokens, make_sampler):
    n_keep = min(n_keep, n_ctx - LEAST_MOVING)
    model, prompt = MODELS[seed], [1 + i % 39 for i in range(min(n_prompt, n_ctx))]
    engine, drafter, context = engine_and_drafter(model, shape, n_ctx=n_ctx)
    for _ in range(2):  # the second time drafts hit
        engine.prepare(prompt)
        steps = list(engine.steps(Request(drafter, make_sampler(), max_tokens, shift_keep=n_keep)))
        text = [token for step in steps for token in step.tokens]
        plain = model.plain_text(prompt, make_sampler(), n_ctx=n_ctx, max_tokens=max_tokens, shift_keep=n_keep)
        assert (text, steps[-1].finish_reason) == plain
        held = [token for _, token in context.cells()]
        assert [position for position, _ in context.cells()] == list(range(len(held)))
        assert tuple(held) == engine.tokens[:-1]
        said = [*prompt, *text]
        assert held[:n_keep] == said[: min(n_keep, len(held))]
        assert said[-1 - len(held[n_keep:]) : -1] == held[n_keep:]


def test_a_long_run_shifts_often_and_drafts_all_the_while() -> None:
    engine, drafter, context = engine_and_drafter(MODELS[0], "tree", n_ctx=64)
    engine.prepare([1, 2, 3])
    steps = list(engine.steps(Request(drafter, GreedySampler(), 600, shift_keep=1)))
    n_shifts = sum(call[0] == "seq_add" for call in context.calls)
    assert n_shifts > 15
    assert sum(step.n_accepted for step in steps[len(steps) // 2 :]) > 50
    assert steps[-1].finish_reason == "length"


def test_exact_chains_stop_at_the_first_shift_since_nothing_was_proven_of_that_order() -> None:
    engine, drafter, context = engine_and_drafter(MODELS[0], "chain", n_ctx=64, exact=ExactWidths(4, 64))
    engine.prepare([1, 2, 3], reuse="fresh")
    n_emitted, wide_before, wide_after = 0, 0, 0
    for step in engine.steps(Request(drafter, GreedySampler(), 200, ExactWidths(4, 64), shift_keep=1)):
        n_emitted += len(step.tokens)
        shifted = any(call[0] == "seq_add" for call in context.calls)
        wide_before += step.width > 1 and not shifted
        wide_after += step.width > 1 and shifted
    assert wide_before > 0
    assert wide_after == 0


@pytest.mark.parametrize("taken_back", [0, 1, 2])
def test_what_is_kept_is_counted_with_the_tokens_that_a_shift_has_dropped(taken_back: int) -> None:
    model, prompt = MODELS[1], [1, 2, 3]
    engine, drafter, context = engine_and_drafter(model, "tree", n_ctx=16)
    engine.prepare(prompt)
    text: list[int] = []
    for step in engine.steps(Request(drafter, GreedySampler(), 40, shift_keep=2)):
        text += step.tokens
    before = engine.tokens
    n_kept = len(prompt) + len(text) - taken_back
    engine.keep(n_kept)
    assert engine.tokens == before[: len(before) - taken_back]
    assert [token for _, token in context.cells()] == list(engine.tokens[:-1])
    engine.keep(3)  # the third token is gone: only what no shift touches can be kept
    assert engine.tokens == (1, 2)
    engine.keep(0)
    assert engine.tokens == ()


def test_what_shifts_have_dropped_is_not_counted_in_the_next_run() -> None:
    engine, drafter, context = engine_and_drafter(MODELS[1], "plain", n_ctx=16)
    engine.prepare([1, 2, 3])
    list(engine.steps(Request(drafter, GreedySampler(), 40, shift_keep=2)))
    engine.prepare([4, 5, 6, 7])
    list(engine.steps(Request(drafter, GreedySampler(), 5)))
    said = engine.tokens
    engine.keep(6)
    assert engine.tokens == said[:6]
    assert [token for _, token in context.cells()] == list(said[:5])


def test_without_shifts_a_full_context_ends_the_run() -> None:
    engine, drafter, _ = engine_and_drafter(MODELS[1], "tree", n_ctx=16)
    engine.prepare([1, 2, 3])
    steps = list(engine.steps(Request(drafter, GreedySampler())))
    assert steps[-1].finish_reason == "length"
    assert sum(len(step.tokens) for step in steps) == 14


def test_a_memory_that_cannot_shift_is_said_before_anything_is_evaluated() -> None:
    engine, drafter, context = engine_and_drafter(MODELS[1], "tree", n_ctx=16, can_shift=False)
    with pytest.raises(UsageError, match="the memory of this model cannot shift: leave --context-shift out"):
        engine.check([1, 2, 3], shift_keep=0)
    engine.prepare([1, 2, 3])
    decodes = context.decodes
    with pytest.raises(UsageError, match="cannot shift"):
        next(engine.steps(Request(drafter, GreedySampler(), shift_keep=0)))
    assert context.decodes == decodes
    engine.check([1, 2, 3])


@pytest.mark.parametrize(("n_ctx", "n_keep", "fix"), [(16, 13, "keep 12 at most"), (3, 0, "raise --ctx-size")])
def test_a_shift_that_keeps_too_much_is_refused_in_one_line(n_ctx: int, n_keep: int, fix: str) -> None:
    engine, _, _ = engine_and_drafter(MODELS[1], "tree", n_ctx=n_ctx)
    with pytest.raises(UsageError, match=f"keeps {n_keep} tokens leaves too little of a context of {n_ctx}: {fix}"):
        engine.check([1], shift_keep=n_keep)
    if n_ctx > 4:
        engine.check([1], shift_keep=n_keep - 1)
