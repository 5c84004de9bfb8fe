"""One loaded model that answers requests."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from functools import cached_property
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
from recycle_cpp.errors import BusyError, UsageError
from recycle_cpp.models import fingerprint, resolve
from recycle_cpp.models.folders import cache_folder
from recycle_cpp.models.learned_files import LearnedFile
from recycle_cpp.text.answer import AnswerText
from recycle_cpp.text.chat import ChatTemplate
from recycle_cpp.types import Chunk, Completion, GenerateOptions, LoadOptions, Message, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from recycle_cpp.backend.cost import Curve
    from recycle_cpp.types import FinishReason, FloatArray, IntArray


def _silent(_line: str) -> None:
    """Say nothing."""


class Runtime:
    """One loaded model that answers requests, one after the other; calls from other threads wait.

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
        self._turn = _Turn()
        self._streams: weakref.WeakSet[Generator[Chunk, None, None]] = weakref.WeakSet()
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
        self._require_open()
        return self._loaded.model.chat_template is not None

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

    def forget(self) -> None:
        """Drop what drafting has learned, and the cached prompt; what is kept on disk stays until more is learned."""
        with self._turn.hold():
            self._require_open()
            self._policy.knowledge.reset()
            self._engine.keep(0)

    def forget_prompt(self) -> None:
        """Drop the cached prompt; what drafting has learned stays."""
        with self._turn.hold():
            self._require_open()
            self._engine.keep(0)

    def tokenize(self, prompt: str | Sequence[Message], *, raw: bool = False) -> list[int]:
        """Return a prompt's tokens, through the chat template unless it is raw or the model has none.

        Raises:
            UsageError: if the prompt is neither a text nor messages, or the template refuses it.
        """
        self._require_open()
        model = self._loaded.model
        if isinstance(prompt, str):
            if raw or not self.is_chat:
                return model.tokenize(prompt, add_special=True, parse_special=True)
            prompt = [Message("user", prompt)]
        if not isinstance(prompt, list | tuple) or not all(isinstance(message, Message) for message in prompt):
            raise UsageError("the prompt is no text and no list of Message: give one of them")
        text = self._template.render(prompt)
        return model.tokenize(text, add_special=self._template.wants_special(text), parse_special=True)

    @cached_property
    def _template(self) -> ChatTemplate:
        """The chat template, made when it is first needed: raw prompts work with a broken one, too."""
        model = self._loaded.model
        if model.chat_template is None:
            raise UsageError(f"{self.name} is a base model without a chat template: give a text, not messages")

        def text(token: int) -> str:
            return "" if token < 0 else model.piece(token, special=True).decode("utf-8", "replace")

        return ChatTemplate(model.chat_template, bos_token=text(model.bos), eos_token=text(model.eos))

    def generate(self, prompt: str | Sequence[Message], options: GenerateOptions | None = None) -> Completion:
        """Return a whole answer; see `stream`."""
        return _whole(list(self.stream(prompt, options)))

    def stream(
        self, prompt: str | Sequence[Message], options: GenerateOptions | None = None
    ) -> Generator[Chunk, None, None]:
        """Return the chunks of an answer, as they are decoded.

        The prompt is checked here; it is evaluated when the first chunk is asked for. Closing the generator early
        leaves the cache at the last step, ready for the next request.

        Args:
            prompt: a text (one user message, where the model has a chat template) or the messages of a chat.
            options: what is asked for.

        Raises:
            UsageError: if the prompt cannot be used.
            PromptTooLongError: if it does not fit the context.
        """
        return self._open_stream(prompt, options or GenerateOptions())

    def record(
        self, prompt: str | Sequence[Message], options: GenerateOptions | None = None
    ) -> tuple[Completion, IntArray, FloatArray]:
        """Return a whole answer, decoded plainly, and what the model said at each of its positions.

        Returns:
            The answer; int32[n, 8], the best candidates at each position, best first; float32[n, 8], their logits.
            The answer's text may end, at a stop string, some tokens before the positions do.

        Raises:
            UsageError: as `stream` does.
            PromptTooLongError: as `stream` does.
        """
        recorder = RecordingDrafter()
        chunks = list(self._open_stream(prompt, options or GenerateOptions(), Choice(recorder, PLAIN_ONLY, "")))
        return _whole(chunks), recorder.top, recorder.values

    def _open_stream(
        self, prompt: str | Sequence[Message], options: GenerateOptions, choice: Choice | None = None
    ) -> Generator[Chunk, None, None]:
        tokens = self.tokenize(prompt, raw=options.raw)
        self._engine.check(tokens)
        stream = self._run(tokens, options, choice)
        self._streams.add(stream)
        return stream

    def _run(
        self, prompt: list[int], options: GenerateOptions, choice: Choice | None = None
    ) -> Generator[Chunk, None, None]:
        with self._turn.hold():
            self._require_open()
            choice = choice or self._policy.choose(options)
            if choice.note and choice.note not in self._notes:
                self._notes.append(choice.note)
            start = time.perf_counter()
            evaluated = self._engine.prepare(prompt, exact=choice.exact is not None)
            meter = RunMeter(evaluated, time.perf_counter() - start)
            sampler = make_sampler(options, self._loaded.model.sampler_vocabulary(self.n_ctx), prompt)
            request = Request(choice.drafter, sampler, options.max_tokens, choice.exact)
            try:
                for chunk in self._chunks(request, len(prompt), meter, AnswerText(self._loaded.model, options.stop)):
                    yield chunk
                    self._turn.resume()
            finally:
                sampler.close()
                self._learned.save_if_due()  # the last chunk is out: nobody waits for this

    def _chunks(self, request: Request, prompt_n: int, meter: RunMeter, answer: AnswerText) -> Iterator[Chunk]:
        """Turn steps into chunks; a stop string ends the run at the very token that completes it."""
        emitted = 0
        start = time.perf_counter()
        for step in self._engine.steps(request):
            meter.add(step)
            text, tokens = "", []
            for token in step.tokens:
                tokens.append(token)
                text += "" if self._loaded.backend.is_eog(token) else answer.push(token)
                if answer.stopped:
                    break
            emitted += len(tokens)
            reason: FinishReason | None = "stop" if answer.stopped else step.finish_reason
            if answer.stopped:
                self._engine.keep(prompt_n + emitted)
            meter.spend(time.perf_counter() - start)
            if reason is None:
                yield Chunk(text, tuple(tokens))
                start = time.perf_counter()
                continue
            text += answer.flush()
            yield Chunk(
                text,
                tuple(tokens),
                finish_reason="stop" if answer.stopped else reason,
                usage=Usage(prompt_n, emitted),
                timings=meter.timings(emitted),
            )
            return

    def close(self) -> None:
        """Free the memory; streams end, one that another thread is reading at its end. Safe to call twice."""
        self._closed = True
        for stream in list(self._streams):
            with contextlib.suppress(ValueError):  # another thread is reading it: wait for its turn to end
                stream.close()
        with self._turn.hold():
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


def _whole(chunks: list[Chunk]) -> Completion:
    """Return the answer that chunks make up."""
    last = chunks[-1]
    assert last.finish_reason is not None and last.usage is not None and last.timings is not None
    tokens = tuple(token for chunk in chunks for token in chunk.tokens)
    return Completion("".join(chunk.text for chunk in chunks), tokens, last.finish_reason, last.usage, last.timings)


class _Turn:
    """Lets one request at a time at the model."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Wait for the turn and hold it.

        Raises:
            BusyError: if this very thread holds it, and so would wait for itself.
        """
        if self._owner == threading.get_ident():
            raise BusyError("this thread has a generation open on the model: finish or close it first")
        with self._lock:
            self.resume()
            try:
                yield
            finally:
                self._owner = None

    def resume(self) -> None:
        """Note that the turn is now used by this thread: a stream may go from one to another."""
        self._owner = threading.get_ident()
