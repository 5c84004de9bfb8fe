"""The suffix index: what followed earlier occurrences of the last tokens, in this text and the ones before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.drafting.kernels import suffix as kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recycle_cpp.types import IntArray

HISTORY = 16_384  # tokens kept; with links and heads 12 bytes each
BORDER = -1


class SuffixIndex:
    """Finds earlier occurrences of the last tokens in a bounded history, newest first, in constant time per token.

    Occurrences of the last two tokens are linked by hash; each one looked at is compared backwards, so the match length
    is the true one. Requests are kept apart by a border that no match crosses.

    Attributes:
        history: int32[N], token at position p stands at p % N.
        older: int32[N], position of an earlier occurrence of the same two tokens; -1 for none.
        newest: int32[N], newest position of two tokens, by their hash; -1 for none.
        count: tokens appended so far, borders included.
    """

    def __init__(self, size: int = HISTORY) -> None:
        self.history, self.older, self.newest = np.full((3, size), -1, np.int32)
        self.count = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.history.nbytes + self.older.nbytes + self.newest.nbytes

    def append(self, tokens: Sequence[int] | IntArray) -> None:
        """Append tokens that follow each other."""
        self.count = kernels.append(np.asarray(tokens, np.int32), self.count, self.history, self.older, self.newest)

    def begin(self, tokens: Sequence[int]) -> None:
        """Append the prompt of a new request behind a border."""
        self.append([BORDER, *tokens])

    def reset(self) -> None:
        """Forget everything."""
        for array in (self.history, self.older, self.newest):
            array.fill(-1)
        self.count = 0
