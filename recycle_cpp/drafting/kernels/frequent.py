"""Numba loop of the frequent tokens: a short list of what was emitted most, of late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    from recycle_cpp.types import FloatArray, IntArray

FORGET_AT = 200.0  # occurrences of the first at which all counts are halved


@njit(cache=True, nogil=True)
def count_tokens(emitted: IntArray, tokens: IntArray, counts: FloatArray) -> None:
    """Count tokens; one that is not in the list takes the place, and the count, of the last (space-saving).

    After Metwally, Agrawal and El Abbadi, ICDT 2005.

    Args:
        emitted: int32[n].
        tokens: int32[F], updated: most frequent first; -1 for none.
        counts: float32[F], updated.
    """
    for token in emitted:
        place = len(tokens) - 1
        for j in range(len(tokens)):
            if tokens[j] == token:
                place = j
        tokens[place] = token
        counts[place] += 1.0
        while place > 0 and counts[place] > counts[place - 1]:
            tokens[place], tokens[place - 1] = tokens[place - 1], tokens[place]
            counts[place], counts[place - 1] = counts[place - 1], counts[place]
            place -= 1
        if counts[0] > FORGET_AT:
            counts *= 0.5
