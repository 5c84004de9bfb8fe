"""The recording drafter: plain decoding that keeps what the model said at every position."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.drafting.drafter import PlainDrafter
from recycle_cpp.drafting.matrix import TOP_K

if TYPE_CHECKING:
    from recycle_cpp.drafting.drafter import Outcome
    from recycle_cpp.types import FloatArray, IntArray


class RecordingDrafter(PlainDrafter):
    """Drafts nothing; the rows of all its steps are kept."""

    def __init__(self) -> None:
        super().__init__()
        self._top: list[IntArray] = []
        self._values: list[FloatArray] = []

    @property
    def top_k(self) -> int:
        """Candidates wanted from each logits row: as many as an adjacency row takes."""
        return TOP_K

    @property
    def top(self) -> IntArray:
        """Candidates at each position, int32[n, k], best first; a copy."""
        return np.array(self._top, np.int32).reshape(-1, TOP_K)

    @property
    def values(self) -> FloatArray:
        """Their logits, float32[n, k]; a copy."""
        return np.array(self._values, np.float32).reshape(-1, TOP_K)

    def update(self, outcome: Outcome) -> None:
        """Keep the root's row; the outcome's arrays are overwritten by the next step."""
        self._top.append(outcome.top[0].copy())
        self._values.append(outcome.values[0].copy())
