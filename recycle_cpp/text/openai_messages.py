"""Messages and tools as OpenAI's API writes them, and as this package does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from recycle_cpp.errors import UsageError
from recycle_cpp.types import Message, Tool, ToolCall
from recycle_cpp.types.checks import shown

ROLES = ("system", "developer", "user", "assistant", "tool")


def messages_from(dicts: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Return the messages that OpenAI-shaped dicts describe.

    A content that is None is empty; one in parts is their texts, joined by line feeds as llama.cpp's server does.
    Keys that mean nothing here are passed over.

    Raises:
        UsageError: names the place that cannot be used.
    """
    if isinstance(dicts, str) or not isinstance(dicts, Sequence):
        raise UsageError(f"messages is {_kind(dicts)}; give a list of messages")
    return tuple(_message(given, f"messages[{at}]") for at, given in enumerate(dicts))


def tools_from(dicts: Sequence[Mapping[str, Any]]) -> tuple[Tool, ...]:
    """Return the tools that OpenAI-shaped dicts describe.

    Raises:
        UsageError: names the place that cannot be used.
    """
    if isinstance(dicts, str) or not isinstance(dicts, Sequence):
        raise UsageError(f"tools is {_kind(dicts)}; give a list of tools")
    return tuple(_tool(given, f"tools[{at}]") for at, given in enumerate(dicts))


def message_dict(message: Message) -> dict[str, Any]:
    """Return a message as OpenAI's API writes it; what it does not have is left out."""
    fields: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning:
        fields["reasoning_content"] = message.reasoning
    if message.tool_calls:
        fields["tool_calls"] = [_call_dict(call) for call in message.tool_calls]
    if message.tool_call_id:
        fields["tool_call_id"] = message.tool_call_id
    if message.name:
        fields["name"] = message.name
    return fields


def _call_dict(call: ToolCall) -> dict[str, Any]:
    """Return a tool call as OpenAI's API writes it."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def tool_dict(tool: Tool) -> dict[str, Any]:
    """Return a tool as OpenAI's API writes it; one without parameters takes an object without properties."""
    parameters = dict(tool.parameters) or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def checked_messages(messages: object) -> list[Message]:
    """Return the messages of a chat, after checking what a named tuple does not: that their fields are texts.

    Raises:
        UsageError: names the place that cannot be used.
    """
    if not isinstance(messages, Sequence) or not all(isinstance(message, Message) for message in messages):
        raise UsageError("a chat is a list of Message: messages_from makes one of OpenAI's dicts")
    for at, message in enumerate(messages):
        _check_texts(message, ("role", "content", "reasoning", "tool_call_id", "name"), f"messages[{at}]")
        calls, place = message.tool_calls, f"messages[{at}].tool_calls"
        if not isinstance(calls, Sequence) or not all(isinstance(call, ToolCall) for call in calls):
            raise UsageError(f"{place} is {shown(calls)}; give a tuple of ToolCall")
        for number, call in enumerate(calls):
            _check_texts(call, ("name", "arguments", "id"), f"{place}[{number}]")
    return list(messages)


def _check_texts(record: Message | ToolCall, names: Sequence[str], place: str) -> None:
    for name in names:
        if not isinstance(getattr(record, name), str):
            raise UsageError(f"{place}.{name} is {_kind(getattr(record, name))}; give a text")


def _message(given: object, place: str) -> Message:
    fields = _mapping(given, place)
    role = _text(fields, "role", place)
    if role not in ROLES:
        raise UsageError(f"{place}.role is {shown(role)}; give one of {', '.join(ROLES)}")
    calls = fields.get("tool_calls")
    if calls is not None and (role != "assistant" or isinstance(calls, str) or not isinstance(calls, Sequence)):
        raise UsageError(f"{place}.tool_calls is {_kind(calls)}; give a list of calls, in an assistant's message only")
    if "content" not in fields and not calls:
        raise UsageError(f"{place}.content is missing; give a text")
    return Message(
        role,
        _content(fields.get("content"), f"{place}.content"),
        reasoning=_optional_text(fields, "reasoning_content", place),
        tool_calls=tuple(_call(call, f"{place}.tool_calls[{at}]") for at, call in enumerate(calls or ())),
        tool_call_id=_optional_text(fields, "tool_call_id", place),
        name=_optional_text(fields, "name", place),
    )


def _content(given: object, place: str) -> str:
    if given is None:
        return ""
    if isinstance(given, str):
        return given
    if not isinstance(given, Sequence) or isinstance(given, bytes):
        raise UsageError(f"{place} is {_kind(given)}; give a text or a list of text parts")
    return "\n".join(_part(part, f"{place}[{at}]") for at, part in enumerate(given))


def _part(given: object, place: str) -> str:
    fields = _mapping(given, place)
    kind = _text(fields, "type", place)
    if kind != "text":
        raise UsageError(f"{place} is of type {shown(kind)}; only parts of type text can be read")
    return _text(fields, "text", place)


def _call(given: object, place: str) -> ToolCall:
    fields = _mapping(given, place)
    if fields.get("type", "function") != "function":
        raise UsageError(f"{place}.type is {shown(fields['type'])}; give function")
    function = _mapping(fields.get("function"), f"{place}.function")
    arguments = function.get("arguments", "{}")
    if isinstance(arguments, Mapping):
        arguments = json.dumps(dict(arguments), ensure_ascii=False)
    if not isinstance(arguments, str) or not _is_object(arguments):
        raise UsageError(f"{place}.function.arguments is no JSON object; give one as text")
    return ToolCall(_text(function, "name", f"{place}.function"), arguments, _optional_text(fields, "id", place))


def _tool(given: object, place: str) -> Tool:
    fields = _mapping(given, place)
    kind = _text(fields, "type", place)
    if kind != "function":
        raise UsageError(f"{place}.type is {shown(kind)}; give function")
    function = _mapping(fields.get("function"), f"{place}.function")
    parameters = function.get("parameters")
    schema = _mapping({} if parameters is None else parameters, f"{place}.function.parameters")
    name = _text(function, "name", f"{place}.function")
    if not name:
        raise UsageError(f"{place}.function.name is empty; give the tool's name")
    return Tool(name, _optional_text(function, "description", f"{place}.function"), schema)


def _mapping(given: object, place: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise UsageError(f"{place} is {_kind(given)}; give an object with named fields")
    return given


def _text(fields: Mapping[str, Any], key: str, place: str) -> str:
    if key not in fields:
        raise UsageError(f"{place}.{key} is missing; give a text")
    if not isinstance(fields[key], str):
        raise UsageError(f"{place}.{key} is {_kind(fields[key])}; give a text")
    return str(fields[key])


def _optional_text(fields: Mapping[str, Any], key: str, place: str) -> str:
    return "" if fields.get(key) is None else _text(fields, key, place)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _kind(given: object) -> str:
    return "missing" if given is None else f"of type {type(given).__name__}"
