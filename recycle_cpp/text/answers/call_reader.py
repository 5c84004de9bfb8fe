"""One tool call out of a model's text, as it comes in."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from recycle_cpp.types import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from recycle_cpp.text.families import CallSyntax

_LONGEST_HEAD = 200  # characters; a head is a name and a mark or two
_OUTSIDE_STRINGS = frozenset('{}[]":,-+.0123456789eE \t\r\ntruefalsn')
_PLACEHOLDER = re.compile(r"\{name\}|\{id\}|\s+")
_PATTERNS = {"{name}": r"\s*(?P<name>[^\s<>\[\]{}|:()]+)", "{id}": r"(?P<id>\w+)"}


class Outcome(NamedTuple):
    """What a marked place turned out to be.

    Attributes:
        calls: the calls there; none if it is no call.
        end: characters behind the opening mark that they take up.
    """

    calls: tuple[ToolCall, ...]
    end: int


_NO_CALL = Outcome((), 0)


class CallReader:
    """Reads what follows an opening mark, and tells as soon as it is certain whether that is a tool call."""

    def __init__(self, syntax: CallSyntax, known: Container[str] | None, make_id: Callable[[str], str]) -> None:
        """Begin behind an opening mark.

        Args:
            syntax: how the call is written.
            known: names that a call must have one of; None takes any.
            make_id: makes a call's id out of the one that the model wrote, or of nothing.
        """
        self.syntax = syntax
        self._known = known
        self._make_id = make_id
        self._scan: JsonEnd | None = None
        self._head: re.Match[str] | None = None

    def read(self, text: str, *, final: bool) -> Outcome | None:
        """Return what it is, or None while that is open.

        Args:
            text: everything behind the opening mark so far: what was given before, and more.
            final: whether no more will come.
        """
        if self._scan is None and not self._find_json(text):
            return _NO_CALL if final or self._is_no_call(text) else None
        assert self._scan is not None
        end = self._scan.find(text)
        if end is None:
            return _NO_CALL if final or self._scan.broken else None
        calls = self._calls(text[self._scan.start : end])
        if not calls:
            return _NO_CALL
        rest = text[end:].lstrip()
        if self.syntax.closing and rest.startswith(self.syntax.closing):
            return Outcome(calls, len(text) - len(rest) + len(self.syntax.closing))
        if self.syntax.closing.startswith(rest) and self.syntax.closing:
            return Outcome(calls, len(text)) if final else None
        return Outcome(calls, end)  # the closing mark is missing: models forget it, or end their turn instead

    def _find_json(self, text: str) -> bool:
        """Find where the JSON begins, and what stands before it."""
        start = len(text) - len(text.lstrip())
        if text[start : start + 1] in ("{", "["):
            self._scan = JsonEnd(start)
            return True
        brace = text.find("{", start, start + _LONGEST_HEAD)
        if brace < 0:
            return False
        for head in self.syntax.heads:
            self._head = re.fullmatch(_pattern(head), text[:brace])
            if self._head:
                self._scan = JsonEnd(brace)
                return True
        return False

    def _is_no_call(self, text: str) -> bool:
        text = text.lstrip()
        return bool(text) and (not self.syntax.heads or "{" in text or len(text) >= _LONGEST_HEAD)

    def _calls(self, text: str) -> tuple[ToolCall, ...]:
        """Return the calls that a whole JSON value stands for; none if it stands for none."""
        try:
            if self._head is not None:
                is_object = isinstance(json.loads(text), dict)
                calls = (
                    [self._call(self._head["name"], text, self._head.groupdict().get("id", ""))] if is_object else []
                )
            else:
                parts = _items(text) if text.startswith("[") else [text]
                calls = [self._call_of_object(part) for part in parts]
        except (ValueError, RecursionError, KeyError, TypeError):
            return ()
        return tuple(calls)

    def _call_of_object(self, text: str) -> ToolCall:
        """Return the call that a JSON object of name and arguments is.

        Raises:
            ValueError, KeyError, TypeError: if it is none.
        """
        spans = _members(text)
        if "function" in spans and spans["function"].startswith("{"):  # OpenAI's own shape
            return self._call_of_object(spans["function"])
        name = json.loads(spans.get(self.syntax.name_key) or spans["function"])
        arguments = spans.get(self.syntax.arguments_key) or spans.get("arguments") or spans.get("parameters")
        if arguments is None:
            if self.syntax.known_only:
                raise ValueError("any object may have a name")
            arguments = "{}"
        if arguments.startswith('"'):  # the object as text, as OpenAI's API has it
            arguments = json.loads(arguments)
        if not isinstance(json.loads(arguments), dict):
            raise ValueError("the arguments are no object")
        given = json.loads(spans.get("id", "null"))
        return self._call(name, arguments, given if isinstance(given, str) else "")

    def _call(self, name: Any, arguments: str, given: str) -> ToolCall:
        if not isinstance(name, str) or not name or (self._known is not None and name not in self._known):
            raise ValueError("no name of a tool")
        return ToolCall(name, arguments, self._make_id(given))


class JsonEnd:
    """Finds where a JSON object or array ends in a text that is still growing.

    Attributes:
        start: where it begins.
        broken: whether it cannot become valid any more.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.broken = False
        self._at = start
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._end: int | None = None

    def find(self, text: str) -> int | None:
        """Return the place behind the value's last character, or None if that has not come."""
        while self._end is None and not self.broken and self._at < len(text):
            self._step(text[self._at])
            self._at += 1
        return self._end

    def _step(self, character: str) -> None:
        if self._in_string:
            if self._escaped:
                self._escaped = False
            elif character == "\\":
                self._escaped = True
            elif character == '"':
                self._in_string = False
        elif character == '"':
            self._in_string = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            if self._depth == 0:
                self._end = self._at + 1
        else:
            self.broken = character not in _OUTSIDE_STRINGS


def _pattern(head: str) -> str:
    """Return the regular expression of a head with placeholders."""
    parts, at = [], 0
    for found in _PLACEHOLDER.finditer(head):
        parts += [re.escape(head[at : found.start()]), _PATTERNS.get(found[0], r"\s*")]
        at = found.end()
    return "".join([*parts, re.escape(head[at:])]) + r"\s*"


def _members(text: str) -> dict[str, str]:
    """Return the members of a JSON object, each value as the text that it was written as.

    Raises:
        ValueError: if it is no JSON object.
    """
    if not isinstance(json.loads(text), dict):
        raise ValueError("no object")
    decoder, members = json.JSONDecoder(), {}
    at = _next(text, 1)
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        start = _next(text, at, ":")
        _, at = decoder.raw_decode(text, start)
        members[key] = text[start:at]
        at = _next(text, at, ",")
    return members


def _items(text: str) -> list[str]:
    """Return the items of a JSON array, each as the text that it was written as.

    Raises:
        ValueError: if it is no JSON array.
    """
    json.loads(text)
    decoder, items = json.JSONDecoder(), []
    at = _next(text, 1)
    while text[at] != "]":
        start = at
        _, at = decoder.raw_decode(text, start)
        items.append(text[start:at])
        at = _next(text, at, ",")
    return items


def _next(text: str, at: int, separator: str = "") -> int:
    """Return the place of the next character that is neither white space nor the separator."""
    while text[at].isspace() or (separator and text[at] == separator):
        at += 1
    return at
