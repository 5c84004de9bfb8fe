"""Everything that drafting learns, shared by the requests on one model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.drafting.calibration import Calibration
from recycle_cpp.drafting.frequent import FrequentTokens
from recycle_cpp.drafting.kernels import candidates
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.suffix import SuffixIndex

if TYPE_CHECKING:
    from recycle_cpp.drafting.drafter import Outcome
    from recycle_cpp.types import IntArray

SOURCES = ("suffix", "follower", "row", "previous", "frequent")


class Knowledge:
    """The sources of candidates, and how far each kind of opinion of theirs is to be trusted.

    Attributes:
        matrix: what followed single tokens best.
        suffix: the texts so far.
        frequent: the tokens emitted most.
        calibration: how far each kind of opinion is to be trusted.
        sources: their arrays, as the kernels take them.
    """

    def __init__(self, n_vocab: int, in_use: tuple[str, ...] = SOURCES) -> None:
        """Make empty sources.

        Args:
            n_vocab: tokens of the vocabulary.
            in_use: names of the sources that are asked; fewer than all only to measure what each is worth.
        """
        self.matrix = AdjacencyMatrix(n_vocab)
        self.suffix = SuffixIndex()
        self.frequent = FrequentTokens()
        self.calibration = Calibration()
        self.sources = candidates.Sources(
            self.matrix.row_of,
            self.matrix.rows,
            self.matrix.gaps,
            self.suffix.history,
            self.frequent.tokens,
            np.array([name in in_use for name in SOURCES], np.uint8),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(part.nbytes for part in (self.matrix, self.suffix, self.frequent, self.calibration))

    def learn(self, outcome: Outcome, emitted: IntArray) -> None:
        """Take in what a verified tree showed: candidates of every node, and int32[n] emitted tokens."""
        self.matrix.update(outcome.tree.tokens, outcome.top, outcome.values)
        self.suffix.append(emitted)
        self.frequent.append(emitted)

    def reset(self) -> None:
        """Forget everything."""
        for part in (self.matrix, self.suffix, self.frequent, self.calibration):
            part.reset()
