"""The compiled kernels of the drafting room, the same code run by Python, and slow references agree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from drafting_reference import SlowMatrix, draft, preorder
from fakes import both_ways, falling, random_parents, random_template, write_rows
from hypothesis import example, given
from hypothesis import strategies as st

from recycle_cpp.drafting import template
from recycle_cpp.drafting.kernels import fixed as kernels
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.template import TreeTemplate

EDGE_WIDTHS = [*range(1, 6), *range(7, 10), *range(15, 18), *range(31, 34), *range(63, 66), 81]
SEEDS = st.integers(0, 2**32 - 1)
INF = math.inf


def run_draft(kernel, root: int, width: int, depth: int, shape: TreeTemplate, matrix: AdjacencyMatrix):
    tokens, parents, depths = np.full((3, shape.width), -99, np.int32)
    slot_node = np.full(shape.width, -99, np.int32)
    arrays = (shape.parent, shape.rank, matrix.row_of, matrix.rows, slot_node, tokens, parents, depths)
    n = kernel(root, width, depth, *arrays)
    assert (tokens[n:] == -99).all(), "the kernel wrote behind its last node"
    return tokens[:n].tolist(), parents[:n].tolist(), depths[:n].tolist()


def run_lay_out(kernel, tokens: list[int], parents: list[int], depths: list[int]):
    n = len(tokens)
    out = np.full((5, n + 1), -99, np.int32)
    buffers = [np.array([*values, -99], np.int32) for values in (tokens, parents, depths)]
    n_leaves = kernel(n, *buffers, np.empty(n, np.int32), np.empty((2, n), np.int32), *out)
    assert (out[:, n] == -99).all(), "the kernel wrote behind its last node"
    return n_leaves, out[:, :n].tolist()


def filled_matrix(rng: np.random.Generator, n_vocab: int, share: float) -> tuple[AdjacencyMatrix, dict[int, list[int]]]:
    """Return a matrix that has seen a share of the vocabulary, its rows cut short here and there, and its content."""
    matrix = AdjacencyMatrix(n_vocab)
    content = {}
    for token in rng.permutation(n_vocab)[: int(share * n_vocab)].tolist():
        candidates = rng.integers(0, n_vocab, rng.integers(0, 9)).tolist()
        content[token] = candidates
        write_rows(matrix, [token], [candidates + [-1] * (8 - len(candidates))])
    return matrix, content


@pytest.mark.parametrize("kernel", both_ways(kernels.draft_bfs))
def test_a_worked_example_of_a_draft(kernel) -> None:
    matrix = AdjacencyMatrix(10)
    write_rows(matrix, [3, 5], [[5, 7, 1, 0, 2, 4, 6, 8], [9, 3, 0, 1, 2, 4, 6, 7]])
    shape = TreeTemplate(np.array([-1, 0, 0, 1, 1, 2], np.int32), np.array([0, 0, 1, 0, 1, 0], np.int32))
    # The root 3 drafts 5 and 7; 5 drafts 9 and 3; 7 was never seen, so the last slot stays empty.
    whole = ([3, 5, 7, 9, 3], [-1, 0, 0, 1, 1], [0, 1, 1, 2, 2])
    assert run_draft(kernel, 3, 6, 5, shape, matrix) == whole
    assert run_draft(kernel, 3, 4, 5, shape, matrix) == tuple(column[:4] for column in whole)
    assert run_draft(kernel, 3, 6, 1, shape, matrix) == tuple(column[:3] for column in whole)
    assert run_draft(kernel, 3, 6, 0, shape, matrix) == ([3], [-1], [0])
    assert run_draft(kernel, 7, 6, 5, shape, matrix) == ([7], [-1], [0])


def check_draft(kernel, rng: np.random.Generator, shape: TreeTemplate, width: int, depth: int) -> None:
    n_vocab = int(rng.integers(1, 40))
    matrix, content = filled_matrix(rng, n_vocab, rng.uniform())
    root = int(rng.integers(n_vocab))
    nodes = draft(root, width, depth, shape.parent.tolist(), shape.rank.tolist(), content)
    expected = (
        [node.token for node in nodes],
        [-1 if node.parent is None else nodes.index(node.parent) for node in nodes],
        [node.depth for node in nodes],
    )
    assert run_draft(kernel, root, width, depth, shape, matrix) == expected


@pytest.mark.parametrize("kernel", both_ways(kernels.draft_bfs))
@given(seed=SEEDS, slots=st.integers(1, 90), width=st.integers(1, 90), depth=st.integers(0, 9))
def test_drafts_equal_the_reference_for_any_template_and_limits(kernel, seed, slots, width, depth) -> None:
    rng = np.random.default_rng(seed)
    check_draft(kernel, rng, random_template(rng, slots), width, depth)


@pytest.mark.parametrize("kernel", both_ways(kernels.draft_bfs))
@pytest.mark.parametrize("width", EDGE_WIDTHS)
def test_drafts_equal_the_reference_at_edge_widths(kernel, width: int) -> None:
    for seed in range(4):
        check_draft(kernel, np.random.default_rng(seed), template.published(), width, 6)
        check_draft(kernel, np.random.default_rng(seed), template.chain(width), width, width)


@pytest.mark.parametrize("kernel", both_ways(kernels.lay_out))
def test_a_worked_example_of_a_layout(kernel) -> None:
    # Level order: 10 has the children 20 and 30; 20 has 40 and 50; 30 has 60; 50 has 70.
    tokens, parents, depths = [10, 20, 30, 40, 50, 60, 70], [-1, 0, 0, 1, 1, 2, 4], [0, 1, 1, 2, 2, 2, 3]
    n_leaves, (out, out_parents, out_depths, leaf_from, leaf_count) = run_lay_out(kernel, tokens, parents, depths)
    assert n_leaves == 3
    assert out == [10, 20, 40, 50, 70, 30, 60]
    assert out_parents == [-1, 0, 1, 1, 3, 0, 5]
    assert out_depths == [0, 1, 2, 2, 3, 1, 2]
    assert leaf_from == [0, 0, 0, 1, 1, 2, 2]
    assert leaf_count == [3, 2, 1, 1, 1, 1, 1]


def check_layout(kernel, tokens: list[int], parents: list[int]) -> None:
    nodes = preorder(tokens, parents)
    depths = [0]
    for parent in parents[1:]:
        depths.append(depths[parent] + 1)
    n_leaves, (out, out_parents, out_depths, leaf_from, leaf_count) = run_lay_out(kernel, tokens, parents, depths)
    assert n_leaves == sum(not node.children for node in nodes)
    assert out == [node.token for node in nodes]
    assert out_parents == [-1 if node.parent is None else node.parent.row for node in nodes]
    assert out_depths == [node.depth for node in nodes]
    ranges = [list(range(first, first + n)) for first, n in zip(leaf_from, leaf_count, strict=True)]
    assert ranges == [node.leaf_paths for node in nodes]


@pytest.mark.parametrize("kernel", both_ways(kernels.lay_out))
@given(wishes=st.lists(st.integers(0, 2**16), max_size=90))
def test_layouts_equal_the_reference_for_any_tree(kernel, wishes: list[int]) -> None:
    parents = [-1, *(wish % (i + 1) for i, wish in enumerate(wishes))]
    check_layout(kernel, [100 + i for i in range(len(parents))], parents)


@pytest.mark.parametrize("kernel", both_ways(kernels.lay_out))
@pytest.mark.parametrize("width", EDGE_WIDTHS)
def test_layouts_equal_the_reference_at_edge_widths(kernel, width: int) -> None:
    chain, star = list(range(-1, width - 1)), [-1, *[0] * (width - 1)]
    trees = [random_parents(np.random.default_rng(seed), width) for seed in range(4)]
    for parents in (chain, star, *trees):
        check_layout(kernel, list(range(width)), parents)


def run_update(kernel, n_vocab: int, n_rows: int, batches) -> tuple[dict[int, list[int]], dict[int, list[int]], int]:
    """Run updates on an empty matrix; return candidates and gaps by token, read from its arrays, and the counter."""
    matrix = AdjacencyMatrix(n_vocab, top_k=4, max_rows=n_rows)
    made = 0
    for tokens, top, values in batches:
        made = kernel(tokens, top, values, matrix.row_of, matrix.rows, matrix.gaps, matrix.owner, made)
    content = {int(t): matrix.rows[matrix.row_of[t]].tolist() for t in np.flatnonzero(matrix.row_of >= 0)}
    gaps = {token: matrix.gaps[matrix.row_of[token]].tolist() for token in content}
    owners = {int(token): row for row, token in enumerate(matrix.owner) if token >= 0}
    assert owners == {token: int(matrix.row_of[token]) for token in content}
    return content, gaps, made


@pytest.mark.parametrize("kernel", both_ways(kernels.update_rows))
def test_a_worked_example_of_an_update(kernel) -> None:
    tokens = np.array([6, 2, 6], np.int32)
    top = np.array([[1, 2, 3, 4], [5, 6, 7, 8], [9, 8, 7, -1]], np.int32)
    values = np.array([[9, 8, 7, 6], [5.5, 5.5, 5.25, -90], [3, 2.97, -12.9, -INF]], np.float32)
    gaps = {6: [0, 0, 254, 255], 2: [0, 0, 4, 255]}
    assert run_update(kernel, 10, 10, [(tokens, top, values)]) == ({6: [9, 8, 7, -1], 2: [5, 6, 7, 8]}, gaps, 2)
    # One row only: 2 takes it from 6, and 6 takes it back.
    assert run_update(kernel, 10, 1, [(tokens, top, values)]) == ({6: [9, 8, 7, -1]}, {6: gaps[6]}, 3)


@pytest.mark.parametrize("kernel", both_ways(kernels.update_rows))
@pytest.mark.parametrize(
    ("values", "gaps"),
    [([2, -INF, -INF, -INF], [0, 255, 255, 255]), ([-INF] * 4, [255] * 4), ([INF, INF, 1, 0], [255] * 4)],
)
def test_an_infinite_logit_is_as_far_from_the_best_as_can_be(kernel, values, gaps) -> None:
    batch = (np.array([6], np.int32), np.array([[1, 2, 3, 4]], np.int32), np.array([values], np.float32))
    with np.errstate(invalid="ignore"):
        assert run_update(kernel, 10, 10, [batch])[1] == {6: gaps}


def check_update(kernel, rng: np.random.Generator, widths: list[int]) -> None:
    n_vocab, n_rows = int(rng.integers(1, 120)), int(rng.integers(1, 60))
    slow = SlowMatrix(min(n_vocab, n_rows))
    batches = []
    for width in widths:
        tokens = rng.integers(0, n_vocab, width).astype(np.int32)
        top = rng.integers(-1, n_vocab, (width, 4)).astype(np.int32)
        values = falling(top) if rng.uniform() < 0.3 else -np.sort(rng.normal(0, 5, (width, 4))).astype(np.float32)
        batches.append((tokens, top, values))
        slow.update(tokens.tolist(), top.tolist(), values.tolist())
    with np.errstate(invalid="ignore"):
        assert run_update(kernel, n_vocab, n_rows, batches)[:2] == (slow.rows, slow.gaps)


@pytest.mark.parametrize("kernel", both_ways(kernels.update_rows))
@given(seed=SEEDS, widths=st.lists(st.integers(1, 81), max_size=6))
@example(seed=861, widths=[1, 1, 11, 34, 40, 45])  # a distance that only float32 rounds up to a whole sixteenth
def test_updates_equal_the_reference(kernel, seed: int, widths: list[int]) -> None:
    check_update(kernel, np.random.default_rng(seed), widths)


@pytest.mark.parametrize("kernel", both_ways(kernels.update_rows))
@pytest.mark.parametrize("width", EDGE_WIDTHS)
def test_updates_equal_the_reference_at_edge_widths(kernel, width: int) -> None:
    for seed in range(4):
        check_update(kernel, np.random.default_rng(seed), [width, width])
