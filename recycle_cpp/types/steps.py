"""What one step works on and what it did. Terms as in docs/structure.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from recycle_cpp.types.answers import FinishReason, TokenLogprobs
    from recycle_cpp.types.arrays import IntArray


class DraftTree(NamedTuple):
    """A draft tree in preorder: row 0 is the root, and children follow their parent in rank order.

    Preorder puts the likeliest path into the first rows, side by side, and makes the leaf paths below a node one
    range of numbers. The arrays are views that their drafter overwrites at its next draft.

    Attributes:
        tokens: int32[W], token ids; the root's is the pending token.
        parents: int32[W], row of the parent; -1 for the root.
        depths: int32[W], edges from the root.
        leaf_from: int32[W], number of the first leaf path through the node.
        leaf_count: int32[W], how many leaf paths go through the node, at least 1.
    """

    tokens: IntArray
    parents: IntArray
    depths: IntArray
    leaf_from: IntArray
    leaf_count: IntArray

    @property
    def width(self) -> int:
        """Rows in one evaluation, the root included."""
        return len(self.tokens)


class PhaseTimes(NamedTuple):
    """Seconds of one step by phase; `decode` is llama.cpp's, the rest is ours."""

    draft: float
    build: float
    decode: float
    top_k: float
    verify: float
    update: float
    commit: float

    @property
    def total(self) -> float:
        """Seconds of the whole step."""
        return sum(self)

    @property
    def host(self) -> float:
        """Seconds of the step outside llama.cpp."""
        return sum(self) - self.decode


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did.

    Attributes:
        tokens: the emitted tokens in order: the accepted path, then the bonus token; none if no token may follow.
        width: rows evaluated, the root included.
        times: seconds by phase.
        expected: tokens that the drafter promised, the bonus token included; 0 if it promises nothing.
        finish_reason: set on the last step of a run only.
        logprobs: one record per token, if the run was asked for them.
    """

    tokens: tuple[int, ...]
    width: int
    times: PhaseTimes
    expected: float = 0.0
    finish_reason: FinishReason | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()

    @property
    def n_accepted(self) -> int:
        """Accepted draft nodes; the root and the bonus token do not count."""
        return max(0, len(self.tokens) - 1)
