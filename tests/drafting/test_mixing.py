"""Mixing what the sources say, and learning from the truth: compiled, run by Python, and plain arithmetic agree."""

from __future__ import annotations

import json
import math
from importlib.resources import files

import numpy as np
import pytest
import sources_reference as slow
from fakes import both_ways
from hypothesis import given
from hypothesis import strategies as st
from planning_reference import SlowBelief
from test_candidates import SEEDS, new_pair, new_scratch

from recycle_cpp.drafting.calibration import PRIOR_FILE, Calibration, load_prior
from recycle_cpp.drafting.kernels import candidates
from recycle_cpp.drafting.kernels import mixing as kernels


def any_belief(rng: np.random.Generator) -> kernels.Belief:
    """Return a belief of random probabilities and weights, some of them extreme."""
    belief = Calibration().belief
    belief.prior[:] = rng.uniform(0, rng.choice([0.1, 0.5, 1.0]), len(belief.prior))
    belief.odds[:] = [kernels.log_odds(float(p)) for p in belief.prior]
    belief.weights[:] = rng.normal(0.2, rng.choice([0.1, 0.4, 2.0]), belief.weights.shape)
    return belief


def any_found(rng: np.random.Generator) -> tuple[candidates.Scratch, list[tuple[int, list[int]]], int]:
    """Return candidates in a scratch, the same in a list, and their situation."""
    pair = new_pair(rng)
    scratch = new_scratch()
    context = pair.any_context(rng)
    scratch.context[: len(context)] = context
    candidates.find_candidates(pair.knowledge.sources, pair.knowledge.suffix.count, len(context), scratch)
    n, situation = scratch.result.tolist()
    return scratch, list(zip(scratch.tokens[:n].tolist(), scratch.kinds[:n].tolist(), strict=True)), situation


def one_candidate(kinds: list[int], token: int = 1) -> candidates.Scratch:
    scratch = new_scratch()
    scratch.tokens[0], scratch.kinds[0] = token, kinds
    return scratch


@pytest.mark.parametrize("kernel", both_ways(kernels.probability_of))
def test_a_worked_example_of_a_mix(kernel) -> None:
    belief = Calibration().belief
    belief.odds[[0, 140, 150]] = [2.0, -1.0, 0.5]
    belief.weights[4] = [0.5, 0.25, 0.0, 0.0, 2.0, -0.5]
    scratch = one_candidate([0, 140, 150, 150, 150])
    # 0.5 * 2 - 0.25 * 1 + 2 * 0.5 - 0.5 = 1.25
    assert kernel(0, 4, scratch, belief) == pytest.approx(1 / (1 + math.exp(-1.25)), rel=1e-6)
    belief.weights[4, 5] = 500
    assert kernel(0, 4, scratch, belief) == pytest.approx(1 / (1 + math.exp(-9)), rel=1e-6), "no more than this"


