"""What the engine asks of a sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from recycle_cpp.types import DraftTree, FloatArray

NOTHING = -1  # instead of a token: none may follow


class Sampler(Protocol):
    """Chooses the tokens of one request, one call per emitted token, in order."""

    def sample(self, logits: FloatArray, best: int) -> int:
        """Return the token chosen from float32[n_vocab] logits, whose argmax is `best`, and remember it.

        NOTHING says that no token may follow; the sampler is not asked again then.
        """

    def prune(self, tree: DraftTree) -> DraftTree:
        """Return the tree without nodes that can never be chosen, as far as that is cheap to know."""
        return tree

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
        return
