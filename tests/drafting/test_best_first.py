"""Best-first draft trees and the planner: compiled, run by Python, and slow references agree."""

from __future__ import annotations

import numpy as np
import pytest
import sources_reference as slow
from fakes import both_ways
from hypothesis import given
from hypothesis import strategies as st
from test_candidates import SEEDS, Learned, new_scratch

from recycle_cpp.drafting.calibration import Calibration
from recycle_cpp.drafting.kernels import best_first as kernels
from recycle_cpp.drafting.kernels import plan
from recycle_cpp.drafting.planned import QUEUE, Knowledge


class Grown:
    """A tree as the kernel left it."""

    def __init__(self, kernel, knowledge: Knowledge, counts, root: int, before: list[int], limits) -> None:
        width, depth, floor = limits
        self.nodes = kernels.Nodes(*np.full((3, width + 1), -99, np.int32), np.full(width + 1, -99, np.float32))
        queue = kernels.Queue(*np.full((3, QUEUE), -99, np.int32), np.full(QUEUE, -99, np.float32))
        tail = np.array([*before, -77], np.int32)
        arrays = (knowledge.sources, counts, new_scratch(), queue, self.nodes)
        self.n = kernel(root, width, depth, floor, tail, len(before), knowledge.suffix.count, *arrays)
        assert (self.nodes.tokens[self.n :] == -99).all(), "the kernel wrote behind its last node"

    def paths(self) -> list[tuple[int, ...]]:
        """Return the tokens from below the root to each node."""
        found: list[tuple[int, ...]] = [()]
        for i in range(1, self.n):
            parent = int(self.nodes.parents[i])
            assert 0 <= parent < i, "parents come first"
            found.append((*found[parent], int(self.nodes.tokens[i])))
        return found


def any_counts(rng: np.random.Generator):
    """Return counts with random probabilities; never two equal ones."""
    counts = Calibration().counts
    counts.probability[:] = rng.uniform(0.0, rng.choice([0.1, 0.5, 1.0]), len(counts.probability))
    return counts


@pytest.mark.parametrize("kernel", both_ways(kernels.draft_best))
def test_a_worked_example_of_a_best_first_tree(kernel) -> None:
    knowledge = Knowledge(40)
    top = np.array([[2, 3, *[-1] * 6], [4, 5, *[-1] * 6], [4, *[-1] * 7]], np.int32)
    knowledge.matrix.update(np.array([1, 2, 3], np.int32), top, np.tile(-np.arange(8, dtype=np.float32), (3, 1)))
    counts = Calibration().counts
    # The first of a row leads by 1, which is class 2; so is the distance of the second. 3 has no second candidate.
    for kind, probability in ((("row", 0, 2), 0.5), (("row", 1, 2), 0.375), (("row", 0, 5), 0.75)):
        counts.probability[slow.bucket((*kind, "none"))] = probability
    grown = Grown(kernel, knowledge, counts, 1, [], (9, 9, 0.01))
    assert grown.paths() == [(), (2,), (3,), (3, 4), (2, 4), (2, 5)]
    assert grown.nodes.probabilities[: grown.n].tolist() == [1, 0.5, 0.375, 0.28125, 0.25, 0.1875]
    assert grown.nodes.depths[: grown.n].tolist() == [0, 1, 1, 2, 2, 2]
    assert Grown(kernel, knowledge, counts, 1, [], (3, 9, 0.01)).n == 3
    assert Grown(kernel, knowledge, counts, 1, [], (9, 1, 0.01)).paths() == [(), (2,), (3,)]
    assert Grown(kernel, knowledge, counts, 1, [], (9, 0, 0.01)).n == 1
    assert Grown(kernel, knowledge, counts, 1, [], (9, 9, 0.2)).n == 5
    assert Grown(kernel, knowledge, counts, 9, [], (9, 9, 0.01)).n == 1


