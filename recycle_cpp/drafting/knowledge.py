"""Everything that drafting learns, shared by the requests on one model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from recycle_cpp.drafting.calibration import Calibration
from recycle_cpp.drafting.frequent import FrequentTokens
from recycle_cpp.drafting.kernels import candidates
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.suffix import SuffixIndex

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recycle_cpp.drafting.drafter import Outcome
    from recycle_cpp.types import IntArray

SOURCES = ("suffix", "follower", "row", "previous", "frequent")


class Part(Protocol):
    """What knowledge asks of each of its parts."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that is learned, by name: the arrays themselves, and counters as int64[1]."""

    def adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Overwrite all, in place, with arrays of the same names, types and shapes."""

    def reset(self) -> None:
        """Forget everything."""


class Knowledge:
    """The sources of candidates, and how far each kind of opinion of theirs is to be trusted.

    Attributes:
        matrix: what followed single tokens best.
        suffix: the texts so far.
        frequent: the tokens emitted most.
        calibration: how far each kind of opinion is to be trusted.
        sampled: the same where tokens are drawn, not the likeliest taken.
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
        self.calibration, self.sampled = Calibration(), Calibration()
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
        return sum(part.nbytes for part in self._parts().values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been learned yet."""
        return self.matrix.n_rows == 0 and self.suffix.count == 0

    def learn(self, outcome: Outcome, emitted: IntArray) -> None:
        """Take in what a verified tree showed: candidates of every node, and int32[n] emitted tokens."""
        self.matrix.update(outcome.tree.tokens, outcome.top, outcome.values)
        self.suffix.append(emitted)
        self.frequent.append(emitted)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that is learned, by part and name: views that the next step changes, and counters as int64[1]."""
        return {
            f"{part}.{name}": array for part, owner in self._parts().items() for name, array in owner.arrays().items()
        }

    def adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Overwrite all, in place, with what was learned before, and relax its calibration.

        Args:
            arrays: as `arrays` returned them, of this or another session.

        Raises:
            ValueError: if they are not of the names, types and shapes that are wanted here, or are not whole;
                nothing is known then. The kernels check no bounds, so a wrong index may not come in.
        """
        self.reset()
        wanted = {name: (array.dtype, array.shape) for name, array in self.arrays().items()}
        if wanted != {name: (array.dtype, array.shape) for name, array in arrays.items()}:
            raise ValueError("the arrays are not those that this version learns")
        try:
            for part, owner in self._parts().items():
                owner.adopt({name: arrays[f"{part}.{name}"] for name in owner.arrays()})
            self.check_integrity()
        except ValueError:
            self.reset()
            raise
        self.calibration.relax()
        self.sampled.relax()

    def check_integrity(self) -> None:
        """Check that no array holds what would mislead a kernel.

        Raises:
            ValueError: names the first fault found.
        """
        n_vocab = len(self.matrix.row_of)
        self.matrix.check_integrity()
        self.suffix.check_integrity(n_vocab)
        self.frequent.check_integrity(n_vocab)
        self.calibration.check_integrity()
        self.sampled.check_integrity()

    def reset(self) -> None:
        """Forget everything."""
        for part in self._parts().values():
            part.reset()

    def _parts(self) -> dict[str, Part]:
        return {
            "matrix": self.matrix,
            "suffix": self.suffix,
            "frequent": self.frequent,
            "calibration": self.calibration,
            "sampled": self.sampled,
        }
