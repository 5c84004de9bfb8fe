"""The planner's arithmetic: compiled, run by Python, and trying everything agree."""

from __future__ import annotations

import numpy as np
import planning_reference as slow
import pytest
from fakes import both_ways, make_tree, path_tokens, random_parents
from hypothesis import given
from hypothesis import strategies as st

from recycle_cpp.drafting.kernels import plan as kernels

SEEDS = st.integers(0, 2**32 - 1)
TRUSTS = st.sampled_from([0.0, 0.25, 0.5, 1.0])


def any_tree(rng: np.random.Generator, n: int) -> list[float]:
    """Return falling probabilities, root first: multiples of 1/1024, which add up without rounding."""
    return [1.0, *(-np.sort(-rng.integers(0, 1025, n - 1) / 1024)).tolist()]


def any_seconds(rng: np.random.Generator, ladder: list[int]) -> list[float]:
    return (0.01 * (1 + rng.uniform(0, 0.5) * (np.array(ladder) - 1)) * rng.uniform(0.9, 1.1, len(ladder))).tolist()


def as_plan(ladder: list[int], seconds: list[float], trust: float = 1.0) -> kernels.Plan:
    return kernels.Plan(np.array(ladder, np.int32), np.array(seconds), trust)


@pytest.mark.parametrize("kernel", both_ways(kernels.choose_width))
def test_a_worked_example_of_a_plan(kernel) -> None:
    probabilities = np.array([1, 0.5, 0.25, 0.25, 0.125, 0.125], np.float32)

    def choose(n: int, seconds: list[float], trust: float = 1.0) -> tuple[int, float, int]:
        return kernel(probabilities, n, as_plan([1, 2, 4, 8], seconds, trust))

    assert choose(6, [1.0, 1.2, 1.4, 1.5]) == (4, 2.0, 4), "eight rows cannot be filled"
    assert choose(3, [1.0, 1.2, 1.4, 1.5]) == (2, 1.5, 2)
    assert choose(1, [1.0, 1.2, 1.4, 1.5]) == (1, 1.0, 1)
    assert choose(6, [1.0, 1.2, 1.7, 9.0]) == (2, 1.5, 2)
    assert choose(6, [1.0, 1.37, 9.0, 9.0]) == (1, 1.0, 2), "a gain of 9.5 % is within the margin, and watched"
    assert choose(6, [1.0, 1.36, 9.0, 9.0]) == (2, 1.5, 2), "a gain of 10.3 % is not"
    assert choose(6, [1.0, 1.66, 9.0, 9.0]) == (1, 1.0, 2), "0.904 of plain decoding's speed is watched"
    assert choose(6, [1.0, 1.67, 9.0, 9.0]) == (1, 1.0, 1), "0.898 is not"
    assert choose(6, [1.0, 1.2, 1.25, 9.0], 0.5) == (4, 1.5, 4), "half of what is drafted is believed"
    assert choose(6, [1.0, 1.0, 1.0, 1.0], 0.0) == (1, 1.0, 2), "without trust nothing is gained, but watched"


@pytest.mark.parametrize("kernel", both_ways(kernels.choose_width))
@given(seed=SEEDS, n=st.integers(1, 90), widths=st.sets(st.integers(2, 80), max_size=12), trust=TRUSTS)
def test_the_width_chosen_is_the_best_of_all(kernel, seed: int, n: int, widths: set[int], trust: float) -> None:
    rng = np.random.default_rng(seed)
    ladder = [1, *sorted(widths)]
    probabilities, seconds = any_tree(rng, n), any_seconds(rng, ladder)
    chosen = kernel(np.array([*probabilities, 99], np.float32), n, as_plan(ladder, seconds, trust))
    assert chosen == slow.choose_width(probabilities, ladder, seconds, trust)


@pytest.mark.parametrize("kernel", both_ways(kernels.can_still_pay))
@given(
    seed=SEEDS,
    n=st.integers(1, 80),
    next_one=st.integers(0, 1024),
    widths=st.sets(st.integers(2, 80), max_size=12),
    trust=TRUSTS,
)
def test_a_tree_can_still_pay_if_its_next_node_repeated_would(kernel, seed, n, next_one, widths, trust) -> None:
    rng = np.random.default_rng(seed)
    ladder = [1, *sorted(widths)]
    probabilities, seconds = any_tree(rng, n), any_seconds(rng, ladder)
    next_one = min(next_one / 1024, probabilities[-1])
    array = np.array([*probabilities, 99], np.float32)
    expected = slow.can_still_pay(probabilities, next_one, ladder, seconds, trust)
    assert kernel(n, next_one, array, as_plan(ladder, seconds, trust)) == expected


