"""The planned drafter: a best-first tree over all sources, as wide as its expected tokens are worth their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from recycle_cpp.drafting.calibration import Calibration
from recycle_cpp.drafting.drafter import Drafter, TreeArrays, common_prefix
from recycle_cpp.drafting.kernels import best_first, candidates, plan
from recycle_cpp.drafting.kernels.suffix import LONGEST
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.suffix import SuffixIndex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from recycle_cpp.drafting.drafter import Limits, Outcome
    from recycle_cpp.types import DraftTree, IntArray

QUEUE = 1024
FLOOR = 0.004  # path probability below which a node never pays for its row
MARGIN = 0.08  # a wider step must promise this much more than plain decoding: estimates err
TAIL = 256


class Costs(Protocol):
    """What a step costs here: the cost curve, as the planner sees it."""

    @property
    def ladder(self) -> tuple[int, ...]:
        """Widths worth considering, in rising order; the first is 1."""

    def seconds(self, n_past: int) -> NDArray[np.float64]:
        """Return float64[len(ladder)], seconds of the next step at each width; a view until the next call."""

    def observe(self, width: int, n_past: int, seconds: float) -> None:
        """Correct the curve by a measured step."""


class Part(Protocol):
    """What knowledge asks of each of its parts."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that is learned, by name: the arrays themselves, and counters as int64[1]."""

    def adopt(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Overwrite all, in place, with arrays of the same names, types and shapes."""


class Knowledge:
    """Everything that drafting learns; shared by the requests on one model.

    Attributes:
        matrix: successors of single tokens, of equal contexts and of near ones.
        suffix: the texts so far.
        calibration: how far each kind of candidate is to be trusted.
    """

    def __init__(self, n_vocab: int) -> None:
        self.matrix = AdjacencyMatrix(n_vocab)
        self.suffix = SuffixIndex()
        self.calibration = Calibration()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.matrix.nbytes + self.suffix.nbytes + self.calibration.nbytes

    @property
    def sources(self) -> candidates.Sources:
        """The arrays, as the kernels take them."""
        matrix, suffix = self.matrix, self.suffix
        return candidates.Sources(matrix.row_of, matrix.rows, matrix.gaps, suffix.history, suffix.older, suffix.newest)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been learned yet."""
        return self.matrix.n_rows == 0 and self.suffix.count == 0

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that is learned, by part and name: views that the next step changes, and counters as int64[1]."""
        return {f"{part}.{name}": array for part, owner in self._parts() for name, array in owner.arrays().items()}

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
            for part, owner in self._parts():
                owner.adopt({name: arrays[f"{part}.{name}"] for name in owner.arrays()})
            self.check_integrity()
        except ValueError:
            self.reset()
            raise
        self.calibration.relax()

    def check_integrity(self) -> None:
        """Check that no array holds what would mislead a kernel.

        Raises:
            ValueError: names the first fault found.
        """
        self.matrix.check_integrity()
        self.suffix.check_integrity(len(self.matrix.row_of))
        self.calibration.check_integrity()

    def _parts(self) -> tuple[tuple[str, Part], ...]:
        return ("matrix", self.matrix), ("suffix", self.suffix), ("calibration", self.calibration)

    def reset(self) -> None:
        """Forget everything."""
        self.matrix.reset()
        self.suffix.reset()
        self.calibration.reset()


class PlannedDrafter(Drafter):
    """Drafts the tree, of whatever width, that promises most tokens per second; learns from every step."""

    def __init__(self, knowledge: Knowledge, costs: Costs) -> None:
        self._knowledge = knowledge
        self._costs = costs
        self._ladder = np.array(costs.ladder, np.int32)
        most = int(self._ladder[-1])
        self._arrays = TreeArrays(most)
        self._nodes = best_first.Nodes(
            self._arrays.tokens, self._arrays.parents, self._arrays.depths, np.empty(most, np.float32)
        )
        heap, tokens, parents = np.empty((3, QUEUE), np.int32)
        self._queue = best_first.Queue(heap, tokens, parents, np.empty(QUEUE, np.float32))
        self._scratch = candidates.Scratch(np.empty(LONGEST, np.int32), *np.empty((4, candidates.MOST), np.int32))
        self._sources = knowledge.sources
        self._tail = np.empty(TAIL, np.int32)
        self._n_tail = 0
        self._sequence: list[int] = []
        self._expected = 1.0

    @property
    def top_k(self) -> int:
        """Candidates wanted from each logits row: as many as an adjacency row holds."""
        return self._knowledge.matrix.top_k

    @property
    def expected(self) -> float:
        """Tokens that the last draft promises, the bonus token included."""
        return self._expected

    def begin(self, tokens: Sequence[int]) -> None:
        """Start a run after these tokens; what the last run shares with them is in the history already."""
        if self._knowledge.suffix.count == 0:  # nothing yet, or everything was forgotten
            self._sequence = []
        common = common_prefix(self._sequence, tokens)
        self._knowledge.suffix.begin(tokens[max(0, common - 1) :])
        self._sequence = list(tokens)
        self._n_tail = 0
        self._extend_tail(tokens[-LONGEST:])

    def draft(self, root: int, limits: Limits) -> DraftTree:
        """Return the tree with the highest expected tokens per second; `expected` says how many it promises."""
        nodes, counts = self._nodes, self._knowledge.calibration.counts
        n = best_first.draft_best(
            root,
            min(limits.width, len(nodes.tokens)),
            limits.depth,
            FLOOR,
            self._tail,
            self._n_tail - 1,
            self._knowledge.suffix.count,
            self._sources,
            counts,
            self._scratch,
            self._queue,
            nodes,
        )
        seconds = self._costs.seconds(limits.n_past)
        width, self._expected = plan.choose_width(nodes.probabilities, n, self._ladder, seconds, MARGIN)
        return self._arrays.lay_out(width)

    def update(self, outcome: Outcome) -> None:
        """Learn from a verified tree: first how right the sources were, then what they did not know."""
        knowledge = self._knowledge
        truths = np.array(outcome.emitted, np.int32)
        best_first.learn_path(
            self._tail,
            self._n_tail,
            truths,
            knowledge.suffix.count,
            self._sources,
            knowledge.calibration.counts,
            self._scratch,
        )
        knowledge.matrix.update(outcome.tree.tokens, outcome.top, outcome.values)
        knowledge.suffix.append(truths)
        self._sequence += outcome.emitted
        self._extend_tail(truths)

    def observe(self, width: int, n_past: int, seconds: float) -> None:
        """Correct the cost curve."""
        self._costs.observe(width, n_past, seconds)

    def _extend_tail(self, tokens: Sequence[int] | IntArray) -> None:
        n = len(tokens)
        if self._n_tail + n > TAIL:
            self._tail[:LONGEST] = self._tail[self._n_tail - LONGEST : self._n_tail]
            self._n_tail = LONGEST
        self._tail[self._n_tail : self._n_tail + n] = tokens
        self._n_tail += n
