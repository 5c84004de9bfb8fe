"""Best-first draft trees: compiled, run by Python, and a heap of whole paths agree; and growth may end early."""

from __future__ import annotations

import numpy as np
import pytest
import sources_reference as slow
from fakes import as_python, both_ways, write_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_reference import SlowBelief, likeliest_paths
from test_candidates import SEEDS, new_pair, new_scratch
from test_mixing import any_belief

from recycle_cpp.drafting.calibration import Calibration
from recycle_cpp.drafting.kernels import best_first as kernels
from recycle_cpp.drafting.kernels import candidates, mixing, plan
from recycle_cpp.drafting.kernels.suffix import LONGEST
from recycle_cpp.drafting.knowledge import Knowledge

WIDEST = 80


def plan_that_always_grows(width: int) -> plan.Plan:
    return plan.Plan(np.array([1, width], np.int32), np.array([1.0, 1e-9]), 1.0)


class Grown:
    """A tree as the kernel left it."""

    def __init__(self, kernel, knowledge: Knowledge, belief, sequence: list[int], bounds, *, by=None, queue=2048):
        """Grow below the last token of a sequence; by a plan, or as far as it goes."""
        self.nodes = kernels.Nodes(*np.full((3, WIDEST + 1), -99, np.int32), np.full(WIDEST + 1, -99, np.float32))
        waiting = kernels.Queue(*np.full((3, queue), -99, np.int32), np.full(queue, -99, np.float32))
        *before, root = sequence
        text = kernels.Text(np.array([*before, -77], np.int32), len(before), knowledge.suffix.count)
        by = by or plan_that_always_grows(max(bounds.width, 2) + 1)
        self.n = kernel(
            root, bounds, text, knowledge.sources, belief, by, new_scratch(), new_scratch(), waiting, self.nodes
        )
        assert (self.nodes.tokens[self.n :] == -99).all(), "the kernel wrote behind its last node"
        self.probabilities = self.nodes.probabilities[: self.n].tolist()

    def paths(self) -> list[tuple[int, ...]]:
        """Return the tokens from below the root to each node."""
        found: list[tuple[int, ...]] = [()]
        for i in range(1, self.n):
            parent = int(self.nodes.parents[i])
            assert 0 <= parent < i, "parents come first"
            found.append((*found[parent], int(self.nodes.tokens[i])))
        return found


class LookUp:
    """What the kernels of the rooms below say of a context; they have tests of their own."""

    def __init__(self, knowledge: Knowledge, belief, kernel) -> None:
        self._known = knowledge, belief
        is_compiled = hasattr(kernel, "py_func")
        self._find = candidates.find_candidates if is_compiled else as_python(candidates.find_candidates)
        self._mix = mixing.probabilities if is_compiled else as_python(mixing.probabilities)

    def __call__(self, context: list[int]) -> list[tuple[int, np.float32]]:
        knowledge, belief = self._known
        scratch = new_scratch()
        scratch.context[: len(context)] = context
        self._find(knowledge.sources, knowledge.suffix.count, len(context), scratch)
        n, situation = scratch.result.tolist()
        self._mix(n, situation, scratch, belief, scratch.probabilities)
        return list(zip(scratch.tokens[:n].tolist(), scratch.probabilities[:n], strict=True))


def any_sequence(rng: np.random.Generator, pair: slow.Pair) -> list[int]:
    return [*rng.integers(0, pair.n_vocab, rng.integers(0, 8)).tolist(), *pair.any_context(rng)[::-1]]


def row_alone(*probabilities: float) -> tuple[Knowledge, mixing.Belief]:
    """Return knowledge whose row alone speaks, and a belief that gives its ranks these probabilities."""
    belief = Calibration().belief
    belief.weights[:] = [0, 0, 1, 0, 0, 0]
    for rank, probability in enumerate(probabilities):
        first = candidates.row_kind(rank, 0)
        belief.odds[first : first + candidates.N_LEADS] = mixing.log_odds(probability)
    return Knowledge(40, ("row",)), belief


@pytest.mark.parametrize("kernel", both_ways(kernels.draft_best))
def test_a_worked_example_of_a_best_first_tree(kernel) -> None:
    knowledge, belief = row_alone(0.5, 0.375)
    write_rows(knowledge.matrix, [1, 2, 3], [[2, 3, *[-1] * 6], [4, 5, *[-1] * 6], [4, *[-1] * 7]])

    def grow(sequence: list[int], width: int, depth: int, floor: float, is_chain: bool = False) -> Grown:
        return Grown(kernel, knowledge, belief, sequence, kernels.Bounds(width, depth, floor, is_chain))

    grown = grow([1], 9, 9, 0.01)
    assert grown.paths()[:4] == [(), (2,), (3,), (2, 4)]
    assert set(grown.paths()[4:]) == {(2, 5), (3, 4)}, "they tie"
    assert grown.probabilities == pytest.approx([1, 0.5, 0.375, 0.25, 0.1875, 0.1875])
    assert grown.nodes.depths[: grown.n].tolist() == [0, 1, 1, 2, 2, 2]
    assert grow([7, 1], 3, 9, 0.01).n == 3
    assert grow([7, 1], 9, 1, 0.01).paths() == [(), (2,), (3,)]
    assert grow([7, 1], 9, 0, 0.01).n == 1
    assert grow([7, 1], 9, 9, 0.2).n == 4
    assert grow([1, 9], 9, 9, 0.01).n == 1, "nothing is known of 9"
    assert grow([1], 9, 9, 0.01, is_chain=True).paths() == [(), (2,), (2, 4)]
    assert grow([1], 2, 9, 0.01, is_chain=True).paths() == [(), (2,)]


