"""The suffix index: the compiled kernels, the same code run by Python, and a brute-force reference agree."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import as_python, both_ways
from hypothesis import given
from hypothesis import strategies as st
from sources_reference import SlowSuffix, slot

from recycle_cpp.drafting.kernels import suffix as kernels
from recycle_cpp.drafting.suffix import BORDER, SuffixIndex

SIZES = st.sampled_from([2, 4, 16, 64, 256])
# Few tokens, so that texts repeat; runs of one text, so that matches grow long.
TEXTS = st.lists(
    st.one_of(
        st.lists(st.integers(0, 3), max_size=12),
        st.lists(st.integers(0, 200), max_size=6),
        st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(2, 8)).map(lambda d: d[0] * d[1]),
        st.just([BORDER]),
    ),
    max_size=12,
)


def look_up(kernel, index: SuffixIndex, context: list[int]) -> list[tuple[int, int, int]]:
    tokens, lengths, counts = np.full((3, kernels.CONTINUATIONS + 1), -99, np.int32)
    n = kernel(np.array([*context, -77], np.int32), len(context), index.count, index.history, tokens, lengths, counts)
    assert (tokens[n:] == -99).all(), "the kernel wrote behind its last continuation"
    return list(zip(tokens[:n].tolist(), lengths[:n].tolist(), counts[:n].tolist(), strict=True))


def find(index: SuffixIndex, context: list[int]) -> list[tuple[int, int, int]]:
    return look_up(kernels.find_continuations, index, context)


def look_up_followers(kernel, index: SuffixIndex, last: int) -> list[tuple[int, int]]:
    tokens, lengths, counts = np.full((3, kernels.FOLLOWERS + 1), -99, np.int32)
    n = kernel(last, index.count, index.history, tokens, lengths, counts)
    assert (tokens[n:] == -99).all(), "the kernel wrote behind its last follower"
    assert (lengths[:n] == 1).all()
    return list(zip(tokens[:n].tolist(), counts[:n].tolist(), strict=True))


def followers(index: SuffixIndex, last: int) -> list[tuple[int, int]]:
    return look_up_followers(kernels.find_followers, index, last)


@pytest.mark.parametrize("kernel", both_ways(kernels.find_continuations))
def test_a_worked_example_of_continuations(kernel) -> None:
    index = SuffixIndex(64)
    #             0  1  2  3  4  5  6  7  8  9 10 11 12 13
    index.append([1, 2, 3, 9, 2, 3, 5, 1, 2, 3, 9, 2, 3, 7])
    # "2 3" is followed by 9 (twice, after 1), by 5 (after 9) and by 7 (after 9, with 1 2 3 before).
    assert look_up(kernel, index, [3, 2]) == [(9, 2, 2), (7, 2, 1), (5, 2, 1)]
    assert look_up(kernel, index, [3, 2, 1]) == [(9, 3, 2), (7, 2, 1), (5, 2, 1)]
    assert look_up(kernel, index, [3, 2, 9, 3, 2, 1, 5]) == [(7, 7, 1), (5, 6, 1), (9, 2, 2)]
    assert look_up(kernel, index, [3, 2, 9, 3, 2, 1, 4]) == [(7, 6, 1), (5, 6, 1), (9, 2, 2)]
    assert look_up(kernel, index, [7, 3]) == [], "the end of the text has no continuation yet"
    assert look_up(kernel, index, [3]) == [], "one token is too little"
    assert look_up(kernel, index, [8, 8]) == []


@pytest.mark.parametrize("kernel", both_ways(kernels.find_followers))
def test_a_worked_example_of_followers(kernel) -> None:
    index = SuffixIndex(64)
    index.append([7, 3, 9, 2, 3, 5, 3, 9, 3])
    # Looked at are the newest four 3s: the end, with nothing behind it, and those before 9, 5 and 9.
    assert look_up_followers(kernel, index, 3) == [(9, 2), (5, 1)]
    index.append([8])
    assert look_up_followers(kernel, index, 3) == [(8, 1), (9, 2)], "5 would be the third"
    assert look_up_followers(kernel, index, 8) == [], "the end of the text has no follower yet"
    assert look_up_followers(kernel, index, 7) == [(3, 1)], "the first token of all counts"
    assert look_up_followers(kernel, index, 4) == []


def check_index(append, continuations, followers, size: int, texts: list[list[int]], contexts: list[list[int]]) -> None:
    index, slow = SuffixIndex(size), SlowSuffix(size)
    for text in texts:
        index.count = append(np.array(text, np.int32), index.count, index.history)
        slow.append(text)
        assert index.count == len(slow.everything)
        end = slow.everything[::-1][:40]
        own = end[: end.index(BORDER)] if BORDER in end else end
        for context in (own, own[1:], own[:3], own[:1], *contexts):
            assert look_up(continuations, index, context) == slow.continuations(context)
            for last in context[:3]:
                assert look_up_followers(followers, index, last) == slow.followers(last)


@given(size=SIZES, texts=TEXTS, contexts=st.lists(st.lists(st.integers(0, 9), max_size=40), max_size=3))
def test_what_is_found_equals_a_search_of_the_whole_text(size: int, texts, contexts) -> None:
    check_index(kernels.append, kernels.find_continuations, kernels.find_followers, size, texts, contexts)


@given(size=SIZES, texts=TEXTS, contexts=st.lists(st.lists(st.integers(0, 9), max_size=40), max_size=1))
def test_the_same_code_run_by_python_equals_it_too(size: int, texts, contexts) -> None:
    found_by = as_python(kernels.append), as_python(kernels.find_continuations), as_python(kernels.find_followers)
    check_index(*found_by, size, texts[:5], contexts)


def test_only_the_twelve_newest_occurrences_count() -> None:
    index = SuffixIndex(256)
    for follower in (50, *[51] * 12):
        index.append([1, 2, follower])
    assert find(index, [2, 1]) == [(51, 2, 12)]
    index.append([1, 2])  # the end of the text is an occurrence as well, with nothing behind it
    assert find(index, [2, 1]) == [(51, 2, 11)]


def test_pairs_that_share_a_slot_take_up_looks_and_are_never_taken_for_each_other() -> None:
    twin = next(t for t in range(3, 4000) if slot(t, 2, 16) == slot(1, 2, 16))
    index = SuffixIndex(16)
    index.append([1, 2, 60, twin, 2, 61])
    assert (find(index, [2, 1]), find(index, [2, twin])) == ([(60, 2, 1)], [(61, 2, 1)])
    index = SuffixIndex(64)
    twin = next(t for t in range(3, 4000) if slot(t, 2, 64) == slot(1, 2, 64))
    index.append([1, 2, 60, *[twin, 2, 61] * 12])
    assert find(index, [2, 1]) == [], "twelve others stand before it"


def test_matches_are_thirty_two_tokens_long_at_most() -> None:
    index = SuffixIndex(256)
    index.append([*range(60), 99])
    assert find(index, list(range(59, -1, -1))) == [(99, 32, 1)]


def test_tokens_that_share_a_slot_take_up_looks_and_are_never_taken_for_each_other() -> None:
    index = SuffixIndex(16)
    index.append([1, 60, 17, 61])
    assert (followers(index, 1), followers(index, 17), followers(index, 33)) == ([(60, 1)], [(61, 1)], [])
    index = SuffixIndex(16)
    index.append([1, 60, *[17, 61] * 4])
    assert followers(index, 1) == [], "four others stand before it"


def test_only_four_different_continuations_are_kept_and_they_are_the_newest() -> None:
    index = SuffixIndex(256)
    for follower in (50, 51, 52, 53, 54, 54):
        index.append([1, 2, follower])
    assert find(index, [2, 1]) == [(54, 2, 2), (53, 2, 1), (52, 2, 1), (51, 2, 1)]


def test_no_match_crosses_a_border() -> None:
    index = SuffixIndex(64)
    index.append([7, 1])
    index.begin([2, 3])
    index.begin([1, 2, 4])
    assert find(index, [2, 1, 7]) == [(4, 2, 1)], "7 stands in another text"
    assert find(index, [3, 2, 1]) == [], "behind 2 3 there is a border"
    assert find(index, [2, 1, 3]) == [(4, 2, 1)]
    assert index.count == 2 + 3 + 4
    assert (followers(index, 3), followers(index, 1), followers(index, 7)) == ([], [(2, 1)], [(1, 1)])


def test_what_the_ring_has_overwritten_is_gone_and_what_is_left_is_found() -> None:
    index = SuffixIndex(16)
    index.append([1, 2, 3, 4, 5])
    index.append([9, 8] * 5)
    assert find(index, [2, 1]) == [(3, 2, 1)]
    index.append([9])  # 16 tokens: all is still there
    assert find(index, [2, 1]) == [(3, 2, 1)]
    index.append([8])
    assert find(index, [2, 1]) == []
    assert find(index, [4, 3, 2, 1]) == [(5, 3, 1)], "the match ends where the ring does"
    assert (followers(index, 1), followers(index, 2)) == ([], [(3, 1)]), "the oldest token left has a follower"


def test_reset_forgets_every_text() -> None:
    index, fresh = SuffixIndex(64), SuffixIndex(64)
    index.begin([1, 2, 3, 1, 2])
    index.reset()
    assert index.count == 0
    for array, untouched in zip(index.history, fresh.history, strict=True):
        assert np.array_equal(array, untouched)
    assert followers(index, 1) == []
    index.append([1, 2, 4])
    assert find(index, [2, 1]) == [(4, 2, 1)]


def test_the_index_says_how_much_memory_it_takes() -> None:
    assert SuffixIndex().nbytes == 20 * 16_384
