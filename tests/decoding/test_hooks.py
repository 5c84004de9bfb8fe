"""Logits processors and stop tests see every token once, in order, drafted or not, and break nothing when they fail."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from fakes import EOG, HashSampler, ToyModel, fake_backend, toy_vocabulary

from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.sampling.hooks import HookedSampler
from recycle_cpp.decoding.sampling.samplers import NOTHING, GreedySampler, make_sampler
from recycle_cpp.drafting.drafter import PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.template import published
from recycle_cpp.errors import UsageError
from recycle_cpp.types import GenerateOptions, SamplingOptions

PROMPT = [3, 1, 4, 1, 5]
ROW = np.random.default_rng(0).normal(0, 3, 48).astype(np.float32)


def after_text(tokens: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """A processor whose result depends on every token so far."""
    logits[int(tokens.sum()) % 40] += 3
    return logits


def test_processors_come_in_order_before_the_choice() -> None:
    seen = []

    def lift(tokens, logits):
        seen.append((tokens.tolist(), logits.dtype, logits.tolist()))
        logits[7] = 100
        return logits

    def lift_more(tokens, logits):
        assert logits[7] == 100
        return logits.astype(np.float64) + (np.arange(48) == 8) * 500

    sampler = HookedSampler(GreedySampler(), (lift, lift_more), (), PROMPT)
    row = ROW.copy()
    assert [sampler.sample(row, int(row.argmax())) for _ in range(2)] == [8, 8]
    assert seen == [(PROMPT, np.float32, row.tolist()), ([*PROMPT, 8], np.float32, row.tolist())]
    assert row.tolist() == ROW.tolist()


def test_more_tokens_than_were_foreseen_are_kept() -> None:
    lengths = []
    sampler = HookedSampler(GreedySampler(), (lambda t, row: lengths.append(t.tolist()) or row,), (), PROMPT)
    for _ in range(300):
        sampler.sample(ROW, int(ROW.argmax()))
    assert lengths[299] == PROMPT + [int(ROW.argmax())] * 299


def test_the_tokens_so_far_are_not_the_functions_to_change() -> None:
    def changes(tokens, logits):
        tokens[0] = 9
        return logits

    with pytest.raises(ValueError, match="read-only"):
        HookedSampler(GreedySampler(), (changes,), (), PROMPT).sample(ROW, 0)


@pytest.mark.parametrize(
    "result, what",
    [(None, "NoneType"), ([1.0], "list"), (np.zeros(47, np.float32), r"float32\[47\]"), (np.zeros(48, int), "int64")],
)
def test_a_result_that_is_no_row_is_one_line(result, what: str) -> None:
    sampler = HookedSampler(GreedySampler(), (lambda tokens, row: result,), (), PROMPT)
    with pytest.raises(
        UsageError, match=rf"a logits processor returned {what}.*: let it return the float32\[48\] logits"
    ):
        sampler.sample(ROW, 0)


def test_no_number_is_never_chosen_and_infinity_always() -> None:
    def spoil(tokens, row):
        row[:] = np.nan
        row[5] = -3
        return row

    def force(tokens, row):
        row[6] = np.inf
        return row

    assert HookedSampler(GreedySampler(), (spoil,), (), PROMPT).sample(ROW, 0) == 5
    warm = GenerateOptions(sampling=SamplingOptions(temperature=2.0, top_k=0), logits_processors=(force,))
    assert make_sampler(warm, toy_vocabulary(), PROMPT).sample(ROW, 0) == 6
    nothing = HookedSampler(GreedySampler(), (lambda tokens, row: row - np.float32(np.inf),), (), PROMPT)
    assert nothing.sample(ROW, 0) == NOTHING


def drafted(model: ToyModel, sampler, max_tokens: int | None = None) -> tuple[list[int], str, Engine, int]:
    """Return what an engine emits that drafts from a matrix that knows the way, and how many rows were accepted."""
    backend, _ = fake_backend(model, n_ctx=128)
    engine = Engine(backend)
    drafter = TemplateDrafter(AdjacencyMatrix(model.n_vocab), published())
    for warm in (GreedySampler(), sampler):
        engine.prepare(PROMPT)
        steps = list(engine.steps(Request(drafter, warm, max_tokens or 60)))
    tokens = [token for step in steps for token in step.tokens]
    return tokens, steps[-1].finish_reason, engine, sum(step.n_accepted for step in steps)


@pytest.mark.parametrize("sampling", [SamplingOptions(), SamplingOptions(temperature=0.5, seed=3, repeat_penalty=1.1)])
def test_drafted_text_is_plain_text_with_processors_and_stop_tests(sampling: SamplingOptions) -> None:
    n_accepted = 0
    for seed in range(8):
        model = ToyModel(seed, eog=-50)
        options = GenerateOptions(
            sampling=sampling,
            logits_processors=(after_text,),
            stop_tests=(lambda tokens, row: len(tokens) > 20 and int(tokens[-1]) % 5 == 0,),
        )
        plain = model.plain_text(PROMPT, make_sampler(options, toy_vocabulary(), PROMPT), n_ctx=128, max_tokens=60)
        tokens, reason, _, accepted = drafted(model, make_sampler(options, toy_vocabulary(), PROMPT))
        assert (tokens, reason) == plain
        assert reason == "stop" and EOG not in tokens
        n_accepted += accepted
    assert n_accepted > 20


def test_a_function_that_fails_leaves_the_engine_usable() -> None:
    model = ToyModel(1, eog=-50)

    def fails(tokens, row):
        if len(tokens) == 15:
            raise RuntimeError("the caller's own")
        return row

    backend, context = fake_backend(model, n_ctx=128)
    engine = Engine(backend)
    drafter = TemplateDrafter(AdjacencyMatrix(model.n_vocab), published())
    engine.prepare(PROMPT)
    emitted: list[int] = []
    with pytest.raises(RuntimeError, match="the caller's own"):
        for step in engine.steps(Request(drafter, HookedSampler(GreedySampler(), (fails,), (), PROMPT))):
            emitted += step.tokens
    assert context.cells() == list(enumerate([*PROMPT, *emitted][:-1]))
    engine.prepare(PROMPT)
    text = [token for step in engine.steps(Request(drafter, HashSampler(), 30)) for token in step.tokens]
    assert text == model.plain_text(PROMPT, HashSampler(), n_ctx=128, max_tokens=30)[0]


class EndsAfter(HashSampler):
    """Says that nothing may follow at the call of this number, counted from 0."""

    def __init__(self, n: int) -> None:
        super().__init__(5)
        self._n = n

    def sample(self, logits, best: int) -> int:
        return NOTHING if len(self.chosen) == self._n else super().sample(logits, best)


class Taught(TemplateDrafter):
    """Keeps the tokens that it was taught."""

    def __init__(self, n_vocab: int) -> None:
        super().__init__(AdjacencyMatrix(n_vocab), published())
        self.emitted: list[int] = []

    def update(self, outcome) -> None:
        self.emitted += outcome.emitted
        super().update(outcome)


def test_a_step_behind_which_nothing_follows_teaches_nothing_since_its_last_node_said_nothing() -> None:
    model = ToyModel(2, eog=-50)
    engine = Engine(fake_backend(model, n_ctx=128)[0])
    for n in range(12):
        drafter = Taught(model.n_vocab)
        engine.prepare(PROMPT)
        *taught, last = engine.steps(Request(drafter, EndsAfter(n)))
        assert drafter.emitted == [token for step in taught for token in step.tokens]
        assert last.finish_reason == "stop"


@pytest.mark.parametrize("n", range(12))
@pytest.mark.parametrize("drafts", [False, True])
def test_where_nothing_may_follow_the_answer_ends_and_the_cache_holds_all_of_it(n: int, drafts: bool) -> None:
    model = ToyModel(2, eog=-50)
    backend, context = fake_backend(model, n_ctx=128)
    engine = Engine(backend)
    drafter = TemplateDrafter(AdjacencyMatrix(model.n_vocab), published()) if drafts else PlainDrafter()
    for _ in range(2):
        engine.prepare(PROMPT)
        steps = list(engine.steps(Request(drafter, EndsAfter(n))))
    text = [token for step in steps for token in step.tokens]
    assert (text, "stop") == model.plain_text(PROMPT, EndsAfter(n), n_ctx=128)
    assert len(text) == n
    assert [step.finish_reason for step in steps] == [None] * (len(steps) - 1) + ["stop"]
    whole = [*PROMPT, *text]
    assert engine.tokens == tuple(whole)
    assert context.cells() == list(enumerate(whole))
    assert engine.prepare([*whole, 7, 8]) == 1
    said = [token for step in engine.steps(Request(drafter, GreedySampler(), 9)) for token in step.tokens]
    assert said == model.plain_text([*whole, 7, 8], GreedySampler(), n_ctx=128, max_tokens=9)[0]
    assert engine.prepare(whole) == 0
    assert context.cells() == list(enumerate(whole[:-1]))


def test_a_stop_test_without_a_truth_value_is_told_so_in_one_line() -> None:
    sampler = HookedSampler(GreedySampler(), (), (lambda _tokens, row: row > 0,), PROMPT)
    with pytest.raises(UsageError, match="a stop test returned ndarray: let it return True or False"):
        sampler.sample(ROW, int(ROW.argmax()))


def test_logits_that_float32_cannot_hold_are_cut_without_a_warning() -> None:
    sampler = HookedSampler(GreedySampler(), (lambda _tokens, row: row.astype(np.float64) * 1e300,), (), PROMPT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ROW[sampler.sample(ROW, int(ROW.argmax()))] > 0
