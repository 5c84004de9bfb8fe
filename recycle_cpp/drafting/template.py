"""Shapes of fixed draft trees: the published 80-node tree, and chains."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from recycle_cpp.types import IntArray

# Children of each node of the published tree, by the path of ranks from the root (hemingkx/Spec-Bench and the
# reference code of arXiv 2408.08696): 80 nodes below the root, 8 / 21 / 25 / 15 / 8 / 3 per level, 40 leaves.
# fmt: off
PUBLISHED_CHILDREN = {
    "": 8,
    "0": 8, "1": 4, "2": 3, "3": 2, "4": 1, "5": 1, "6": 1, "7": 1,
    "00": 8, "01": 3, "02": 2, "03": 1, "04": 1, "05": 1, "06": 1, "07": 1,
    "10": 2, "11": 1, "20": 1, "30": 1, "40": 1, "50": 1,
    "000": 5, "001": 2, "002": 1, "003": 1, "004": 1, "010": 1, "020": 1, "100": 1, "200": 1, "300": 1,
    "0000": 3, "0001": 1, "0002": 1, "0010": 1, "0100": 1, "1000": 1,
    "00000": 2, "00010": 1,
}
# fmt: on


class TreeTemplate(NamedTuple):
    """A fixed tree of slots in level order.

    Attributes:
        parent: int32[S], slot of the parent; slot 0 is the root, whose parent is -1.
        rank: int32[S], which candidate of the parent's adjacency row fills the slot; 0 for the root.
    """

    parent: IntArray
    rank: IntArray

    @property
    def width(self) -> int:
        """Slots, the root included."""
        return len(self.parent)


def published() -> TreeTemplate:
    """Return the paper's tree: 81 slots, the root included."""
    slots = {"": 0}
    parent, rank = [-1], [0]
    for path, n_children in PUBLISHED_CHILDREN.items():
        for child in range(n_children):
            slots[f"{path}{child}"] = len(parent)
            parent.append(slots[path])
            rank.append(child)
    return TreeTemplate(np.array(parent, np.int32), np.array(rank, np.int32))


def chain(width: int) -> TreeTemplate:
    """Return one path of best candidates with `width` slots, the root included; 1 is plain decoding."""
    return TreeTemplate(np.arange(-1, width - 1, dtype=np.int32), np.zeros(width, np.int32))
