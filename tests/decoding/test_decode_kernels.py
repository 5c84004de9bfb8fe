"""The compiled kernels of the decoding room, the same code run by Python, and slow references agree."""

from __future__ import annotations

import math

import decoding_reference
import numpy as np
import pytest
from fakes import both_ways, make_tree, random_parents
from hypothesis import given
from hypothesis import strategies as st

from recycle_cpp.decoding import kernels

INF, NAN = math.inf, math.nan
VOCABULARIES = [1, 2, 7, 8, 9, 511, 512, 513, 700, 1023, 1024, 1025, 1536, 49_152 // 16]
EDGE_WIDTHS = [*range(1, 6), *range(7, 10), *range(15, 18), *range(31, 34), *range(63, 66), 81]
SEEDS = st.integers(0, 2**32 - 1)
TOP_K = both_ways(kernels.top_k)


def run_top_k(kernel, logits: np.ndarray, k: int) -> list[tuple[list[int], list[float]]]:
    """Return ids and logits of each row."""
    n_rows, n_vocab = logits.shape
    ids = np.full((n_rows + 1, k), -99, np.int32)
    values = np.full((n_rows + 1, k), NAN, np.float32)
    kernel(logits, ids[:n_rows], values[:n_rows], np.full(min(kernels.LANES, n_vocab), NAN, np.float32))
    assert (ids[n_rows] == -99).all(), "the kernel wrote behind its last row"
    assert np.isnan(values[n_rows]).all(), "the kernel wrote behind its last row"
    return list(zip(ids[:n_rows].tolist(), values[:n_rows].tolist(), strict=True))


def check_top_k(kernel, logits: np.ndarray, k: int) -> None:
    assert run_top_k(kernel, logits, k) == [decoding_reference.top_k(row, k) for row in logits.tolist()]


@pytest.mark.parametrize("kernel", TOP_K)
def test_a_worked_example_of_top_k(kernel) -> None:
    logits = np.array([[0.5, 2.0, -1.0, 2.0, INF, 0.5], [NAN, -INF, -3.0, NAN, -INF, NAN]], np.float32)
    assert run_top_k(kernel, logits, 4) == [([4, 1, 3, 0], [INF, 2, 2, 0.5]), ([2, 1, 4, -1], [-3, -INF, -INF, -INF])]
    assert run_top_k(kernel, logits, 1) == [([4], [INF]), ([2], [-3])]
    assert run_top_k(kernel, logits, 8) == [
        ([4, 1, 3, 0, 5, 2, -1, -1], [INF, 2, 2, 0.5, 0.5, -1, -INF, -INF]),
        ([2, 1, 4, -1, -1, -1, -1, -1], [-3, *[-INF] * 7]),
    ]


@pytest.mark.parametrize("kernel", TOP_K)
@pytest.mark.parametrize("n_vocab", VOCABULARIES)
def test_top_k_equals_the_reference_on_rows_of_many_kinds(kernel, n_vocab: int) -> None:
    rng = np.random.default_rng(n_vocab)
    rows = [
        rng.normal(0, 3, n_vocab),
        rng.integers(0, 3, n_vocab),  # ties everywhere
        np.zeros(n_vocab),
        np.arange(n_vocab),
        -np.arange(n_vocab),
        np.full(n_vocab, -INF),
        np.full(n_vocab, NAN),
        np.where(rng.uniform(size=n_vocab) < 0.5, NAN, rng.normal(size=n_vocab)),
        np.where(rng.uniform(size=n_vocab) < 0.99, -INF, rng.normal(size=n_vocab)),
        np.where(rng.uniform(size=n_vocab) < 0.9, NAN, -INF),
    ]
    for k in (1, 2, 8, 40):
        check_top_k(kernel, np.array(rows, np.float32), k)


@pytest.mark.parametrize("kernel", TOP_K)
def test_top_k_keeps_what_is_not_a_number_out_wherever_it_stands(kernel) -> None:
    for n_vocab in (513, 700, 1025):
        for place in (0, 511, 512, n_vocab - 1):
            logits = np.arange(n_vocab, 0, -1, dtype=np.float32)[None].copy()
            logits[0, place] = NAN
            check_top_k(kernel, logits, 1)
            check_top_k(kernel, logits, 8)


@pytest.mark.parametrize("kernel", TOP_K)
@given(
    values=st.lists(st.sampled_from([-INF, -2.0, -0.0, 0.0, 1.0, 1.5, INF, NAN]), min_size=1, max_size=12),
    n_vocab=st.sampled_from(VOCABULARIES[:-2]),
    seed=SEEDS,
    k=st.integers(1, 12),
)
def test_top_k_equals_the_reference_on_rows_of_few_values(kernel, values, n_vocab: int, seed: int, k: int) -> None:
    logits = np.random.default_rng(seed).choice(np.array(values, np.float32), (2, n_vocab))
    check_top_k(kernel, logits, k)


@pytest.mark.parametrize("kernel", TOP_K)
@given(seed=SEEDS, n_vocab=st.integers(1, 1600), k=st.integers(1, 12))
def test_top_k_equals_the_reference_on_rows_of_distinct_values(kernel, seed: int, n_vocab: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    check_top_k(kernel, rng.permutation(n_vocab).astype(np.float32)[None], k)


@pytest.mark.parametrize("kernel", TOP_K)
@pytest.mark.parametrize("width", EDGE_WIDTHS)
def test_top_k_equals_the_reference_at_edge_widths(kernel, width: int) -> None:
    check_top_k(kernel, np.random.default_rng(width).normal(0, 3, (width, 600)).astype(np.float32), 8)


def test_top_k_equals_the_reference_on_a_whole_vocabulary() -> None:
    for n_vocab in (49_152, 151_936):
        check_top_k(kernels.top_k, np.random.default_rng(1).normal(0, 3, (2, n_vocab)).astype(np.float32), 8)


SUMS = both_ways(kernels.log_sum_exp)


@pytest.mark.parametrize("kernel", SUMS)
def test_a_worked_example_of_a_log_sum_exp(kernel) -> None:
    assert kernel(np.log(np.array([1, 2, 5], np.float32))) == pytest.approx(math.log(8), abs=1e-6)
    assert kernel(np.array([-INF, 3, NAN], np.float32)) == 3
    assert kernel(np.full(5, -INF, np.float32)) == -INF
    assert kernel(np.full(5, NAN, np.float32)) == -INF
    assert kernel(np.array([0, INF], np.float32)) == INF
    assert kernel(np.array([3e38, 3e38, -3e38], np.float32)) == pytest.approx(3e38)
    assert kernel(np.array([-3e38, -3e38], np.float32)) == pytest.approx(-3e38)


@pytest.mark.parametrize("kernel", SUMS)
@pytest.mark.parametrize("n_vocab", [*EDGE_WIDTHS, *VOCABULARIES])
def test_the_log_sum_exp_equals_the_reference_at_any_length(kernel, n_vocab: int) -> None:
    rng = np.random.default_rng(n_vocab)
    for row in (
        rng.normal(0, 3, n_vocab),
        rng.normal(800, 200, n_vocab),
        np.zeros(n_vocab),
        np.where(rng.uniform(size=n_vocab) < 0.5, -INF, rng.normal(size=n_vocab)),
        np.where(rng.uniform(size=n_vocab) < 0.5, NAN, rng.normal(size=n_vocab)),
    ):
        row = row.astype(np.float32)
        assert kernel(row) == pytest.approx(decoding_reference.log_sum_exp(row.tolist()), rel=1e-12, abs=1e-12)


def test_the_log_sum_exp_of_a_whole_vocabulary_loses_nothing_to_rounding() -> None:
    row = np.full(262_144, -12.5, np.float32)  # in float32 the sum would stop growing
    assert kernels.log_sum_exp(row) == pytest.approx(math.log(262_144) - 12.5, abs=1e-9)


@pytest.mark.parametrize("kernel", both_ways(kernels.find_child))
def test_a_worked_example_of_a_walk_down(kernel) -> None:
    # 10 has the children 20, 30 and 20 again; the first 20 has the child 40, the second 30 and 50.
    tree = make_tree([10, 20, 30, 20, 40, 30, 50], [-1, 0, 0, 0, 1, 3, 3])
    assert tree.tokens.tolist() == [10, 20, 40, 30, 20, 30, 50]
    found = [kernel(node, token, tree.tokens, tree.parents) for node, token in [(0, 20), (0, 30), (0, 40), (4, 30)]]
    assert found == [1, 3, -1, 5]
    assert [kernel(1, 30, tree.tokens, tree.parents), kernel(6, 10, tree.tokens, tree.parents)] == [-1, -1]


def check_find_child(kernel, rng: np.random.Generator, width: int, n_vocab: int) -> None:
    tree = make_tree(rng.integers(0, n_vocab, width), random_parents(rng, width))
    tokens, parents = tree.tokens.tolist(), tree.parents.tolist()
    for node in range(width):
        for token in range(n_vocab):
            expected = decoding_reference.find_child(node, token, tokens, parents)
            assert kernel(node, token, tree.tokens, tree.parents) == expected


@pytest.mark.parametrize("kernel", both_ways(kernels.find_child))
@given(seed=SEEDS, width=st.integers(1, 30), n_vocab=st.integers(1, 6))
def test_the_child_found_is_the_references_for_any_tree(kernel, seed: int, width: int, n_vocab: int) -> None:
    check_find_child(kernel, np.random.default_rng(seed), width, n_vocab)


@pytest.mark.parametrize("kernel", both_ways(kernels.find_child))
@pytest.mark.parametrize("width", EDGE_WIDTHS)
def test_the_child_found_is_the_references_at_edge_widths(kernel, width: int) -> None:
    check_find_child(kernel, np.random.default_rng(width), width, 4)


def run_lists(all_kernel, best_kernel, row: np.ndarray, k: int, listed: list[int]):
    """Return what each kernel lists as pairs of a token and its logit; and check that nothing else is written."""
    n_vocab = len(row)
    ids = np.full((n_vocab + 1, 3), -99, np.int32)
    values = ids.view(np.float32)
    all_kernel(row, ids, values)
    whole = list(zip(ids[:n_vocab, 0].tolist(), values[:n_vocab, 1].tolist(), strict=True))
    ids[:] = -99
    is_listed = np.zeros(n_vocab, np.bool_)
    is_listed[listed] = True
    maxima, best = np.full((2, min(kernels.LANES, n_vocab)), NAN, np.float32)
    found = np.empty(n_vocab, np.int32)
    n = best_kernel(row, k, np.array(listed, np.int32), is_listed, maxima, best, found, ids, values)
    assert (ids[n:] == -99).all(), "the kernel wrote behind its last candidate"
    assert (values[:n, 2] == 0).all()
    return whole, list(zip(ids[:n, 0].tolist(), values[:n, 1].tolist(), strict=True))


def check_lists(all_kernel, best_kernel, row: np.ndarray, k: int, listed: list[int]) -> list[tuple[int, float]]:
    whole, some = run_lists(all_kernel, best_kernel, row, k, listed)
    rights = [(token, -INF if math.isnan(value) else value) for token, value in enumerate(row.tolist())]
    assert whole == rights
    tokens = [token for token, _ in some]
    assert tokens == sorted(set(tokens)), "a token twice, or out of order"
    assert some == [rights[token] for token in tokens]
    assert set(tokens) >= decoding_reference.list_best(row.tolist(), k, set(listed))
    return some


LISTS = list(zip(both_ways(kernels.list_all), both_ways(kernels.list_best), strict=True))


@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "python"])
@given(
    seed=SEEDS,
    n_vocab=st.sampled_from(VOCABULARIES[:-2]),
    k=st.sampled_from([1, 2, 8, 40, 255, 256, 257]),
    n_listed=st.integers(0, 60),
    few=st.booleans(),
)
def test_listed_are_those_asked_for_and_the_best_of_the_others(which, seed, n_vocab, k, n_listed, few) -> None:
    rng = np.random.default_rng(seed)
    row = rng.normal(0, 3, n_vocab).astype(np.float32)
    if few:
        row = rng.choice(np.array([-INF, -1.0, 0.0, 2.0, NAN], np.float32), n_vocab)
    order = rng.permutation(n_vocab) if rng.uniform() < 0.5 else np.argsort(-row)  # the best ones are often listed
    all_kernel, best_kernel = (pair.values[0] for pair in LISTS[which])
    check_lists(all_kernel, best_kernel, row, k, sorted(order[:n_listed].tolist()))


