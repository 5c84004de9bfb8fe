"""The suffix index: what followed earlier occurrences of the last tokens, in this text and the ones before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recycle_cpp.drafting.kernels import suffix as kernels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from recycle_cpp.types import IntArray

HISTORY = 16_384  # tokens kept; with links and heads 20 bytes each
BORDER = -1
MOST_TOKENS = 1 << 30  # positions are int32; a history that was kept beyond this is begun anew


class SuffixIndex:
    """Finds earlier occurrences of the last tokens in a bounded history, newest first, in constant time per token.

    Occurrences of the last two tokens are linked by hash; each one looked at is compared backwards, so the match length
    is the true one. Occurrences of the last token alone are linked too. Requests are kept apart by a border that no
    match crosses.

    Attributes:
        history: the arrays, as the kernels take them; 2**m tokens are kept.
        count: tokens appended so far, borders included.
    """

    def __init__(self, size: int = HISTORY) -> None:
        self.history = kernels.History(*np.full((5, size), -1, np.int32))
        self.count = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.history)

    def append(self, tokens: Sequence[int] | IntArray) -> None:
        """Append tokens that follow each other."""
        self.count = kernels.append(np.asarray(tokens, np.int32), self.count, self.history)

    def begin(self, tokens: Sequence[int]) -> None:
        """Append the prompt of a new request behind a border."""
        self.append([BORDER, *tokens])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that is learned, by name: the arrays themselves, and the counter as int64[1]."""
        count = np.array([self.count], np.int64)
        return {**self.history._asdict(), "count": count}

    def adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Overwrite all with arrays of the same names, types and shapes; they are checked by `check_integrity`."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]
        self.count = int(arrays["count"][0])

    def check_integrity(self, n_vocab: int) -> None:
        """Check that all tokens are in the vocabulary and that all links lead back.

        Raises:
            ValueError: names the first fault found.
        """
        if not 0 <= self.count <= MOST_TOKENS:
            raise ValueError(f"the history counts {self.count} tokens")
        history = self.history
        if history.tokens.min() < BORDER or history.tokens.max() >= n_vocab:
            raise ValueError(f"a token of the history is outside the vocabulary of {n_vocab}")
        size = len(history.tokens)
        # The position that each place holds: the last one below the count that falls on it.
        held = (self.count - 1) - (self.count - 1 - np.arange(size)) % size
        for older in (history.older_pair, history.older_single):
            if older.min() < -1 or np.any(older >= np.maximum(held, 0)):
                raise ValueError("a link of the history does not lead back")
        for newest in (history.newest_pair, history.newest_single):
            if newest.min() < -1 or newest.max() >= max(self.count, 0):
                raise ValueError(f"a head of the history is not among its {self.count} tokens")

    def reset(self) -> None:
        """Forget everything."""
        for array in self.history:
            array.fill(-1)
        self.count = 0
