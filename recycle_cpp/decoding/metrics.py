"""Folds over step records."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from recycle_cpp.types import Timings

if TYPE_CHECKING:
    from recycle_cpp.types import Step


class RunMeter:
    """Sums up the steps of one run as they come."""

    def __init__(self, prompt_n: int, prompt_seconds: float) -> None:
        self._prompt_n = prompt_n
        self._prompt_seconds = prompt_seconds
        self._drafted = self._accepted = self._steps = 0
        self._seconds = self._host_seconds = self._expected = 0.0
        self._widths: Counter[int] = Counter()

    def add(self, step: Step) -> None:
        """Count one step."""
        self._drafted += step.width - 1
        self._accepted += step.n_accepted
        self._steps += 1
        self._host_seconds += step.times.host
        self._expected += step.expected
        self._widths[step.width] += 1

    def spend(self, seconds: float) -> None:
        """Add the wall time of a step with its text; what the consumer does in between is not ours."""
        self._seconds += seconds

    def timings(self, predicted_n: int) -> Timings:
        """Return the run's timings.

        Args:
            predicted_n: tokens delivered; fewer than the steps emitted if a stop string cut the last one.
        """
        return Timings(
            prompt_n=self._prompt_n,
            prompt_ms=1000 * self._prompt_seconds,
            predicted_n=predicted_n,
            predicted_ms=1000 * self._seconds,
            draft_n=self._drafted,
            draft_n_accepted=self._accepted,
            steps=self._steps,
            widths=dict(sorted(self._widths.items())),
            host_ms=1000 * self._host_seconds,
            expected_n=self._expected,
        )
