"""Mixing, growth and planning, slow and readable: plain numbers, a heap of whole paths, and all widths tried."""

from __future__ import annotations

import heapq
import math
from itertools import count as counter

import numpy as np

MARGIN, NEAR = 0.10, 0.9


def log_odds(probability: float) -> float:
    """Return the log odds of a probability that is neither near 0 nor near 1."""
    probability = min(max(probability, 0.0005), 0.9995)
    return math.log(probability) - math.log(1 - probability)


class SlowBelief:
    """Probabilities of kinds and weights of sources, in lists, unlike the kernel's without rounding to 32 bits."""

    def __init__(self, belief) -> None:
        """Copy a Belief."""
        self.hits, self.trials, self.prior = belief.hits.tolist(), belief.trials.tolist(), belief.prior.tolist()
        self.odds, self.weights = belief.odds.tolist(), belief.weights.tolist()

    def probability(self, kinds: list[int], situation: int) -> float:
        """Return the probability of one candidate."""
        *weights, bias = self.weights[situation]
        z = bias + sum(weight * self.odds[kind] for weight, kind in zip(weights, kinds, strict=True))
        return 1 / (1 + math.exp(-min(max(z, -9), 9)))

    def probabilities(self, found: list[list[int]], situation: int) -> list[float]:
        """Return the probabilities of all candidates of one context."""
        single = [self.probability(kinds, situation) for kinds in found]
        return [p / max(1.0, sum(single)) for p in single]

    def learn(self, truth: int, found: list[tuple[int, list[int]]], situation: int) -> None:
        """Learn which candidate was right: first the weights, one candidate after the other, then the counts."""
        for token, kinds in found:
            step = 0.01 * ((token == truth) - self.probability(kinds, situation))
            moved = [w + step * self.odds[kind] for w, kind in zip(self.weights[situation], kinds, strict=False)]
            self.weights[situation] = [*moved, self.weights[situation][-1] + 0.3 * step]
        for token, kinds in found:
            for kind in kinds:
                self._count(kind, token == truth)

    def _count(self, kind: int, hit: bool) -> None:
        self.trials[kind] += 1
        self.hits[kind] += hit
        if self.trials[kind] > 512:
            self.trials[kind] /= 2
            self.hits[kind] /= 2
        self.odds[kind] = log_odds((self.hits[kind] + 16 * self.prior[kind]) / (self.trials[kind] + 16))


def likeliest_paths(root: int, before: list[int], look_up, bounds) -> list[tuple[tuple[int, ...], float]]:
    """Return (path of tokens below the root, probability) of the likeliest nodes, likeliest first.

    Args:
        root: the pending token.
        before: the sequence before it.
        look_up: gives (token, float32 probability) of the candidates of a context, newest token first.
        bounds: width, depth, floor and is_chain.
    """
    tie = counter()
    heap: list[tuple[float, int, tuple[int, ...]]] = [(-1.0, next(tie), ())]
    nodes: list[tuple[tuple[int, ...], float]] = []
    while heap and len(nodes) < bounds.width:
        negative, _, path = heapq.heappop(heap)
        nodes.append((path, -negative))
        if len(path) == bounds.depth:
            continue
        found = look_up([*before, root, *path][::-1][:32])
        for token, probability in [max(found, key=lambda entry: entry[1])] if bounds.is_chain and found else found:
            value = float(np.float32(-negative) * probability)
            if value >= bounds.floor:
                heapq.heappush(heap, (-value, next(tie), (*path, token)))
    return nodes


def speeds(probabilities: list[float], ladder: list[int], seconds: list[float], trust: float) -> dict[int, float]:
    """Return expected tokens per second of every width that a tree of these nodes fills."""
    return {
        width: (1 + trust * sum(probabilities[1:width])) / time
        for width, time in zip(ladder, seconds, strict=True)
        if width <= len(probabilities)
    }


def choose_width(
    probabilities: list[float], ladder: list[int], seconds: list[float], trust: float
) -> tuple[int, float, int]:
    """Return the best width, what it expects, and the width worth watching, by trying all."""
    tried = speeds(probabilities, ladder, seconds, trust)
    plain = tried.pop(1)
    if not tried:
        return 1, 1.0, 1
    widest = max(tried, key=lambda width: (tried[width], -width))
    watched = widest if tried[widest] > NEAR * plain else 1
    if tried[widest] <= (1 + MARGIN) * plain:
        return 1, 1.0, watched
    return widest, 1 + trust * sum(probabilities[1:widest]), watched


def can_still_pay(
    probabilities: list[float], next_one: float, ladder: list[int], seconds: list[float], trust: float
) -> bool:
    """Return whether some wider tree is the best, if all nodes to come are as likely as the next one."""
    hoped = [*probabilities, *[next_one] * (ladder[-1] - len(probabilities))]
    return choose_width(hoped, ladder, seconds, trust)[0] > len(probabilities)


def promise_and_gain(width: int, watched: int, truths: list[int], nodes: list[tuple[int, int, float]]):
    """Return what a tree promised below its root and what of it came true.

    Args:
        width: rows that were evaluated.
        watched: rows that would have been; only their first level can be judged.
        truths: the emitted tokens.
        nodes: token, depth and probability of each node, root first.
    """
    if width > 1:
        return sum(probability for _, _, probability in nodes[1:width]), len(truths) - 1
    level = [(token, probability) for token, depth, probability in nodes[1:watched] if depth == 1]
    return sum(probability for _, probability in level), sum(token == truths[0] for token, _ in level)
