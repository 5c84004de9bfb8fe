"""The kernels of the decoding room, slow and readable."""

from __future__ import annotations

import math


def top_k(row: list[float], k: int) -> tuple[list[int], list[float]]:
    """Return the k best tokens of a row and their logits, best first, the lower id first among equals.

    Where numbers run out, -1 and -inf.
    """
    numbers = [(-value, token) for token, value in enumerate(row) if not math.isnan(value)]
    best = sorted(numbers)[:k] + [(math.inf, -1)] * (k - len(numbers))
    return [token for _, token in best], [-value for value, _ in best]


def find_child(node: int, token: int, tokens: list[int], parents: list[int]) -> int:
    """Return the first child of a node that holds a token, or -1; looks at every node."""
    children = [i for i, parent in enumerate(parents) if parent == node and tokens[i] == token]
    return children[0] if children else -1


def log_sum_exp(row: list[float]) -> float:
    """Return log(sum(exp)) of a row, exactly rounded sums; NaN counts as nothing, an infinite maximum is the result."""
    numbers = [value for value in row if not math.isnan(value)]
    most = max(numbers, default=-math.inf)
    if math.isinf(most):
        return most
    return most + math.log(math.fsum(math.exp(value - most) for value in numbers))


def keep_nodes(parents: list[int], is_out: list[bool]) -> list[int]:
    """Return the nodes that have themselves and all above them left in."""

    def stays(node: int) -> bool:
        return node < 0 or (not is_out[node] and stays(parents[node]))

    return [node for node in range(len(parents)) if stays(node)]


def list_best(row: list[float], k: int, listed: set[int]) -> set[int]:
    """Return the tokens that must be listed: those that are, and the k best numbers of the others."""
    others = sorted((-value, token) for token, value in enumerate(row) if token not in listed and value == value)
    return listed | {token for _, token in others[:k]}
