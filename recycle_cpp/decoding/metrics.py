"""Folds over step records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recycle_cpp.types import Timings

if TYPE_CHECKING:
    from recycle_cpp.types import Step


class RunMeter:
    """Sums up the steps of one run as they come."""

    def __init__(self, prompt_n: int, prompt_seconds: float) -> None:
        self._prompt_n = prompt_n
        self._prompt_seconds = prompt_seconds
        self._tokens = self._drafted = self._accepted = self._steps = 0
        self._host_seconds = 0.0

    def add(self, step: Step) -> None:
        """Count one step."""
        self._tokens += len(step.tokens)
        self._drafted += step.width - 1
        self._accepted += step.n_accepted
        self._steps += 1
        self._host_seconds += step.times.host

    def timings(self, predicted_n: int, predicted_seconds: float) -> Timings:
        """Return the run's timings.

        Args:
            predicted_n: tokens delivered; fewer than the steps emitted if a stop string cut the last one.
            predicted_seconds: wall time from the end of the prompt to the last token.
        """
        return Timings(
            prompt_n=self._prompt_n,
            prompt_ms=1000 * self._prompt_seconds,
            predicted_n=predicted_n,
            predicted_ms=1000 * predicted_seconds,
            draft_n=self._drafted,
            draft_n_accepted=self._accepted,
            steps=self._steps,
            mean_width=(self._drafted + self._steps) / self._steps if self._steps else 0.0,
            host_ms=1000 * self._host_seconds,
        )