@pytest.mark.parametrize("kernel", both_ways(kernels.draft_best))
@settings(max_examples=120)
@given(
    seed=SEEDS,
    width=st.integers(1, WIDEST),
    depth=st.integers(0, 20),
    floor=st.sampled_from([0.001, 0.03, 0.3]),
    is_chain=st.booleans(),
)
def test_a_tree_is_made_of_the_likeliest_paths(kernel, seed: int, width, depth, floor, is_chain) -> None:
    rng = np.random.default_rng(seed)
    pair, belief = new_pair(rng), any_belief(rng)
    sequence, look_up = any_sequence(rng, pair), LookUp(pair.knowledge, belief, kernel)
    bounds = kernels.Bounds(width, depth, floor, is_chain)
    grown = Grown(kernel, pair.knowledge, belief, sequence, bounds)
    expected = likeliest_paths(sequence[-1], sequence[:-1], look_up, bounds)
    assert grown.probabilities == [probability for _, probability in expected]
    assert grown.probabilities == sorted(grown.probabilities, reverse=True)
    paths = grown.paths()
    assert len(set(paths)) == grown.n <= width, "siblings are distinct"
    assert [len(path) for path in paths] == grown.nodes.depths[: grown.n].tolist()
    assert max(map(len, paths)) <= depth
    assert all(probability >= floor for probability in grown.probabilities)
    # Where paths tie any of them may stand, and nothing else.
    likely = dict(zip(paths, grown.probabilities, strict=True))
    assert all(likely[path] == probability for path, probability in expected if probability > grown.probabilities[-1])
    for path, probability in list(likely.items())[1:]:
        said = dict(look_up([*sequence, *path[:-1]][::-1][:LONGEST]))
        assert np.float32(likely[path[:-1]]) * said[path[-1]] == probability


