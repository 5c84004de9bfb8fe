"""The frequent tokens: what to guess where nothing else is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recycle_cpp.drafting.kernels.candidates import N_FREQUENT
from recycle_cpp.drafting.kernels.frequent import FORGET_AT, count_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

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

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that is learned, by name: the arrays themselves."""
        return {"tokens": self.tokens, "counts": self.counts}

    def adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Overwrite all with arrays of the same names, types and shapes; they are checked by `check_integrity`."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]

    def check_integrity(self, n_vocab: int) -> None:
        """Check that all tokens are in the vocabulary, each once, and that the counts are counts.

        Raises:
            ValueError: names the first fault found.
        """
        known = self.tokens[self.tokens >= 0]
        if self.tokens.min() < -1 or self.tokens.max() >= n_vocab or len(set(known.tolist())) != len(known):
            raise ValueError(f"the frequent tokens are not different tokens of a vocabulary of {n_vocab}")
        if not (np.all(self.counts >= 0) and np.all(self.counts <= FORGET_AT)):
            raise ValueError(f"a frequent token has other than 0 to {FORGET_AT:g} occurrences")

    def reset(self) -> None:
        """Forget everything."""
        self.tokens.fill(-1)
        self.counts.fill(0)
