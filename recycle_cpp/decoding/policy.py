"""Which drafter serves a request: what was asked for, cut down to what is exact and what was measured to pay."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from recycle_cpp.backend.cost import CostCurve
from recycle_cpp.backend.measure import PLAIN_ONLY
from recycle_cpp.drafting import template
from recycle_cpp.drafting.drafter import PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.knowledge import Knowledge
from recycle_cpp.drafting.planned import PlannedDrafter

if TYPE_CHECKING:
    from recycle_cpp.backend.loaded import LoadedModel
    from recycle_cpp.backend.measure import ExactWidths
    from recycle_cpp.drafting.drafter import Drafter
    from recycle_cpp.types import GenerateOptions

CHAIN_WIDTH = 4  # rows of the fixed chain: the width that pays on most machines without a GPU


class Choice(NamedTuple):
    """How a request is drafted.

    Attributes:
        drafter: grows its trees.
        exact: widths to stay within, or None where near-ties may fall either way.
        note: one line for the user on why drafting is limited; empty if it is not.
    """

    drafter: Drafter
    exact: ExactWidths | None
    note: str


class Policy:
    """Chooses drafters for one loaded model; all requests share its adjacency matrix."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self.knowledge = Knowledge(loaded.model.n_vocab)
        self._plain = PlainDrafter()

    def choose(self, options: GenerateOptions) -> Choice:
        """Return how to draft for a request; the first use of a mode may measure for a second or two."""
        exact = PLAIN_ONLY if options.is_exact or options.draft == "off" else None
        if options.draft == "off":
            return Choice(self._plain, exact, "")
        if not self._loaded.model.can_branch:
            return Choice(self._plain, exact, "drafting is off: this architecture's memory cannot hold a tree")
        if options.is_exact:
            return self._exact_choice(options)
        if options.draft == "auto":
            return Choice(self._planned(options), None, "")
        shape = template.published() if options.draft == "tree" else template.chain(CHAIN_WIDTH)
        return Choice(TemplateDrafter(self.knowledge.matrix, shape), None, "")

    def _planned(self, options: GenerateOptions) -> PlannedDrafter:
        by_argmax, by_draws = self._planned_drafters
        return by_draws if options.sampling.draws else by_argmax

    @cached_property
    def _planned_drafters(self) -> tuple[PlannedDrafter, PlannedDrafter]:
        """The drafters for greedy and for sampled requests: they share the sources and what is known of the costs."""
        costs = CostCurve(self._loaded.curve())
        return PlannedDrafter(self.knowledge, costs), PlannedDrafter(self.knowledge, costs, is_sampled=True)

    def _exact_choice(self, options: GenerateOptions) -> Choice:
        exact = self._loaded.exact_widths()
        why = "exact" if options.exact else "exact, so that the seed repeats it"
        if exact.width == 1:
            note = f"{why}: plain decoding, since no wider evaluation is bit-identical to it under these settings"
            return Choice(self._plain, exact, note)
        note = f"{why}: chains of up to {exact.width} rows within the first {exact.n_cells} tokens, plain beyond"
        if options.draft == "auto":
            return Choice(self._planned(options), exact, note)
        return Choice(TemplateDrafter(self.knowledge.matrix, template.chain(exact.width)), exact, note)