@pytest.mark.parametrize("kernel", both_ways(kernels.draft_best))
@given(
    seed=SEEDS,
    width=st.integers(1, 80),
    depth=st.integers(0, 20),
    floor=st.sampled_from([0.0041, 0.03, 0.3]),
    n_before=st.integers(0, 20),
)
def test_a_tree_is_made_of_the_likeliest_paths(kernel, seed: int, width, depth, floor, n_before) -> None:
    rng = np.random.default_rng(seed)
    learned, counts = Learned(rng), any_counts(rng)
    text = learned.suffix.everything
    before = text[len(text) - n_before :] if n_before else []
    before = [token for token in before if token >= 0]
    root = int(rng.integers(24))
    grown = Grown(kernel, learned.knowledge, counts, root, before, (width, depth, floor))
    expected = slow.likeliest_paths(root, before, learned.look_up, counts.probability, width, depth, floor)
    probabilities = grown.nodes.probabilities[: grown.n].tolist()
    assert probabilities == [probability for _, probability in expected]
    assert probabilities == sorted(probabilities, reverse=True)
    paths = grown.paths()
    assert len(set(paths)) == grown.n, "siblings are distinct"
    assert [len(path) for path in paths] == grown.nodes.depths[: grown.n].tolist()
    assert max(map(len, paths)) <= depth
    assert all(probability >= floor for probability in probabilities)
    # Where paths tie any of them may stand, and nothing else.
    likely = dict(zip(paths, probabilities, strict=True))
    least = probabilities[-1]
    assert all(likely[path] == probability for path, probability in expected if probability > least)
    for path, probability in list(likely.items())[1:]:
        kinds = dict(learned.look_up([*before, root, *path[:-1]][::-1][:16]))
        assert np.float32(likely[path[:-1]]) * counts.probability[slow.bucket(kinds[path[-1]])] == probability


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
        context = np.full(17, -99, np.int32)
        arrays = (np.array(tokens, np.int32), np.array(parents, np.int32), np.array([*before, -77], np.int32))
        length = kernel(node, *arrays, n_before, context)
        assert context[:length].tolist() == [*path, *before[::-1]][:16]
        assert (context[length:] == -99).all()


@pytest.mark.parametrize("kernel", both_ways(kernels.learn_path))
@given(seed=SEEDS, n_tail=st.integers(1, 30), n=st.integers(1, 20))
def test_a_verified_path_counts_all_candidates_at_each_of_its_positions(kernel, seed: int, n_tail: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    learned, counts = Learned(rng), Calibration().counts
    tail, truths = rng.integers(0, 24, n_tail).tolist(), rng.integers(0, 24, n).tolist()
    trials, hits = np.zeros((2, len(counts.trials)), int)
    for i, truth in enumerate(truths):
        for token, kind in learned.look_up([*tail, *truths[:i]][::-1][:16]):
            trials[slow.bucket(kind)] += 1
            hits[slow.bucket(kind)] += token == truth
    knowledge = learned.knowledge
    arrays = (np.array([*tail, -77], np.int32), n_tail, np.array(truths, np.int32))
    kernel(*arrays, knowledge.suffix.count, knowledge.sources, counts, new_scratch())
    assert counts.trials.tolist() == trials.tolist()
    assert counts.hits.tolist() == hits.tolist()


@pytest.mark.parametrize("kernel", both_ways(plan.choose_width))
@given(
    seed=SEEDS,
    n=st.integers(1, 90),
    widths=st.sets(st.integers(2, 80), max_size=12),
    margin=st.sampled_from([0.0, 0.03, 0.5]),
)
def test_the_width_chosen_is_the_best_of_all(kernel, seed: int, n: int, widths: set[int], margin: float) -> None:
    rng = np.random.default_rng(seed)
    ladder = [1, *sorted(widths)]
    # Multiples of 1/1024 add up without rounding.
    probabilities = [1.0, *(-np.sort(-rng.integers(0, 1025, n - 1) / 1024)).tolist()]
    seconds = (0.01 * (1 + rng.uniform(0, 0.5) * (np.array(ladder) - 1)) * rng.uniform(0.9, 1.1, len(ladder))).tolist()
    array = np.array([*probabilities, 99], np.float32)
    chosen = kernel(array, n, np.array(ladder, np.int32), np.array(seconds), margin)
    assert chosen == slow.best_width(probabilities, ladder, seconds, margin)


@pytest.mark.parametrize("kernel", both_ways(plan.choose_width))
def test_a_worked_example_of_a_plan(kernel) -> None:
    probabilities = np.array([1, 0.5, 0.25, 0.25, 0.125, 0.125], np.float32)
    ladder = np.array([1, 2, 4, 8], np.int32)

    def choose(n: int, seconds: list[float], margin: float = 0.0) -> tuple[int, float]:
        return kernel(probabilities, n, ladder, np.array(seconds), margin)

    assert choose(6, [1.0, 1.2, 1.4, 1.5]) == (4, 2.0), "eight rows cannot be filled"
    assert choose(3, [1.0, 1.2, 1.4, 1.5]) == (2, 1.5)
    assert choose(1, [1.0, 1.2, 1.4, 1.5]) == (1, 1.0)
    assert choose(6, [1.0, 1.2, 1.7, 9.0]) == (2, 1.5)
    assert choose(6, [1.0, 1.6, 2.1, 9.0]) == (1, 1.0)
    assert choose(6, [1.0, 1.46, 9.0, 9.0], 0.03) == (1, 1.0), "a gain of 2.7 % is within the margin"
    assert choose(6, [1.0, 1.45, 9.0, 9.0], 0.03) == (2, 1.5), "a gain of 3.4 % is not"
    assert choose(6, [1.0, 1.45, 1.94, 9.0], 0.03) == (2, 1.5), "among wider steps the faster one counts"
