"""The adjacency matrix: for each token seen, the candidates that followed it best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recycle_cpp.drafting.kernels import fixed as kernels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recycle_cpp.types import FloatArray, IntArray

TOP_K = 8
MAX_ROWS = 24_576  # a row costs 44 bytes; with 262,144 tokens of index the whole is 1.6 MB


class AdjacencyMatrix:
    """Successor candidates of tokens, one row of top-k token ids each (Token Recycling, arXiv 2408.08696).

    Rows are handed out on first use, so that the memory does not grow with the vocabulary; past `MAX_ROWS` the oldest
    row is reused. All memory is taken at once.

    Attributes:
        row_of: int16[n_vocab], row of each token; -1 for none.
        rows: int32[n_rows, k], candidates in falling order; -1 for none.
        gaps: uint8[n_rows, k], distance of each candidate's logit from the best one's, in sixteenths, at most 255.
        owner: int32[n_rows], token of each row; -1 for none.
    """

    def __init__(self, n_vocab: int, top_k: int = TOP_K, max_rows: int = MAX_ROWS) -> None:
        n_rows = min(n_vocab, max_rows)
        self.row_of = np.full(n_vocab, -1, np.int16)
        self.rows = np.full((n_rows, top_k), -1, np.int32)
        self.gaps = np.full((n_rows, top_k), 255, np.uint8)
        self.owner = np.full(n_rows, -1, np.int32)
        self._made = 0

    @property
    def top_k(self) -> int:
        """Candidates per row."""
        return int(self.rows.shape[1])

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return min(self._made, len(self.owner))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.row_of.nbytes + self.rows.nbytes + self.gaps.nbytes + self.owner.nbytes

    def row(self, token: int) -> IntArray | None:
        """Return the candidates of a token, int32[k], or None if it was never seen; a view until the next update."""
        row = self.row_of[token]
        return None if row < 0 else self.rows[row]

    def update(self, tokens: IntArray, top: IntArray, values: FloatArray) -> None:
        """Write candidates into the rows of their tokens; the later of two equal tokens wins.

        Args:
            tokens: int32[W].
            top: int32[W, k], best first.
            values: float32[W, k], their logits.
        """
        self._made = kernels.update_rows(tokens, top, values, self.row_of, self.rows, self.gaps, self.owner, self._made)

    def reset(self) -> None:
        """Forget everything."""
        self.row_of.fill(-1)
        self.rows.fill(-1)
        self.gaps.fill(255)
        self.owner.fill(-1)
        self._made = 0

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that is learned, by name: the arrays themselves, and the counter as int64[1]."""
        made = np.array([self._made], np.int64)
        return {"row_of": self.row_of, "rows": self.rows, "gaps": self.gaps, "owner": self.owner, "made": made}

    def adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Overwrite all with arrays of the same names, types and shapes; they are checked by `check_integrity`."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]
        self._made = int(arrays["made"][0])

    def check_integrity(self) -> None:
        """Check that index and rows agree and that all ids are in the vocabulary.

        Raises:
            ValueError: names the first fault found.
        """
        n_vocab, owner, places = len(self.row_of), self.owner, np.arange(len(self.owner))
        for row in np.flatnonzero((owner < -1) | ((owner >= 0) != (places < self.n_rows))):
            raise ValueError(f"row {row} of {self.n_rows} has owner {owner[row]}")
        for row in np.flatnonzero(owner >= n_vocab):
            raise ValueError(f"row {row} has owner {owner[row]}, outside the vocabulary of {n_vocab}")
        pointed = self.row_of[np.maximum(owner, 0)]
        for row in np.flatnonzero((owner >= 0) & (pointed != places)):
            raise ValueError(f"row {row} belongs to token {owner[row]}, which points to row {pointed[row]}")
        if np.count_nonzero(self.row_of >= 0) != self.n_rows:
            raise ValueError(f"{np.count_nonzero(self.row_of >= 0)} tokens point to {self.n_rows} rows")
        if self.rows.min(initial=0) < -1 or self.rows.max(initial=0) >= n_vocab:
            raise ValueError(f"a candidate is outside the vocabulary of {n_vocab}")