@pytest.mark.parametrize("kernel", both_ways(kernels.can_still_pay))
def test_a_worked_example_of_growth_that_ends(kernel) -> None:
    probabilities = np.array([1, 0.5, 0.25, 0.25], np.float32)
    by = as_plan([1, 2, 4], [1.0, 1.2, 1.5])
    # Two rows give 1.25 per second; four may give (1.5 + 2 p) / 1.5, which is more from p = 0.1875 on.
    assert kernel(2, 0.19, probabilities, by)
    assert not kernel(2, 0.18, probabilities, by)
    assert not kernel(4, 0.25, probabilities, by), "no rung is wider"
    assert not kernel(1, 0.9, probabilities, as_plan([1], [1.0]))


def run_compare(kernel, width: int, watched: int, truths: list[int], nodes, record: np.ndarray) -> None:
    tokens, depths, probabilities = zip(*nodes, strict=True)
    arrays = np.array(tokens, np.int32), np.array(depths, np.int32), np.array(probabilities, np.float32)
    kernel(width, watched, np.array(truths, np.int32), *arrays, record)


@pytest.mark.parametrize("kernel", both_ways(kernels.compare_promise))
def test_a_worked_example_of_a_promise(kernel) -> None:
    nodes = [(9, 0, 1.0), (5, 1, 0.5), (6, 2, 0.25), (7, 1, 0.125)]
    record = np.array([100.0, 200.0])
    run_compare(kernel, 3, 4, [5, 8], nodes, record)
    assert record.tolist() == pytest.approx([0.931 * 100 + 1, 0.931 * 200 + 0.75])
    record = np.array([100.0, 200.0])
    run_compare(kernel, 1, 4, [7], nodes, record)
    assert record.tolist() == pytest.approx([0.931 * 100 + 1, 0.931 * 200 + 0.625]), "of a watched tree the first level"
    record = np.array([100.0, 200.0])
    run_compare(kernel, 1, 1, [7], nodes, record)
    assert record.tolist() == pytest.approx([98, 196]), "where nothing was watched the record fades"


@pytest.mark.parametrize("kernel", both_ways(kernels.compare_promise))
@given(seed=SEEDS, n=st.integers(1, 30), drawn=st.tuples(st.integers(0, 99), st.integers(0, 99)))
def test_promises_and_what_came_of_them_equal_the_reference(kernel, seed: int, n: int, drawn: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    width, watched = 1 + drawn[0] % n, 1 + drawn[1] % n
    depths = [0, *rng.integers(1, 4, n - 1).tolist()]
    tokens = rng.permutation(40)[:n].tolist()
    nodes = list(zip(tokens, depths, any_tree(rng, n), strict=True))
    truths = rng.integers(0, 40, 1 if width == 1 else rng.integers(1, width + 1)).tolist()
    before = rng.uniform(0, 50, 2)
    promised, accepted = slow.promise_and_gain(width, watched, truths, nodes)
    fades = 0.98 * (0.95 if promised > 0 else 1.0)
    expected = fades * before + (np.array([accepted, promised]) if promised > 0 else 0)
    record = before.copy()
    run_compare(kernel, width, watched, truths, nodes, record)
    assert record == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kernel", both_ways(kernels.forget_pruned))
@given(seed=SEEDS, width=st.integers(1, 40))
def test_only_nodes_on_paths_that_are_left_keep_their_promise(kernel, seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    tokens, parents = rng.permutation(1000)[:width].astype(np.int32), np.array(random_parents(rng, width), np.int32)
    tree = make_tree(tokens, parents)
    out = set(tokens[1:][rng.uniform(size=width - 1) < 0.3].tolist())
    paths = [path_tokens(tree, node) for node in range(width)]
    left = [node for node in range(width) if not out & set(paths[node])]
    row = {node: i for i, node in enumerate(left)}
    kept_parents = np.array([row[tree.parents[node]] if node else -1 for node in left], np.int32)
    probabilities = np.ones(width + 1, np.float32)
    kernel(tree.tokens[left], kept_parents, tokens, parents, probabilities)
    stays = {int(tree.tokens[node]) for node in left}
    assert probabilities[:width].tolist() == [float(token in stays) for token in tokens.tolist()]
    assert probabilities[width] == 1
