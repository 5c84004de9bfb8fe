"""Runs requests on a loaded model, one at a time: drafter, cache, sampler, text."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, NamedTuple

from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.metrics import RunMeter
from recycle_cpp.decoding.policy import Policy
from recycle_cpp.decoding.sampling.samplers import make_sampler
from recycle_cpp.drafting.learned import Learned
from recycle_cpp.errors import BusyError, CancelledError, UsageError
from recycle_cpp.runtime.answering import Answering, cancelled
from recycle_cpp.runtime.turns import Turns
from recycle_cpp.text.answers.answer_text import AnswerText

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from recycle_cpp.backend.loaded import LoadedModel
    from recycle_cpp.decoding.engine import CacheState
    from recycle_cpp.decoding.policy import Choice
    from recycle_cpp.decoding.prefix import Reuse
    from recycle_cpp.decoding.sampling.protocol import Sampler
    from recycle_cpp.models.learned_files import LearnedFile
    from recycle_cpp.types import Chunk, GenerateOptions


class Job(NamedTuple):
    """One request, ready to run.

    Attributes:
        prompt: its tokens.
        options: what is asked for.
        cancel: ends it when another thread sets it.
        shown: bytes of control tokens that are to be text all the same.
        choice: how to draft; None leaves it to the policy.
    """

    prompt: Sequence[int]
    options: GenerateOptions
    cancel: threading.Event | None = None
    shown: Mapping[int, bytes] | None = None
    choice: Choice | None = None


class Requests:
    """The one place where a loaded model is used; callers from any thread take turns.

    Attributes:
        knowledge_bytes: bytes of everything that drafting has learned and may learn.
        notes: what a user should know of how requests were decoded so far, one line each.
    """

    def __init__(self, loaded: LoadedModel, kept: LearnedFile | None) -> None:
        self._loaded = loaded
        self._engine = Engine(loaded.backend)
        self._policy = Policy(loaded)
        self._learned = Learned(self._policy.knowledge, kept, loaded.fingerprint)
        self.knowledge_bytes = self._policy.knowledge.nbytes
        self.notes = [note for note in [self._learned.load()] if note]
        self._turns = Turns()
        self._streams: weakref.WeakSet[Generator[object, None, None]] = weakref.WeakSet()
        self._registering = threading.Lock()
        self._closed = False
        self._process = os.getpid()

    def open(self, job: Job) -> Generator[Chunk, None, None]:
        """Return a request's chunks; it waits for its turn when the first is asked for.

        Raises:
            UsageError: if the prompt is empty, or no shift is possible.
            PromptTooLongError: if it does not fit the context.
        """
        self._engine.check(job.prompt, self._shift_keep(job))
        stream = self._run(job)
        self.close_with(stream)
        return stream

    def close_with(
        self, stream: Generator[object, None, None], inner: Generator[object, None, None] | None = None
    ) -> None:
        """Have a stream end when the model is closed, and one that it reads from not by itself."""
        with self._registering:
            self._streams.add(stream)
            if inner is not None:
                self._streams.discard(inner)

    def _run(self, job: Job) -> Generator[Chunk, None, None]:
        start, answering = time.perf_counter(), None
        try:
            with self.turn(job.cancel):
                choice = job.choice or self._chosen(job.options)
                vocabulary = self._loaded.model.sampler_vocabulary(self._loaded.backend.n_ctx)
                with contextlib.closing(make_sampler(job.options, vocabulary, job.prompt)) as sampler:
                    answering = self._prepared(job, choice, sampler)
                    for chunk in answering.chunks():
                        yield chunk
                        self._turns.resume()
                self._learned.save_if_due()  # the last chunk is out: nobody waits for this
        except CancelledError:
            if answering is not None:  # a function of the caller's own has raised it
                raise
            yield cancelled(len(job.prompt), RunMeter(0, time.perf_counter() - start))

    def _prepared(self, job: Job, choice: Choice, sampler: Sampler) -> Answering:
        """Bring the prompt into the cache and return what answers it."""
        options, n = job.options, len(job.prompt)
        start = time.perf_counter()
        evaluated = self._engine.prepare(job.prompt, reuse=_reuse(options, choice), cancel=job.cancel)
        return Answering(
            self._engine,
            Request(choice.drafter, sampler, options.max_tokens, choice.exact, self._shift_keep(job), options.logprobs),
            AnswerText(self._loaded.model, options.stop, job.shown),
            RunMeter(evaluated, time.perf_counter() - start),
            is_eog=self._loaded.backend.is_eog,
            prompt_tokens=n,
            cached_tokens=n - 1 - evaluated,
            cancel=job.cancel,
        )

    def _chosen(self, options: GenerateOptions) -> Choice:
        choice = self._policy.choose(options)
        if choice.note and choice.note not in self.notes:
            self.notes.append(choice.note)
        return choice

    def _shift_keep(self, job: Job) -> int | None:
        """Return how many tokens a shift keeps: the one that begins every text, too. None never shifts."""
        if not job.options.context_shift:
            return None
        begins = bool(job.prompt) and job.prompt[0] == self._loaded.model.bos
        return min(len(job.prompt), job.options.n_keep + begins)

    @contextlib.contextmanager
    def turn(self, cancel: threading.Event | None = None) -> Iterator[None]:
        """Wait for the model and have it alone.

        Raises:
            UsageError: if it is closed.
            BusyError: if this thread has it already.
            CancelledError: if `cancel` is set first.
        """
        self.require_open()
        with self._turns.hold(cancel):
            self.require_open()
            yield

    def forget(self, *, learned: bool) -> None:
        """Drop the cached prompt, and what drafting has learned if that is wanted."""
        with self.turn():
            if learned:
                self._policy.knowledge.reset()
            self._engine.keep(0)

    def snapshot(self) -> CacheState:
        """Return the cache, to be restored in another process.

        Raises:
            BackendError: if llama.cpp cannot save it.
        """
        with self.turn():
            return self._engine.snapshot()

    def restore(self, state: CacheState) -> None:
        """Replace the cache by another one.

        Raises:
            UsageError: if it does not fit.
            BackendError: if llama.cpp refuses it; the cache is empty then.
        """
        with self.turn():
            self._engine.restore(state)

    def close(self) -> None:
        """Free the memory; streams end, one that another thread is reading at its end. Safe to call twice.

        Raises:
            BusyError: if this thread is reading one: a function of the request's own cannot close the model.
        """
        if self._is_forked:
            return  # it is the other process's to close
        self._closed = True
        with self._registering:
            streams = list(self._streams)
        for stream in streams:
            with contextlib.suppress(ValueError):  # another thread is reading it: wait for its turn to end
                stream.close()
        try:
            with self._turns.hold():
                self._learned.save()
                self._loaded.close()
        except BusyError:
            self._closed = False
            raise

    def require_open(self) -> None:
        """Check that the model is open, and open here.

        Raises:
            UsageError: if it is closed, or was loaded by the process that this one was forked from.
        """
        if self._closed:
            raise UsageError("the model is closed: load it again")
        if self._is_forked:  # threads are not forked: llama.cpp would wait for its own for ever
            raise UsageError("the model was loaded before this process was forked: load it in the process that uses it")

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._process


def _reuse(options: GenerateOptions, choice: Choice) -> Reuse:
    """Return what of the cache may serve a request."""
    if options.is_exact:
        return "fresh"
    return "plain" if choice.exact is not None else "all"
