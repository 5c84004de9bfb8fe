"""Numba loop of the planner: the width with the most expected tokens per second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recycle_cpp.types import FloatArray, IntArray


@njit(cache=True, nogil=True)
def choose_width(
    probabilities: FloatArray, n: int, ladder: IntArray, seconds: NDArray[np.float64], margin: float
) -> tuple[int, float]:
    """Return the width W of the ladder with the highest E(W) / T(W), and its E(W).

    Nodes come in falling path probability, so the expected tokens of the first W nodes are a running sum.

    Args:
        probabilities: float32[>=n], path probability of each node; the root's 1 stands for the bonus token.
        n: nodes of the tree.
        ladder: int32[L], widths in rising order; the first is 1.
        seconds: float64[L], what a step of each width costs.
        margin: by how much a wider step must be better than plain decoding.
    """
    best_width, best_expected = 1, 1.0
    best_speed = (1.0 + margin) / seconds[0]
    expected, row = 0.0, 0
    for rung in range(len(ladder)):
        if ladder[rung] > n:
            break
        while row < ladder[rung]:
            expected += probabilities[row]
            row += 1
        if rung > 0 and expected / seconds[rung] > best_speed:
            best_speed = expected / seconds[rung]
            best_width, best_expected = int(ladder[rung]), expected
    return best_width, best_expected
