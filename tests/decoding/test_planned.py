"""The planned drafter on the fake backend: plain decoding's text, at a width that pays, calibrated while it runs."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import HashSampler, ToyModel, fake_backend
from hypothesis import given, settings
from hypothesis import strategies as st
from test_lossless import any_prompt

from recycle_cpp.backend.cost import LADDER, CostCurve, Curve, interpolate
from recycle_cpp.backend.llama import MAX_PATHS
from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting.drafter import Limits
from recycle_cpp.drafting.knowledge import Knowledge
from recycle_cpp.drafting.planned import TAIL, PlannedDrafter
from recycle_cpp.errors import BackendError

SEEDS = st.integers(0, 2**32 - 2)
FLAT = (1.0,) * len(LADDER)
STEEP = tuple(1.0 if width == 1 else 10.0 * width for width in LADDER)
# A laptop's, of SmolLM2.
STEEPISH = interpolate({1: 1.0, 2: 1.9, 4: 2.2, 8: 2.8, 16: 4.2, 80: 15.0}, LADDER)
MODELS = [ToyModel(seed, eog=-50) for seed in range(4)]


class KnownCosts:
    """Costs that never change.

    Attributes:
        observed: (width, n_past) of each step.
    """

    def __init__(self, seconds=FLAT, ladder: tuple[int, ...] = LADDER) -> None:
        self.ladder = ladder
        self.observed: list[tuple[int, int]] = []
        self._seconds = np.array(seconds, np.float64)

    def seconds(self, n_past: int) -> np.ndarray:
        return self._seconds

    def observe(self, width: int, n_past: int, seconds: float) -> None:
        assert seconds > 0
        self.observed.append((width, n_past))


class Planned:
    """Decodes prompt after prompt with one drafter, each run compared with plain decoding.

    Attributes:
        expected: tokens that each step promised.
        emitted: tokens that each step emitted.
        widths: of each step.
    """

    def __init__(self, model: ToyModel, costs=None, knowledge: Knowledge | None = None, **settings) -> None:
        self.model = model
        backend, self.context = fake_backend(model, **settings)
        self.engine = Engine(backend)
        self.knowledge = knowledge or Knowledge(model.n_vocab)
        self.costs = costs or KnownCosts()
        self.drafter = PlannedDrafter(self.knowledge, self.costs)
        self.expected, self.emitted, self.widths = list[float](), list[int](), list[int]()

    def run(self, prompt: list[int], make_sampler=GreedySampler, max_tokens: int | None = None) -> list[int]:
        self.engine.prepare(prompt)
        self.expected, self.emitted, self.widths = [], [], []
        text: list[int] = []
        for step in self.engine.steps(Request(self.drafter, make_sampler(), max_tokens)):
            self.expected.append(self.drafter.expected)
            self.emitted.append(len(step.tokens))
            self.widths.append(step.width)
            text += step.tokens
        plain = self.model.plain_text(prompt, make_sampler(), n_ctx=self.context.n_ctx, max_tokens=max_tokens)
        assert text == plain[0]
        assert self.context.cells() == list(enumerate([*prompt, *text][:-1]))
        self.knowledge.matrix.check_integrity()
        return text

    @property
    def calibration(self) -> float:
        """Tokens promised in the last run, as a share of those emitted."""
        return sum(self.expected) / sum(self.emitted)


def any_costs(rng: np.random.Generator, kind: str):
    if kind == "live":
        base = tuple(0.001 * float(c) for c in STEEPISH)
        return CostCurve(Curve(LADDER, base, (1e-6,) * len(LADDER), 1e-4))
    if kind == "random":
        ladder = (1, *sorted(rng.choice(np.arange(2, 64), int(rng.integers(0, 9)), replace=False).tolist()))
        return KnownCosts(rng.exponential(1, len(ladder)) + 0.1, ladder)
    return KnownCosts({"flat": FLAT, "steep": STEEP, "steepish": STEEPISH}[kind])


@settings(max_examples=150)
@given(
    seed=SEEDS,
    kind=st.sampled_from(["flat", "steep", "steepish", "random", "live"]),
    n_ctx=st.sampled_from([4, 16, 64, 64, 160]),
    n_batch=st.sampled_from([1, 4, 8, 96]),
    eog=st.sampled_from([-50.0, 0.0, 3.0]),
    turns=st.lists(
        st.tuples(st.none() | st.integers(1, 12), st.sampled_from([GreedySampler, HashSampler])), min_size=1, max_size=4
    ),
)
def test_the_text_is_plain_decodings_for_any_costs_limits_and_turns(seed, kind, n_ctx, n_batch, eog, turns) -> None:
    rng = np.random.default_rng(seed)
    model = ToyModel(seed % 4, eog=eog)
    planned = Planned(model, any_costs(rng, kind), n_ctx=n_ctx, n_batch=n_batch)
    said: list[int] = []
    for max_tokens, make_sampler in turns:
        prompt = any_prompt(rng, n_ctx, said)
        said = [*prompt, *planned.run(prompt, make_sampler, max_tokens)]
        assert max(planned.widths) <= n_batch


@pytest.mark.parametrize("n_prompt", range(50, 65))
def test_near_the_end_of_the_context_a_planned_run_ends_with_length_and_no_error(n_prompt: int) -> None:
    planned = Planned(MODELS[1], n_ctx=64)
    planned.run(list(range(1, 30)))
    assert len(planned.run([1 + i % 39 for i in range(n_prompt)])) == 65 - n_prompt


@pytest.mark.parametrize("seed", range(4))
def test_where_rows_are_free_drafts_hit_and_promise_what_they_keep(seed: int) -> None:
    planned = Planned(MODELS[seed], n_ctx=700)
    planned.run(list(range(1, 12)), max_tokens=600)
    assert sum(planned.emitted) - len(planned.emitted) > 100
    assert 0.75 < planned.calibration < 1.25
    assert max(planned.widths) > 8


def test_where_wider_steps_never_pay_every_step_is_plain() -> None:
    planned = Planned(MODELS[1], KnownCosts(STEEP), n_ctx=300)
    planned.run([1, 2, 3] * 10, max_tokens=200)
    assert set(planned.widths) == {1}
    assert set(planned.expected) == {1.0}


def test_plain_steps_learn_as_well() -> None:
    knowledge = Knowledge(48)
    planned = Planned(MODELS[1], KnownCosts(STEEP), knowledge, n_ctx=300)
    planned.run([1, 2, 3] * 10, max_tokens=200)
    assert knowledge.matrix.n_rows > 20
    assert knowledge.calibration.belief.trials.sum() > 200
    eager = Planned(MODELS[1], KnownCosts(FLAT), knowledge, n_ctx=300)
    eager.run(list(range(5, 15)), max_tokens=60)
    assert sum(eager.emitted[:20]) > 22, "what plain steps have learned is used from the first wide step on"


def test_costs_hear_of_every_step_and_where_its_root_stood() -> None:
    planned = Planned(MODELS[1], n_ctx=200)
    planned.run(list(range(1, 12)), max_tokens=50)
    ends = 10 + np.cumsum([0, *planned.emitted[:-1]])
    assert planned.costs.observed == list(zip(planned.widths, ends.tolist(), strict=True))


@pytest.mark.parametrize("n_new", [0, 1, 5])
def test_a_run_that_goes_on_adds_only_what_is_new_to_the_history(n_new: int) -> None:
    planned = Planned(MODELS[1], n_ctx=200)
    prompt = list(range(1, 12))
    text = planned.run(prompt, max_tokens=20)
    suffix = planned.knowledge.suffix
    assert suffix.count == 1 + len(prompt) + len(text)
    before = suffix.count
    planned.drafter.begin([*prompt, *text, *range(20, 20 + n_new)])
    # Behind a border the last common token comes again, so that pairs across it are found.
    assert suffix.count == before + 1 + 1 + n_new


def test_another_prompt_is_added_whole() -> None:
    planned = Planned(MODELS[1], n_ctx=200)
    planned.run(list(range(1, 12)), max_tokens=20)
    before = planned.knowledge.suffix.count
    planned.drafter.begin([30, 31, 32])
    assert planned.knowledge.suffix.count == before + 4


@pytest.mark.parametrize("n_vocab", [48, 49_152, 151_936, 262_144])
def test_all_that_is_learned_stays_below_two_million_bytes(n_vocab: int) -> None:
    knowledge = Knowledge(n_vocab)
    sources = knowledge.matrix.nbytes, knowledge.suffix.nbytes, knowledge.frequent.nbytes
    calibrations = knowledge.calibration.nbytes, knowledge.sampled.nbytes
    assert knowledge.nbytes == sum(sources) + sum(calibrations) < 2_000_000


def test_reset_forgets_all_that_was_learned() -> None:
    planned, fresh = Planned(MODELS[1], n_ctx=300), Planned(MODELS[1], n_ctx=300)
    prompt = list(range(1, 12))
    fresh.run(prompt, max_tokens=80)
    planned.run([9, 8, 7] * 9, max_tokens=100)
    planned.knowledge.reset()
    assert (planned.knowledge.matrix.n_rows, planned.knowledge.suffix.count) == (0, 0)
    planned.run(prompt, max_tokens=80)
    assert (planned.widths, planned.expected) == (fresh.widths, fresh.expected)


def test_after_a_reset_a_prompt_that_was_known_is_added_again() -> None:
    planned = Planned(MODELS[1], n_ctx=300)
    prompt = list(range(1, 12))
    planned.run(prompt, max_tokens=5)
    planned.knowledge.reset()
    planned.drafter.begin(prompt)
    assert planned.knowledge.suffix.count == 1 + len(prompt)


@pytest.mark.parametrize("n_steps", range(6))
def test_a_planned_run_may_be_given_up_after_any_step(n_steps: int) -> None:
    planned = Planned(MODELS[1], n_ctx=300)
    planned.run(list(range(1, 12)), max_tokens=60)
    planned.engine.prepare([7, 8, 9, 10])
    steps = planned.engine.steps(Request(planned.drafter, GreedySampler(), 40))
    for _ in range(n_steps):
        next(steps)
    steps.close()
    planned.run([7, 8, 9, 10], max_tokens=40)
    planned.run(list(planned.engine.tokens), max_tokens=40)


@pytest.mark.parametrize("cells_stay", [False, True])
@pytest.mark.parametrize("n_steps", range(4))
def test_an_evaluation_that_fails_leaves_the_drafter_usable(n_steps: int, cells_stay: bool) -> None:
    planned = Planned(MODELS[1], n_ctx=300)
    planned.run(list(range(1, 12)), max_tokens=60)
    prompt = [7, 8, 9, 10]
    planned.engine.prepare(prompt)
    steps = planned.engine.steps(Request(planned.drafter, GreedySampler(), 40))
    said = [token for _ in range(n_steps) for token in next(steps).tokens]
    planned.context.plan_failure(BackendError("planned"), cells_stay=cells_stay)
    with pytest.raises(BackendError, match="planned"):
        next(steps)
    assert planned.drafter._sequence == [*prompt, *said]
    planned.run([*prompt, *said], max_tokens=40)
    planned.run(prompt, max_tokens=40)


@pytest.mark.parametrize("fail_at", range(6))
def test_a_sampler_that_fails_leaves_the_drafter_usable(fail_at: int) -> None:
    planned = Planned(MODELS[2], n_ctx=300)
    planned.run(list(range(1, 12)), max_tokens=60)
    planned.engine.prepare([7, 8, 9])
    with pytest.raises(RuntimeError, match="the sampler fails"):
        list(planned.engine.steps(Request(planned.drafter, HashSampler(fail_at=fail_at))))
    planned.run([7, 8, 9], HashSampler, 40)


def test_a_text_longer_than_the_drafters_tail_is_no_trouble() -> None:
    planned = Planned(MODELS[3], n_ctx=640)
    planned.run([5, 6, 7], max_tokens=2 * TAIL + 60)
    assert planned.drafter._sequence == list(planned.engine.tokens)
    tail = planned.drafter._tail[: planned.drafter._n_tail].tolist()
    assert tail == list(planned.engine.tokens)[-len(tail) :]


def test_a_tree_of_the_widest_rung_never_has_more_leaf_paths_than_sequences() -> None:
    # Uniform knowledge makes the bushiest tree: many leaves on few inner nodes.
    knowledge = Knowledge(48)
    rng = np.random.default_rng(0)
    for token in range(48):
        top = rng.permutation(48)[None, :8].astype(np.int32)
        knowledge.matrix.update(np.array([token], np.int32), top, np.zeros((1, 8), np.float32))
    knowledge.calibration.belief.odds[:] = 0.0
    knowledge.calibration.belief.weights[:] = [0, 0, 0, 0, 0, -1.5]  # eight of 0.18 add up to more than 1
    tree = PlannedDrafter(knowledge, KnownCosts()).draft(3, Limits(0, 96, 20))
    assert tree.width >= 64
    assert tree.leaf_count[0] <= MAX_PATHS
