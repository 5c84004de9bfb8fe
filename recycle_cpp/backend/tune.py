"""Finds, by measuring, the settings that decode fastest here and what wide evaluations cost with them."""

from __future__ import annotations

import contextlib
import statistics
from typing import TYPE_CHECKING, NamedTuple

from recycle_cpp.backend.cost import LADDER, Curve, interpolate
from recycle_cpp.backend.timing import Bench, Budget, Samples
from recycle_cpp.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from recycle_cpp.backend.timing import TimedContext

SECONDS = 1.8  # with the first evaluation, which the first prompt would pay for otherwise, less than 2 s
BLOCK_CELLS = 256  # llama.cpp attends over a multiple of 256 cells: the middle of a block stands for all of it
LOW_CELLS = BLOCK_CELLS // 2
CONTEXT = 1024  # cells of the context that is measured in, at most; rows are evaluated in its last block
WIDTHS = (4, 16, 2, 8, 6)  # the most telling first: time may end after any of them
WIDEST = (32, 64)  # once, and only where they may pay
HOPELESS = 6.0  # tokens per step that no tree reaches on common text
CLEAR, EQUAL = 1.3, 1.05  # ratios of times from which no further round is needed; below which they count as equal
GUESS = 1.5  # T(2) / T(1) where there was no time for any width
_ROUNDS = 4
_ATTENTION_ROUNDS = ((1, 4), (1, 4), (16,))
_ATTENTION_SHARE, _NARROW_SHARE, _WIDE_SHARE = 0.4, 0.5, 0.6  # of the budget, by the end of each choice


class Settings(NamedTuple):
    """Settings of a context that change its speed and hardly its results.

    Attributes:
        flash_attention: whether attention runs fused.
        n_threads: threads for single rows.
        n_threads_batch: threads for wider batches.
    """

    flash_attention: bool
    n_threads: int
    n_threads_batch: int

    def __str__(self) -> str:
        """Describe the settings in a few words for people."""
        attention = "on" if self.flash_attention else "off"
        threads = "1 thread" if self.n_threads == 1 else f"{self.n_threads} threads"
        return f"flash attention {attention}, {threads}, {self.n_threads_batch} for wide batches"


class Search(NamedTuple):
    """What to choose from; the first of each is taken where time does not allow to compare.

    Attributes:
        attention: flash attention off, on or both.
        threads: for single rows.
        threads_batch: for wider batches; empty takes those for single rows unless another of `threads` is faster.
        max_width: rows of one evaluation at most.
        can_rewind: whether the memory can forget a part; else single rows alone are timed.
    """

    attention: tuple[bool, ...]
    threads: tuple[int, ...]
    threads_batch: tuple[int, ...]
    max_width: int
    can_rewind: bool = True

    @property
    def first(self) -> Settings:
        """What is taken without measuring."""
        return Settings(self.attention[0], self.threads[0], (self.threads_batch or self.threads)[0])

    @property
    def is_open(self) -> bool:
        """Whether there is anything to choose."""
        return max(len(self.attention), len(self.threads), len(self.threads_batch)) > 1


class Tuned(NamedTuple):
    """The settings chosen, and the cost curve under them."""

    settings: Settings
    curve: Curve


