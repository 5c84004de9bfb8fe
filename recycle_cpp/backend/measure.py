"""Which wide evaluations leave logits bit-identical to plain decoding on this machine, found by running them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recycle_cpp.backend.timing import run_chain

if TYPE_CHECKING:
    from recycle_cpp.backend.llama import LlamaContext
    from recycle_cpp.types import IntArray

BLOCK = 64  # tokens that are really evaluated; the cache is filled with copies of their cells
REGION = 256  # llama.cpp attends over a multiple of 256 cells, and changes its algorithm at such a boundary only
EXACT_WIDTH_MOST = 8
_EXACT_ROUNDS = 4


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


PLAIN_ONLY = ExactWidths(1, 0)


def _tokens(context: LlamaContext, n: int, seed: int) -> IntArray:
    return np.random.default_rng(seed).integers(0, context.n_vocab, n).astype(np.int32)


def _fill_cells(context: LlamaContext, n_cells: int) -> int:
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
    return ExactWidths(width, n_cells) if n_cells else PLAIN_ONLY


def _exact_width_in(context: LlamaContext, end: int, most: int) -> int:
    """Return the widest chain, up to `most`, of which all narrower ones are exact too, in the last region of `end`."""
    width = most
    for level in range(_EXACT_ROUNDS):
        n_cells = end - REGION + 16 + level * (REGION - 32 - most) // (_EXACT_ROUNDS - 1)
        filled = max(0, n_cells - n_cells % BLOCK - BLOCK)
        position = _fill_cells(context, filled) if filled else 0
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
    plain = [run_chain(context, tokens[i : i + 1], position + i)[0].copy() for i in range(most + 1)]
    context.seq_rm(-1, position, -1)
    for width in range(2, most + 1):
        rows = run_chain(context, tokens[:width], position)
        exact = all(np.array_equal(rows[i], plain[i]) for i in range(width))
        for kept in (width, width // 2):  # a chain committed whole, and in part: the layout must do no harm either
            context.seq_rm(-1, position + kept, -1)
            following = run_chain(context, tokens[kept : kept + 1], position + kept)[0]
            exact = exact and np.array_equal(following, plain[kept])
        context.seq_rm(-1, position, -1)
        if not exact:
            return width - 1
    return most
