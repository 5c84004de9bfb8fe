"""Calibration: how often each kind of candidate turned out to be the model's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recycle_cpp.drafting.kernels import candidates as kinds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# What counts from disk weigh at most, so that a dozen tokens of a new topic outweigh them. Thinly measured: 320
# tokens at fixed costs told 8, 32 and 512 apart on Qwen 0.5B only (1.04, 1.03, 1.03 times plain; cold 1.05).
CARRIED_TRIALS = 8.0


class Calibration:
    """Decayed counts of trials and hits per kind of candidate, and the probabilities that follow.

    Attributes:
        counts: the arrays, as the kernels take them.
    """

    def __init__(self) -> None:
        prior = default_prior()
        zeros = np.zeros((2, kinds.N_BUCKETS), np.float32)
        self.counts = kinds.Counts(zeros[0], zeros[1], prior, prior.copy())

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.counts)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that is learned, by name; the prior belongs to the code, and the probabilities follow."""
        return {"hits": self.counts.hits, "trials": self.counts.trials}

    def adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Overwrite the counts with arrays of the same names, types and shapes; `relax` is to follow."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]

    def relax(self) -> None:
        """Cut the counts down to a prior of limited strength, so that a new topic is soon believed."""
        counts = self.counts
        share = np.float32(CARRIED_TRIALS) / np.maximum(counts.trials, np.float32(CARRIED_TRIALS))
        counts.hits[:] *= share
        counts.trials[:] *= share
        believed = counts.hits + np.float32(kinds.PRIOR_TRIALS) * counts.prior
        counts.probability[:] = believed / (counts.trials + np.float32(kinds.PRIOR_TRIALS))

    def check_integrity(self) -> None:
        """Check that the counts are counts.

        Raises:
            ValueError: names the fault.
        """
        hits, trials = self.counts.hits, self.counts.trials
        # Written so that a NaN, of which nothing is true, is a fault as well.
        if not (np.all(hits >= 0) and np.all(hits <= trials) and np.all(trials <= kinds.FORGET_AT)):
            raise ValueError(f"a kind of candidate has other than 0 <= hits <= trials <= {kinds.FORGET_AT:g}")

    def reset(self) -> None:
        """Go back to the prior."""
        self.counts.hits.fill(0)
        self.counts.trials.fill(0)
        self.counts.probability[:] = self.counts.prior


def default_prior() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return float32[N_BUCKETS], rough probabilities to begin with; a few dozen tokens replace them.

    From hit rates of SmolLM2 and Qwen2.5-Coder 0.5B on Spec-Bench prompts, smoothed by hand.
    """
    prior = np.zeros(kinds.N_BUCKETS, np.float32)
    by_length = (0.33, 0.42, 0.50, 0.58, 0.68, 0.78, 0.88)
    by_place = (1.0, 0.35, 0.2)
    by_agreement = (0.85, 1.1, 0.9, 0.5)
    by_shared = (1.15, 0.9, 0.6)
    for length, a in enumerate(by_length):
        for place, b in enumerate(by_place):
            for agreement, c in enumerate(by_agreement):
                for shared, d in enumerate(by_shared):
                    index = ((length * 3 + place) * 4 + agreement) * 3 + shared
                    prior[index] = min(0.97, a * b * c * d)
    by_rank = (0.30, 0.12, 0.07, 0.05, 0.035, 0.03, 0.025, 0.02)
    by_state = (1.0, 0.7, 0.5, 0.25)
    for rank, a in enumerate(by_rank):
        for gap in range(kinds.N_GAPS):
            lead = 0.6 + 0.25 * gap if rank == 0 else 1.3 - 0.22 * gap
            for state, b in enumerate(by_state):
                prior[kinds.N_SUFFIX + (rank * kinds.N_GAPS + gap) * kinds.N_STATES + state] = a * b * max(lead, 0.1)
    return prior
