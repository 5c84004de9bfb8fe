"""Faults 10 and 11: drafting never costs time that it does not win back. Counted in tokens on known cost curves."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToyModel, fake_backend, position_of, token_of
from hypothesis import given
from hypothesis import strategies as st
from test_planned import FLAT, MODELS, STEEP, STEEPISH, KnownCosts, Planned

from recycle_cpp.backend.cost import LADDER
from recycle_cpp.backend.measure import ExactWidths
from recycle_cpp.bench.curves import MACHINES, named_curve
from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting.drafter import Limits
from recycle_cpp.drafting.knowledge import Knowledge
from recycle_cpp.drafting.planned import PlannedDrafter

CURVES = {"flat": FLAT, "steepish": STEEPISH, "steep": STEEP, **{name: named_curve(name).base for name in MACHINES}}
STEEP_CURVES = [name for name, seconds in CURVES.items() if seconds[1] > 1.3 * seconds[0]]
MAY_LOSE = 1.02


class Phased(ToyModel):
    """A toy that goes round in a circle of tokens 1 to 8 at some positions, and is erratic at all others."""

    def __init__(self, seed: int, *circles: tuple[int, int]) -> None:
        """Take a seed, and the first and last position of each stretch in which the next token is certain."""
        super().__init__(seed, eog=-50)
        self._circles = circles

    def row(self, cells: list[int]) -> np.ndarray:
        position, last = position_of(cells[-1]), token_of(cells[-1])
        if any(first <= position <= end for first, end in self._circles):
            row = np.full(self.n_vocab, -9.0, np.float32) - np.arange(self.n_vocab, dtype=np.float32) / 64
            row[last % 8 + 1] = 9
            return row
        row = super().row(cells) - self._after[last]  # nothing is left but the hash of all that is seen
        row[:9] -= 60
        row[40:] -= 60
        return row


class Echo(ToyModel):
    """A toy that goes round in a circle of tokens 1 to 8 with certainty, and elsewhere is as predictable as any toy."""

    def row(self, cells: list[int]) -> np.ndarray:
        last = token_of(cells[-1])
        if 1 <= last <= 8:
            row = np.full(self.n_vocab, -9.0, np.float32) - np.arange(self.n_vocab, dtype=np.float32) / 64
            row[last % 8 + 1] = 9
            return row
        row = super().row(cells).copy()
        row[:9] -= 60  # what is erratic stays so
        return row


class Timed(Planned):
    """A planned decoder that says what its steps take on a curve, in units of a plain step."""

    def __init__(self, model: ToyModel, curve: str = "flat", knowledge: Knowledge | None = None) -> None:
        super().__init__(model, KnownCosts(CURVES[curve]), knowledge, n_ctx=2000)
        self._seconds = dict(zip(LADDER, CURVES[curve], strict=True))

    def share(self, first: int = 0) -> float:
        """Return the time of the last run's steps from one on, as a share of what plain decoding takes."""
        spent = sum(self._seconds[width] for width in self.widths[first:])
        return spent / (sum(self.emitted[first:]) * self._seconds[1])

    def promise(self, first: int = 0) -> float:
        """Return the tokens promised from a step on, as a share of those emitted."""
        return sum(self.expected[first:]) / sum(self.emitted[first:])

    def step_of(self, token: int) -> int:
        """Return which step emitted the token of this number, counted from 0."""
        return int(np.searchsorted(np.cumsum(self.emitted), token, side="right"))


ERRATIC_PROMPT = [20, 25, 30, 12, 17]


def after_a_repetitive_text(model: ToyModel, first: ToyModel, curve: str, n: int) -> Timed:
    """Return the run of an erratic text by a drafter that has just decoded a repetitive one."""
    knowledge = Knowledge(model.n_vocab)
    repetitive = Timed(first, curve, knowledge)
    repetitive.run([1, 2, 3, 4, 5], max_tokens=400)
    assert curve == "steep" or repetitive.share() < 0.5, "the first text is repetitive"
    timed = Timed(model, curve, knowledge)
    timed.run(ERRATIC_PROMPT, max_tokens=n)
    return timed


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("seed", range(2))
def test_an_unpredictable_text_takes_no_longer_than_plain_decoding(curve: str, seed: int) -> None:
    timed = Timed(Phased(seed), curve)
    timed.run(ERRATIC_PROMPT, max_tokens=400)
    assert timed.share() <= MAY_LOSE


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("seed", range(2))
def test_nor_does_it_after_a_repetitive_one(curve: str, seed: int) -> None:
    timed = after_a_repetitive_text(Phased(seed), Phased(seed, (0, 9999)), curve, 300)
    assert timed.share() <= MAY_LOSE


@pytest.mark.parametrize("curve", STEEP_CURVES)
def test_half_predictable_texts_after_repetitive_ones_take_no_longer_either(curve: str) -> None:
    # Each wide step is a wager: a single text of 300 tokens may lose more than all of them do.
    runs = [after_a_repetitive_text(Echo(seed, eog=-50), Echo(seed, eog=-50), curve, 300) for seed in range(8)]
    assert np.mean([run.share() for run in runs]) <= MAY_LOSE
    assert max(run.share() for run in runs) <= 1.05


