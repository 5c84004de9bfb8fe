"""The drafter: grows the draft tree of a step, and learns from what the model said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from recycle_cpp.drafting.kernels import fixed as kernels
from recycle_cpp.types import DraftTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recycle_cpp.drafting.matrix import AdjacencyMatrix
    from recycle_cpp.drafting.template import TreeTemplate
    from recycle_cpp.types import FloatArray, IntArray


class Limits(NamedTuple):
    """What the context, the batch and the token budget still hold.

    Attributes:
        n_past: position of the root.
        width: rows of the evaluation at most, the root included.
        depth: depth of a node at most; a path of this depth emits depth + 1 tokens.
        may_branch: whether a node may have more than one child; exact drafts are chains.
    """

    n_past: int
    width: int
    depth: int
    may_branch: bool = True


class Outcome(NamedTuple):
    """What the model said of a draft tree.

    Attributes:
        tree: the evaluated tree.
        top: int32[W, k], the best candidates at each node, best first.
        values: float32[W, k], their logits.
        emitted: the tokens of the accepted path, then the bonus token.
    """

    tree: DraftTree
    top: IntArray
    values: FloatArray
    emitted: list[int]


class Drafter(Protocol):
    """What the engine asks of a drafter."""

    @property
    def top_k(self) -> int:
        """Candidates wanted from each logits row, at least 1."""

    @property
    def expected(self) -> float:
        """Tokens that the last draft promises, the bonus token included; 0 from those that promise nothing."""
        return 0.0

    def begin(self, tokens: Sequence[int]) -> None:
        """Take note of the tokens that a run starts after, the pending one last; some drafters need not."""
        return

    def draft(self, root: int, limits: Limits) -> DraftTree:
        """Return a draft tree below the pending token; its arrays live until the next draft."""

    def narrow(self, tree: DraftTree) -> None:
        """Take note that only this part of the last draft is evaluated: a grammar forbids the rest."""
        return

    def update(self, outcome: Outcome) -> None:
        """Learn from a verified tree."""

    def observe(self, width: int, n_past: int, seconds: float) -> None:
        """Take note of what a step of this width cost, with the root at n_past; some drafters need not."""
        return


class TreeArrays:
    """The buffers of one draft tree, made once.

    Nodes go into `tokens`, `parents` and `depths` in any order in which parents come first; `lay_out` turns them into
    a DraftTree.
    """

    def __init__(self, capacity: int) -> None:
        self.tokens, self.parents, self.depths, self._place = np.empty((4, capacity), np.int32)
        self._scratch = np.empty((2, capacity), np.int32)
        self._out = np.empty((5, capacity), np.int32)

    def lay_out(self, n: int) -> DraftTree:
        """Return the first n nodes in preorder; the views live until the next call."""
        kernels.lay_out(n, self.tokens, self.parents, self.depths, self._place, self._scratch, *self._out)
        return DraftTree(*self._out[:, :n])


class TemplateDrafter(Drafter):
    """Fills a fixed template from the adjacency matrix (the paper's method, and chains)."""

    def __init__(self, matrix: AdjacencyMatrix, template: TreeTemplate) -> None:
        self._matrix = matrix
        self._template = template
        self._arrays = TreeArrays(template.width)
        self._slot_node = np.empty(template.width, np.int32)

    @property
    def width(self) -> int:
        """Rows of a whole tree, the root included."""
        return self._template.width

    @property
    def top_k(self) -> int:
        """Candidates wanted from each logits row: as many as an adjacency row holds."""
        return self._matrix.top_k

    def draft(self, root: int, limits: Limits) -> DraftTree:
        """Return the template's tree as far as rows are known and limits allow."""
        arrays = self._arrays
        n = kernels.draft_bfs(
            root,
            limits.width,
            limits.depth,
            self._template.parent,
            self._template.rank,
            self._matrix.row_of,
            self._matrix.rows,
            self._slot_node,
            arrays.tokens,
            arrays.parents,
            arrays.depths,
        )
        return arrays.lay_out(n)

    def update(self, outcome: Outcome) -> None:
        """Write each node's candidates into the row of its token."""
        self._matrix.update(outcome.tree.tokens, outcome.top, outcome.values)


class PlainDrafter(Drafter):
    """Drafts nothing and learns nothing: plain decoding, the same step with W = 1."""

    def __init__(self) -> None:
        self._arrays = TreeArrays(1)

    @property
    def top_k(self) -> int:
        """Candidates wanted from each logits row: the best one."""
        return 1

    def draft(self, root: int, limits: Limits) -> DraftTree:
        """Return the root alone."""
        self._arrays.tokens[0] = root
        self._arrays.parents[0] = -1
        self._arrays.depths[0] = 0
        return self._arrays.lay_out(1)

    def update(self, outcome: Outcome) -> None:
        """Do nothing."""


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many leading tokens two sequences share."""
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n
