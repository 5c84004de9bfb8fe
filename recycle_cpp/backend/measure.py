"""What llama.cpp does on this machine, found by running it: times of widths, and which widths are exact."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recycle_cpp.backend.cost import LADDER, Curve, interpolate

if TYPE_CHECKING:
    from recycle_cpp.backend.llama import LlamaContext
    from recycle_cpp.types import FloatArray, IntArray

BLOCK = 64  # tokens that are really evaluated; the cache is filled with copies of their cells
REGION = 256  # llama.cpp attends over a multiple of 256 cells, and changes its algorithm at such a boundary only
FULL_CELLS = 1024  # the second fill at which widths are timed
MEASURED_WIDTHS = (1, 2, 4, 8, 16, 32, 64)
CURVE_SECONDS = 1.5
HOPELESS = 6.0  # tokens per step that no tree reaches on common text
EXACT_WIDTH_MOST = 8
_EXACT_ROUNDS = 4


class WidthTime(NamedTuple):
    """Seconds of one evaluation in a row of equal ones, and what the first after another width takes more."""

    seconds: float
    switch: float


class ExactWidths(NamedTuple):
    """What leaves logits bit-identical to plain decoding, under the settings that were probed.

    Attributes:
        width: chains of up to this many rows, the root included, are exact ...
        n_cells: ... while the evaluation ends within this many cells. Beyond, W = 1 only.
    """

    width: int
    n_cells: int

    def at(self, n_past: int) -> int:
        """Return the widest exact chain whose root stands at position n_past."""
        return max(1, min(self.width, self.n_cells - n_past))


def _tokens(context: LlamaContext, n: int, seed: int) -> IntArray:
    return np.random.default_rng(seed).integers(0, context.n_vocab, n).astype(np.int32)


def _run_chain(context: LlamaContext, tokens: IntArray, first: int) -> FloatArray:
    """Evaluate int32[W] tokens of sequence 0 in one decode; a view as of decode_tree."""
    n = len(tokens)
    positions = np.arange(first, first + n, dtype=np.int32)
    return context.decode_tree(tokens, positions, np.zeros(n, np.int32), np.ones(n, np.int32))


def fill_cells(context: LlamaContext, n_cells: int) -> int:
    """Fill an empty cache up to n cells, all visible to sequence 0, for the price of 64 tokens.

    The cells of one evaluated block are copied by saving and restoring their state: attention costs the same over
    copies. They all stand at positions 0 to 63, so that the next token of sequence 0 attends to every one of them.

    Returns:
        The next position of sequence 0.
    """
    block = min(BLOCK, n_cells)
    context.decode_prompt(_tokens(context, block, seed=1), 0)
    if n_cells >= 2 * block:
        data = context.snapshot()
        for seq in range(1, min(n_cells // block, context.n_seq_max)):
            if not context.restore(data, seq):
                break
            context.seq_cp(seq, 0, 0, block)
    return block


def time_widths(context: LlamaContext, widths: tuple[int, ...], n_cells: int, repeats: int) -> dict[int, WidthTime]:
    """Time evaluations at each width with n cells filled, through the path that decoding uses; empties the cache.

    The first evaluation of a width after another one also builds its graph; the least of the later ones is what the
    width costs: a slow moment of the machine only ever adds.
    """
    position = fill_cells(context, n_cells)
    found: dict[int, WidthTime] = {}
    _run_chain(context, _tokens(context, 1, seed=2), position)
    context.seq_rm(-1, position, -1)
    for width in widths:
        seconds = []
        for repeat in range(repeats + 1):
            tokens = _tokens(context, width, seed=3 + repeat)
            start = time.perf_counter()
            _run_chain(context, tokens, position)
            context.seq_rm(-1, position, -1)
            seconds.append(time.perf_counter() - start)
        least = min(seconds[1:])
        found[width] = WidthTime(least, max(0.0, seconds[0] - least))
    context.seq_rm(-1, 0, -1)
    return found


def measure_curve(context: LlamaContext, max_width: int, budget: float = CURVE_SECONDS) -> Curve:
    """Measure T(W, n_past) at a few widths and two fills, and fill in the ladder between them.

    Wide evaluations are measured as long as the budget of seconds lasts and the last one did not cost so much that
    no tree can repay it; beyond, the curve goes on in a straight line, and decoding corrects it.
    """
    started = time.perf_counter()
    ladder = tuple(width for width in LADDER if width <= max_width) or (1,)
    full = min(FULL_CELLS, context.n_ctx // 2)
    low: dict[int, WidthTime] = {}
    high: dict[int, WidthTime] = {}
    for width in (width for width in MEASURED_WIDTHS if width <= max_width):
        low |= time_widths(context, (width,), BLOCK, repeats=2)
        high |= time_widths(context, (width,), full, repeats=1)
        spent = time.perf_counter() - started
        if width > 1 and (spent > budget or low[width].seconds > HOPELESS * low[1].seconds):
            break
    slopes = {width: max(0.0, (high[width].seconds - low[width].seconds) / (full - BLOCK)) for width in low}
    bases = {width: max(1e-6, low[width].seconds - slopes[width] * BLOCK) for width in low}
    switch = statistics.median([time.switch for width, time in low.items() if width > 1] or [0.0])
    return Curve(ladder, interpolate(bases, ladder), interpolate(slopes, ladder), switch)


def probe_exact_widths(context: LlamaContext, n_ctx: int) -> ExactWidths:
    """Find which chains leave logits, their own and the next ones, bit-identical to plain decoding.

    Region after region of 256 cells is probed at several fill levels, until one is not exact at the width found so
    far: what lies beyond is not trusted. Leaves the cache empty.
    """
    width, n_cells = EXACT_WIDTH_MOST, 0
    for end in range(REGION, n_ctx + 1, REGION):
        exact = _exact_width_in(context, end, width)
        if exact == 1:
            break
        width, n_cells = exact, end
    return ExactWidths(width, n_cells) if n_cells else ExactWidths(1, 0)


def _exact_width_in(context: LlamaContext, end: int, most: int) -> int:
    """Return the widest chain, up to `most`, of which all narrower ones are exact too, in the last region of `end`."""
    width = most
    for level in range(_EXACT_ROUNDS):
        n_cells = end - REGION + 16 + level * (REGION - 32 - most) // (_EXACT_ROUNDS - 1)
        filled = max(0, n_cells - n_cells % BLOCK - BLOCK)
        position = fill_cells(context, filled) if filled else 0
        rest = _tokens(context, n_cells - filled, seed=100 + level)
        context.decode_prompt(rest, position)
        width = _exact_width_at(context, position + len(rest), width, seed=200 + level)
        context.seq_rm(-1, 0, -1)
        if width == 1:
            break
    return width


def _exact_width_at(context: LlamaContext, position: int, most: int, seed: int) -> int:
    """Return the widest exact chain at one position; every narrower one is exact too."""
    tokens = _tokens(context, most + 1, seed)
    plain = [_run_chain(context, tokens[i : i + 1], position + i)[0].copy() for i in range(most + 1)]
    context.seq_rm(-1, position, -1)
    for width in range(2, most + 1):
        rows = _run_chain(context, tokens[:width], position)
        exact = all(np.array_equal(rows[i], plain[i]) for i in range(width))
        for kept in (width, width // 2):  # a chain committed whole, and in part: the layout must do no harm either
            context.seq_rm(-1, position + kept, -1)
            following = _run_chain(context, tokens[kept : kept + 1], position + kept)[0]
            exact = exact and np.array_equal(following, plain[kept])
        context.seq_rm(-1, position, -1)
        if not exact:
            return width - 1
    return most
