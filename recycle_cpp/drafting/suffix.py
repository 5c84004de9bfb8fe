"""The suffix index: what followed earlier occurrences of the last tokens, in this text and the ones before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.drafting.kernels import suffix as kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recycle_cpp.types import IntArray

HISTORY = 16_384  # tokens kept; with links and heads 20 bytes each
BORDER = -1


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

    def reset(self) -> None:
        """Forget everything."""
        for array in self.history:
            array.fill(-1)
        self.count = 0
