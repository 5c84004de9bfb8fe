"""Times evaluations in one context, at fills of its cache that cost next to nothing to make."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

import numpy as np

from recycle_cpp.backend.protocol import Context

if TYPE_CHECKING:
    from collections.abc import Callable

    from recycle_cpp.types import FloatArray, IntArray

COPIED = 16  # cells that are copied at once
QUICK_SECONDS, NARROW = 0.05, 8  # beyond these, building a graph is lost in the time of an evaluation


class TimedContext(Context, Protocol):
    """What timing asks of a context beyond decoding."""

    def set_threads(self, n_threads: int, n_threads_batch: int) -> None:
        """Use this many threads for single rows, and for wider batches, from the next evaluation on."""

    def snapshot(self) -> bytes:
        """Return the cells of sequence 0 as bytes that `restore` takes."""

    def restore(self, data: bytes, seq: int) -> bool:
        """Put a snapshot's cells into the cache as sequence `seq`; False if they do not fit."""


class Budget:
    """Seconds that measuring may take, from `begin` on."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._seconds = seconds
        self.clock = clock
        self._start = clock()

    def begin(self) -> None:
        """Start now."""
        self._start = self.clock()

    def allows(self, seconds: float, share: float = 1.0) -> bool:
        """Return whether something of that length would still end within a share of the budget."""
        return self.clock() - self._start + seconds <= share * self._seconds


class Samples:
    """Seconds of evaluations by width; the first after another width also builds a graph, and is kept apart."""

    def __init__(self) -> None:
        self._steady: dict[int, float] = {}
        self._first: dict[int, list[float]] = {}

    def add(self, width: int, seconds: float, *, first: bool) -> None:
        """Add an evaluation; `first` if the one before had another width."""
        if first:
            self._first.setdefault(width, []).append(seconds)
        else:
            self._steady[width] = min(seconds, self._steady.get(width, seconds))

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths that were timed, in rising order."""
        return tuple(sorted(self._steady.keys() | self._first.keys()))

    def seconds(self, width: int, switch: float = 0.0) -> float:
        """Return the least time at a width that was timed: a slow moment of the machine only ever adds.

        Args:
            width: the width.
            switch: what a change of width adds, if it was timed after another one only; at most half of that time is
                taken for it, since one that was measured in a slow moment may be longer than the whole.
        """
        firsts = min(self._first.get(width, [np.inf]))
        return min(self._steady[width], firsts) if width in self._steady else max(firsts - switch, firsts / 2)

    def switches(self) -> list[float]:
        """Return what each evaluation after another width took more than one after its own; below 0 by noise."""
        return [first - self._steady[width] for width in self._steady for first in self._first.get(width, [])]


class Bench:
    """Times evaluations in one context.

    Attributes:
        context: the context; its cache is emptied and filled at will.
        samples: what was timed, by cells filled.
    """

    def __init__(self, context: TimedContext, budget: Budget, *, can_rewind: bool = True) -> None:
        """Take a context with an empty cache, and evaluate one token: the cell that is copied to fill the cache.

        The first evaluation of a context also reserves memory and reads the weights: it is not kept as a sample.

        Args:
            context: the context.
            budget: limits what is timed.
            can_rewind: whether the memory can forget a part (not so for recurrent models): else single rows follow
                each other, and the cache is not filled.
        """
        self.context = context
        self.samples: dict[int, Samples] = {}
        self._budget = budget
        self._can_rewind = can_rewind
        self._least: dict[int, float] = {}
        self._position = self._last_width = self._n_cells = 0
        self._tokens = np.random.default_rng(1).integers(0, context.n_vocab, 1024).astype(np.int32)
        start = budget.clock()
        run_chain(context, self._tokens[:1], 0)
        self._least[1] = budget.clock() - start
        self._position = 1
        self._cell = context.snapshot() if can_rewind else b""
        self._block = b""

    def fill(self, n_cells: int) -> None:
        """Fill the cache with n cells, all visible to sequence 0: copies of one cell, made without an evaluation.

        Attention costs the same over copies. They all stand at position 0, so that the next token, at position 1,
        attends to every one of them.
        """
        if self._can_rewind and n_cells != self._n_cells:
            self.context.seq_rm(-1, 0, -1)
            self.context.restore(self._cell, 0)
            if n_cells >= COPIED:
                if self._add_copies(self._cell, COPIED - 1) and not self._block:
                    self._block = self.context.snapshot()
                self._add_copies(self._block, n_cells // COPIED - 1)
        self._n_cells = n_cells

    def _add_copies(self, data: bytes, n: int) -> bool:
        for _ in range(n):
            if self.context.n_seq_max < 2 or not self.context.restore(data, 1):
                return False
            self.context.seq_cp(1, 0, 0, 1)
            self.context.seq_rm(1, 0, -1)
        return True

    def set_threads(self, n_threads: int, n_threads_batch: int) -> None:
        """Change the threads; what was timed before does not count any more."""
        self.context.set_threads(n_threads, n_threads_batch)
        self.samples.clear()
        self._last_width = 0

    def time(self, width: int, share: float = 1.0) -> bool:
        """Time a width, narrow and quick ones twice; False if a share of the budget does not allow it."""
        for _ in range(2):
            if not self._budget.allows(self.expects(width), share):
                return False
            self.sample(width)
            if width > NARROW or not self._is_quick:
                break
        return True

    def time_beside_one(self, width: int) -> bool:
        """Time single rows, then a width; where evaluations are slow, single rows once are enough."""
        known = self._n_cells in self.samples and not self._is_quick
        return (known or self.time(1)) and self.time(width)

    @property
    def _is_quick(self) -> bool:
        return self._least[1] < QUICK_SECONDS

    def sample(self, width: int) -> None:
        """Time a width once, whatever the budget."""
        seconds = self.run(width)
        first = self._last_width not in (0, width)
        self.samples.setdefault(self._n_cells, Samples()).add(width, seconds, first=first)
        self._last_width = width

    def run(self, width: int) -> float:
        """Evaluate a chain of W rows after the filled cells, and forget it; return the seconds."""
        start = self._budget.clock()
        run_chain(self.context, self._tokens[:width], self._position)
        if self._can_rewind:
            self.context.seq_rm(-1, self._position, -1)
        else:
            self._position += width
            if self._position + width > self.context.n_ctx:
                self.context.seq_rm(-1, 0, -1)
                self._position = 0
        seconds = self._budget.clock() - start
        self._least[width] = min(seconds, self._least.get(width, seconds))
        return seconds

    def expects(self, width: int) -> float:
        """Return what an evaluation should take, from what is known of other widths.

        More rows take between nothing and their proportion more: the geometric middle is taken.
        """
        nearest = min(self._least, key=lambda known: abs(known - width))
        return self._least[nearest] * float(np.sqrt(width / nearest))


def run_chain(context: Context, tokens: IntArray, first: int) -> FloatArray:
    """Evaluate int32[W] tokens of sequence 0 in one decode; a view as of decode_tree."""
    n = len(tokens)
    positions = np.arange(first, first + n, dtype=np.int32)
    return context.decode_tree(tokens, positions, np.zeros(n, np.int32), np.ones(n, np.int32))
