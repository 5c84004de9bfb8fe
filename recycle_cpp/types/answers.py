"""What comes back from a request: chunks, the whole answer, its counts and its speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length", "tool_calls", "cancelled"]


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """What the model said where one token was chosen: natural logarithms, before penalties, filters and temperature.

    Attributes:
        token: the token chosen.
        logprob: its log probability.
        top: the likeliest tokens there and their log probabilities, best first; as many as were asked for.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Timings:
    """Speed of one run, under llama-server's names where it has them.

    Attributes:
        prompt_n: prompt tokens evaluated (those already in the cache are not).
        prompt_ms: milliseconds that took.
        predicted_n: tokens emitted, an end-of-generation token included.
        predicted_ms: milliseconds from the end of the prompt to the last token.
        draft_n: nodes drafted, roots excluded.
        draft_n_accepted: nodes accepted.
        steps: evaluations.
        widths: how many steps evaluated each number of rows, the root included.
        host_ms: milliseconds of predicted_ms spent outside llama.cpp's evaluations.
        expected_n: tokens that the drafter promised in all; 0 if it promises nothing.
    """

    prompt_n: int
    prompt_ms: float
    predicted_n: int
    predicted_ms: float
    draft_n: int
    draft_n_accepted: int
    steps: int
    widths: dict[int, int]
    host_ms: float
    expected_n: float = 0.0

    @property
    def predicted_per_second(self) -> float:
        """Emitted tokens per second."""
        return 1000 * self.predicted_n / self.predicted_ms if self.predicted_ms > 0 else 0.0

    @property
    def mean_accepted_tokens(self) -> float:
        """Emitted tokens per step, bonus included (Spec-Bench's count)."""
        return self.predicted_n / self.steps if self.steps else 0.0

    @property
    def mean_width(self) -> float:
        """Rows per evaluation, the root included."""
        return sum(width * n for width, n in self.widths.items()) / self.steps if self.steps else 0.0

    @property
    def host_ms_per_step(self) -> float:
        """Milliseconds per step spent outside llama.cpp's evaluations."""
        return self.host_ms / self.steps if self.steps else 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one run, under OpenAI's names.

    Attributes:
        prompt_tokens: tokens of the prompt.
        completion_tokens: tokens emitted.
        cached_tokens: prompt tokens that were in the cache already and were not evaluated again.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streamed answer: what one step added.

    The last chunk, and only it, has `finish_reason`, `usage` and `timings`.

    Attributes:
        text: what may be shown now; empty while a multi-byte character or a possible stop string is pending.
        tokens: the tokens of the step, in order.
        pieces: what each token released of the text; they join to `text`.
        n_accepted: how many of the tokens, counted from the first, were drafted and accepted.
        logprobs: one record per token, if they were asked for.
        finish_reason: why the answer ends.
        usage: token counts.
        timings: speeds.
    """

    text: str
    tokens: tuple[int, ...]
    pieces: tuple[str, ...] = ()
    n_accepted: int = 0
    logprobs: tuple[TokenLogprobs, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    timings: Timings | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer: the join of its chunks."""

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    logprobs: tuple[TokenLogprobs, ...] = ()
