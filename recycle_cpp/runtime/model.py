"""One loaded model that answers requests."""

from __future__ import annotations

import contextlib
import time
import weakref
from typing import TYPE_CHECKING

from recycle_cpp.backend.loaded import LoadedModel
from recycle_cpp.backend.measure import PLAIN_ONLY
from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.metrics import RunMeter
from recycle_cpp.decoding.policy import Choice, Policy
from recycle_cpp.decoding.samplers import make_sampler
from recycle_cpp.decoding.warm_up import warm_up
from recycle_cpp.drafting.learned import Learned
from recycle_cpp.drafting.recording import RecordingDrafter
from recycle_cpp.errors import CancelledError, UsageError
from recycle_cpp.models import fingerprint, resolve
from recycle_cpp.models.folders import cache_folder
from recycle_cpp.models.learned_files import LearnedFile
from recycle_cpp.runtime.answering import Answering, cancelled, joined
from recycle_cpp.runtime.chats import chat_chunks, chat_options, joined_chat
from recycle_cpp.runtime.prompts import Prompts
from recycle_cpp.runtime.turns import Turns
from recycle_cpp.text.answer import AnswerText
from recycle_cpp.types import GenerateOptions, LoadOptions

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path
    from types import TracebackType

    from recycle_cpp.backend.cost import Curve
    from recycle_cpp.decoding.prefix import Reuse
    from recycle_cpp.decoding.protocol import Sampler
    from recycle_cpp.runtime.prompts import Prompt
    from recycle_cpp.types import ChatChunk, ChatCompletion, Chunk, Completion, FloatArray, IntArray, Message


def _silent(_line: str) -> None:
    """Say nothing."""


