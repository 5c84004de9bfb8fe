"""The sources of candidates, slow and readable: lists, sorting and a heap of whole paths."""

from __future__ import annotations

import heapq
from itertools import count as counter

import numpy as np

BORDER = -1


def slot(before: int, last: int, n_slots: int) -> int:
    """Return the hash slot of two tokens."""
    return ((before * 2654435761) ^ (last * 40503) ^ (last >> 5)) % n_slots


class SlowSuffix:
    """A suffix index that keeps everything and looks at all of it."""

    def __init__(self, size: int) -> None:
        self.everything: list[int] = []
        self._size = size

    def append(self, tokens) -> None:
        """Append tokens."""
        self.everything += list(tokens)

    def continuations(self, context: list[int]) -> list[tuple[int, int, int]]:
        """Return (token, longest match, occurrences) for a context whose newest token comes first."""
        if len(context) < 2:
            return []
        text = self.everything
        oldest = max(0, len(text) - self._size)
        wanted = slot(context[1], context[0], self._size)
        linked = [
            at
            for at in range(len(text) - 1, oldest, -1)
            if BORDER not in text[at - 1 : at + 1] and slot(text[at - 1], text[at], self._size) == wanted
        ][:12]
        found: dict[int, list[int]] = {}
        for at in linked:
            before = text[oldest : at + 1][::-1]
            pairs = list(zip(before, context[:16], strict=False))
            length = next((i for i, (one, other) in enumerate(pairs) if one != other), len(pairs))
            follower = text[at + 1] if at + 1 < len(text) else BORDER
            if length >= 2 and follower != BORDER and (follower in found or len(found) < 4):
                found.setdefault(follower, []).append(length)
        listed = [(token, max(lengths), len(lengths)) for token, lengths in found.items()]
        return sorted(listed, key=lambda entry: (-entry[1], -entry[2]))


def length_class(length: int) -> int:
    """Return which of 2, 3, 4, 5-6, 7-9, 10-14, 15 and more a match length is."""
    return next(i for i, most in enumerate((2, 3, 4, 6, 9, 14, 99)) if length <= most)


def gap_class(gap: int) -> int:
    """Return the class of a distance in sixteenths."""
    return next(i for i, end in enumerate((0.5, 1, 2, 3.5, 6, 99)) if gap / 16 < end)


def candidates(
    suffix: SlowSuffix, rows: dict[int, tuple[list[int], list[int]]], context: list[int]
) -> list[tuple[int, tuple[object, ...]]]:
    """Return (token, kind) of each candidate; a kind says in words what its bucket stands for.

    Args:
        suffix: the texts so far.
        rows: candidates and gaps of each token's adjacency row.
        context: the last tokens, newest first.
    """
    continuations = suffix.continuations(context)
    total = sum(times for _, _, times in continuations)
    row, gaps = rows.get(context[0], ([], []))
    found: list[tuple[int, tuple[object, ...]]] = []
    for place, (token, length, times) in enumerate(continuations):
        if total == 1:
            agreement = "once"
        elif times == total:
            agreement = "all"
        else:
            agreement = "half" if times >= total / 2 else "few"
        shared = ("best" if row[0] == token else "known") if token in row else "unknown"
        found.append((token, ("suffix", length_class(length), min(place, 2), agreement, shared)))
    longest = continuations[0][1] if continuations else 0
    state = "none" if not longest else ("two" if longest == 2 else ("some" if longest < 6 else "long"))
    taken = {token for token, _, _ in continuations}
    for rank, token in enumerate(row):
        if token not in taken:
            found.append((token, ("row", rank, gap_class(gaps[max(rank, 1)]), state)))
    return found


def bucket(kind: tuple[object, ...]) -> int:
    """Return the number of a kind: mixed radix, continuations first."""
    if kind[0] == "suffix":
        _, length, place, agreement, shared = kind
        digits = ((length, 7), (place, 3), (["once", "all", "half", "few"].index(agreement), 4))
        digits += ((["best", "known", "unknown"].index(shared), 3),)
        first = 0
    else:
        _, rank, gap, state = kind
        digits = ((rank, 8), (gap, 6), (["none", "two", "some", "long"].index(state), 4))
        first = 7 * 3 * 4 * 3
    number = 0
    for digit, base in digits:
        assert 0 <= digit < base
        number = number * base + digit
    return first + number


def likeliest_paths(root: int, before: list[int], look_up, probability, width: int, depth: int, floor: float):
    """Return (path of tokens below the root, probability) of the likeliest nodes, likeliest first.

    Args:
        root: the pending token.
        before: the sequence before it.
        look_up: gives the candidates of a context, newest token first.
        probability: of each bucket, float32.
        width: nodes at most.
        depth: edges from the root at most.
        floor: probability that a node must have.
    """
    tie = counter()
    heap: list[tuple[float, int, tuple[int, ...]]] = [(-1.0, next(tie), ())]
    nodes = []
    while heap and len(nodes) < width:
        negative, _, path = heapq.heappop(heap)
        nodes.append((path, -negative))
        if len(path) < depth:
            context = [*before, root, *path][::-1][:16]
            for token, kind in look_up(context):
                value = float(np.float32(-negative) * probability[bucket(kind)])
                if value >= floor:
                    heapq.heappush(heap, (-value, next(tie), (*path, token)))
    return nodes


def best_width(probabilities: list[float], ladder: list[int], seconds: list[float], margin: float) -> tuple[int, float]:
    """Return the width with the most expected tokens per second and what it expects, by trying all."""
    tries = [((1 + margin) / seconds[0], 0, 1, 1.0)]
    for rung, width in enumerate(ladder[1:], 1):
        if width <= len(probabilities):
            expected = sum(probabilities[:width])
            tries.append((expected / seconds[rung], -rung, width, expected))
    return max(tries)[2:]
