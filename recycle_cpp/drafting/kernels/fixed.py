"""Numba loops of the fixed draft tree, the layout of every tree, and the adjacency rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recycle_cpp.types import FloatArray, IntArray

    RowArray = NDArray[np.int16]
    GapArray = NDArray[np.uint8]


@njit(cache=True, nogil=True)
def draft_bfs(
    root: int,
    width: int,
    depth: int,
    slot_parent: IntArray,
    slot_rank: IntArray,
    row_of: RowArray,
    rows: IntArray,
    slot_node: IntArray,
    tokens: IntArray,
    parents: IntArray,
    depths: IntArray,
) -> int:
    """Fill the slots of a template from the adjacency rows, level by level (Token Recycling, section 3.2).

    A slot whose parent is missing, whose parent's token has no row, or whose rank the row does not fill stays empty,
    and so does everything below it.

    Args:
        root: the pending token.
        width: nodes at most, the root included.
        depth: depth of a node at most.
        slot_parent: int32[S], slot of each slot's parent, in level order; slot 0 is the root.
        slot_rank: int32[S], which candidate of the parent's row fills the slot.
        row_of: int16[n_vocab], row of each token, -1 for none.
        rows: int32[R, k], candidates of each row in falling order, -1 for none.
        slot_node: int32[S], overwritten: node in each slot, -1 for none.
        tokens: int32[>=width], overwritten.
        parents: int32[>=width], overwritten: node of the parent.
        depths: int32[>=width], overwritten.

    Returns:
        How many nodes there are, in level order.
    """
    tokens[0] = root
    parents[0] = -1
    depths[0] = 0
    slot_node[0] = 0
    n = 1
    for slot in range(1, len(slot_parent)):
        slot_node[slot] = -1
        parent = slot_node[slot_parent[slot]]
        if n >= width or parent < 0 or depths[parent] >= depth:
            continue
        row = row_of[tokens[parent]]
        if row < 0:
            continue
        token = rows[row, slot_rank[slot]]
        if token < 0:
            continue
        slot_node[slot] = n
        tokens[n] = token
        parents[n] = parent
        depths[n] = depths[parent] + 1
        n += 1
    return n


@njit(cache=True, nogil=True)
def lay_out(
    n: int,
    tokens: IntArray,
    parents: IntArray,
    depths: IntArray,
    place: IntArray,
    scratch: IntArray,
    out_tokens: IntArray,
    out_parents: IntArray,
    out_depths: IntArray,
    leaf_from: IntArray,
    leaf_count: IntArray,
) -> int:
    """Put a tree into preorder and number its leaf paths.

    In preorder the first children of the root come first, side by side, so that committing the likeliest path leaves
    no gap in the cache; and the leaf paths through a node are one range of numbers.

    Args:
        n: nodes of the tree, at least 1.
        tokens: int32[>=n], in any order in which parents come before their children.
        parents: int32[>=n].
        depths: int32[>=n].
        place: int32[>=n], overwritten: where each node went.
        scratch: int32[2, >=n], overwritten.
        out_tokens: int32[>=n], overwritten.
        out_parents: int32[>=n], overwritten.
        out_depths: int32[>=n], overwritten.
        leaf_from: int32[>=n], overwritten: first leaf path through each node.
        leaf_count: int32[>=n], overwritten: leaf paths through each node.

    Returns:
        How many leaf paths there are.
    """
    size = scratch[0]
    leaves = scratch[1]
    for i in range(n):
        size[i] = 1
        leaves[i] = 0
    for i in range(n - 1, -1, -1):
        leaves[i] = max(leaves[i], 1)
        if i > 0:
            size[parents[i]] += size[i]
            leaves[parents[i]] += leaves[i]
    total = int(leaves[0])
    # From here on size[i] and leaves[i] turn, node by node, into the next free place and leaf number below node i.
    for i in range(n):
        parent = parents[i]
        at = 0
        first = 0
        if parent >= 0:
            at = size[parent]
            first = leaves[parent]
            size[parent] += size[i]
            leaves[parent] += leaves[i]
        place[i] = at
        out_tokens[at] = tokens[i]
        out_parents[at] = place[parent] if parent >= 0 else -1
        out_depths[at] = depths[i]
        leaf_from[at] = first
        leaf_count[at] = leaves[i]
        size[i] = at + 1
        leaves[i] = first
    return total


@njit(cache=True, nogil=True)
def update_rows(
    tokens: IntArray,
    top: IntArray,
    values: FloatArray,
    row_of: RowArray,
    rows: IntArray,
    gaps: GapArray,
    owner: IntArray,
    made: int,
) -> int:
    """Write each node's top-k into the adjacency row of its token, in node order: the later node wins.

    When all rows are taken, the oldest row goes to the new token.

    Args:
        tokens: int32[W], token of each node.
        top: int32[W, k], best candidates of each node's logits row in falling order.
        values: float32[W, k], their logits.
        row_of: int16[n_vocab], updated.
        rows: int32[R, k], updated.
        gaps: uint8[R, k], updated: each candidate's distance from the best one, in sixteenths, at most 255.
        owner: int32[R], updated: token of each row, -1 for none.
        made: rows handed out so far, evicted ones counted again.

    Returns:
        The new value of `made`.
    """
    for i in range(len(tokens)):
        token = tokens[i]
        row = row_of[token]
        if row < 0:
            row = made % len(owner)
            if owner[row] >= 0:
                row_of[owner[row]] = -1
            owner[row] = token
            row_of[token] = row
            made += 1
        for j in range(rows.shape[1]):
            rows[row, j] = top[i, j]
            gap = 16 * (values[i, 0] - values[i, j])
            gaps[row, j] = int(gap) if top[i, j] >= 0 and gap < 255 else 255  # not if infinite or NaN
    return made
