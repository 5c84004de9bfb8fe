"""Compiles the Numba kernels before anything is measured; from the second start on they come from disk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.decoding import kernels
from recycle_cpp.drafting import template
from recycle_cpp.drafting.drafter import Limits, TemplateDrafter
from recycle_cpp.drafting.matrix import AdjacencyMatrix

if TYPE_CHECKING:
    from collections.abc import Callable

_SLOW_SECONDS = 1.0


def warm_up(say: Callable[[str], None]) -> None:
    """Run every kernel once on tiny arrays of the types that decoding uses.

    Args:
        say: told, afterwards, if that took long enough to wonder.
    """
    start = time.perf_counter()
    drafter = TemplateDrafter(AdjacencyMatrix(n_vocab=4, top_k=2), template.chain(2))
    top = np.zeros((1, 2), np.int32)
    kernels.top_k(np.zeros((1, 4), np.float32), top, np.zeros(2, np.float32), np.zeros(4, np.float32))
    for _ in range(2):  # the second draft finds the row that the first update made
        tree = drafter.draft(0, Limits(width=2, depth=1))
        drafter.update(tree, np.repeat(top, tree.width, axis=0))
    kernels.find_child(0, 1, tree.tokens, tree.parents)
    seconds = time.perf_counter() - start
    if seconds > _SLOW_SECONDS:
        say(f"compiled the kernels in {seconds:.0f} s (kept for the next start)")