@pytest.mark.parametrize("kernel", both_ways(kernels.probabilities))
@given(seed=SEEDS)
def test_probabilities_equal_the_reference_and_only_one_candidate_can_be_chosen(kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    belief, (scratch, found, situation) = any_belief(rng), any_found(rng)
    out = np.full(candidates.MOST, -99, np.float32)
    kernel(len(found), situation, scratch, belief, out)
    expected = SlowBelief(belief).probabilities([kinds for _, kinds in found], situation)
    assert out[: len(found)].tolist() == pytest.approx(expected, rel=1e-4)
    assert (out[len(found) :] == -99).all()
    assert (out[: len(found)] > 0).all()
    assert out[: len(found)].sum(dtype=np.float64) <= 1 + 1e-6


@pytest.mark.parametrize("kernel", both_ways(kernels.learn))
@given(seed=SEEDS, n_positions=st.integers(1, 6))
def test_learning_equals_the_reference_and_keeps_all_within_bounds(kernel, seed: int, n_positions: int) -> None:
    rng = np.random.default_rng(seed)
    belief = any_belief(rng)
    belief.trials[:] = rng.choice([0, 100, 511.5], len(belief.trials))
    belief.hits[:] = belief.trials * rng.uniform(0, 1, len(belief.trials))
    expected = SlowBelief(belief)
    for _ in range(n_positions):
        scratch, found, situation = any_found(rng)
        truth = int(rng.choice([token for token, _ in found])) if found and rng.uniform() < 0.7 else 23
        kernel(truth, len(found), situation, scratch, belief)
        expected.learn(truth, found, situation)
    for array, values in zip(belief, (expected.hits, expected.trials, None, expected.odds, None), strict=True):
        assert values is None or np.allclose(array, values, rtol=1e-3, atol=1e-3)
    assert belief.prior.tolist() == expected.prior
    assert np.allclose(belief.weights, expected.weights, rtol=1e-3, atol=1e-3)
    assert ((belief.hits >= 0) & (belief.hits <= belief.trials) & (belief.trials <= kernels.FORGET_AT)).all()
    bound = math.log(kernels.MOST_LIKELY / (1 - kernels.MOST_LIKELY))
    assert np.abs(belief.odds).max() <= bound + 1e-4


@pytest.mark.parametrize("kernel", both_ways(kernels.learn))
def test_what_is_right_again_and_again_becomes_likely_and_what_is_wrong_unlikely(kernel) -> None:
    kinds = [slow.NUMBER_OF[kind] for kind in (("suffix", 1, 0, "once"), ("follower", 0, 1), ("row", 0, 0))]
    kinds += [slow.NUMBER_OF[kind] for kind in (("previous silent", "no row"), ("frequent silent",))]
    scratch = one_candidate(kinds)
    for truth, least, most in ((1, 0.9, 1.0), (2, 0.0, 0.1)):
        belief = Calibration().belief
        for _ in range(100):
            kernel(truth, 1, 6, scratch, belief)
        assert least < kernels.probability_of(0, 6, scratch, belief) < most
    others = [i for i in range(candidates.N_KINDS) if i not in kinds]
    assert not belief.trials[others].any()
    assert np.array_equal(np.delete(belief.weights, 6, axis=0), np.delete(Calibration().belief.weights, 6, axis=0))


@pytest.mark.parametrize("kernel", both_ways(kernels.learn))
def test_past_512_trials_the_counts_are_halved_and_the_rate_stays(kernel) -> None:
    belief = Calibration().belief
    kinds = [3, 140, 150, 200, 250]
    for i in range(512):
        kernel(i % 2, 1, 0, one_candidate(kinds), belief)
    assert (belief.trials[3], belief.hits[3]) == (512, 256)
    before = float(belief.odds[3])
    kernel(1, 1, 0, one_candidate(kinds), belief)
    assert (belief.trials[3], belief.hits[3]) == (256.5, 128.5)
    assert belief.odds[3] == pytest.approx(before, abs=0.1)


def test_reset_returns_to_the_prior_and_one_calibration_leaves_the_next_alone() -> None:
    calibration = Calibration()
    odds, weights = calibration.belief.odds.copy(), calibration.belief.weights.copy()
    for _ in range(50):
        kernels.learn(1, 1, 2, one_candidate([3, 140, 150, 200, 250]), calibration.belief)
    assert not np.array_equal(calibration.belief.odds, odds)
    assert not np.array_equal(calibration.belief.weights, weights)
    for fresh in (Calibration(), calibration):
        fresh.reset()
        assert np.array_equal(fresh.belief.odds, odds)
        assert np.array_equal(fresh.belief.weights, weights)
        assert not fresh.belief.trials.any()
        assert not fresh.belief.hits.any()
    assert calibration.nbytes == sum(array.nbytes for array in calibration.belief) + weights.nbytes


def test_the_prior_is_a_table_of_probabilities_and_finite_weights() -> None:
    prior, weights = load_prior()
    assert prior.shape == (candidates.N_KINDS,)
    assert weights.shape == (candidates.N_SITUATIONS, candidates.N_SOURCES + 1)
    assert (prior.dtype, weights.dtype) == (np.float32, np.float32)
    assert ((prior > 0) & (prior < 1)).all()
    assert np.isfinite(weights).all()
    assert np.abs(weights).max() < 10
    prior[:] = 0
    assert load_prior()[0].any(), "what is returned is a copy"
    assert set(json.loads(files("recycle_cpp.drafting").joinpath(PRIOR_FILE).read_text("utf-8"))) == {
        "probabilities",
        "weights",
    }


def test_the_prior_knows_that_longer_matches_better_ranks_and_clearer_leads_are_likelier() -> None:
    prior, _ = load_prior()

    def mean(kinds) -> float:
        return float(np.mean([prior[slow.NUMBER_OF[kind]] for kind in kinds]))

    first = [mean(("suffix", length, 0, agreement) for agreement in ("once", "all")) for length in range(1, 10)]
    assert mean_of(first[:3]) < mean_of(first[3:6]) < mean_of(first[6:])
    ranks = [mean(("row", rank, lead) for lead in range(7)) for rank in range(8)]
    assert ranks[0] > ranks[1] > mean_of(ranks[2:4]) > mean_of(ranks[4:])
    leads = [mean([("row", 0, lead)]) for lead in range(7)]
    assert mean_of(leads[:3]) < mean_of(leads[3:5]) < mean_of(leads[5:])
    places = [mean(("suffix", length, place, "half") for length in range(1, 10)) for place in range(2)]
    assert places[0] > places[1]


def mean_of(values: list[float]) -> float:
    return float(np.mean(values))
