"""One chat: takes messages, shows answers, keeps the conversation."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from recycle_cpp.cli import show
from recycle_cpp.cli.chat.conversation import Conversation, newer_half
from recycle_cpp.cli.chat.totals import Totals
from recycle_cpp.errors import PromptTooLongError, RecycleError, UsageError
from recycle_cpp.models.folders import expanded
from recycle_cpp.types import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recycle_cpp.cli.answer_writer import AnswerWriter
    from recycle_cpp.cli.chat.settings import Settings
    from recycle_cpp.runtime import Runtime
    from recycle_cpp.types import ChatChunk, ChatOptions

ALMOST = 0.9  # of the context: from here on the user is told
MORE_ROOM = "/reset forgets the conversation, /set context-shift on drops its older half when it must"


class ChatSession:
    """A conversation with a model.

    Attributes:
        conversation: what was said.
        settings: what each request asks for.
        writer: where answers go.
        file: where the session is kept between chats, or None.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        writer: AnswerWriter,
        *,
        new_cancel: Callable[[], threading.Event] = threading.Event,
        file: Path | None = None,
    ) -> None:
        """Begin with nothing said.

        Args:
            runtime: a model with a chat template.
            settings: what each request asks for.
            writer: where answers go.
            new_cancel: returns, for each answer, an event that stops it when it is set.
            file: where the session is kept between chats, or None.
        """
        self._runtime = runtime
        self._new_cancel = new_cancel
        self._totals = Totals()
        self._last_line = ""
        self._told: set[str] = set()
        self.settings = settings
        self.writer = writer
        self.file = file
        self.conversation = Conversation()

    def say(self, text: str) -> None:
        """Send a message, show the answer, and keep both; where shifting is on, older turns make room for it.

        Raises:
            UsageError: if the message cannot be answered; it is not kept.
        """
        turns, request = [*self.conversation.turns, Message("user", text)], self.settings.options
        while True:
            try:
                return self._answer(turns, request)
            except PromptTooLongError as error:
                newer = newer_half(turns) if request.context_shift else turns
                if len(newer) == len(turns):
                    raise PromptTooLongError(f"{error}; the message is not kept: /reset or /undo makes room") from error
                turns = newer
                show.dim(f"the context is full: only the last {len(turns)} messages are kept")

    def retry(self) -> None:
        """Answer the last question again, with a fresh seed if tokens are drawn.

        Raises:
            UsageError: if there is no question.
        """
        turns = self.conversation.up_to_last_question()
        if not turns:
            raise UsageError("/retry: there is no question to answer again: ask one")
        request = self.settings.options
        if request.sampling.draws:
            request = replace(request, sampling=replace(request.sampling, seed=None))
        self._answer(turns, request)

    def undo(self) -> str:
        """Take the last question and its answer back, and return the question.

        Raises:
            UsageError: if there is none.
        """
        turns = self.conversation.up_to_last_question()
        if not turns:
            raise UsageError("/undo: there is no question to take back")
        self.conversation.turns = turns[:-1]
        return turns[-1].content

    def save(self, name: str = "") -> Path:
        """Keep the conversation and the model's cache in a file, and return its path.

        Args:
            name: the file's; empty takes the one of --session.

        Raises:
            UsageError: if there is no name, or the file cannot be written.
        """
        path = expanded(name) if name else self.file
        if path is None:
            raise UsageError("/save: give the name of a file")
        self._runtime.save_session(path, self.conversation.messages)
        return path

    def load(self, path: Path) -> None:
        """Go on with a conversation from a file.

        Raises:
            UsageError: if the file cannot be used; the conversation stays as it is.
        """
        self.conversation = Conversation(self._runtime.restore_session(path))

    def stats(self) -> list[str]:
        """Return lines about the last answer, all answers, and the context."""
        turns = self.conversation.messages if self.conversation.turns else []
        used = min(len(self._runtime.tokenize(turns)), self._runtime.n_ctx) if turns else 0
        last = [f"last answer: {self._last_line}"] if self._last_line else []
        return [*last, *self._totals.lines(), f"context: {used} of {self._runtime.n_ctx} tokens used"]

    def _answer(self, turns: Sequence[Message], request: ChatOptions) -> None:
        """Show an answer to turns, and make both the conversation; an answer stopped before a word changes nothing."""
        parts: list[ChatChunk] = []
        try:
            messages = self.conversation.with_system(turns)
            stream = self._runtime.stream_chat(messages, request, cancel=self._new_cancel())
            # Closed here, not when it is collected: the stream must end before the runtime that it runs on.
            with contextlib.closing(stream):
                for part in stream:
                    parts.append(part)
                    self.writer.think(part.reasoning)
                    self.writer.write(part.content, part.pieces, part.chunk.n_accepted)
        except RecycleError:
            self.writer.end(always=False)  # the error is a line of its own on a terminal
            raise
        answer = Message(
            "assistant", "".join(part.content for part in parts), "".join(part.reasoning for part in parts)
        )
        wordless = parts[-1].finish_reason == "cancelled" and not (answer.content or answer.reasoning)
        self.writer.end(always=not wordless)
        if wordless:
            show.dim("stopped before a word: the message is not kept")
            return
        self.conversation.turns = [*turns, answer]
        self._tell(parts[-1], request)

    def _tell(self, last: ChatChunk, request: ChatOptions) -> None:
        """Show what the answer cost, and how much of the context is left."""
        end = last.chunk
        assert end.usage is not None and end.timings is not None, "the last chunk has counts and timings"
        self._totals.add(end.usage, end.timings)
        self._last_line = show.statistics_line(self._runtime.name, end, request.draft)
        show.dim(self._last_line)
        if request.is_exact:
            show.notes(note for note in self._runtime.notes if note not in self._told)
            self._told.update(self._runtime.notes)
        n_ctx, used = self._runtime.n_ctx, end.usage.total_tokens
        spent = request.max_tokens is not None and end.usage.completion_tokens >= request.max_tokens
        if last.finish_reason == "length" and not spent:
            show.dim(f"the context of {n_ctx} tokens is full, and the answer is cut: {MORE_ROOM}")
        elif used >= ALMOST * n_ctx and not request.context_shift:
            show.dim(f"the context is almost full, {used} of {n_ctx} tokens: {MORE_ROOM}")