class Tuner:
    """Measures one model within a budget; what is not known when time is out is extrapolated or left as it was.

    One context per attention setting serves all measurements. Single rows are timed before every wide evaluation: what
    counts is the ratio between them, and the machine's speed changes from one moment to the next.
    """

    def __init__(self, open_context: Callable[[Settings], TimedContext], search: Search, budget: Budget) -> None:
        """Take what is needed; nothing is measured yet.

        Args:
            open_context: makes a context of its own, of at least CONTEXT cells or as many as will be used.
            search: what to choose from.
            budget: starts after the first evaluation, and holds within one evaluation.
        """
        self._open_context = open_context
        self._search = search
        self._budget = budget

    def run(self) -> Tuned:
        """Choose and measure.

        Raises:
            BackendError: if no context can be made, or llama.cpp fails.
        """
        with contextlib.ExitStack() as stack:
            benches = self._open_benches(stack)
            on = self._choose_attention(benches)
            for other in benches.keys() - {on}:
                benches[other].context.close()
            threads = self._choose_threads(benches[on])
            return Tuned(Settings(on, *threads), self._measure_curve(benches[on]))

    def _open_benches(self, stack: contextlib.ExitStack) -> dict[bool, Bench]:
        """Open a context per attention setting; one that cannot be made is no candidate, unless it is the only one."""
        benches: dict[bool, Bench] = {}
        for on in self._search.attention:
            try:
                context = self._open_context(self._search.first._replace(flash_attention=on))
            except BackendError:
                if on == self._search.attention[-1] and not benches:
                    raise
                continue
            stack.callback(context.close)
            benches[on] = Bench(context, self._budget, can_rewind=self._search.can_rewind)
            if len(benches) == 1:
                self._budget.begin()
        return benches

    def _choose_attention(self, benches: dict[bool, Bench]) -> bool:
        """Return the faster setting: single rows decide; wide ones do where single rows take the same time."""
        first, *others = benches
        if not others:
            return first
        for bench in benches.values():
            bench.fill(self._full_cells(bench))
        ratio = 1.0
        for widths in _ATTENTION_ROUNDS:
            for width in self._widths(widths):
                for bench in benches.values():
                    bench.time(width, _ATTENTION_SHARE if bench.samples else 1.0)
            ratio = self._attention_ratio(benches[first], benches[others[0]])
            if ratio > CLEAR or ratio < 1 / CLEAR:
                break
        return others[0] if ratio * EQUAL < 1 else first

    def _attention_ratio(self, one: Bench, other: Bench) -> float:
        """Return the other's time over the one's, at the narrowest width at which they differ."""
        ratio = 1.0
        ones, others = (bench.samples.get(self._full_cells(bench), Samples()) for bench in (one, other))
        for width in sorted(set(ones.widths) & set(others.widths)):
            ratio = others.seconds(width) / ones.seconds(width)
            if max(ratio, 1 / ratio) > EQUAL:
                break
        return ratio

    def _choose_threads(self, bench: Bench) -> tuple[int, int]:
        """Choose threads for single rows and for wider batches, and set them."""
        search = self._search
        bench.fill(self._full_cells(bench))
        narrow = self._fastest_threads(bench, search.threads, 1, _NARROW_SHARE)
        candidates = search.threads_batch or tuple(dict.fromkeys((narrow, *search.threads)))
        wide = self._fastest_threads(bench, candidates, min(8, search.max_width), _WIDE_SHARE)
        if (narrow, wide) != search.first[1:] or len(search.threads) > 1 or len(candidates) > 1:
            bench.set_threads(narrow, wide)
        return narrow, wide

    def _fastest_threads(self, bench: Bench, candidates: tuple[int, ...], width: int, share: float) -> int:
        """Return the number of threads that evaluates a width fastest; the first unless another is clearly faster."""
        rounds, repeats = 2, 2  # the first evaluation with other threads also starts them
        cost = rounds * repeats * len(candidates) * bench.expects(width)
        if len(candidates) == 1 or not self._budget.allows(cost, share):
            return candidates[0]
        seconds = dict.fromkeys(candidates, float("inf"))
        for n_threads in candidates * rounds:
            bench.set_threads(n_threads, n_threads)
            seconds[n_threads] = min(seconds[n_threads], *(bench.run(width) for _ in range(repeats)))
        best = min(seconds, key=seconds.__getitem__)
        return best if seconds[best] * EQUAL < seconds[candidates[0]] else candidates[0]

    def _measure_curve(self, bench: Bench) -> Curve:
        """Time widths at two fills, round after round while the budget lasts."""
        full = self._full_cells(bench)
        levels = (full, LOW_CELLS) if self._search.can_rewind and full > LOW_CELLS else (full,)
        bench.fill(full)
        if full not in bench.samples:
            bench.sample(1)  # the one number that nothing else can stand for
        for turn in range(_ROUNDS):
            for n_cells in levels:
                bench.fill(n_cells)
                if not all(bench.time_beside_one(width) for width in self._widths(WIDTHS) or (1,)):
                    break
            if turn == 0:
                bench.fill(full)
                self._time_wide(bench)
        return curve_of(bench.samples, full, self._search.max_width)

    def _time_wide(self, bench: Bench) -> None:
        """Time the widest evaluations, up to the first that no tree can repay."""
        samples = bench.samples[self._full_cells(bench)]
        for width in self._widths(WIDEST):
            widest = samples.seconds(samples.widths[-1])
            if widest > HOPELESS * samples.seconds(1) or not bench.time(width):
                return

    def _widths(self, widths: Iterable[int]) -> list[int]:
        most = self._search.max_width if self._search.can_rewind else 1
        return [width for width in widths if width <= most]

    def _full_cells(self, bench: Bench) -> int:
        """Return the middle of the last block of cells, in which evaluations still fit."""
        return max(1, min(CONTEXT, bench.context.n_ctx) - LOW_CELLS)


def curve_of(samples: dict[int, Samples], full: int, max_width: int) -> Curve:
    """Return T(W, n_past) on the ladder from what was timed at one or two fills, of which `full` is one.

    A slope that is not known is in proportion to the width: rows attend separately. Where only single rows were timed,
    a second one is guessed to cost half as much.
    """
    ladder = tuple(width for width in LADDER if width <= max_width) or (1,)
    switches = [seconds for found in samples.values() for seconds in found.switches()]
    switch = max(0.0, statistics.median(switches or [0.0]))
    fewer = min(samples)
    high, low = ({w: samples[cells].seconds(w, switch) for w in samples[cells].widths} for cells in (full, fewer))
    slopes = {w: max(0.0, high[w] - low[w]) / max(1, full - fewer) for w in high.keys() & low.keys()} or {1: 0.0}
    if len(slopes) == 1:
        slopes[2] = 2 * slopes[1]
    if len(high) == 1:
        high[2] = GUESS * high[1]
    slope, seconds = interpolate(slopes, ladder), interpolate(high, ladder)
    base = tuple(max(0.1 * t, t - full * s) for t, s in zip(seconds, slope, strict=True))
    return Curve(ladder, base, slope, switch)
