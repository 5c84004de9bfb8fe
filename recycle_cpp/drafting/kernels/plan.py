"""Numba loops of the planner: the width with the most expected tokens per second."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recycle_cpp.types import FloatArray, IntArray

MARGIN = 0.10  # a wider step must promise this much more than plain decoding: the best of many estimates is too good
NEAR = 0.9  # share of plain decoding's speed from which a wider step is watched, though it is not taken
TRUST_PRIOR = 4.0  # drafted tokens promised before the first
TRUST_AT_FIRST, TRUST_IF_SAMPLED = 1.0, 0.5  # share of these that counts as accepted
TRUST_MEMORY = 0.95  # per step that was watched
TRUST_FORGETS = 0.98  # per step, whatever it was: so trust comes back where nothing is drafted
STAKE = 8.0  # plain steps that a step may cost
STAKE_GROWTH = 2.0  # plain steps that it may cost more for each token of the last step


class Plan(NamedTuple):
    """What the planner goes by.

    Attributes:
        ladder: int32[L], widths in rising order; the first is 1.
        seconds: float64[L], what the next step takes at each width.
        trust: share of the drafted tokens promised of late that were accepted, at most 1.
    """

    ladder: IntArray
    seconds: NDArray[np.float64]
    trust: float


@njit(cache=True, nogil=True)
def affordable(seconds: NDArray[np.float64], n_emitted: int) -> int:
    """Return how many rungs of the ladder may be used after a step that emitted n tokens.

    A wide step is a wager: it is not to risk much more time than the last one won.
    """
    most = (STAKE + STAKE_GROWTH * n_emitted) * seconds[0]
    rungs = 1
    while rungs < len(seconds) and seconds[rungs] <= most:
        rungs += 1
    return rungs


@njit(cache=True, nogil=True)
def can_still_pay(n: int, next_probability: float, probabilities: FloatArray, plan: Plan) -> bool:
    """Return whether a tree wider than n nodes may be the best, since probabilities only fall from here.

    Args:
        n: nodes of the tree.
        next_probability: path probability of the next one.
        probabilities: float32[>=n], path probability of each node.
        plan: what widths cost.
    """
    drafted = 0.0
    best = (1.0 + MARGIN) / plan.seconds[0]
    rung = 1
    for row in range(1, n):
        drafted += probabilities[row]
        if rung < len(plan.ladder) and plan.ladder[rung] == row + 1:
            best = max(best, (1.0 + plan.trust * drafted) / plan.seconds[rung])
            rung += 1
    for wider in range(rung, len(plan.ladder)):
        most = drafted + next_probability * (plan.ladder[wider] - n)
        if (1.0 + plan.trust * most) / plan.seconds[wider] > best:
            return True
    return False


@njit(cache=True, nogil=True)
def choose_width(probabilities: FloatArray, n: int, plan: Plan) -> tuple[int, float, int]:
    """Return the width W of the ladder with the highest E(W) / T(W), and its E(W).

    Nodes come in falling path probability, so the expected tokens of the first W nodes are a running sum.

    Args:
        probabilities: float32[>=n], path probability of each node; the root's 1 stands for the bonus token.
        n: nodes of the tree.
        plan: what widths cost.

    Returns:
        W, E(W), and the best width above 1 if it is near enough to be watched, else 1.
    """
    best_width, best_expected, watched = 1, 1.0, 1
    plain = 1.0 / plan.seconds[0]
    best_speed, best_wide = (1.0 + MARGIN) * plain, NEAR * plain
    drafted, row = 0.0, 1
    for rung in range(1, len(plan.ladder)):
        if plan.ladder[rung] > n:
            break
        while row < plan.ladder[rung]:
            drafted += probabilities[row]
            row += 1
        expected = 1.0 + plan.trust * drafted
        speed = expected / plan.seconds[rung]
        if speed > best_wide:
            best_wide, watched = speed, int(plan.ladder[rung])
        if speed > best_speed:
            best_speed = speed
            best_width, best_expected = int(plan.ladder[rung]), expected
    return best_width, best_expected, watched


@njit(cache=True, nogil=True)
def compare_promise(
    width: int,
    watched: int,
    truths: IntArray,
    tokens: IntArray,
    depths: IntArray,
    probabilities: FloatArray,
    record: NDArray[np.float64],
) -> None:
    """Compare what the last tree promised with what was accepted; of a tree that was only watched, its first level.

    Args:
        width: rows that were evaluated.
        watched: as `choose_width` returned it.
        truths: int32[n], the emitted tokens.
        tokens: int32[>=W], of the nodes in falling path probability.
        depths: int32[>=W].
        probabilities: float32[>=W].
        record: float64[2], updated: drafted tokens accepted and promised, decayed.
    """
    record *= TRUST_FORGETS
    promised, accepted = 0.0, len(truths) - 1.0
    if width > 1:
        for row in range(1, width):
            promised += probabilities[row]
    elif watched > 1:
        for row in range(1, watched):
            if depths[row] == 1:
                promised += probabilities[row]
                accepted += tokens[row] == truths[0]
    if promised > 0.0:
        record *= TRUST_MEMORY
        record[0] += accepted
        record[1] += promised


@njit(cache=True, nogil=True)
def forget_pruned(
    kept_tokens: IntArray, kept_parents: IntArray, tokens: IntArray, parents: IntArray, probabilities: FloatArray
) -> None:
    """Promise nothing for the nodes of a tree that a part of it lacks.

    Args:
        kept_tokens: int32[V], of the part, in preorder.
        kept_parents: int32[V].
        tokens: int32[W], of the tree's nodes in any order in which parents come first.
        parents: int32[>=W].
        probabilities: float32[>=W], overwritten: 0 where a node is not in the part.
    """
    place = np.full(len(tokens), -1, np.int32)
    place[0] = 0
    for node in range(1, len(tokens)):
        above = place[parents[node]]
        for row in range(above + 1, len(kept_tokens) if above >= 0 else 0):
            if kept_parents[row] == above and kept_tokens[row] == tokens[node]:
                place[node] = row
                break
        if place[node] < 0:
            probabilities[node] = 0.0
