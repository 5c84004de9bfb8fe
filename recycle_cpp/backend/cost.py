"""The cost curve: what a step of each width takes here, measured at load and corrected by every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recycle_cpp.backend import kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80)


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
    than evaluating them in parts. An estimate that is still too high is lowered until the width is tried, by no more
    than may be lost: a share of the time, which grows from step to step and is spent by trials that were in vain. The
    better a width is known, the less. So nothing that was measured in a slow moment lasts.
    """

    def __init__(self, curve: Curve) -> None:
        self.ladder = curve.ladder
        n = len(curve.ladder)
        shared = np.array([1.0, kernels.FIRST_CHANGES, 1.0, 0.0])
        self._state = kernels.State(
            np.array(curve.ladder, np.float64),
            np.array(curve.base, np.float64),
            np.maximum(np.array(curve.slope, np.float64), 0.0),
            np.ones(n),
            np.ones(n),
            np.zeros(n),
            shared,
        )
        self._switch = curve.switch
        self._seconds = np.empty(n)
        kernels.bound(self._state.base, self._state.widths)
        kernels.bound(self._state.slope, self._state.widths)

    @property
    def spare(self) -> float:
        """Seconds that may be lost on trying widths that are little known; settable."""
        return float(self._state.shared[kernels.SPARE])

    @spare.setter
    def spare(self, seconds: float) -> None:
        """Set what may be lost."""
        self._state.shared[kernels.SPARE] = seconds

    def seconds(self, n_past: int) -> NDArray[np.float64]:
        """Return float64[L], seconds of the next step at each width; a view until the next call."""
        kernels.predict(self._state, self._switch, n_past, self._seconds)
        return self._seconds

    def observe(self, width: int, n_past: int, seconds: float) -> None:
        """Correct the curve by a measured step; widths off the ladder (at the end of a budget) say nothing."""
        kernels.correct(self._state, self._switch, width, n_past, seconds, self._seconds)


def interpolate(measured: dict[int, float], ladder: tuple[int, ...]) -> tuple[float, ...]:
    """Return values for every width of a ladder from those measured at some; the end goes on in a line, never down."""
    widths = sorted(measured)
    if len(widths) == 1:
        return tuple(measured[widths[0]] for _ in ladder)
    values = [measured[width] for width in widths]
    found = np.interp(ladder, widths, values)
    last, before = widths[-1], widths[-2]
    growth = max(0.0, measured[last] - measured[before]) / (last - before)
    return tuple(
        float(value if width <= last else measured[last] + growth * (width - last))
        for width, value in zip(ladder, found, strict=True)
    )
