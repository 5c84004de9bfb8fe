"""Candidates of all sources and their kinds: compiled, run by Python, and a reference in words agree."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
import sources_reference as slow
from fakes import both_ways
from hypothesis import given, settings
from hypothesis import strategies as st

from recycle_cpp.drafting.kernels import candidates as kernels
from recycle_cpp.drafting.kernels.suffix import CONTINUATIONS, FOLLOWERS, LONGEST
from recycle_cpp.drafting.knowledge import SOURCES, Knowledge
from recycle_cpp.drafting.suffix import SuffixIndex

SEEDS = st.integers(0, 2**32 - 1)
SUBSETS = [subset for n in range(6) for subset in combinations(SOURCES, n)]
FIRST_KINDS = {
    "suffix": (0, kernels.SUFFIX_SILENT, kernels.FOLLOWER_KINDS),
    "follower": (kernels.FOLLOWER_KINDS, kernels.FOLLOWER_SILENT, kernels.ROW_KINDS),
    "row": (kernels.ROW_KINDS, kernels.ROW_SILENT, kernels.PREVIOUS_KINDS),
    "previous": (kernels.PREVIOUS_KINDS, kernels.PREVIOUS_SILENT, kernels.FREQUENT_KINDS),
    "frequent": (kernels.FREQUENT_KINDS, kernels.FREQUENT_SILENT, kernels.N_KINDS),
}


def new_scratch() -> kernels.Scratch:
    return kernels.Scratch(
        np.full(LONGEST, -99, np.int32),
        np.full(kernels.MOST, -99, np.int32),
        np.full((kernels.MOST, kernels.N_SOURCES), -99, np.int32),
        np.full(kernels.N_SOURCES, -99, np.int32),
        np.full((3, CONTINUATIONS), -99, np.int32),
        np.full(2, -1, np.int32),
        np.full(kernels.MOST, -99, np.float32),
    )


def new_pair(rng: np.random.Generator, in_use: tuple[str, ...] = SOURCES, size: int = 256) -> slow.Pair:
    return slow.Pair(rng, Knowledge(24, in_use), SuffixIndex(size), 24, in_use)


def run_find(kernel, knowledge: Knowledge, context: list[int]) -> tuple[list[tuple[int, tuple[int, ...]]], int]:
    scratch = new_scratch()
    scratch.context[: len(context)] = context
    kernel(knowledge.sources, knowledge.suffix.count, len(context), scratch)
    n, situation = scratch.result.tolist()
    kinds = [tuple(kinds) for kinds in scratch.kinds[:n].tolist()]
    assert (scratch.tokens[n:] == -99).all(), "the kernel wrote behind its last candidate"
    return list(zip(scratch.tokens[:n].tolist(), kinds, strict=True)), situation


def in_words(found: list[tuple[int, tuple[int, ...]]]) -> list[tuple[int, dict[str, tuple[object, ...]]]]:
    """Return what the sources that know each candidate say of it."""
    words = [(token, [slow.KINDS[kind] for kind in kinds]) for token, kinds in found]
    return [(token, {kind[0]: kind[1:] for kind in kinds if "silent" not in kind[0]}) for token, kinds in words]


@pytest.mark.parametrize("kernel", both_ways(kernels.find_candidates))
def test_a_worked_example_of_candidates(kernel) -> None:
    knowledge = Knowledge(40)
    values = np.array([[9, 8, 7, 6, 5, 4, 3, 2], [9, 8.9, 8.8, 0, 0, 0, 0, 0]], np.float32)
    top = np.array([[5, 6, 7, 8, 10, 11, 12, 13], [3, 7, 20, 21, 22, 6, -1, -1]], np.int32)
    knowledge.matrix.update(np.array([3, 2], np.int32), top, values)
    knowledge.suffix.append([1, 2, 3, 9, 2, 3, 6, 2, 3, 6])
    knowledge.frequent.append(np.array([30, 30, 6], np.int32))
    found, situation = run_find(kernel, knowledge, [3, 2])
    assert in_words(found) == [
        (6, {"suffix": (1, 0, "half"), "follower": (0, 2), "row": (1, 2), "previous": (5, "further")}
         | {"frequent": (1, "a row")}),
        (9, {"suffix": (1, 1, "few"), "follower": (1, 1)}),
        (5, {"row": (0, 2)}),
        (7, {"row": (2, 4), "previous": (1, "near")}),
        (8, {"row": (3, 4)}),
        (10, {"row": (4, 5)}),
        (11, {"row": (5, 5)}),
        (12, {"row": (6, 6)}),
        (13, {"row": (7, 6)}),
        (20, {"previous": (2, "near")}),
        (21, {"previous": (3, "further")}),
    ], "3 is the last token itself, 22 is too far down, 30 is asked for only where there is no row"  # fmt: skip
    assert situation == 2 * 3 + 1, "a match of two, and a row whose first leads by less than 1.5"


@pytest.mark.parametrize("kernel", both_ways(kernels.find_candidates))
def test_with_one_token_of_context_only_single_tokens_are_looked_up(kernel) -> None:
    knowledge = Knowledge(40)
    knowledge.suffix.append([1, 2, 3, 1, 2])
    knowledge.frequent.append(np.array([30], np.int32))
    found, situation = run_find(kernel, knowledge, [2])
    assert in_words(found) == [(3, {"follower": (0, 1)}), (30, {"frequent": (0, "no row")})]
    assert situation == 0
    assert run_find(kernel, knowledge, [2, 1])[1] == 2 * 3, "with two there is a match"


@pytest.mark.parametrize("kernel", both_ways(kernels.find_candidates))
def test_where_nothing_is_known_there_is_no_candidate(kernel) -> None:
    assert run_find(kernel, Knowledge(40), [4]) == ([], 0)
    assert run_find(kernel, Knowledge(40), [4, 3, 2, 1]) == ([], 0)


@pytest.mark.parametrize("kernel", both_ways(kernels.find_candidates))
@settings(max_examples=200)
@given(seed=SEEDS, in_use=st.one_of(st.just(SOURCES), st.sampled_from(SUBSETS)), size=st.sampled_from([16, 256]))
def test_candidates_kinds_and_situation_equal_the_reference(kernel, seed: int, in_use, size: int) -> None:
    rng = np.random.default_rng(seed)
    pair = new_pair(rng, in_use, size)
    for _ in range(4):
        context = pair.any_context(rng)
        found, situation = run_find(kernel, pair.knowledge, context)
        expected, expected_situation = pair.slow.candidates(context)
        assert found == [(token, tuple(slow.NUMBER_OF[kind] for kind in kinds)) for token, kinds in expected]
        assert situation == expected_situation
        assert 0 <= situation < kernels.N_SITUATIONS
        assert len({token for token, _ in found}) == len(found) <= kernels.MOST, "each token stands once"
        for _, kinds in found:
            check_kinds(kinds, in_use)


def check_kinds(kinds: tuple[int, ...], in_use: tuple[str, ...]) -> None:
    """Check that each source says something of its own, that one that is not asked is silent, and that some know."""
    known = []
    for name, kind in zip(SOURCES, kinds, strict=True):
        first, silent, end = FIRST_KINDS[name]
        assert first <= kind < end
        if kind < silent:
            known.append(name)
    assert known
    assert set(known) <= set(in_use)


@pytest.mark.parametrize("kernel", both_ways(kernels.find_candidates))
@pytest.mark.parametrize("name", SOURCES)
def test_a_source_alone_finds_what_it_knows_and_a_source_switched_off_knows_nothing(kernel, name: str) -> None:
    rng = np.random.default_rng(3)
    alone, without, n_known = (name,), tuple(other for other in SOURCES if other != name), 0
    for _ in range(20):
        for subset in (alone, without):
            pair = new_pair(rng, subset)
            found, _ = run_find(kernel, pair.knowledge, pair.any_context(rng))
            known = {source for _, words in in_words(found) for source in words}
            assert known <= set(subset)
            n_known += subset == alone and bool(known)
    assert n_known > 5, "the source never spoke, so the test says nothing"


def test_the_kinds_have_numbers_of_their_own_and_every_number_is_a_kind() -> None:
    assert len(slow.KINDS) == len(slow.NUMBER_OF) == kernels.N_KINDS
    numbers = {kind: slow.NUMBER_OF[kind] for kind in slow.KINDS}
    for name, (first, silent, end) in FIRST_KINDS.items():
        assert {numbers[kind] for kind in slow.KINDS if kind[0] == name} == set(range(first, silent))
        assert {numbers[kind] for kind in slow.KINDS if kind[0] == f"{name} silent"} == set(range(silent, end))


def test_kinds_that_have_a_kernel_of_their_own_equal_the_reference() -> None:
    lengths, gaps = (1, 2, 3, 4, 6, 9, 13, 19, 31, 32), (0, 4, 10, 18, 32, 56, 96)
    agreements = {"once": (1, 1), "all": (2, 2), "half": (1, 2), "few": (1, 3)}
    for (i, length), place, (agreement, times) in product(enumerate(lengths), range(3), agreements.items()):
        assert kernels.suffix_kind(length, place, *times) == slow.NUMBER_OF["suffix", i, place, agreement]
    for rank, (i, gap) in product(range(8), enumerate(gaps)):
        assert kernels.row_kind(rank, gap) == slow.NUMBER_OF["row", rank, i]


@given(st.integers(0, 32), st.integers(0, 3), st.integers(1, 12), st.integers(0, 11))
def test_kinds_of_continuations_are_in_range(length: int, place: int, count: int, others: int) -> None:
    assert 0 <= kernels.suffix_kind(length, place, count, count + others) < kernels.SUFFIX_SILENT


@given(st.integers(0, 7), st.integers(0, 255))
def test_kinds_of_row_candidates_are_in_range(rank: int, gap: int) -> None:
    assert kernels.ROW_KINDS <= kernels.row_kind(rank, gap) < kernels.ROW_SILENT


def test_classes_of_lengths_and_gaps_begin_where_they_say() -> None:
    lengths = {length: int(kernels.length_class(length)) for length in range(1, LONGEST + 1)}
    assert lengths == {length: slow.length_class(length) for length in range(1, LONGEST + 1)}
    gaps = {gap: int(kernels.lead_class(gap)) for gap in range(256)}
    assert gaps == {gap: slow.lead_class(gap) for gap in range(256)}


def test_the_most_candidates_that_all_sources_can_name_find_room() -> None:
    knowledge = Knowledge(1000)
    tops = np.array([range(200, 208), range(300, 308)], np.int32)
    knowledge.matrix.update(np.array([1, 2], np.int32), tops, np.zeros((2, 8), np.float32))
    for follower in (104, 103, 102, 101):
        knowledge.suffix.append([1, 2, follower])
    knowledge.suffix.append([9, 2, 106, 9, 2, 105])
    knowledge.frequent.append(np.arange(500, 516, dtype=np.int32))
    found, _ = run_find(kernels.find_candidates, knowledge, [2, 1])
    assert len(found) == CONTINUATIONS + FOLLOWERS + 8 + 4
    assert len(found) + 8 == kernels.MOST, "frequent tokens are proposed only where there is no row"
