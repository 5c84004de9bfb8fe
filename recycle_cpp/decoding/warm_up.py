"""Compiles the Numba kernels before anything is measured; from the second start on they come from disk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.decoding import kernels
from recycle_cpp.decoding.sampling.candidates import Candidates
from recycle_cpp.decoding.sampling.pruning import Pruner
from recycle_cpp.drafting import template
from recycle_cpp.drafting.drafter import Limits, Outcome, TemplateDrafter
from recycle_cpp.drafting.knowledge import Knowledge
from recycle_cpp.drafting.planned import PlannedDrafter

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_SLOW_SECONDS = 1.0


class _Flat:
    """Costs under which two rows cost as much as one, so that both are drafted."""

    ladder = (1, 2)

    def seconds(self, n_past: int) -> NDArray[np.float64]:
        return np.ones(2)

    def observe(self, width: int, n_past: int, seconds: float) -> None:
        pass


def warm_up(say: Callable[[str], None]) -> None:
    """Run every kernel once on tiny arrays of the types that decoding uses.

    Args:
        say: told, afterwards, if that took long enough to wonder.
    """
    start = time.perf_counter()
    knowledge = Knowledge(n_vocab=16)
    top, values = np.zeros((2, 8), np.int32), np.zeros((2, 8), np.float32)
    kernels.top_k(np.zeros((2, 16), np.float32), top, values, np.zeros(16, np.float32))
    kernels.log_sum_exp(np.zeros(16, np.float32))
    for drafter in (PlannedDrafter(knowledge, _Flat()), TemplateDrafter(knowledge.matrix, template.chain(2))):
        drafter.begin([1, 2, 1, 2, 1])
        for _ in range(2):  # the second draft finds the row that the first update made
            tree = drafter.draft(1, Limits(n_past=0, width=2, depth=1))
            drafter.narrow(Pruner().without(tree, np.arange(tree.width) > 0))
            drafter.update(Outcome(tree, top[: tree.width], values[: tree.width], [1]))
    _list_candidates()
    kernels.find_child(0, 1, tree.tokens, tree.parents)
    seconds = time.perf_counter() - start
    if seconds > _SLOW_SECONDS:
        say(f"compiled the kernels in {seconds:.0f} s (kept for the next start)")


def _list_candidates() -> None:
    candidates = Candidates(16)
    logits = np.zeros(16, np.float32)
    candidates.fill(logits)
    candidates.fill_best(logits, 2)
