"""The cost curve: what a step of each width takes here, measured at load and corrected by every step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80)
_RATE = 0.08  # how fast the common factor follows what is measured
_OPTIMISM = 0.003  # per step: how fast the estimate of a width that was never used is lowered, until it is tried
_UNSEEN_FLOOR, _SEEN_FLOOR = 0.4, 0.85  # share of what is known of a width below which its estimate is not lowered
_LEAST_CHARGE = 0.1  # share of a change of width that is charged where changes are rare
_CHANGE_RATE = 0.05  # how fast the share of changes is followed
_OWN_RATE = 0.6  # how much of its error a width takes that was not used for long
_STALE_STEPS = 20.0
_MEAN_RATE = 0.3  # how fast the mean error of the last steps is followed
_MEMORY = 200.0  # observations of a width after which the oldest ones are forgotten


class Curve(NamedTuple):
    """T(W, n_past) = base[W] + slope[W] * n_past, and the price of a change of width.

    Attributes:
        ladder: widths in rising order, the first is 1.
        base: seconds of a step at each width with an empty cache.
        slope: seconds per token in the cache.
        switch: seconds that the first step of another width costs more: llama.cpp builds its graph anew.
    """

    ladder: tuple[int, ...]
    base: tuple[float, ...]
    slope: tuple[float, ...]
    switch: float


class CostCurve:
    """A curve with live corrections: one factor for the machine as it is now, one for each width.

    Heat, a battery or another process slow all widths alike: the common factor follows within some steps. A slow moment
    only ever adds, so what is known of one width bounds the others: more rows never take less time, and never more time
    than evaluating them in parts. An estimate that is still too high is lowered bit by bit until the width is tried;
    the better a width is known, the slower. So nothing that was measured in a slow moment lasts.
    """

    def __init__(self, curve: Curve) -> None:
        self._switch = curve.switch
        self._widths = np.array(curve.ladder, np.float64)
        self._rungs = {width: rung for rung, width in enumerate(curve.ladder)}
        self._base = np.array(curve.base)
        self._slope = np.maximum(np.array(curve.slope), 0.0)
        self._factor = np.ones(len(curve.ladder))
        self._seen = np.zeros(len(curve.ladder))
        self._age = np.zeros(len(curve.ladder))  # steps since each width was used
        self._known = np.ones(len(curve.ladder))  # each factor as it was last observed
        self._common = 1.0
        self._mean_error = 0.0
        self._changes = 0.25  # share of the last steps that changed the width
        self._seconds = np.empty(len(curve.ladder))
        self._last_width = 1
        _bound(self._base, self._widths)
        _bound(self._slope, self._widths)

    @property
    def ladder(self) -> tuple[int, ...]:
        """Widths worth considering, in rising order; the first is 1."""
        return tuple(self._rungs)

    def seconds(self, n_past: int) -> NDArray[np.float64]:
        """Return float64[L], seconds of the next step at each width; a view until the next call."""
        self._steady(n_past)
        # A change is paid once, but how long will it last? The more changes there were, the shorter.
        charge = self._switch * min(1.0, _LEAST_CHARGE + 2.0 * self._changes)
        self._seconds += charge * (self._widths != self._last_width)
        self._seconds *= self._common
        return self._seconds

    def observe(self, width: int, n_past: int, seconds: float) -> None:
        """Correct the curve by a measured step; widths off the ladder (at the end of a budget) say nothing."""
        switched, self._last_width = width != self._last_width, width
        self._changes += _CHANGE_RATE * (switched - self._changes)
        rung = self._rungs.get(width)
        if rung is None:
            return
        self._steady(n_past)
        expected = (self._seconds[rung] + self._switch * switched) * self._common
        seen = self._seen[rung]
        most = 2.0 if seen else 4.0  # one slow moment must not count for many; a first one must count
        error = math.log(min(max(seconds / expected, 1.0 / most), most))
        # A width that was used just now tells of the machine; one that was not for long tells of itself, but for what
        # the steps before were wrong by, too.
        trust = seen / (seen + 4.0) * math.exp(-self._age[rung] / _STALE_STEPS)
        own = error - self._mean_error
        self._factor[rung] *= math.exp(own * max(1.0 / (seen + 1.0), _OWN_RATE * (1.0 - trust), _RATE / 8))
        if seen == 0 and own < 0:  # what was measured in the same slow moment is as wrong
            self._factor[rung + 1 :] *= np.where(self._seen[rung + 1 :] > 0, 1.0, math.exp(own))
            self._known[rung + 1 :] = np.minimum(self._known[rung + 1 :], self._factor[rung + 1 :])
        self._known[rung] = self._factor[rung]
        self._common *= math.exp(_RATE * trust * error)
        self._mean_error += _MEAN_RATE * trust * (error - self._mean_error)
        self._seen[rung] = min(seen + 1.0, _MEMORY)
        self._age += 1.0
        self._age[rung] = 0.0
        self._hope(rung)

    def _hope(self, used: int) -> None:
        """Lower the estimates of all widths but the one just used, towards their floors."""
        lower = 1.0 - _OPTIMISM / (1.0 + self._seen)
        lower[used] = 1.0
        floor = self._known * np.where(self._seen > 0, _SEEN_FLOOR, _UNSEEN_FLOOR)
        np.maximum(self._factor * lower, np.minimum(floor, self._factor), out=self._factor)

    def _steady(self, n_past: int) -> None:
        """Fill in the seconds of each width in a row of equal ones, before the common factor."""
        np.multiply(self._slope, n_past, out=self._seconds)
        self._seconds += self._base
        self._seconds *= self._factor
        _bound(self._seconds, self._widths)


def _bound(seconds: NDArray[np.float64], widths: NDArray[np.float64]) -> None:
    """Lower what other widths show to be too high: T falls with W nowhere, and T / W rises with W nowhere."""
    np.minimum.accumulate(seconds[::-1], out=seconds[::-1])
    seconds /= widths
    np.minimum.accumulate(seconds, out=seconds)
    seconds *= widths


def interpolate(measured: dict[int, float], ladder: tuple[int, ...]) -> tuple[float, ...]:
    """Return values for every width of a ladder from those measured at some; the ends go on in a straight line."""
    widths = sorted(measured)
    if len(widths) == 1:
        return tuple(measured[widths[0]] for _ in ladder)
    values = [measured[width] for width in widths]
    found = np.interp(ladder, widths, values)
    last, before = widths[-1], widths[-2]
    growth = (measured[last] - measured[before]) / (last - before)
    return tuple(
        float(value if width <= last else measured[last] + growth * (width - last))
        for width, value in zip(ladder, found, strict=True)
    )
