"""The engine between and beyond its steps: runs cut short, failures, what is kept, what is refused."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from fakes import EOG, FakeContext, HashSampler, ToyModel, fake_backend, toy_vocabulary
from hypothesis import given, settings
from hypothesis import strategies as st

from recycle_cpp.backend.tree import TreeBackend
from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.metrics import RunMeter
from recycle_cpp.decoding.sampling.samplers import GreedySampler, make_sampler
from recycle_cpp.drafting.drafter import PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.template import published
from recycle_cpp.errors import BackendError, CancelledError, PromptTooLongError, UsageError
from recycle_cpp.types import GenerateOptions, PhaseTimes, SamplingOptions, Step

PROMPT = list(range(1, 12))
OTHER = [*range(1, 8), *range(30, 20, -1)]
N_CTX = 160


class FailingDrafter(TemplateDrafter):
    """Raises in its n-th draft or update."""

    def __init__(self, matrix: AdjacencyMatrix, method: str, fail_at: int) -> None:
        super().__init__(matrix, published())
        self._method, self._left = method, fail_at

    def _count(self, method: str) -> None:
        if method == self._method:
            self._left -= 1
            if self._left < 0:
                raise RuntimeError(f"the drafter fails in {method}")

    def draft(self, root, limits):
        self._count("draft")
        return super().draft(root, limits)

    def update(self, outcome) -> None:
        self._count("update")
        super().update(outcome)


MODELS = [ToyModel(seed, eog=-50) for seed in range(3)]


class Bench:
    """An engine over a toy, warmed up, so that drafts hit."""

    def __init__(self, seed: int = 1, **settings) -> None:
        self.model = MODELS[seed]
        backend, self.context = fake_backend(self.model, n_ctx=N_CTX, **settings)
        self.engine = Engine(backend)
        self.matrix = AdjacencyMatrix(self.model.n_vocab)
        self.drafter = TemplateDrafter(self.matrix, published())
        self.run(PROMPT)

    def run(self, prompt: list[int], max_tokens: int = 30) -> list[int]:
        self.engine.prepare(prompt)
        return [t for s in self.engine.steps(Request(self.drafter, GreedySampler(), max_tokens)) for t in s.tokens]

    def plain(self, prompt: list[int], max_tokens: int = 30) -> list[int]:
        return self.model.plain_text(prompt, GreedySampler(), n_ctx=N_CTX, max_tokens=max_tokens)[0]

    def check_after(self, prompt: list[int], emitted: list[int]) -> None:
        """Check the cache after these tokens, and that this and another prompt are then answered right."""
        tokens = [*prompt, *emitted]
        assert self.context.cells() == list(enumerate(tokens[:-1]))
        assert self.engine.tokens == tuple(tokens)
        assert self.run(tokens) == self.plain(tokens)
        assert self.run(OTHER) == self.plain(OTHER)


@pytest.mark.parametrize("n_steps", range(6))
def test_a_consumer_may_go_away_after_any_step(n_steps: int) -> None:
    bench = Bench()
    bench.engine.prepare(OTHER)
    steps = bench.engine.steps(Request(bench.drafter, GreedySampler(), 40))
    emitted = [token for _ in range(n_steps) for token in next(steps).tokens]
    steps.close()
    assert len(emitted) > n_steps or n_steps < 3
    bench.check_after(OTHER, emitted)


def run_until_it_fails(bench: Bench, request: Request) -> list[int]:
    bench.engine.prepare(OTHER)
    emitted: list[int] = []
    with pytest.raises((RuntimeError, BackendError), match=r"fails|planned"):
        for step in bench.engine.steps(request):
            emitted += step.tokens
    return emitted


@pytest.mark.parametrize("fail_at", range(8))
def test_a_sampler_that_fails_leaves_the_cache_as_after_the_last_step(fail_at: int) -> None:
    bench = Bench()
    emitted = run_until_it_fails(bench, Request(bench.drafter, HashSampler(fail_at=fail_at)))
    assert len(emitted) <= fail_at
    bench.check_after(OTHER, emitted)


@pytest.mark.parametrize("method", ["draft", "update"])
@pytest.mark.parametrize("fail_at", range(4))
def test_a_drafter_that_fails_leaves_the_cache_as_after_the_last_step(method: str, fail_at: int) -> None:
    bench = Bench()
    emitted = run_until_it_fails(bench, Request(FailingDrafter(bench.matrix, method, fail_at), GreedySampler()))
    assert len(emitted) >= fail_at
    bench.check_after(OTHER, emitted)


@pytest.mark.parametrize("cells_stay", [False, True])
@pytest.mark.parametrize("n_steps", range(3))
def test_an_evaluation_that_fails_leaves_the_cache_as_after_the_last_step(n_steps: int, cells_stay: bool) -> None:
    bench = Bench()
    bench.engine.prepare(OTHER)
    steps = bench.engine.steps(Request(bench.drafter, GreedySampler()))
    emitted = [token for _ in range(n_steps) for token in next(steps).tokens]
    bench.context.plan_failure(BackendError("planned"), cells_stay=cells_stay)
    with pytest.raises(BackendError, match="planned"):
        next(steps)
    bench.check_after(OTHER, emitted)


@pytest.mark.parametrize("cells_stay", [False, True])
def test_a_prompt_that_fails_keeps_what_it_had_in_common(cells_stay: bool) -> None:
    bench = Bench()
    bench.context.plan_failure(KeyboardInterrupt(), cells_stay=cells_stay)
    with pytest.raises(KeyboardInterrupt):
        bench.engine.prepare(OTHER)
    assert bench.context.cells() == list(enumerate(OTHER[:7]))
    assert bench.engine.prepare(OTHER) == len(OTHER) - 1 - 7
    assert bench.run(OTHER) == bench.plain(OTHER)


def test_logits_that_are_no_numbers_are_an_error_and_leave_the_cache_as_before() -> None:
    class Broken(ToyModel):
        def row(self, seen) -> np.ndarray:
            return np.full(self.n_vocab, np.nan, np.float32)

    for n_vocab in (48, 700):  # the second has tokens behind its last whole chunk
        context = FakeContext(Broken(n_vocab=n_vocab))
        engine = Engine(TreeBackend(context, lambda token: token == EOG, context.n_ctx, 96))
        engine.prepare(PROMPT)
        with pytest.raises(BackendError, match=r"no numbers as logits \(row 0 of 1\)"):
            list(engine.steps(Request(PlainDrafter(), GreedySampler(), 5)))
        assert context.cells() == list(enumerate(PROMPT[:-1]))


@pytest.mark.parametrize("n_vocab", [1, 3, 8])
def test_a_vocabulary_smaller_than_an_adjacency_row_is_no_trouble(n_vocab: int) -> None:
    model = ToyModel(n_vocab=n_vocab, eog=-50)
    backend, _ = fake_backend(model)
    matrix = AdjacencyMatrix(n_vocab)
    engine = Engine(backend)
    engine.prepare([0])
    steps = engine.steps(Request(TemplateDrafter(matrix, published()), HashSampler(), 20))
    text = [token for step in steps for token in step.tokens]
    assert text == model.plain_text([0], HashSampler(), n_ctx=64, max_tokens=20)[0]
    for token in range(n_vocab):
        row = matrix.row(token)
        assert row is None or sorted(row.tolist()) == [-1] * (8 - n_vocab) + list(range(n_vocab))


@settings(max_examples=40)
@given(seed=st.integers(0, 2), n_kept=st.integers(1, 41))
def test_what_is_kept_goes_on_as_plain_decoding_would(seed: int, n_kept: int) -> None:
    bench = Bench(seed)
    tokens = [*PROMPT, *bench.run(PROMPT)]
    bench.engine.keep(n_kept)
    assert bench.engine.tokens == tuple(tokens[:n_kept])
    assert bench.context.cells() == list(enumerate(tokens[: n_kept - 1]))
    steps = bench.engine.steps(Request(bench.drafter, GreedySampler(), 12))
    assert [token for step in steps for token in step.tokens] == bench.plain(tokens[:n_kept], 12)


def test_keeping_nothing_empties_the_cache() -> None:
    bench = Bench()
    bench.engine.keep(0)
    assert (bench.engine.tokens, bench.context.cells()) == ((), [])
    assert bench.engine.prepare(PROMPT) == len(PROMPT) - 1


def test_keeping_more_than_there_is_changes_nothing() -> None:
    bench = Bench()
    before = bench.engine.tokens, bench.context.cells()
    bench.engine.keep(1000)
    assert (bench.engine.tokens, bench.context.cells()) == before


def test_a_prompt_that_cannot_be_used_is_refused_and_the_cache_stays() -> None:
    bench = Bench()
    before = bench.context.cells()
    with pytest.raises(UsageError, match="empty"):
        bench.engine.prepare([])
    with pytest.raises(PromptTooLongError, match=f"161 tokens, the context {N_CTX}"):
        bench.engine.prepare([1] * (N_CTX + 1))
    assert bench.context.cells() == before
    assert bench.run([1] * N_CTX) == bench.plain([1] * N_CTX)


@pytest.mark.parametrize("n_chunks", [0, 1, 2])
def test_a_prompt_that_is_cancelled_keeps_what_it_had_in_common_and_the_next_request_is_right(n_chunks: int) -> None:
    bench = Bench(n_batch=3)
    cancel = threading.Event()
    decode, prompt = bench.context.decode_prompt, OTHER * 3

    def cancelling(tokens, first, given) -> None:
        assert given is cancel
        cancelling.calls += 1
        if cancelling.calls > n_chunks:
            cancel.set()
        decode(tokens, first, given)

    cancelling.calls = 0
    bench.context.decode_prompt = cancelling
    with pytest.raises(CancelledError, match="cancelled"):
        bench.engine.prepare(prompt, cancel=cancel)
    assert cancelling.calls == n_chunks + 1, "it goes on after the cancellation"
    assert bench.context.cells() == list(enumerate(prompt[:7]))
    assert bench.engine.tokens == tuple(prompt[:7])
    bench.context.decode_prompt = decode
    with pytest.raises(CancelledError):  # an event that is set already lets nothing be evaluated
        bench.engine.prepare(prompt, cancel=cancel)
    assert bench.engine.prepare(prompt, cancel=threading.Event()) == len(prompt) - 1 - 7
    assert bench.run(prompt) == bench.plain(prompt)
    assert bench.run(OTHER) == bench.plain(OTHER)


def test_the_same_prompt_again_evaluates_nothing_before_its_first_step() -> None:
    bench = Bench()
    decodes = bench.context.decodes
    assert bench.engine.prepare(PROMPT) == 0
    assert bench.context.decodes == decodes
    assert bench.context.cells() == list(enumerate(PROMPT[:-1]))


def test_plain_decoding_is_the_same_loop_at_width_1() -> None:
    bench = Bench()
    bench.engine.prepare(OTHER)
    steps = list(bench.engine.steps(Request(PlainDrafter(), GreedySampler(), 9)))
    assert [(step.width, len(step.tokens), step.n_accepted) for step in steps] == [(1, 1, 0)] * 9
    assert [token for step in steps for token in step.tokens] == bench.plain(OTHER, 9)
    assert all(min(step.times) >= 0 and step.times.total >= step.times.decode for step in steps)


def test_a_meter_adds_up_what_steps_say() -> None:
    meter = RunMeter(prompt_n=7, prompt_seconds=0.25)
    for tokens, width in (((1, 2, 3), 81), ((4,), 1), ((5, 6), 8)):
        meter.add(Step(tokens, width, PhaseTimes(0.125, 0.25, 4.0, 0.5, 1.0, 2.0, 8.0), expected=1.5))
    meter.spend(16.0)
    meter.spend(32.0)
    timings = meter.timings(5)
    assert (timings.prompt_n, timings.prompt_ms, timings.predicted_n, timings.predicted_ms) == (7, 250, 5, 48_000)
    assert (timings.draft_n, timings.draft_n_accepted, timings.steps, timings.mean_width) == (87, 3, 3, 30)
    assert timings.widths == {1: 1, 8: 1, 81: 1}
    assert (timings.host_ms, timings.expected_n) == (3 * 11_875, 4.5)
    assert timings.mean_accepted_tokens == pytest.approx(5 / 3)
    assert timings.predicted_per_second == pytest.approx(5 / 48)
    nothing = RunMeter(0, 0.0).timings(0)
    assert (nothing.mean_width, nothing.mean_accepted_tokens, nothing.predicted_per_second) == (0, 0, 0)


def test_only_the_plain_argmax_needs_no_chain() -> None:
    assert isinstance(make_sampler(GenerateOptions(), toy_vocabulary(), PROMPT), GreedySampler)
    for options in (SamplingOptions(temperature=0.1), SamplingOptions(repeat_penalty=1.1)):
        sampler = make_sampler(GenerateOptions(sampling=options), toy_vocabulary(), PROMPT)
        assert not isinstance(sampler, GreedySampler)
        sampler.close()
        sampler.close()


def test_the_seed_that_llama_cpp_takes_for_a_fresh_one_is_refused() -> None:
    with pytest.raises(UsageError, match="seed is 4294967295; give a whole number from 0 to 4294967294"):
        SamplingOptions(temperature=1, seed=2**32 - 1)
    model = ToyModel(1, eog=-50)
    texts = []
    for _ in range(2):
        options = GenerateOptions(sampling=SamplingOptions(temperature=2, seed=2**32 - 2))
        sampler = make_sampler(options, toy_vocabulary(), PROMPT)
        texts.append(model.plain_text(PROMPT, sampler, n_ctx=60))
    assert texts[0] == texts[1]


class Recurrent(FakeContext):
    """Forgets all or nothing."""

    def seq_rm(self, seq: int, first: int, last: int) -> None:
        if first > 0:
            raise BackendError("this model's memory cannot forget a part")
        super().seq_rm(seq, first, last)


def test_a_memory_that_forgets_all_or_nothing_answers_a_second_prompt() -> None:
    model = ToyModel(1, eog=-50)
    engine = Engine(TreeBackend(Recurrent(model, n_ctx=N_CTX), lambda token: token == EOG, N_CTX, 96))
    for prompt in (PROMPT, OTHER):  # they begin with the same 7 tokens
        engine.prepare(prompt)
        steps = engine.steps(Request(PlainDrafter(), GreedySampler(), 5))
        text = [token for step in steps for token in step.tokens]
        assert text == model.plain_text(prompt, GreedySampler(), n_ctx=N_CTX, max_tokens=5)[0]


def test_an_exact_answer_keeps_nothing_decoded_after_a_prompt_that_was_given_up_and_forgotten() -> None:
    model, cancel = ToyModel(1, eog=-50), threading.Event()
    context = Recurrent(model, n_ctx=N_CTX, n_batch=4)
    engine = Engine(TreeBackend(context, lambda token: token == EOG, N_CTX, 96))
    engine.prepare(PROMPT, reuse="fresh")
    cancel.set()
    with pytest.raises(CancelledError):
        engine.prepare([*PROMPT, 7, 8], cancel=cancel)
    assert context.cells() == [], "it could not forget a part"
    engine.prepare(PROMPT[:5])
    list(engine.steps(Request(PlainDrafter(), GreedySampler(), 6)))
    whole = engine.tokens
    assert len(whole) == len(PROMPT), "as many cells as the first prompt had"
    assert engine.prepare(whole, reuse="fresh") == len(whole) - 1


def test_what_choosing_costs_is_kept_from_what_widths_cost() -> None:
    class Slow(GreedySampler):
        def sample(self, logits, best: int) -> int:
            time.sleep(0.02)
            return best

    class Timed(PlainDrafter):
        def __init__(self) -> None:
            super().__init__()
            self.seconds: list[float] = []

        def observe(self, width: int, n_past: int, seconds: float) -> None:
            self.seconds.append(seconds)

    bench, drafter = Bench(), Timed()
    bench.engine.prepare(PROMPT)
    list(bench.engine.steps(Request(drafter, Slow(), 5)))
    assert len(drafter.seconds) == 5
    assert min(drafter.seconds) < 0.02
