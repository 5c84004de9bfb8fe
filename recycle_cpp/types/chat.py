"""Chats: messages, tools, and the parts of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recycle_cpp.types.answers import Chunk, FinishReason, Timings, TokenLogprobs, Usage


class ToolCall(NamedTuple):
    """A call that the model asks for.

    Attributes:
        name: the tool's.
        arguments: JSON text of one object, as the model wrote it.
        id: by which the tool's answer names the call.
    """

    name: str
    arguments: str
    id: str = ""


class Tool(NamedTuple):
    """A function that the model may ask to be called.

    Attributes:
        name: by which the model calls it.
        description: what it is for.
        parameters: JSON schema of its arguments, an object.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = {}


class Message(NamedTuple):
    """One turn of a chat.

    Attributes:
        role: "system", "user", "assistant", "tool", or what else the template knows.
        content: its text.
        reasoning: an assistant's thinking, kept apart from what it says.
        tool_calls: what an assistant asks for.
        tool_call_id: which call a tool's message answers.
        name: of the tool that answers, where a template wants it.
    """

    role: str
    content: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class ChatChunk:
    """A piece of a streamed chat answer, its parts told apart.

    Attributes:
        content: what the assistant says.
        pieces: what each token of the step released of the content; they join to it.
        reasoning: what it thinks, where the template marks that.
        tool_calls: calls that became complete in this step.
        chunk: the step as it is: tokens, accepted count, logprobs; on the last chunk counts and speeds.
        finish_reason: why the answer ends, on the last chunk; "tool_calls" if it asks for any.
    """

    content: str
    pieces: tuple[str, ...]
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    chunk: Chunk
    finish_reason: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class ChatCompletion:
    """A whole chat answer.

    Attributes:
        message: the assistant's turn, ready to be put behind the messages that it answers.
        text: all that the model wrote, its marks included.
        tokens: its tokens.
        finish_reason: why it ends.
        usage: token counts.
        timings: speeds.
        logprobs: one record per token, if they were asked for.
    """

    message: Message
    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    logprobs: tuple[TokenLogprobs, ...] = ()
