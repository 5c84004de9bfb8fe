"""The planned drafter: a best-first tree over all sources, as wide as its expected tokens are worth their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from recycle_cpp.drafting.drafter import Drafter, TreeArrays, common_prefix
from recycle_cpp.drafting.kernels import best_first, candidates, plan
from recycle_cpp.drafting.kernels.suffix import CONTINUATIONS, LONGEST
from recycle_cpp.drafting.knowledge import Knowledge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recycle_cpp.drafting.drafter import Limits, Outcome
    from recycle_cpp.types import DraftTree, IntArray

QUEUE = 2048
FLOOR = 0.001  # path probability below which a node never pays for its row
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


class PlannedDrafter(Drafter):
    """Drafts the tree, of whatever width, that promises most tokens per second; learns from every step.

    The best of many estimates is too good on average, and texts differ: so what was promised of late is compared with
    what was accepted, and that share, the trust, scales what is promised next. There is no state in which it gives up.
    """

    def __init__(self, knowledge: Knowledge, costs: Costs, *, is_sampled: bool = False) -> None:
        """Take what is shared.

        Args:
            knowledge: the sources, which learn.
            costs: what steps cost, which learn too.
            is_sampled: whether tokens are drawn: then less is foreseen, and it is calibrated apart.
        """
        self._knowledge = knowledge
        self._belief = (knowledge.sampled if is_sampled else knowledge.calibration).belief
        self._first_trust = plan.TRUST_PRIOR * (plan.TRUST_IF_SAMPLED if is_sampled else plan.TRUST_AT_FIRST)
        self._costs = costs
        self._ladder = np.array(costs.ladder, np.int32)
        most = int(self._ladder[-1])
        self._arrays = TreeArrays(most)
        self._nodes = best_first.Nodes(
            self._arrays.tokens, self._arrays.parents, self._arrays.depths, np.empty(most, np.float32)
        )
        heap, tokens, parents = np.empty((3, QUEUE), np.int32)
        self._queue = best_first.Queue(heap, tokens, parents, np.empty(QUEUE, np.float32))
        self._at_root, self._scratch = _scratch(), _scratch()
        self._sources = knowledge.sources
        self._tail = np.empty(TAIL, np.int32)
        self._n_tail = 0
        self._sequence: list[int] = []
        self._record = np.zeros(2)  # drafted tokens accepted and promised of late
        self._expected = 1.0
        self._width = 1
        self._watched = 1
        self._n_emitted = 1

    @property
    def top_k(self) -> int:
        """Candidates wanted from each logits row: as many as an adjacency row holds."""
        return self._knowledge.matrix.top_k

    @property
    def expected(self) -> float:
        """Tokens that the last draft promises, the bonus token included."""
        return self._expected

    @property
    def trust(self) -> float:
        """Share of the drafted tokens promised of late that were accepted, at most 1."""
        accepted, promised = self._record
        return min(1.0, float((accepted + self._first_trust) / (promised + plan.TRUST_PRIOR)))

    def begin(self, tokens: Sequence[int]) -> None:
        """Start a run after these tokens; what the last run shares with them is in the history already."""
        if self._knowledge.suffix.count == 0:  # nothing yet, or everything was forgotten
            self._sequence = []
        common = common_prefix(self._sequence, tokens)
        self._knowledge.suffix.begin(tokens[max(0, common - 1) :])
        self._sequence = list(tokens)
        self._n_tail = 0
        self._extend_tail(tokens[-LONGEST:])
        self._record.fill(0)
        self._n_emitted = 0

    def draft(self, root: int, limits: Limits) -> DraftTree:
        """Return the tree with the highest expected tokens per second; `expected` says how many it promises."""
        seconds = self._costs.seconds(limits.n_past)
        # The first token of an answer is waited for: nothing is drafted behind it.
        rungs = plan.affordable(seconds, self._n_emitted) if self._n_emitted else 1
        going_by = plan.Plan(self._ladder[:rungs], seconds[:rungs], self.trust)
        n = best_first.draft_best(
            root,
            best_first.Bounds(
                min(limits.width, int(self._ladder[rungs - 1])), limits.depth, FLOOR, not limits.may_branch
            ),
            self._text(self._n_tail - 1),
            self._sources,
            self._belief,
            going_by,
            self._at_root,
            self._scratch,
            self._queue,
            self._nodes,
        )
        width, self._expected, self._watched = plan.choose_width(self._nodes.probabilities, n, going_by)
        self._width = width
        return self._arrays.lay_out(width)

    def narrow(self, tree: DraftTree) -> None:
        """Take back what was promised for nodes that are not evaluated."""
        probabilities = self._nodes.probabilities
        before = float(probabilities[1 : self._width].sum())
        plan.forget_pruned(
            tree.tokens, tree.parents, self._nodes.tokens[: self._width], self._nodes.parents, probabilities
        )
        kept = float(probabilities[1 : self._width].sum())
        self._expected = 1.0 + (self._expected - 1.0) * (kept / before if before > 0 else 0.0)

    def update(self, outcome: Outcome) -> None:
        """Learn from a verified tree: first how right the sources were, then what they did not know."""
        knowledge, nodes = self._knowledge, self._nodes
        truths = np.array(outcome.emitted, np.int32)
        best_first.learn_path(
            truths, self._text(self._n_tail), self._sources, self._belief, self._at_root, self._scratch
        )
        plan.compare_promise(
            self._width, self._watched, truths, nodes.tokens, nodes.depths, nodes.probabilities, self._record
        )
        knowledge.learn(outcome, truths)
        self._sequence += outcome.emitted
        self._n_emitted = len(truths)
        self._extend_tail(truths)

    def observe(self, width: int, n_past: int, seconds: float) -> None:
        """Correct the cost curve."""
        self._costs.observe(width, n_past, seconds)

    def _text(self, n_tail: int) -> best_first.Text:
        return best_first.Text(self._tail, n_tail, self._knowledge.suffix.count)

    def _extend_tail(self, tokens: Sequence[int] | IntArray) -> None:
        n = len(tokens)
        if self._n_tail + n > TAIL:
            self._tail[:LONGEST] = self._tail[self._n_tail - LONGEST : self._n_tail]
            self._n_tail = LONGEST
        self._tail[self._n_tail : self._n_tail + n] = tokens
        self._n_tail += n


def _scratch() -> candidates.Scratch:
    return candidates.Scratch(
        np.empty(LONGEST, np.int32),
        np.empty(candidates.MOST, np.int32),
        np.empty((candidates.MOST, candidates.N_SOURCES), np.int32),
        np.empty(candidates.N_SOURCES, np.int32),
        np.empty((3, CONTINUATIONS), np.int32),
        np.full(2, -1, np.int32),
        np.empty(candidates.MOST, np.float32),
    )
