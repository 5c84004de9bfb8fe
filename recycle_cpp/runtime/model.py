"""One loaded model that answers requests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recycle_cpp.backend.loaded import LoadedModel
from recycle_cpp.backend.measure import PLAIN_ONLY
from recycle_cpp.decoding.policy import Choice
from recycle_cpp.decoding.warm_up import warm_up
from recycle_cpp.drafting.recording import RecordingDrafter
from recycle_cpp.models import fingerprint, resolve
from recycle_cpp.models.folders import cache_folder
from recycle_cpp.models.learned_files import LearnedFile
from recycle_cpp.runtime.answering import joined
from recycle_cpp.runtime.arguments import checked_options, checked_path, checked_request, session_path
from recycle_cpp.runtime.chats import chat_chunks, chat_options, joined_chat
from recycle_cpp.runtime.prompts import Prompts
from recycle_cpp.runtime.requests import Job, Requests
from recycle_cpp.runtime.session_file import SessionIdentity, read_session_file, save_session_file
from recycle_cpp.text.openai_messages import checked_messages
from recycle_cpp.types import LoadOptions

if TYPE_CHECKING:
    import os
    import threading
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path
    from types import TracebackType

    from recycle_cpp.backend.cost import Curve
    from recycle_cpp.backend.model import LlamaModel
    from recycle_cpp.runtime.prompts import Prompt
    from recycle_cpp.types import (
        ChatChunk,
        ChatCompletion,
        Chunk,
        Completion,
        FloatArray,
        GenerateOptions,
        IntArray,
        Message,
    )


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
        self._prompts = Prompts(name, loaded.model)
        self._requests = Requests(loaded, kept)

    @classmethod
    def load(
        cls,
        model: str | os.PathLike[str],
        options: LoadOptions | None = None,
        say: Callable[[str], None] = _silent,
    ) -> Runtime:
        """Load a model.

        Args:
            model: a name in models.toml, or a path.
            options: how to load it.
            say: told, in one line, of each thing that takes a while and is done once.

        Raises:
            ModelError: if the model cannot be found, fetched or read.
            BackendError: if llama.cpp cannot make its context.
            UsageError: if the model is no path and no name, or options contradict each other.
            InstallError: if llama.cpp itself cannot be loaded.
        """
        options = checked_options(options, LoadOptions)
        found = resolve(checked_path(model, "the model"))
        warm_up(say)
        profiles = cache_folder() / "profiles"
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
        return tuple(self._requests.notes)

    @property
    def draft_state_bytes(self) -> int:
        """Bytes of everything that drafting has learned and may learn."""
        return self._requests.knowledge_bytes

    @property
    def model(self) -> LlamaModel:
        """The model's vocabulary, and what its file says of it.

        Raises:
            UsageError: if the model is closed.
        """
        self._requests.require_open()
        return self._loaded.model

    @property
    def prompts(self) -> Prompts:
        """Tokens of texts and chats, and back.

        Raises:
            UsageError: if the model is closed.
        """
        self._requests.require_open()
        return self._prompts

    def tokenize(self, prompt: Prompt, *, raw: bool = False) -> list[int]:
        """Return a prompt's tokens, through the chat template unless it is raw or the model has none.

        Raises:
            UsageError: if the prompt is none, or the template refuses it.
        """
        return self.prompts.tokens(prompt, raw=raw)

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Return the text of tokens, U+FFFD where they are no whole characters; control tokens only if `special`.

        Raises:
            UsageError: if the vocabulary has no such token.
        """
        return self.prompts.detokenize(tokens, special=special)

    def forget(self) -> None:
        """Drop what drafting has learned, and the cached prompt; what is kept on disk stays until more is learned."""
        self._requests.forget(learned=True)

    def forget_prompt(self) -> None:
        """Drop the cached prompt; what drafting has learned stays."""
        self._requests.forget(learned=False)

    def generate(
        self, prompt: Prompt, options: GenerateOptions | None = None, *, cancel: threading.Event | None = None
    ) -> Completion:
        """Return a whole answer; see `stream`."""
        return joined(list(self.stream(prompt, options, cancel=cancel)))

    def stream(
        self, prompt: Prompt, options: GenerateOptions | None = None, *, cancel: threading.Event | None = None
    ) -> Generator[Chunk, None, None]:
        """Return the chunks of an answer, as they are decoded.

        The prompt is checked here; all else comes to light when the first chunk is asked for, since the request waits
        for its turn until then. Closing the generator early leaves the cache at the last step, ready for the next one.

        Args:
            prompt: a text (one user message, where the model has a chat template), the messages of a chat, or tokens.
            options: what is asked for.
            cancel: set it, from any thread, to end the answer: in the queue, in the prompt or after the step under
                way. Its last chunk then says "cancelled".

        Raises:
            UsageError: if the prompt cannot be used; with the first chunk, if the grammar or a setting cannot.
            PromptTooLongError: if it does not fit the context.
            BusyError: with the first chunk, if this thread has another answer of this model open.
            BackendError: with any chunk, if llama.cpp fails.
        """
        options = checked_request(options, cancel)
        return self._requests.open(Job(self.tokenize(prompt, raw=options.raw), options, cancel))

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
            UsageError: if the template has no place for the messages or the tools, or there is no template; with the
                first chunk, if the grammar or a setting cannot be used.
            PromptTooLongError: if they do not fit the context.
            BusyError: as for `stream`.
            BackendError: as for `stream`.
        """
        asked = chat_options(checked_request(options, cancel))
        chat = self.prompts.open_chat(messages, asked)
        job = Job(chat.tokens, replace(asked, grammar=chat.grammar), cancel, chat.shown)
        inner = self._requests.open(job)
        chunks = chat_chunks(inner, chat.parts)
        self._requests.close_with(chunks, inner)
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
        options = checked_request(options, None)
        recorder = RecordingDrafter()
        choice = Choice(recorder, PLAIN_ONLY, "")
        chunks = list(self._requests.open(Job(self.tokenize(prompt, raw=options.raw), options, choice=choice)))
        return joined(chunks), recorder.top, recorder.values

    def save_session(self, path: str | os.PathLike[str], messages: Sequence[Message] = ()) -> None:
        """Write the cache, and the messages of the chat that is in it, to a file for `restore_session`.

        Raises:
            UsageError: if it cannot be written, or the messages are none.
            BusyError: if this thread has an answer of this model open.
            BackendError: if llama.cpp cannot save the cache.
        """
        file, turns = session_path(path), checked_messages(messages)
        save_session_file(file, SessionIdentity.of(self._loaded), self._requests.snapshot(), turns)

    def restore_session(self, path: str | os.PathLike[str]) -> tuple[Message, ...]:
        """Take the cache from a file, also one of another process, and return the messages saved with it.

        Raises:
            UsageError: if it cannot be read, is damaged or does not fit this model; the cache is then as before.
            BusyError: if this thread has an answer of this model open.
            BackendError: if llama.cpp refuses it; the cache is empty then.
        """
        identity = SessionIdentity.of(self._loaded)
        state, messages = read_session_file(session_path(path), identity, n_ctx=self.n_ctx, n_vocab=self.n_vocab)
        self._requests.restore(state)
        return messages

    def close(self) -> None:
        """Free the memory; streams end, one that another thread is reading at its end. Safe to call twice."""
        self._requests.close()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
