"""What the cells of the cache are good for: how each was made decides which prompts may keep it."""

from __future__ import annotations

from typing import Literal

Reuse = Literal["all", "plain", "fresh"]


class Provenance:
    """How the cells of one cache were made.

    Four stretches from the front of the cache are told apart. The context takes the first empty cell for each new
    token, so what is kept of a prompt's own evaluations lies where it would lie in an empty cache.
    """

    def __init__(self, n_batch: int) -> None:
        """Take the tokens of a prompt that are evaluated at once; the cache is empty."""
        self._n_batch = n_batch
        self._fresh = 0  # cells made by evaluating their own tokens, and no others, into an empty cache in chunks
        self._rounded_from: int | None = None  # the first cell that a wide evaluation may have rounded
        self._moved_from: int | None = None  # the first cell made after tokens that a shift has dropped

    @property
    def unmoved(self) -> int | None:
        """Cells at the front that know of no tokens but those before them; None if all are such."""
        return self._moved_from

    def plain(self, n_cells: int) -> int:
        """Return how many cells at the front are plain decoding's, of so many."""
        limits = [limit for limit in (self._rounded_from, self._moved_from) if limit is not None]
        return min([n_cells, *limits])

    def usable(self, common: int, wanted: int, reuse: Reuse) -> int:
        """Return how many cells a prompt may keep.

        Args:
            common: cells whose tokens are the prompt's.
            wanted: cells that the prompt needs in all.
            reuse: "all" keeps whatever has the right tokens, "plain" nothing that a drafted run has decoded, "fresh"
                only what this very prompt would make in an empty cache: the same chunks, evaluated in the same order.
        """
        if reuse == "fresh":
            common = min(common, self._fresh)
            return common if common == wanted == self._fresh else self._whole_chunks(common)
        if reuse == "plain":
            return self.plain(common)
        return common if self._moved_from is None else min(common, self._moved_from)

    def rewound(self, n_past: int) -> None:
        """Take note that the cells from n_past on are gone."""
        if n_past < self._fresh:
            self._fresh = self._whole_chunks(n_past)
        if self._rounded_from is not None and n_past <= self._rounded_from:
            self._rounded_from = None
        if self._moved_from is not None and n_past <= self._moved_from:
            self._moved_from = None

    def prefilled(self, start: int, end: int) -> None:
        """Take note that tokens of a prompt were evaluated in chunks, behind all that there was."""
        if start == self._fresh == self._whole_chunks(start):
            self._fresh = end

    def decoded(self, start: int, *, rounded: bool) -> None:
        """Take note that cells from `start` on were decoded, by evaluations that may have rounded them or not."""
        if rounded and self._rounded_from is None:
            self._rounded_from = start

    def shifted(self, n_keep: int) -> None:
        """Take note that tokens behind the first n_keep were dropped, and what followed them moved there."""
        if self._fresh > n_keep:
            self._fresh = self._whole_chunks(n_keep)
        self._moved_from = n_keep if self._moved_from is None else min(self._moved_from, n_keep)

    def restored(self, n_cells: int, n_plain: int) -> None:
        """Take note that an empty cache was filled from outside, its first cells by plain decoding."""
        self._rounded_from = n_plain if n_plain < n_cells else None

    def _whole_chunks(self, n_cells: int) -> int:
        return n_cells - n_cells % self._n_batch
