"""The frequent tokens: compiled, run by Python, and a list that is kept in order agree."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import both_ways
from hypothesis import given
from hypothesis import strategies as st
from sources_reference import SlowFrequent

from recycle_cpp.drafting.frequent import FrequentTokens
from recycle_cpp.drafting.kernels import frequent as kernels
from recycle_cpp.drafting.kernels.candidates import N_FREQUENT

STRETCHES = st.lists(
    st.one_of(
        st.lists(st.integers(0, 30), max_size=40),
        st.tuples(st.integers(0, 30), st.integers(1, 250)).map(lambda drawn: [drawn[0]] * drawn[1]),
    ),
    max_size=8,
)


def entries(tokens: np.ndarray, counts: np.ndarray) -> list[tuple[int, float]]:
    n = int((tokens >= 0).sum())
    assert (tokens[n:] == -1).all(), "places that are free stand last"
    assert not counts[n:].any()
    return list(zip(tokens[:n].tolist(), counts[:n].tolist(), strict=True))


@pytest.mark.parametrize("kernel", both_ways(kernels.count_tokens))
def test_a_worked_example_of_frequent_tokens(kernel) -> None:
    tokens, counts = np.full(3, -1, np.int32), np.zeros(3, np.float32)
    kernel(np.array([5, 6, 6, 7], np.int32), tokens, counts)
    assert entries(tokens, counts) == [(6, 2), (5, 1), (7, 1)]
    kernel(np.array([8, 8], np.int32), tokens, counts)
    assert entries(tokens, counts) == [(8, 3), (6, 2), (5, 1)], "8 took over the count of 7"
    kernel(np.array([], np.int32), tokens, counts)
    assert entries(tokens, counts) == [(8, 3), (6, 2), (5, 1)]


@pytest.mark.parametrize("kernel", both_ways(kernels.count_tokens))
@given(stretches=STRETCHES)
def test_the_list_equals_the_reference_and_stays_in_order(kernel, stretches: list[list[int]]) -> None:
    tokens, counts = np.full(N_FREQUENT, -1, np.int32), np.zeros(N_FREQUENT, np.float32)
    slow = SlowFrequent()
    for stretch in stretches:
        kernel(np.array(stretch, np.int32), tokens, counts)
        slow.append(stretch)
        found = entries(tokens, counts)
        assert found == slow.entries
        assert len(dict(found)) == len(found), "each token stands once"
        assert counts.tolist() == sorted(counts.tolist(), reverse=True)
        assert counts[0] <= kernels.FORGET_AT


def test_a_token_that_comes_often_enters_a_full_list_and_one_that_stays_away_is_overtaken() -> None:
    frequent = FrequentTokens()
    frequent.append(np.repeat(np.arange(16, dtype=np.int32), 40))
    frequent.append(np.tile(np.array([90, 91, 92], np.int32), 400))
    assert set(frequent.tokens[:3].tolist()) == {90, 91, 92}


def test_reset_forgets_all_counts() -> None:
    frequent = FrequentTokens()
    frequent.append(np.array([3, 3, 4], np.int32))
    assert frequent.tokens[:2].tolist() == [3, 4]
    frequent.reset()
    assert entries(frequent.tokens, frequent.counts) == []
    assert frequent.nbytes == 16 * 8
