"""Calibration: how often each kind of opinion of a candidate turned out to be right, and how to weight the sources."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.drafting.kernels import candidates, mixing

if TYPE_CHECKING:
    from recycle_cpp.types import FloatArray

PRIOR_FILE = "prior.json"  # made by benchmarks/fit_prior.py


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

    def reset(self) -> None:
        """Go back to the prior."""
        self.belief.hits.fill(0)
        self.belief.trials.fill(0)
        self.belief.odds[:] = [mixing.log_odds(float(p)) for p in self.belief.prior]
        self.belief.weights[:] = self._weights


@cache
def _read_prior() -> tuple[FloatArray, FloatArray]:
    kept = json.loads(files(__package__).joinpath(PRIOR_FILE).read_text("utf-8"))
    return np.array(kept["probabilities"], np.float32), np.array(kept["weights"], np.float32)


def load_prior() -> tuple[FloatArray, FloatArray]:
    """Return float32[N_KINDS] probabilities and float32[N_SITUATIONS, N_SOURCES + 1] weights to begin with; copies."""
    probabilities, weights = _read_prior()
    return probabilities.copy(), weights.copy()
