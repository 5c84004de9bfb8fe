"""Numba loops that turn what the sources say of a candidate into one probability, and learn from the truth.

Each kind of opinion has decayed counts of candidates and hits, so a probability; a candidate's own one is their
weighted sum in the logistic domain, with a set of weights for each situation that follows the truth by gradient
descent (logistic mixing, as in Mahoney's PAQ compressors). The prior comes from `benchmarks/fit_prior.py`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from numba import njit

from recycle_cpp.drafting.kernels.candidates import N_SOURCES, Scratch

if TYPE_CHECKING:
    from recycle_cpp.types import FloatArray

FORGET_AT = 512.0  # candidates of a kind at which its counts are halved
PRIOR_TRIALS = 16.0  # how many candidates the prior stands for
RATE = 0.01  # step of the weights
BIAS_SHARE = 0.3  # of that step, for the bias
LEAST, MOST_LIKELY = 0.0005, 0.9995  # bounds of a kind's probability
FURTHEST = 9.0  # bound of a candidate's log odds


class Belief(NamedTuple):
    """How far each kind of opinion is to be trusted; the owner is Calibration.

    Attributes:
        hits: float32[N_KINDS], decayed.
        trials: float32[N_KINDS], decayed.
        prior: float32[N_KINDS], probability before anything is known.
        odds: float32[N_KINDS], log odds that follow from the three.
        weights: float32[N_SITUATIONS, N_SOURCES + 1], of each source, and the bias.
    """

    hits: FloatArray
    trials: FloatArray
    prior: FloatArray
    odds: FloatArray
    weights: FloatArray


@njit(cache=True, nogil=True)
def log_odds(probability: float) -> float:
    """Return ln(p / (1 - p)) of a probability kept within its bounds."""
    p = min(max(probability, LEAST), MOST_LIKELY)
    return math.log(p / (1.0 - p))


@njit(cache=True, nogil=True)
def follow_counts(kind: int, belief: Belief) -> None:
    """Make the odds of a kind what its counts and the prior say; updates the belief."""
    share = belief.hits[kind] + PRIOR_TRIALS * belief.prior[kind]
    belief.odds[kind] = log_odds(share / (belief.trials[kind] + PRIOR_TRIALS))


@njit(cache=True, nogil=True)
def probability_of(j: int, situation: int, scratch: Scratch, belief: Belief) -> float:
    """Return the probability that candidate j is the model's choice."""
    weights = belief.weights[situation]
    z = weights[N_SOURCES]
    for source in range(N_SOURCES):
        z += weights[source] * belief.odds[scratch.kinds[j, source]]
    return 1.0 / (1.0 + math.exp(-min(max(z, -FURTHEST), FURTHEST)))


@njit(cache=True, nogil=True)
def probabilities(n: int, situation: int, scratch: Scratch, belief: Belief, out: FloatArray) -> None:
    """Overwrite float32[>=n] with the probabilities of n candidates; only one can be chosen: their sum is at most 1."""
    total = 0.0
    for j in range(n):
        out[j] = probability_of(j, situation, scratch, belief)
        total += out[j]
    if total > 1.0:
        for j in range(n):
            out[j] /= total


@njit(cache=True, nogil=True)
def learn(truth: int, n: int, situation: int, scratch: Scratch, belief: Belief) -> None:
    """Learn which of n candidates of one position, drafted or not, was the model's choice; updates the belief."""
    weights = belief.weights[situation]
    for j in range(n):
        hit = 1.0 if scratch.tokens[j] == truth else 0.0
        step = RATE * (hit - probability_of(j, situation, scratch, belief))
        for source in range(N_SOURCES):
            weights[source] += step * belief.odds[scratch.kinds[j, source]]
        weights[N_SOURCES] += BIAS_SHARE * step
    for j in range(n):
        hit = 1.0 if scratch.tokens[j] == truth else 0.0
        for source in range(N_SOURCES):
            _count(scratch.kinds[j, source], hit, belief)


@njit(cache=True, nogil=True)
def _count(kind: int, hit: float, belief: Belief) -> None:
    belief.trials[kind] += 1.0
    belief.hits[kind] += hit
    if belief.trials[kind] > FORGET_AT:
        belief.trials[kind] *= 0.5
        belief.hits[kind] *= 0.5
    follow_counts(kind, belief)
