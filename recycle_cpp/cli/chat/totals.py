"""What the answers of a chat have cost together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recycle_cpp.types import Timings, Usage


class Totals:
    """Sums over the answers of a chat."""

    def __init__(self) -> None:
        self._answers = self._tokens = self._steps = self._recycled = 0
        self._evaluated = self._cached = 0
        self._ms = 0.0

    def add(self, usage: Usage, timings: Timings) -> None:
        """Count an answer."""
        self._answers += 1
        self._tokens += timings.predicted_n
        self._steps += timings.steps
        self._recycled += timings.draft_n_accepted
        self._ms += timings.predicted_ms
        self._evaluated += timings.prompt_n
        self._cached += usage.cached_tokens

    def lines(self) -> list[str]:
        """Return the sums for people, a line for each subject."""
        if not self._answers:
            return ["no answer yet"]
        speed = 1000 * self._tokens / self._ms if self._ms else 0.0
        per_step = self._tokens / self._steps if self._steps else 0.0
        share = self._recycled / self._tokens if self._tokens else 0.0
        return [
            f"answers: {self._answers}, {self._tokens} tokens, {speed:.1f} tok/s",
            f"drafts: {per_step:.2f} tokens per step, {share:.0%} of the tokens recycled",
            f"prompts: {self._cached} tokens cached, {self._evaluated} evaluated",
        ]
