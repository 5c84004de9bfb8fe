"""Candidates of all sources, their kinds, and what is learned of each kind."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sources_reference as slow
from fakes import both_ways
from hypothesis import given
from hypothesis import strategies as st

from recycle_cpp.drafting.calibration import Calibration
from recycle_cpp.drafting.kernels import candidates as kernels
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.planned import Knowledge
from recycle_cpp.drafting.suffix import SuffixIndex

SEEDS = st.integers(0, 2**32 - 1)


def new_scratch() -> kernels.Scratch:
    return kernels.Scratch(np.full(16, -99, np.int32), *np.full((4, kernels.MOST), -99, np.int32))


class Learned:
    """Random knowledge over a small vocabulary, and the same for the reference."""

    def __init__(self, rng: np.random.Generator, n_vocab: int = 24) -> None:
        self.knowledge = Knowledge(n_vocab)
        self.knowledge.suffix = SuffixIndex(256)
        self.suffix = slow.SlowSuffix(256)
        self.rows: dict[int, tuple[list[int], list[int]]] = {}
        pieces = [rng.integers(0, n_vocab, rng.integers(2, 12)).tolist() for _ in range(4)]
        for _ in range(int(rng.integers(12))):
            self._append([slow.BORDER] if rng.uniform() < 0.1 else pieces[rng.integers(4)])
        for token in range(n_vocab):
            if rng.uniform() < 0.8:
                self._write(rng, token)
        self.context = self.suffix.everything[::-1][: rng.integers(1, 17)]
        if slow.BORDER in self.context or not self.context:
            self.context = rng.integers(0, n_vocab, rng.integers(1, 4)).tolist()

    def _append(self, tokens: list[int]) -> None:
        self.knowledge.suffix.append(tokens)
        self.suffix.append(tokens)

    def _write(self, rng: np.random.Generator, token: int) -> None:
        n = int(rng.choice([1, 2, 8]))
        row = rng.permutation(len(self.knowledge.matrix.row_of))[:n].tolist()
        values = -np.sort(rng.exponential(3, (1, 8))).astype(np.float32)
        top = np.array([row + [-1] * (8 - n)], np.int32)
        self.knowledge.matrix.update(np.array([token], np.int32), top, values)
        gaps = np.floor(np.minimum(16 * (values[0, 0] - values[0]), 255)).astype(int).tolist()
        self.rows[token] = (row, gaps[:n] + [255] * (8 - n))

    def look_up(self, context: list[int]) -> list[tuple[int, tuple[object, ...]]]:
        return slow.candidates(self.suffix, self.rows, context)


def run_find(kernel, knowledge: Knowledge, context: list[int]) -> list[tuple[int, int]]:
    scratch = new_scratch()
    scratch.context[: len(context)] = context
    n = kernel(knowledge.sources, knowledge.suffix.count, len(context), scratch)
    return list(zip(scratch.tokens[:n].tolist(), scratch.buckets[:n].tolist(), strict=True))


@pytest.mark.parametrize("kernel", both_ways(kernels.find_candidates))
def test_a_worked_example_of_candidates(kernel) -> None:
    knowledge = Knowledge(40)
    values = np.array([[9, 8, 7, 6, 5, 4, 3, 2]], np.float32)
    knowledge.matrix.update(np.array([3], np.int32), np.array([[5, 6, 7, 8, 10, 11, 12, 13]], np.int32), values)
    knowledge.suffix.append([1, 2, 3, 9, 2, 3, 6, 2, 3, 6])
    found = run_find(kernel, knowledge, [3, 2])
    assert [token for token, _ in found] == [6, 9, 5, 7, 8, 10, 11, 12, 13], "the row's 6 is there already"
    kinds = [("suffix", 0, 0, "half", "known"), ("suffix", 0, 1, "few", "unknown"), ("row", 0, 2, "two")]
    kinds += [("row", 2, 3, "two"), ("row", 3, 3, "two"), ("row", 4, 4, "two"), ("row", 5, 4, "two")]
    kinds += [("row", 6, 5, "two"), ("row", 7, 5, "two")]
    assert [bucket for _, bucket in found] == [slow.bucket(kind) for kind in kinds]
    assert len(run_find(kernel, knowledge, [3])) == 8
    assert run_find(kernel, knowledge, [4]) == []


@pytest.mark.parametrize("kernel", both_ways(kernels.find_candidates))
@given(seed=SEEDS)
def test_candidates_and_their_kinds_equal_the_reference(kernel, seed: int) -> None:
    learned = Learned(np.random.default_rng(seed))
    found = run_find(kernel, learned.knowledge, learned.context)
    assert found == [(token, slow.bucket(kind)) for token, kind in learned.look_up(learned.context)]
    tokens = [token for token, _ in found]
    assert len(set(tokens)) == len(tokens) <= kernels.MOST
    from_row = [bucket >= kernels.N_SUFFIX for _, bucket in found]
    assert from_row == sorted(from_row), "continuations come first"
    assert all(0 <= bucket < kernels.N_BUCKETS for _, bucket in found)


@given(st.integers(0, 16), st.integers(0, 3), st.integers(1, 12), st.integers(0, 11), st.integers(0, 2))
def test_buckets_of_continuations_are_in_range(length: int, place: int, count: int, others: int, shared: int) -> None:
    assert 0 <= kernels.suffix_bucket(length, place, count, count + others, shared) < kernels.N_SUFFIX


@given(st.integers(0, 7), st.integers(0, 255), st.integers(0, 16))
def test_buckets_of_row_candidates_are_in_range(rank: int, gap: int, longest: int) -> None:
    assert kernels.N_SUFFIX <= kernels.row_bucket(rank, gap, longest) < kernels.N_BUCKETS


def test_every_kind_has_a_bucket_of_its_own_and_every_bucket_a_kind() -> None:
    lengths, agreements, gaps = (2, 3, 4, 6, 9, 14, 15), ((1, 1), (2, 2), (1, 2), (1, 3)), (0, 8, 16, 32, 56, 96)
    suffix = [
        kernels.suffix_bucket(length, place, count, total, shared)
        for length, place, (count, total), shared in product(lengths, range(3), agreements, range(3))
    ]
    rows = [kernels.row_bucket(*kind) for kind in product(range(8), gaps, (0, 2, 3, 6))]
    assert suffix == list(range(kernels.N_SUFFIX))
    assert rows == list(range(kernels.N_SUFFIX, kernels.N_BUCKETS))


def test_classes_of_lengths_and_gaps_begin_where_they_say() -> None:
    lengths = {length: int(kernels.length_class(length)) for length in range(2, 17)}
    assert lengths == {length: slow.length_class(length) for length in range(2, 17)}
    gaps = {gap: int(kernels.gap_class(gap)) for gap in range(256)}
    assert gaps == {gap: slow.gap_class(gap) for gap in range(256)}


def run_learn(kernel, counts: kernels.Counts, truth: int, found: list[tuple[int, int]]) -> None:
    scratch = new_scratch()
    for j, (token, bucket) in enumerate(found):
        scratch.tokens[j], scratch.buckets[j] = token, bucket
    kernel(truth, len(found), scratch, counts)


@pytest.mark.parametrize("kernel", both_ways(kernels.learn))
def test_learning_counts_trials_and_hits_and_the_probability_follows(kernel) -> None:
    counts = Calibration().counts
    prior = counts.prior.copy()
    run_learn(kernel, counts, 30, [(10, 5), (30, 6), (20, 5)])
    run_learn(kernel, counts, 20, [(10, 5), (30, 6), (20, 7)])
    assert (counts.trials[[5, 6, 7]].tolist(), counts.hits[[5, 6, 7]].tolist()) == ([3, 2, 1], [0, 1, 1])
    expected = [4 * prior[5] / 7, (1 + 4 * prior[6]) / 6, (1 + 4 * prior[7]) / 5]
    assert counts.probability[[5, 6, 7]] == pytest.approx(expected, rel=1e-6)
    assert np.array_equal(counts.prior, prior)
    others = [i for i in range(kernels.N_BUCKETS) if i not in (5, 6, 7)]
    assert np.array_equal(counts.probability[others], prior[others])
    assert not counts.trials[others].any()


@pytest.mark.parametrize("kernel", both_ways(kernels.learn))
def test_past_512_trials_the_counts_are_halved_and_the_rate_stays(kernel) -> None:
    counts = Calibration().counts
    for i in range(512):
        run_learn(kernel, counts, 1, [(i % 2, 3)])
    assert (counts.trials[3], counts.hits[3]) == (512, 256)
    before = float(counts.probability[3])
    run_learn(kernel, counts, 1, [(1, 3)])
    assert (counts.trials[3], counts.hits[3]) == (256.5, 128.5)
    assert counts.probability[3] == pytest.approx(before, abs=0.005)


@pytest.mark.parametrize("kernel", both_ways(kernels.learn))
@given(seed=SEEDS)
def test_probabilities_stay_between_0_and_1_and_counts_in_their_bounds(kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = Calibration().counts
    for _ in range(60):
        counts.trials[3] += rng.integers(30)
        counts.hits[3] = min(counts.hits[3] + rng.integers(30), counts.trials[3])
        run_learn(kernel, counts, 1, [(int(rng.integers(2)), 3)])
        assert 0 <= counts.hits[3] <= counts.trials[3] <= kernels.FORGET_AT
        assert 0 < counts.probability[3] < 1


def test_a_fresh_calibration_has_a_sensible_prior_and_reset_returns_to_it() -> None:
    calibration = Calibration()
    prior = calibration.counts.prior.copy()
    assert np.array_equal(calibration.counts.probability, prior)
    assert ((prior > 0) & (prior < 1)).all()
    assert calibration.nbytes == 4 * 4 * kernels.N_BUCKETS
    run_learn(kernels.learn, calibration.counts, 1, [(1, 3), (2, kernels.N_BUCKETS - 1)])
    assert not np.array_equal(calibration.counts.probability, prior)
    calibration.reset()
    assert np.array_equal(calibration.counts.probability, prior)
    assert not calibration.counts.trials.any()
    assert not calibration.counts.hits.any()


def test_a_row_counts_as_unknown_where_the_matrix_has_none() -> None:
    knowledge = Knowledge(10)
    assert isinstance(knowledge.matrix, AdjacencyMatrix)
    knowledge.suffix.append([1, 2, 3, 1, 2])
    kind = ("suffix", 0, 0, "once", "unknown")
    assert run_find(kernels.find_candidates, knowledge, [2, 1]) == [(3, slow.bucket(kind))]
