"""The kernels of the drafting room, slow and readable: lists and dictionaries instead of index arithmetic."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Node:
    """A node of a tree that is drawn by hand."""

    token: int
    depth: int = 0
    slot: int = 0
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    row: int = -1
    leaf_paths: list[int] = field(default_factory=list)


def draft(root: int, width: int, depth: int, slot_parent, slot_rank, candidates: dict[int, list[int]]) -> list[Node]:
    """Return the nodes of a draft tree in level order."""
    nodes = [Node(root)]
    for slot in range(1, len(slot_parent)):
        parent = next((node for node in nodes if node.slot == slot_parent[slot]), None)
        if parent is None or parent.depth == depth or len(nodes) == width:
            continue
        row = candidates.get(parent.token, [])
        if slot_rank[slot] < len(row):
            nodes.append(Node(row[slot_rank[slot]], parent.depth + 1, slot, parent))
    return nodes


def preorder(tokens, parents) -> list[Node]:
    """Return a tree's nodes in preorder, each with its row and the numbers of the leaf paths through it."""
    nodes = [Node(token) for token in tokens]
    for node, parent in zip(nodes[1:], parents[1:], strict=True):
        node.parent = nodes[parent]
        node.depth = node.parent.depth + 1
        node.parent.children.append(node)
    ordered: list[Node] = []

    def visit(node: Node) -> None:
        node.row = len(ordered)
        ordered.append(node)
        for child in node.children:
            visit(child)

    visit(nodes[0])
    for number, leaf in enumerate(node for node in ordered if not node.children):
        node = leaf
        while node is not None:
            node.leaf_paths.append(number)
            node = node.parent
    return ordered


class SlowMatrix:
    """An adjacency matrix as a dictionary that forgets what it took in first."""

    def __init__(self, n_rows: int) -> None:
        self.rows: OrderedDict[int, list[int]] = OrderedDict()
        self.gaps: dict[int, list[int]] = {}
        self._n_rows = n_rows

    def update(self, tokens, top, values) -> None:
        """Write rows in order; a token that has one keeps its age."""
        for token, candidates, logits in zip(tokens, top, values, strict=True):
            if token not in self.rows and len(self.rows) == self._n_rows:
                del self.gaps[self.rows.popitem(last=False)[0]]
            self.rows[token] = list(candidates)
            distances = [16 * float(np.float32(logits[0]) - np.float32(logit)) for logit in logits]
            self.gaps[token] = [
                255 if candidate < 0 or not distance < 255 else math.floor(distance)
                for candidate, distance in zip(candidates, distances, strict=True)
            ]