@pytest.mark.parametrize("seed", range(4))
def test_nor_does_another_models_text_on_what_the_first_one_taught(seed: int) -> None:
    knowledge = Knowledge(48)
    Timed(MODELS[seed], "steepish", knowledge).run([3, 4, 5] * 20, max_tokens=300)
    other = Timed(MODELS[(seed + 1) % 4], "steepish", knowledge)
    other.run(list(range(39, 9, -1)), max_tokens=300)
    assert other.share() <= MAY_LOSE


FRACTIONS = {"flat": 0.04, "a100-like": 0.05, "3090-like": 0.06, "b200-like": 0.12, "apple-like": 0.45}
FRACTIONS |= {"steepish": 0.25, "xeon-2-cores-smollm2": 0.25, "epyc-2-cores-smollm2": 0.5}


@pytest.mark.parametrize(("curve", "most"), FRACTIONS.items())
def test_a_repetitive_text_takes_a_fraction_of_plain_decodings_time(curve: str, most: float) -> None:
    timed = Timed(Phased(0, (0, 9999)), curve)
    timed.run([1, 2, 3, 4, 5], max_tokens=400)
    assert timed.share() < most


@pytest.mark.parametrize("curve", [name for name in CURVES if name != "steep"])
@pytest.mark.parametrize("seed", range(2))
def test_there_is_no_giving_up_what_becomes_predictable_again_is_drafted_again(curve: str, seed: int) -> None:
    timed = Timed(Phased(seed, (0, 100), (600, 900)), curve)
    prompt = [1, 2, 3]
    timed.run(prompt, max_tokens=790)
    start = timed.step_of(601 - len(prompt))  # the token that stands at 600 decides on the next one
    drafted = next(step for step in range(start, len(timed.widths)) if timed.widths[step] > 1 < timed.emitted[step])
    assert sum(timed.emitted[start:drafted]) <= 10
    assert timed.share(start) < 0.55


@pytest.mark.parametrize("curve", [name for name in CURVES if name != "steep"])
def test_a_long_erratic_stretch_inside_a_text_costs_nothing(curve: str) -> None:
    timed = Timed(Phased(1, (0, 100)), curve)
    timed.run([1, 2, 3], max_tokens=700)
    assert timed.share(timed.step_of(110)) <= MAY_LOSE


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("curve", ["flat", "b200-like", "apple-like", "steepish"])
def test_what_is_promised_is_kept(curve: str, seed: int) -> None:
    timed = Timed(MODELS[seed], curve)
    timed.run(list(range(1, 12)), max_tokens=700)
    assert 0.8 < timed.promise(timed.step_of(200)) < 1.15
    erratic = after_a_repetitive_text(Echo(seed, eog=-50), Echo(seed, eog=-50), curve, 300)
    assert 0.8 < erratic.promise() < 1.2


def test_where_rows_are_free_trees_are_wide() -> None:
    timed = Timed(MODELS[1])
    timed.run(list(range(1, 12)), max_tokens=300)
    assert np.median(timed.widths[10:]) >= 48


class Watched(PlannedDrafter):
    """A planned drafter that keeps copies of its trees."""

    def draft(self, root: int, limits: Limits):
        tree = super().draft(root, limits)
        self.trees = [*getattr(self, "trees", []), (limits, type(tree)(*(array.copy() for array in tree)))]
        return tree


@given(
    seed=st.integers(0, 2**32 - 2),
    width=st.integers(1, 20),
    n_cells=st.integers(20, 400),
    curve=st.sampled_from([*CURVES]),
)
def test_exact_runs_draft_chains_of_exact_widths_and_nothing_else(seed: int, width: int, n_cells: int, curve) -> None:
    rng = np.random.default_rng(seed)
    exact, model = ExactWidths(width, n_cells), MODELS[seed % 4]
    backend, _ = fake_backend(model, n_ctx=300, exact=exact)
    engine, drafter = Engine(backend), Watched(Knowledge(48), KnownCosts(CURVES[curve]))
    prompt = rng.integers(1, 40, 20).tolist()
    engine.prepare(prompt, reuse="plain")
    text = [token for step in engine.steps(Request(drafter, GreedySampler(), 120, exact)) for token in step.tokens]
    assert text == model.plain_text(prompt, GreedySampler(), n_ctx=300, max_tokens=120)[0]
    for limits, tree in drafter.trees:
        assert tree.parents.tolist() == list(range(-1, tree.width - 1)), "a chain"
        assert tree.width <= exact.at(limits.n_past)
        assert tree.width in LADDER


def test_exact_runs_do_draft_so_that_the_test_above_means_something() -> None:
    backend, _ = fake_backend(MODELS[1], n_ctx=300)
    engine, drafter = Engine(backend), Watched(Knowledge(48), KnownCosts(FLAT))
    engine.prepare([1, 2, 3])
    list(engine.steps(Request(drafter, GreedySampler(), 200, ExactWidths(8, 300))))
    assert max(tree.width for _, tree in drafter.trees) == 8
    assert sum(tree.width > 1 for _, tree in drafter.trees) > 50
