"""From chunks to a chat's answer: what is said, what is thought, which tools are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recycle_cpp.errors import UsageError
from recycle_cpp.types import ChatChunk, ChatCompletion, ChatOptions, GenerateOptions, Message

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from recycle_cpp.text.answers.parts import AnswerParts
    from recycle_cpp.types import Chunk, FinishReason


def chat_options(options: GenerateOptions) -> ChatOptions:
    """Return the options of a chat: those given, with the defaults for what only chats have.

    Raises:
        UsageError: if they ask for a raw prompt, which is a text, not a chat.
    """
    if options.raw:
        raise UsageError("raw is True: a chat goes through the model's template; leave raw out or give a text")
    if isinstance(options, ChatOptions):
        return options
    return ChatOptions(**{name: getattr(options, name) for name in GenerateOptions.__dataclass_fields__})


def chat_chunks(chunks: Generator[Chunk, None, None], parts: AnswerParts) -> Generator[ChatChunk, None, None]:
    """Yield chunks with their parts told apart. Closing this closes the chunks."""
    called = False
    try:
        for chunk in chunks:
            found = [parts.push(piece) for piece in chunk.pieces]
            pieces = [part.content for part in found]
            if chunk.finish_reason is not None:
                found.append(parts.flush())
                pieces = [*pieces[:-1], "".join(pieces[-1:]) + found[-1].content]
            calls = tuple(call for part in found for call in part.tool_calls)
            called = called or bool(calls)
            reason = chunk.finish_reason
            yield ChatChunk(
                "".join(pieces),
                tuple(pieces),
                "".join(part.reasoning for part in found),
                calls,
                chunk,
                "tool_calls" if called and reason == "stop" else reason,
            )
    finally:
        chunks.close()


def joined_chat(chunks: Sequence[ChatChunk]) -> ChatCompletion:
    """Return the whole answer that chunks make up."""
    last = chunks[-1]
    end = last.chunk
    reason: FinishReason | None = last.finish_reason
    assert reason is not None and end.usage is not None and end.timings is not None
    message = Message(
        "assistant",
        "".join(chunk.content for chunk in chunks),
        "".join(chunk.reasoning for chunk in chunks),
        tuple(call for chunk in chunks for call in chunk.tool_calls),
    )
    return ChatCompletion(
        message,
        "".join(chunk.chunk.text for chunk in chunks),
        tuple(token for chunk in chunks for token in chunk.chunk.tokens),
        reason,
        end.usage,
        end.timings,
        tuple(logprobs for chunk in chunks for logprobs in chunk.chunk.logprobs),
    )
