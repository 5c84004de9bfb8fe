"""What the model said where tokens were chosen, as log probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.decoding import kernels
from recycle_cpp.types import TokenLogprobs

if TYPE_CHECKING:
    from recycle_cpp.types import FloatArray


class LogprobReader:
    """Reads logits rows, before any sampler changes what is chosen from; its buffers are made once per run."""

    def __init__(self, n_best: int, n_vocab: int) -> None:
        """Take how many of the likeliest tokens each record lists; 0 lists none."""
        self._best = np.empty((1, n_best), np.int32)
        self._values = np.empty((1, n_best), np.float32)
        self._maxima = np.empty(min(kernels.LANES, n_vocab), np.float32)

    def read(self, row: FloatArray, token: int) -> TokenLogprobs:
        """Return the record of a token chosen from float32[n_vocab] logits."""
        total = kernels.log_sum_exp(row)
        if self._best.shape[1] == 0:
            return TokenLogprobs(token, float(row[token]) - total)
        kernels.top_k(row[None], self._best, self._values, self._maxima)
        pairs = zip(self._best[0].tolist(), self._values[0].tolist(), strict=True)
        return TokenLogprobs(token, float(row[token]) - total, tuple((t, v - total) for t, v in pairs if t >= 0))