class Runtime:
    """One loaded model that answers requests, one after the other; calls from other threads queue, first come first.

    Attributes:
        name: the model's name in models.toml, or its file's.
        path: its file.
    """

    def __init__(self, name: str, path: Path, loaded: LoadedModel, kept: LearnedFile | None) -> None:
        self.name = name
        self.path = path
        self._loaded = loaded
        self._engine = Engine(loaded.backend)
        self._policy = Policy(loaded)
        self._learned = Learned(self._policy.knowledge, kept, loaded.fingerprint)
        self._notes = [note for note in [self._learned.load()] if note]
        self._prompts = Prompts(name, loaded.model)
        self._turns = Turns()
        self._streams: weakref.WeakSet[Generator[object, None, None]] = weakref.WeakSet()
        self._closed = False

    @classmethod
    def load(cls, model: str, options: LoadOptions | None = None, say: Callable[[str], None] = _silent) -> Runtime:
        """Load a model.

        Args:
            model: a name in models.toml, or a path.
            options: how to load it.
            say: told, in one line, of each thing that takes a while and is done once.

        Raises:
            ModelError: if the model cannot be found, fetched or read.
            BackendError: if llama.cpp cannot make its context.
            UsageError: if options contradict each other.
            InstallError: if llama.cpp itself cannot be loaded.
        """
        found = resolve(model)
        warm_up(say)
        profiles = cache_folder() / "profiles"
        options = options or LoadOptions()
        loaded = LoadedModel(found.path, options, profiles, fingerprint(found.path), say)
        kept = LearnedFile.of_user(loaded.fingerprint) if options.learned else None
        return cls(found.name, found.path, loaded, kept)

    @property
    def n_ctx(self) -> int:
        """Tokens that the context holds."""
        return self._loaded.backend.n_ctx

    @property
    def n_vocab(self) -> int:
        """Tokens of the vocabulary."""
        return self._loaded.backend.n_vocab

    @property
    def is_chat(self) -> bool:
        """Whether the model has a chat template."""
        return self.prompts.is_chat

    @property
    def facts(self) -> dict[str, object]:
        """What a measurement must name: the model file's fingerprint, the build and the settings in use."""
        return self._loaded.facts

    @property
    def cost_curve(self) -> Curve | None:
        """What steps cost here; None if the model decodes plainly only. The first use may measure for some seconds."""
        return self._loaded.curve() if self._loaded.model.can_branch else None

    @property
    def settings(self) -> str:
        """The settings of decoding in use, in one line."""
        return self._loaded.settings_line

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of how requests were decoded so far, one line each."""
        return tuple(self._notes)

    @property
    def draft_state_bytes(self) -> int:
        """Bytes of everything that drafting has learned and may learn."""
        return self._policy.knowledge.nbytes

    @property
    def prompts(self) -> Prompts:
        """Tokens of texts and chats, and back.

        Raises:
            UsageError: if the model is closed.
        """
        self._require_open()
        return self._prompts

    def tokenize(self, prompt: Prompt, *, raw: bool = False) -> list[int]:
        """Return a prompt's tokens, through the chat template unless it is raw or the model has none.

        Raises:
            UsageError: if the prompt is none, or the template refuses it.
        """
        return self.prompts.tokens(prompt, raw=raw)

    def forget(self) -> None:
        """Drop what drafting has learned, and the cached prompt; what is kept on disk stays until more is learned."""
        with self._turns.hold():
            self._require_open()
            self._policy.knowledge.reset()
            self._engine.keep(0)

    def forget_prompt(self) -> None:
        """Drop the cached prompt; what drafting has learned stays."""
        with self._turns.hold():
            self._require_open()
            self._engine.keep(0)

    def generate(
        self, prompt: Prompt, options: GenerateOptions | None = None, *, cancel: threading.Event | None = None
    ) -> Completion:
        """Return a whole answer; see `stream`."""
        return joined(list(self.stream(prompt, options, cancel=cancel)))

    def stream(
        self, prompt: Prompt, options: GenerateOptions | None = None, *, cancel: threading.Event | None = None
    ) -> Generator[Chunk, None, None]:
        """Return the chunks of an answer, as they are decoded.

        The prompt is checked here; it is evaluated when the first chunk is asked for. Closing the generator early
        leaves the cache at the last step, ready for the next request.

        Args:
            prompt: a text (one user message, where the model has a chat template), the messages of a chat, or tokens.
            options: what is asked for.
            cancel: set it, from any thread, to end the answer: in the queue, in the prompt or after the step under
                way. Its last chunk then says "cancelled".

        Raises:
            UsageError: if the prompt cannot be used.
            PromptTooLongError: if it does not fit the context.
        """
        options = options or GenerateOptions()
        return self._open(self.tokenize(prompt, raw=options.raw), options, cancel)

    def chat(
        self,
        messages: Sequence[Message],
        options: GenerateOptions | None = None,
        *,
        cancel: threading.Event | None = None,
    ) -> ChatCompletion:
        """Return a whole answer to a chat; see `stream_chat`."""
        return joined_chat(list(self.stream_chat(messages, options, cancel=cancel)))

    def stream_chat(
        self,
        messages: Sequence[Message],
        options: GenerateOptions | None = None,
        *,
        cancel: threading.Event | None = None,
    ) -> Generator[ChatChunk, None, None]:
        """Return the chunks of an answer to a chat, with what is said, thought and called told apart.

        Args:
            messages: the turns, the last one to be answered or, with `continue_last`, to be gone on with.
            options: what is asked for; ChatOptions say more than GenerateOptions.
            cancel: as for `stream`.

        Raises:
            UsageError: if the template has no place for the messages or the tools, or there is no template.
            PromptTooLongError: if they do not fit the context.
        """
        asked = chat_options(options)
        tokens, parts = self.prompts.open_chat(messages, asked)
        chunks = chat_chunks(self._open(tokens, asked, cancel), parts)
        self._streams.add(chunks)
        return chunks

    def record(self, prompt: Prompt, options: GenerateOptions | None = None) -> tuple[Completion, IntArray, FloatArray]:
        """Return a whole answer, decoded plainly, and what the model said at each of its positions.

        Returns:
            The answer; int32[n, 8], the best candidates at each position, best first; float32[n, 8], their logits.
            The answer's text may end, at a stop string, some tokens before the positions do.

        Raises:
            UsageError: as `stream` does.
            PromptTooLongError: as `stream` does.
        """
        options = options or GenerateOptions()
        recorder = RecordingDrafter()
        choice = Choice(recorder, PLAIN_ONLY, "")
        chunks = list(self._open(self.tokenize(prompt, raw=options.raw), options, None, choice))
        return joined(chunks), recorder.top, recorder.values

    def _open(
        self,
        prompt: Sequence[int],
        options: GenerateOptions,
        cancel: threading.Event | None,
        choice: Choice | None = None,
    ) -> Generator[Chunk, None, None]:
        self._engine.check(prompt, self._shift_keep(prompt, options))
        stream = self._run(prompt, options, cancel, choice)
        self._streams.add(stream)
        return stream

    def _run(
        self,
        prompt: Sequence[int],
        options: GenerateOptions,
        cancel: threading.Event | None,
        choice: Choice | None,
    ) -> Generator[Chunk, None, None]:
        start = time.perf_counter()
        try:
            with self._turns.hold(cancel):
                self._require_open()
                choice = choice or self._chosen(options)
                start = time.perf_counter()
                evaluated = self._engine.prepare(prompt, reuse=_reuse(options, choice), cancel=cancel)
                meter = RunMeter(evaluated, time.perf_counter() - start)
                sampler = make_sampler(options, self._loaded.model.sampler_vocabulary(self.n_ctx), prompt)
                answering = Answering(
                    self._engine,
                    self._request(prompt, options, choice, sampler),
                    AnswerText(self._loaded.model, options.stop),
                    meter,
                    is_eog=self._loaded.backend.is_eog,
                    prompt_tokens=len(prompt),
                    cached_tokens=len(prompt) - 1 - evaluated,
                    cancel=cancel,
                )
                try:
                    for chunk in answering.chunks():
                        yield chunk
                        self._turns.resume()
                finally:
                    sampler.close()
                    self._learned.save_if_due()  # the last chunk is out: nobody waits for this
        except CancelledError:
            yield cancelled(len(prompt), RunMeter(0, time.perf_counter() - start))

    def _request(self, prompt: Sequence[int], options: GenerateOptions, choice: Choice, sampler: Sampler) -> Request:
        return Request(
            choice.drafter,
            sampler,
            options.max_tokens,
            choice.exact,
            self._shift_keep(prompt, options),
            options.logprobs,
        )

    def _shift_keep(self, prompt: Sequence[int], options: GenerateOptions) -> int | None:
        """Return how many tokens a shift keeps: the one that begins every text, too. None never shifts."""
        if not options.context_shift:
            return None
        return min(len(prompt), options.n_keep + (prompt[:1] == [self._loaded.model.bos]))

    def _chosen(self, options: GenerateOptions) -> Choice:
        choice = self._policy.choose(options)
        if choice.note and choice.note not in self._notes:
            self._notes.append(choice.note)
        return choice

    def close(self) -> None:
        """Free the memory; streams end, one that another thread is reading at its end. Safe to call twice."""
        self._closed = True
        for stream in list(self._streams):
            with contextlib.suppress(ValueError):  # another thread is reading it: wait for its turn to end
                stream.close()
        with self._turns.hold():
            self._learned.save()
            self._loaded.close()

    def _require_open(self) -> None:
        if self._closed:
            raise UsageError("the model is closed: load it again")

    def __enter__(self) -> Runtime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _reuse(options: GenerateOptions, choice: Choice) -> Reuse:
    """Return what of the cache may serve a request."""
    if options.exact:
        return "fresh"
    return "plain" if choice.exact is not None else "all"