@given(seed=SEEDS, width=st.integers(2, WIDEST))
def test_a_chain_has_one_child_per_node_and_it_is_the_likeliest(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    pair, belief = new_pair(rng), any_belief(rng)
    sequence, look_up = any_sequence(rng, pair), LookUp(pair.knowledge, belief, kernels.draft_best)
    bounds = kernels.Bounds(width, 99, 0.001, True)
    grown = Grown(kernels.draft_best, pair.knowledge, belief, sequence, bounds)
    assert grown.nodes.parents[: grown.n].tolist() == list(range(-1, grown.n - 1))
    for i in range(1, grown.n):
        path = grown.nodes.tokens[1 : i + 1].tolist()
        said = dict(look_up([*sequence, *path[:-1]][::-1][:LONGEST]))
        assert said[path[-1]] == max(said.values())


@pytest.mark.parametrize("kernel", both_ways(kernels.draft_best))
@given(seed=SEEDS, size=st.integers(1, 30))
def test_a_full_queue_drops_candidates_and_nothing_else(kernel, seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    pair, belief = new_pair(rng), any_belief(rng)
    sequence, bounds = any_sequence(rng, pair), kernels.Bounds(40, 20, 0.001, False)
    grown = Grown(kernel, pair.knowledge, belief, sequence, bounds, queue=size)
    assert grown.n <= 1 + size
    assert len(set(grown.paths())) == grown.n
    whole = Grown(kernel, pair.knowledge, belief, sequence, bounds)
    assert sum(grown.probabilities) <= sum(whole.probabilities) + 1e-6


@pytest.mark.parametrize("kernel", both_ways(kernels.fill_context))
@given(seed=SEEDS, n_before=st.integers(0, 40), n=st.integers(1, 40))
def test_a_context_is_the_path_backwards_and_then_the_text_before_it(kernel, seed: int, n_before: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    parents = [-1, *(int(rng.integers(max(0, i - 2), i)) for i in range(1, n))]
    tokens, before = rng.integers(0, 99, n).tolist(), rng.integers(0, 99, n_before).tolist()
    for node in range(n):
        path, at = [], node
        while at >= 0:
            path.append(tokens[at])
            at = parents[at]
        context = np.full(LONGEST + 1, -99, np.int32)
        arrays = (np.array(tokens, np.int32), np.array(parents, np.int32), np.array([*before, -77], np.int32))
        length = kernel(node, *arrays, n_before, context)
        assert context[:length].tolist() == [*path, *before[::-1]][:LONGEST]
        assert (context[length:] == -99).all()


@pytest.mark.parametrize("kernel", both_ways(kernels.learn_path))
@given(seed=SEEDS, n_tail=st.integers(1, 40), n=st.integers(1, 40), is_drafted=st.booleans())
def test_a_verified_path_is_learned_from_at_each_of_its_positions(
    kernel, seed: int, n_tail: int, n: int, is_drafted: bool
) -> None:
    rng = np.random.default_rng(seed)
    pair, belief = new_pair(rng), any_belief(rng)
    tail, truths = rng.integers(0, 24, n_tail).tolist(), rng.integers(0, 24, n).tolist()
    expected = SlowBelief(belief)
    for i, truth in enumerate(truths):
        found, situation = pair.slow.candidates([*tail, *truths[:i]][::-1][:LONGEST])
        numbers = [(token, [slow.NUMBER_OF[kind] for kind in kinds]) for token, kinds in found]
        expected.learn(truth, numbers, situation)
    text = kernels.Text(np.array([*tail, -77], np.int32), n_tail, pair.knowledge.suffix.count)
    at_root = new_scratch()
    if is_drafted:  # then what was found below the root is asked for again
        at_root.context[: min(n_tail, LONGEST)] = tail[::-1][:LONGEST]
        sources = pair.knowledge.sources
        candidates.find_candidates(sources, pair.knowledge.suffix.count, min(n_tail, LONGEST), at_root)
    kernel(np.array(truths, np.int32), text, pair.knowledge.sources, belief, at_root, new_scratch())
    assert belief.trials.tolist() == expected.trials
    assert belief.hits.tolist() == expected.hits
    assert np.allclose(belief.odds, expected.odds, rtol=1e-3, atol=1e-3)
    assert np.allclose(belief.weights, expected.weights, rtol=1e-2, atol=1e-2)


def any_plan(rng: np.random.Generator) -> plan.Plan:
    """Return costs that rise in a line, by steps or at random, over any ladder, and any trust."""
    ladder = [1, *sorted(rng.choice(np.arange(2, WIDEST + 1), int(rng.integers(0, 14)), replace=False).tolist())]
    slope = rng.choice([0.0, 0.005, 0.03, 0.1, 0.5])
    seconds = 1 + slope * (np.array(ladder) - 1)
    if rng.uniform() < 0.5:
        seconds *= rng.uniform(0.7, 1.3, len(ladder))
    if rng.uniform() < 0.2:
        seconds = np.ceil(2 * seconds) / 2
    return plan.Plan(np.array(ladder, np.int32), 0.01 * seconds, float(rng.choice([1.0, rng.uniform()])))


@settings(max_examples=400)
@given(
    seed=SEEDS,
    depth=st.integers(0, 20),
    width=st.integers(1, WIDEST),
    floor=st.sampled_from([0.001, 0.05]),
    is_chain=st.booleans(),
)
def test_growth_that_ends_early_chooses_what_growth_to_the_full_width_would(seed, depth, width, floor, is_chain):
    rng = np.random.default_rng(seed)
    pair, belief, by = new_pair(rng), any_belief(rng), any_plan(rng)
    sequence, bounds = any_sequence(rng, pair), kernels.Bounds(width, depth, floor, is_chain)
    early = Grown(kernels.draft_best, pair.knowledge, belief, sequence, bounds, by=by)
    whole = Grown(kernels.draft_best, pair.knowledge, belief, sequence, bounds)
    assert early.n <= whole.n
    assert early.paths() == whole.paths()[: early.n]
    assert early.probabilities == whole.probabilities[: early.n]
    chosen, expected, _ = plan.choose_width(early.nodes.probabilities, early.n, by)
    best, most, _ = plan.choose_width(whole.nodes.probabilities, whole.n, by)
    if chosen != best:  # equally good but for rounding
        rungs = by.ladder.tolist()
        speeds = expected / by.seconds[rungs.index(chosen)], most / by.seconds[rungs.index(best)]
        assert speeds[0] == pytest.approx(speeds[1], rel=1e-9)
    else:
        assert expected == most


def test_growth_does_end_early_where_width_cannot_pay_so_that_the_test_above_means_something() -> None:
    rng, shorter = np.random.default_rng(5), 0
    for _ in range(60):
        pair, belief, by = new_pair(rng), any_belief(rng), any_plan(rng)
        sequence, bounds = any_sequence(rng, pair), kernels.Bounds(WIDEST, 20, 0.001, False)
        early = Grown(kernels.draft_best, pair.knowledge, belief, sequence, bounds, by=by)
        whole = Grown(kernels.draft_best, pair.knowledge, belief, sequence, bounds)
        shorter += early.n < whole.n and plan.choose_width(whole.nodes.probabilities, whole.n, by)[0] > 1
    assert shorter > 5
