"""The kernels of the decoding room, slow and readable."""

from __future__ import annotations

import math


def top_k(row: list[float], k: int) -> list[int]:
    """Return the k best tokens of a row, best first, the lower id first among equals; -1 where numbers run out."""
    numbers = [(-value, token) for token, value in enumerate(row) if not math.isnan(value)]
    best = [token for _, token in sorted(numbers)[:k]]
    return best + [-1] * (k - len(best))


def find_child(node: int, token: int, tokens: list[int], parents: list[int]) -> int:
    """Return the first child of a node that holds a token, or -1; looks at every node."""
    children = [i for i, parent in enumerate(parents) if parent == node and tokens[i] == token]
    return children[0] if children else -1
