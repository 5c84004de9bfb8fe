"""Whatever is drafted, the text is plain decoding's, and the cache holds that text and nothing else."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from fakes import EOG, HashSampler, ToyModel, fake_backend, random_template, toy_vocabulary, write_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from recycle_cpp.backend.measure import ExactWidths
from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.metrics import RunMeter
from recycle_cpp.decoding.sampling.chain import ChainSampler
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting.drafter import PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.template import TreeTemplate, chain, published
from recycle_cpp.types import SamplingOptions

SEEDS = st.integers(0, 2**32 - 2)
SHAPES = st.one_of(
    st.just(published()),
    st.integers(1, 8).map(chain),
    st.tuples(SEEDS, st.integers(1, 96)).map(lambda drawn: random_template(np.random.default_rng(drawn[0]), drawn[1])),
)


def garbage_matrix(rng: np.random.Generator, n_vocab: int, share: float) -> AdjacencyMatrix:
    """Return a matrix whose rows are random: a share of the vocabulary, with repeats and holes."""
    matrix = AdjacencyMatrix(n_vocab)
    n = int(share * n_vocab)
    tokens = rng.permutation(n_vocab)[:n]
    write_rows(matrix, tokens, rng.integers(-1, n_vocab, (n, 8)))
    return matrix


class Runs:
    """Decodes prompt after prompt with one engine, and checks each run against plain decoding."""

    def __init__(self, model: ToyModel, shape: TreeTemplate, matrix: AdjacencyMatrix | None = None, **settings) -> None:
        self.model = model
        self.backend, self.context = fake_backend(model, **settings)
        self.engine = Engine(self.backend)
        self.matrix = matrix or AdjacencyMatrix(model.n_vocab)
        self.drafter = TemplateDrafter(self.matrix, shape)
        self.n_accepted = 0
        self.prompt: list[int] = []
        self.text: list[int] = []

    def check(self, prompt: list[int], make_sampler=GreedySampler, max_tokens: int | None = None) -> list[int]:
        """Decode, compare everything that can be seen, and return the text."""
        held = [token for _, token in self.context.cells()]
        decodes, rows = self.context.decodes, self.context.rows
        evaluated = self.engine.prepare(prompt)
        common = next((i for i, (a, b) in enumerate(zip(held, prompt[:-1], strict=False)) if a != b), None)
        kept = min(len(held), len(prompt) - 1) if common is None else common
        assert evaluated == len(prompt) - 1 - kept
        sampler = make_sampler()
        meter = RunMeter(evaluated, 0.0)
        steps = list(self.engine.steps(Request(self.drafter, sampler, max_tokens)))
        for step in steps:
            meter.add(step)
        text = [token for step in steps for token in step.tokens]
        expected, reason = self.model.plain_text(
            prompt, make_sampler(), n_ctx=self.context.n_ctx, max_tokens=max_tokens
        )
        assert text == expected
        assert [step.finish_reason for step in steps] == [None] * (len(steps) - 1) + [reason]
        self.check_cache(prompt, text)
        chunks = ceil(evaluated / self.context.n_batch)
        assert self.context.decodes - decodes == len(steps) + chunks
        assert self.context.rows - rows == sum(step.width for step in steps) + evaluated
        timings = meter.timings(len(text))
        assert (timings.predicted_n, timings.steps, timings.prompt_n) == (len(text), len(steps), evaluated)
        assert timings.draft_n == self.context.rows - rows - evaluated - len(steps)
        assert timings.draft_n_accepted == len(text) - len(steps)
        self.n_accepted += timings.draft_n_accepted
        self.prompt, self.text = prompt, text
        return text

    def check_cache(self, prompt: list[int], text: list[int]) -> None:
        """Check that the cache holds all but the last token, each once, and that the engine knows."""
        tokens = [*prompt, *text]
        assert self.engine.tokens == tuple(tokens)
        assert self.context.cells() == list(enumerate(tokens[:-1]))


def any_prompt(rng: np.random.Generator, n_ctx: int, previous: list[int]) -> list[int]:
    """Return a prompt: a new one, near the end of the context or not, or one that goes on from the last turn."""
    kind = rng.integers(3)
    size = int(rng.integers(max(1, n_ctx - 14), n_ctx + 1) if kind == 0 else rng.integers(1, n_ctx // 2))
    start = previous[: int(rng.integers(len(previous) + 1))] if kind == 2 else []
    return [*start, *rng.integers(1, 40, size).tolist()][:n_ctx]


@settings(max_examples=300)
@given(
    seed=SEEDS,
    shape=SHAPES,
    n_ctx=st.sampled_from([4, 16, 64, 64, 160]),
    n_batch=st.sampled_from([1, 4, 8, 96]),
    eog=st.sampled_from([-50.0, 0.0, 3.0]),
    turns=st.lists(
        st.tuples(st.none() | st.integers(1, 12), st.sampled_from([GreedySampler, HashSampler])), min_size=1, max_size=4
    ),
)
def test_the_text_is_plain_decodings_for_any_matrix_template_limits_and_turns(
    seed: int, shape: TreeTemplate, n_ctx: int, n_batch: int, eog: float, turns
) -> None:
    rng = np.random.default_rng(seed)
    model = ToyModel(seed % 4, eog=eog)
    runs = Runs(model, shape, garbage_matrix(rng, model.n_vocab, rng.uniform()), n_ctx=n_ctx, n_batch=n_batch)
    for max_tokens, make_sampler in turns:
        prompt = any_prompt(rng, n_ctx, [*runs.prompt, *runs.text])
        runs.check(prompt, make_sampler, max_tokens)
        runs.matrix.check_integrity()


@pytest.mark.parametrize("n_prompt", range(50, 65))
@pytest.mark.parametrize("shape", [published(), chain(8)], ids=["tree", "chain"])
def test_near_the_end_of_the_context_a_run_ends_with_length_and_no_error(n_prompt: int, shape: TreeTemplate) -> None:
    model = ToyModel(1, eog=-50)
    runs = Runs(model, shape, n_ctx=64)
    runs.check(list(range(1, 30)))  # fills the matrix
    text = runs.check([1 + i % 39 for i in range(n_prompt)])
    assert len(text) == 65 - n_prompt
    assert len(runs.context.cells()) == 64


@pytest.mark.parametrize("n_batch", [4, 8])
def test_a_tree_is_trimmed_to_the_batch(n_batch: int) -> None:
    runs = Runs(ToyModel(1, eog=-50), published(), n_ctx=160, n_batch=n_batch)
    runs.check(list(range(1, 20)), max_tokens=60)
    runs.check(list(range(1, 20)), max_tokens=60)
    assert max(step.width for step in runs.engine.steps(Request(runs.drafter, GreedySampler(), 20))) == n_batch
    assert runs.n_accepted > 0


@pytest.mark.parametrize("max_tokens", range(1, 13))
def test_no_run_emits_more_than_it_may_even_where_all_drafts_hit(max_tokens: int) -> None:
    runs = Runs(ToyModel(2, eog=-50), published(), n_ctx=160)
    prompt = list(range(1, 12))
    runs.check(prompt, max_tokens=40)
    assert len(runs.check(prompt, max_tokens=max_tokens)) == max_tokens
    assert runs.n_accepted > 10


def text_that_ends(number: int) -> tuple[ToyModel, list[int], list[int]]:
    """Return a model, a prompt, and its plain text: without repeats, and ended by EOG.

    The length is such that a chain of 8 rows that always hits drafts the end, and more behind it.
    """
    for seed in range(number, 10_000, 50):
        model, prompt = ToyModel(seed, eog=1.5), [1 + (seed + i) % 39 for i in range(8)]
        text, reason = model.plain_text(prompt, GreedySampler(), n_ctx=30)
        unique = len({prompt[-1], *text}) == 1 + len(text)
        if reason == "stop" and unique and len(text) >= 3 and len(text) % 8 not in (0, 7):
            return model, prompt, text
    raise AssertionError("no seed gives such a text")


@pytest.mark.parametrize("number", range(8))
def test_an_end_of_generation_token_inside_a_drafted_path_ends_text_and_cache_exactly_there(number: int) -> None:
    model, prompt, text = text_that_ends(number)
    runs = Runs(model, chain(8), n_ctx=100)
    said = [prompt[-1], *text, 7, 8, 9]
    candidates = np.repeat(np.array(said[1:], np.int32)[:, None], 8, axis=1)
    write_rows(runs.matrix, said[:-1], candidates)
    drafted, draft = [], runs.drafter.draft
    runs.drafter.draft = lambda root, limits: drafted.append(draft(root, limits)) or drafted[-1]
    assert runs.check(prompt) == text
    assert runs.n_accepted > 0
    assert EOG in drafted[-1].tokens.tolist()[1:-1], "the end was not drafted, so the test says nothing"
    assert EOG not in [token for _, token in runs.context.cells()]
    more = [*prompt, *text, 9, 8, 7]
    assert runs.engine.prepare(more) == 3  # the EOG token, 9 and 8; 7 is pending
    runs.check(more, max_tokens=5)


@settings(max_examples=60)
@given(seed=SEEDS, shape=SHAPES, sampling=st.sampled_from(["warm", "penalised", "warm and penalised"]))
def test_llama_cpps_own_chain_gives_the_text_of_plain_decoding(seed: int, shape: TreeTemplate, sampling: str) -> None:
    rng = np.random.default_rng(seed)
    model = ToyModel(seed % 4, eog=-1)
    options = SamplingOptions(
        temperature=0.8 if "warm" in sampling else 0.0,
        repeat_penalty=1.3 if "penalised" in sampling else 1.0,
        seed=seed,
    )
    runs = Runs(model, shape, garbage_matrix(rng, model.n_vocab, 0.5), n_ctx=100)
    for _ in range(2):
        prompt = rng.integers(1, 40, 10).tolist()
        runs.check(prompt, lambda prompt=prompt: ChainSampler(options, toy_vocabulary(), prompt), max_tokens=25)


def test_the_penalty_and_the_seed_change_the_text_so_that_the_tests_above_mean_something() -> None:
    model, prompt = ToyModel(1, eog=-50), list(range(1, 12))
    texts = [
        model.plain_text(prompt, ChainSampler(options, toy_vocabulary(), prompt), n_ctx=100, max_tokens=25)[0]
        for options in (
            SamplingOptions(repeat_penalty=1.0001),
            SamplingOptions(repeat_penalty=1.3),
            SamplingOptions(temperature=0.8, seed=1),
            SamplingOptions(temperature=0.8, seed=2),
        )
    ]
    assert len({tuple(text) for text in texts}) == 4


@settings(max_examples=60)
@given(seed=SEEDS, shape=SHAPES, max_tokens=st.integers(1, 40))
def test_a_sampler_is_asked_once_per_emitted_token_in_order(seed: int, shape: TreeTemplate, max_tokens: int) -> None:
    model = ToyModel(seed % 4)
    runs = Runs(model, shape, garbage_matrix(np.random.default_rng(seed), model.n_vocab, 0.9), n_ctx=100)
    samplers: list[HashSampler] = []

    def make() -> HashSampler:
        samplers.append(HashSampler(seed))
        return samplers[-1]

    text = runs.check([1 + seed % 39, 5, 9], make, max_tokens)
    assert samplers[0].chosen == text


def test_recycled_candidates_hit_often_enough_to_test_anything() -> None:
    runs = Runs(ToyModel(3, eog=-50), published(), n_ctx=500)
    runs.check(list(range(1, 10)))
    assert 150 < runs.n_accepted < 450


@settings(max_examples=100)
@given(seed=SEEDS, width=st.integers(1, 8), n_cells=st.integers(0, 120), modes=st.lists(st.booleans(), max_size=5))
def test_an_exact_run_is_untouched_by_the_rounding_of_the_runs_before_it(
    seed: int, width: int, n_cells: int, modes: list[bool]
) -> None:
    rng = np.random.default_rng(seed)
    model = ToyModel(seed % 4, eog=-50)
    exact = ExactWidths(width, n_cells)
    backend, _ = fake_backend(model, n_ctx=160, exact=exact)
    engine, matrix = Engine(backend), garbage_matrix(rng, model.n_vocab, 0.5)
    wide, narrow = TemplateDrafter(matrix, published()), TemplateDrafter(matrix, chain(8))
    prompt = rng.integers(1, 40, 20).tolist()
    for is_exact in [*modes, True]:
        drafter = [narrow, PlainDrafter()][rng.integers(2)] if is_exact else wide
        limit = ExactWidths(1, 0) if isinstance(drafter, PlainDrafter) else exact
        engine.prepare(prompt, reuse="plain" if is_exact else "all")
        steps = list(engine.steps(Request(drafter, GreedySampler(), 10, limit if is_exact else None)))
        text = [token for step in steps for token in step.tokens]
        if is_exact:
            assert text == model.plain_text(prompt, GreedySampler(), n_ctx=160, max_tokens=10)[0]
        prompt = [*prompt, *text[: rng.integers(11)], *rng.integers(1, 40, rng.integers(1, 4)).tolist()]


def test_an_inexact_run_does_round_and_an_exact_one_evaluates_again_only_what_was_rounded() -> None:
    model = ToyModel(1, eog=-50)
    backend, context = fake_backend(model, n_ctx=160, exact=ExactWidths(2, 160))
    engine, drafter = Engine(backend), TemplateDrafter(AdjacencyMatrix(model.n_vocab), published())
    prompt = list(range(1, 12))
    plain = model.plain_text(prompt, GreedySampler(), n_ctx=160, max_tokens=40)[0]
    engine.prepare(prompt)
    steps = list(engine.steps(Request(drafter, GreedySampler(), 40)))
    text = [token for step in steps for token in step.tokens]
    assert text != plain
    narrow = next(i for i, step in enumerate(steps) if step.width > 1)
    n_exact = sum(len(step.tokens) for step in steps[:narrow])
    prompt = [*prompt, *text]
    assert engine.prepare(prompt, reuse="plain") == len(text) - n_exact
    assert engine.prepare(prompt, reuse="plain") == 0
    assert engine.prepare(prompt) == 0
    assert context.cells() == list(enumerate(prompt[:-1]))
