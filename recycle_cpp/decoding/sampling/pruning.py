"""Takes nodes out of draft trees before they are evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.decoding import kernels
from recycle_cpp.drafting.drafter import TreeArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recycle_cpp.types import DraftTree


class Pruner:
    """The buffers of one pruned tree; they grow with the widest."""

    def __init__(self) -> None:
        self._capacity = 0

    def without(self, tree: DraftTree, is_out: NDArray[np.bool_]) -> DraftTree:
        """Return a tree without some nodes and all below them; its arrays live until the next call.

        Args:
            tree: any tree; the very same comes back if nothing is to be taken out.
            is_out: bool[W], the nodes to take out, not the root; overwritten.
        """
        if not is_out.any():
            return tree
        if tree.width > self._capacity:
            self._capacity = tree.width
            self._arrays = TreeArrays(tree.width)
            self._place = np.empty(tree.width, np.int32)
        arrays = self._arrays
        n = kernels.keep_nodes(
            tree.tokens,
            tree.parents,
            tree.depths,
            is_out,
            self._place,
            arrays.tokens,
            arrays.parents,
            arrays.depths,
        )
        return arrays.lay_out(n)