@pytest.mark.parametrize("width", EDGE_WIDTHS)
@pytest.mark.parametrize("which", [0, 1], ids=["compiled", "python"])
def test_listed_are_the_best_at_edge_widths(which: int, width: int) -> None:
    rng = np.random.default_rng(width)
    all_kernel, best_kernel = (pair.values[0] for pair in LISTS[which])
    for n_listed in (0, 1, width):
        listed = sorted(rng.permutation(600)[:n_listed].tolist())
        check_lists(all_kernel, best_kernel, rng.normal(0, 3, 600).astype(np.float32), width, listed)


def test_little_more_than_what_is_needed_is_listed_of_a_whole_vocabulary() -> None:
    for n_vocab in (49_152, 151_936):
        row = np.random.default_rng(1).normal(0, 3, n_vocab).astype(np.float32)
        listed = sorted([*np.argsort(-row)[:30].tolist(), 7])
        some = check_lists(kernels.list_all, kernels.list_best, row, 40, listed)
        assert len(some) < 31 + 80


@pytest.mark.parametrize("kernel", both_ways(kernels.keep_nodes))
@pytest.mark.parametrize("width", EDGE_WIDTHS)
def test_the_nodes_kept_are_the_references_at_edge_widths(kernel, width: int) -> None:
    rng = np.random.default_rng(width)
    tree = make_tree(rng.permutation(1000)[:width], random_parents(rng, width))
    for share in (0.0, 0.2, 1.0):
        is_out = rng.uniform(size=width) < share
        is_out[0] = False
        kept = decoding_reference.keep_nodes(tree.parents.tolist(), is_out.tolist())
        place, tokens, parents, depths = np.full((4, width + 1), -99, np.int32)
        n = kernel(*tree[:3], is_out, place, tokens, parents, depths)
        assert n == len(kept)
        assert tokens[:n].tolist() == tree.tokens[kept].tolist()
        assert depths[:n].tolist() == tree.depths[kept].tolist()
        assert [kept[p] if p >= 0 else -1 for p in parents[:n]] == tree.parents[kept].tolist()
        assert (tokens[n:] == -99).all(), "the kernel wrote behind its last node"
