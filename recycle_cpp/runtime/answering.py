"""From steps to chunks: the text of an answer, where it stops, and what it took."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from recycle_cpp.types import Chunk, Completion, Usage

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    from recycle_cpp.decoding.engine import Engine, Request
    from recycle_cpp.decoding.metrics import RunMeter
    from recycle_cpp.text.answers.answer_text import AnswerText
    from recycle_cpp.types import FinishReason, Step


class Answering:
    """Runs one prepared request and says what comes of it, chunk by chunk."""

    def __init__(
        self,
        engine: Engine,
        request: Request,
        answer: AnswerText,
        meter: RunMeter,
        *,
        is_eog: Callable[[int], bool],
        prompt_tokens: int,
        cached_tokens: int,
        cancel: threading.Event | None = None,
    ) -> None:
        """Take the request, prepared in the engine's cache.

        Args:
            engine: holds the prompt.
            request: what to run.
            answer: its text.
            meter: has counted the prompt.
            is_eog: tells which tokens end a generation; they have no text.
            prompt_tokens: tokens of the prompt.
            cached_tokens: how many of them were not evaluated again.
            cancel: ends the answer after the step in which another thread sets it.
        """
        self._engine = engine
        self._request = request
        self._answer = answer
        self._meter = meter
        self._is_eog = is_eog
        self._prompt_tokens = prompt_tokens
        self._cached_tokens = cached_tokens
        self._cancel = cancel
        self._emitted = 0

    def chunks(self) -> Iterator[Chunk]:
        """Yield a chunk per step. A stop string ends the run at the very token that completes it.

        Raises:
            BackendError: if llama.cpp fails; the cache is then as after the last chunk.
        """
        start = time.perf_counter()
        for step in self._engine.steps(self._request):
            self._meter.add(step)
            chunk = self._chunk(step)
            reason = "stop" if self._answer.stopped else step.finish_reason
            if self._answer.stopped:
                self._engine.keep(self._prompt_tokens + self._emitted)
            self._meter.spend(time.perf_counter() - start)
            if reason is None and self._cancel is not None and self._cancel.is_set():
                reason = "cancelled"
            if reason is not None:
                yield self._last(chunk, reason)
                return
            yield chunk
            start = time.perf_counter()

    def _chunk(self, step: Step) -> Chunk:
        pieces: list[str] = []
        for token in step.tokens:
            pieces.append("" if self._is_eog(token) else self._answer.push(token))
            if self._answer.stopped:
                break
        n = len(pieces)
        self._emitted += n
        return Chunk(
            "".join(pieces), step.tokens[:n], tuple(pieces), min(step.n_accepted, n), logprobs=step.logprobs[:n]
        )

    def _last(self, chunk: Chunk, reason: FinishReason) -> Chunk:
        """Return a chunk as the last one: with the text held back until now, counts and speeds."""
        rest = self._answer.flush()
        pieces = (*chunk.pieces[:-1], "".join(chunk.pieces[-1:]) + rest)
        return Chunk(
            chunk.text + rest,
            chunk.tokens,
            pieces,
            chunk.n_accepted,
            chunk.logprobs,
            "stop" if self._answer.stopped else reason,
            Usage(self._prompt_tokens, self._emitted, self._cached_tokens),
            self._meter.timings(self._emitted),
        )


def cancelled(prompt_tokens: int, meter: RunMeter) -> Chunk:
    """Return the only chunk of an answer that was given up before it began."""
    return Chunk("", (), finish_reason="cancelled", usage=Usage(prompt_tokens, 0), timings=meter.timings(0))


def joined(chunks: Sequence[Chunk]) -> Completion:
    """Return the whole answer that chunks make up."""
    last = chunks[-1]
    assert last.finish_reason is not None and last.usage is not None and last.timings is not None
    return Completion(
        "".join(chunk.text for chunk in chunks),
        tuple(token for chunk in chunks for token in chunk.tokens),
        last.finish_reason,
        last.usage,
        last.timings,
        tuple(logprobs for chunk in chunks for logprobs in chunk.logprobs),
    )
