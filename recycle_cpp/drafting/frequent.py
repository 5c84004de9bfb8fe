"""The frequent tokens: what to guess where nothing else is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.drafting.kernels.candidates import N_FREQUENT
from recycle_cpp.drafting.kernels.frequent import count_tokens

if TYPE_CHECKING:
    from recycle_cpp.types import IntArray


class FrequentTokens:
    """A short list of the tokens emitted most, of late.

    Attributes:
        tokens: int32[16], most frequent first; -1 for none.
        counts: float32[16], decayed.
    """

    def __init__(self) -> None:
        self.tokens = np.full(N_FREQUENT, -1, np.int32)
        self.counts = np.zeros(N_FREQUENT, np.float32)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.tokens.nbytes + self.counts.nbytes

    def append(self, emitted: IntArray) -> None:
        """Count int32[n] emitted tokens."""
        count_tokens(emitted, self.tokens, self.counts)

    def reset(self) -> None:
        """Forget everything."""
        self.tokens.fill(-1)
        self.counts.fill(0)
