"""What a chat template has a place for, found out by rendering small chats, as llama.cpp does."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_WORD = "ProbeOfWhatIsShown"
_NAME = "probe_tool"
_ARGUMENTS = ({"probe": "Oslo"}, '{"probe": "Oslo"}')  # as an object and as JSON text
_USER = {"role": "user", "content": "Hello"}
_CALL_ID = "probe1234"
_TOOL = {
    "type": "function",
    "function": {
        "name": _NAME,
        "description": "Look.",
        "parameters": {
            "type": "object",
            "properties": {"probe": {"type": "string", "description": "A text."}},
            "required": ["probe"],
        },
    },
}


class TemplateTraits:
    """What a template has a place for. What cannot be found out counts as having one: the real chat will tell."""

    def __init__(self, render: Callable[[list[dict[str, Any]], Mapping[str, Any], bool], str]) -> None:
        """Take what renders messages with further values, with or without a generation prompt."""
        self._render = render
        self._roles: dict[str, bool] = {}

    @cached_property
    def tools_key(self) -> str | None:
        """The name by which the template takes tools; None if it takes none."""
        for key in ("tools", "xml_tools"):  # the latter is SmolLM3's
            text = self._tried([_USER], {key: [_TOOL]})
            if text is None or _NAME in text:
                return key
        return None

    @cached_property
    def shows_calls(self) -> bool:
        """Whether it shows the tool calls of an assistant's message."""
        return self._calls_seen(self.content_beside_calls) is not False

    @cached_property
    def content_beside_calls(self) -> str | None:
        """What an empty content must be for tool calls to be shown: DeepSeek's templates want none at all."""
        return None if self._calls_seen("") is False and self._calls_seen(None) else ""

    def _calls_seen(self, content: str | None) -> bool | None:
        """Tell whether tool calls beside a content are shown; None if they are refused, which tells nothing."""
        texts = [self._tried(self._calling(arguments, content), {}) for arguments in _ARGUMENTS]
        shown = [_NAME in text for text in texts if text is not None]
        return any(shown) if shown else None

    @cached_property
    def arguments_as_object(self) -> bool:
        """Whether it takes the arguments of a call as an object; it takes their JSON text otherwise.

        One that writes a Python dict's own form, with single quotes, wants text, and so does one that fails.
        """
        as_object, as_text = (
            self._tried(self._calling(arguments, self.content_beside_calls), {}) for arguments in _ARGUMENTS
        )
        if as_object is None:
            return as_text is None
        return "'probe'" not in as_object or as_text is None

    def shows_role(self, role: str) -> bool:
        """Tell whether it shows the text of messages of a role; a system message it must not refuse, either."""
        if role not in self._roles:
            self._roles[role] = self._find_role(role)
        return self._roles[role]

    def _find_role(self, role: str) -> bool:
        told = {"role": role, "content": _WORD}
        if role == "system":
            text = self._tried([told, _USER], {})
            return _WORD in text if text is not None else self._tried([_USER], {}) is None
        if role == "tool":
            answer = {**told, "tool_call_id": _CALL_ID, "name": _NAME}
            arguments = _ARGUMENTS[0 if self.arguments_as_object else 1]
            text = self._tried([*self._calling(arguments, self.content_beside_calls), answer], {})
        else:
            text = self._tried([_USER, told], {})
        return text is None or _WORD in text

    def _calling(self, arguments: object, content: str | None) -> list[dict[str, Any]]:
        function = {"name": _NAME, "arguments": arguments}
        call = {"id": _CALL_ID, "type": "function", "function": function}
        return [_USER, {"role": "assistant", "content": content, "tool_calls": [call]}]

    def _tried(self, messages: list[dict[str, Any]], values: Mapping[str, Any]) -> str | None:
        """Return what the template makes of messages; None if it refuses them."""
        try:
            return self._render(messages, values, False)
        except Exception:  # a template is foreign code, and jinja is not ours to import
            return None
