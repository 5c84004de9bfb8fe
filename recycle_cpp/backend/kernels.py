"""Numba loops of the cost curve: what the next step takes at each width, and what a measured step teaches.

They run at every step, where a dozen small calls of NumPy on cold caches would cost one or two per cent of it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from numba import njit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

UP, DOWN = 0.06, 0.25  # share of an error that is taken: a slow moment only ever adds, so what is faster counts more
MOST_UP, MOST_DOWN = 0.7, 1.4  # errors, as logarithms, beyond which a step says no more
COMMON_SHARE, OWN_SHARE = 0.8, 0.1  # of that, for all widths, and for the width itself
FIRST_UP = 0.5  # share of what a width takes longer at its first use
RELAXES = 0.005  # per step: how fast the correction of a width that is not used becomes its anchor
LIFTS = 0.1  # per use: how fast an anchor follows what is above it
FADES = 0.998  # per step: how much is known of it
MEMORY = 200.0  # observations of a width that count
ALLOWANCE = 0.01  # share of the time that may be lost on trying widths that are little known
LEAST_HOPE = 0.4  # share of what a width is thought to take below which it is not hoped for
SURPRISE = -0.15  # error of a width's first use from which it tells of the wider ones, too
LEAST_CHARGE = 0.1  # share of a change of width that is charged where changes are rare
CHANGE_RATE = 0.05  # how fast the share of changes is followed
FIRST_CHANGES = 0.25  # that share before the first step
COMMON, CHANGES, LAST_WIDTH, SPARE = range(4)


class State(NamedTuple):
    """What is known of the costs; the owner is CostCurve.

    Attributes:
        widths: float64[L], the ladder.
        base: float64[L], seconds with an empty cache, as measured at load.
        slope: float64[L], seconds per token in the cache, as measured at load.
        factor: float64[L], correction of each width.
        anchor: float64[L], what the correction of a width becomes while it is not used: the lowest so far, all but.
        seen: float64[L], observations of each, at most MEMORY.
        shared: float64[4]: correction of all widths, share of steps that changed the width, width of the last step,
            seconds that may be lost on trying widths.
    """

    widths: Numbers
    base: Numbers
    slope: Numbers
    factor: Numbers
    anchor: Numbers
    seen: Numbers
    shared: Numbers


@njit(cache=True, nogil=True)
def bound(seconds: Numbers, widths: Numbers) -> None:
    """Lower what other widths show to be too high: T falls with W nowhere, and T / W rises with W nowhere."""
    for rung in range(len(widths) - 2, -1, -1):
        seconds[rung] = min(seconds[rung], seconds[rung + 1])
    for rung in range(1, len(widths)):
        seconds[rung] = min(seconds[rung], seconds[rung - 1] / widths[rung - 1] * widths[rung])


@njit(cache=True, nogil=True)
def _steady(state: State, n_past: int, seconds: Numbers) -> None:
    """Overwrite float64[L] with the seconds of each width in a row of equal ones, before the common factor."""
    for rung in range(len(seconds)):
        seconds[rung] = state.factor[rung] * (state.base[rung] + state.slope[rung] * n_past)
    bound(seconds, state.widths)


@njit(cache=True, nogil=True)
def _hope(state: State, rung: int, seconds: float) -> float:
    """Return by how much an estimate is lowered so that the width is tried: by what may be lost, if little is known."""
    spare: float = state.shared[SPARE] / (1.0 + state.seen[rung])
    return min(spare, (1.0 - LEAST_HOPE) * seconds)


@njit(cache=True, nogil=True)
def charge_of(switch: float, changes: float) -> float:
    """Return what of a change's price is charged to the first step of another width.

    It is paid once, but how long will the width last? The more changes there were, the shorter.
    """
    return switch * min(1.0, LEAST_CHARGE + 2.0 * changes)


@njit(cache=True, nogil=True)
def follow_changes(changes: float, switched: float) -> float:
    """Return the share of steps that changed the width, after one that did (1) or did not (0)."""
    return changes + CHANGE_RATE * (switched - changes)


@njit(cache=True, nogil=True)
def predict(state: State, switch: float, n_past: int, seconds: Numbers) -> None:
    """Overwrite float64[L] with the seconds of the next step at each width."""
    _steady(state, n_past, seconds)
    charge = charge_of(switch, state.shared[CHANGES])
    for rung in range(len(seconds)):
        seconds[rung] -= _hope(state, rung, seconds[rung])
        if state.widths[rung] != state.shared[LAST_WIDTH]:
            seconds[rung] += charge
        seconds[rung] *= state.shared[COMMON]


@njit(cache=True, nogil=True)
def correct(state: State, switch: float, width: int, n_past: int, measured: float, seconds: Numbers) -> None:
    """Correct what is known by one step; updates the state, overwrites float64[L] seconds."""
    switched = 1.0 if width != state.shared[LAST_WIDTH] else 0.0
    state.shared[LAST_WIDTH] = width
    state.shared[CHANGES] = follow_changes(state.shared[CHANGES], switched)
    rung = -1
    for i in range(len(state.widths)):
        if state.widths[i] == width:
            rung = i
    if rung < 0:
        return
    _steady(state, n_past, seconds)
    expected = (seconds[rung] + switch * switched) * state.shared[COMMON]
    hoped = _hope(state, rung, seconds[rung])
    lost = min(hoped, max(0.0, (measured - expected) / state.shared[COMMON] + hoped))
    _take(state, rung, min(max(math.log(measured / expected), -MOST_DOWN), MOST_UP))
    for i in range(len(state.widths)):
        if i != rung:
            state.seen[i] *= FADES
            state.factor[i] *= math.exp(RELAXES * math.log(state.anchor[i] / state.factor[i]))
    state.shared[SPARE] = max(0.0, state.shared[SPARE] - lost) + ALLOWANCE * seconds[rung]


@njit(cache=True, nogil=True)
def _take(state: State, rung: int, error: float) -> None:
    """Take a share of an error: the better a width is known, the more it tells of the machine, not of itself."""
    seen = state.seen[rung]
    rate = UP if error > 0 else DOWN
    state.seen[rung] = min(seen + 1.0, MEMORY)
    first = (FIRST_UP if error > 0 else 1.0) / (1.0 + seen)
    state.factor[rung] *= math.exp(max(OWN_SHARE * rate, first) * error)
    excess = math.log(state.factor[rung] / state.anchor[rung])
    state.anchor[rung] *= math.exp(min(excess, LIFTS * excess))
    state.shared[COMMON] *= math.exp(COMMON_SHARE * rate * seen / (seen + 4.0) * error)
    if seen == 0 and error < SURPRISE:  # what was measured in the same slow moment is as wrong
        for wider in range(rung + 1, len(state.widths)):
            if state.seen[wider] == 0:
                state.factor[wider] *= math.exp(error)
                state.anchor[wider] = min(state.anchor[wider], state.factor[wider])
