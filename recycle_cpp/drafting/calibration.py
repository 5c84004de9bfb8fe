"""Calibration: how often each kind of opinion of a candidate turned out to be right, and how to weight the sources."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from recycle_cpp.drafting.kernels import candidates, mixing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recycle_cpp.types import FloatArray

PRIOR_FILE = "prior.json"  # made by benchmarks/fit_prior.py
CARRIED_TRIALS = 32.0  # what counts from an earlier session weigh at most, so that a new topic is soon believed
MOST_WEIGHT = 100.0  # no weight comes near it


class Calibration:
    """Decayed counts per kind of opinion and weights of the sources, and the probabilities that follow.

    Attributes:
        belief: the arrays, as the kernels take them.
    """

    def __init__(self) -> None:
        prior, weights = load_prior()
        zeros = np.zeros((2, candidates.N_KINDS), np.float32)
        self.belief = mixing.Belief(zeros[0], zeros[1], prior, np.empty_like(prior), np.empty_like(weights))
        self._weights = weights
        self.reset()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.belief) + self._weights.nbytes

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that is learned, by name; the prior belongs to the code, and the odds follow."""
        belief = self.belief
        return {"hits": belief.hits, "trials": belief.trials, "weights": belief.weights}

    def adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Overwrite counts and weights with arrays of the same names, types and shapes; `relax` is to follow."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]

    def relax(self) -> None:
        """Cut the counts down to a prior of limited strength, and bring the weights half the way back to theirs."""
        belief = self.belief
        share = np.float32(CARRIED_TRIALS) / np.maximum(belief.trials, np.float32(CARRIED_TRIALS))
        belief.hits[:] *= share
        belief.trials[:] *= share
        belief.weights[:] = (belief.weights + self._weights) / 2
        self._follow()

    def check_integrity(self) -> None:
        """Check that the counts are counts, and the weights of their usual size.

        Raises:
            ValueError: names the fault.
        """
        hits, trials = self.belief.hits, self.belief.trials
        # Written so that a NaN, of which nothing is true, is a fault as well.
        if not (np.all(hits >= 0) and np.all(hits <= trials) and np.all(trials <= mixing.FORGET_AT)):
            raise ValueError(f"a kind of opinion has other than 0 <= hits <= trials <= {mixing.FORGET_AT:g}")
        if not np.all(np.abs(self.belief.weights) <= MOST_WEIGHT):
            raise ValueError(f"a weight is not between -{MOST_WEIGHT:g} and {MOST_WEIGHT:g}")

    def reset(self) -> None:
        """Go back to the prior."""
        self.belief.hits.fill(0)
        self.belief.trials.fill(0)
        self.belief.weights[:] = self._weights
        self._follow()

    def _follow(self) -> None:
        """Make the odds what the counts say."""
        for kind in range(candidates.N_KINDS):
            mixing.follow_counts(kind, self.belief)


@cache
def _read_prior() -> tuple[FloatArray, FloatArray]:
    kept = json.loads(files(__package__).joinpath(PRIOR_FILE).read_text("utf-8"))
    return np.array(kept["probabilities"], np.float32), np.array(kept["weights"], np.float32)


def load_prior() -> tuple[FloatArray, FloatArray]:
    """Return float32[N_KINDS] probabilities and float32[N_SITUATIONS, N_SOURCES + 1] weights to begin with; copies."""
    probabilities, weights = _read_prior()
    return probabilities.copy(), weights.copy()
