"""The parts of an answer: what the model says, what it thinks, and which tools it calls."""

from __future__ import annotations

import secrets
import string
from typing import TYPE_CHECKING, NamedTuple

from recycle_cpp.text.answers.call_reader import CallReader
from recycle_cpp.text.answers.marks import Marks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recycle_cpp.text.families import CallSyntax, Family
    from recycle_cpp.types import Tool, ToolCall

_SHORT = 9
_ALPHANUMERIC = string.ascii_letters + string.digits


class Parts(NamedTuple):
    """What a piece of text added to each part of the answer."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


class AnswerParts:
    """Tells content, thinking and tool calls apart in an answer's text, however that is cut into pieces.

    Marks belong to no part, and neither does the white space next to them, but for what parts one piece of content from
    the next. Thinking is only looked for where nothing
    but white space has come since the beginning or since a mark. What begins like a tool call and turns out to be none
    is content, marks included. Text is held back only while it may still be a mark or a call, so all results depend on
    the text alone.

    Without tools nothing is taken for a call.
    """

    def __init__(
        self,
        family: Family,
        *,
        tools: Sequence[Tool] = (),
        in_reasoning: bool = False,
        continued: bool = False,
        make_id: Callable[[str], str] | None = None,
    ) -> None:
        """Begin an answer.

        Args:
            family: how the model marks what it writes.
            tools: those that it was offered.
            in_reasoning: whether the prompt ends inside its thinking.
            continued: whether the prompt ends inside a text, which the answer goes on with.
            make_id: makes a call's id out of the one that the model wrote, or of nothing; by default that one if it can
                be used, else a random one of the family's kind.
        """
        self._family = family
        self._names = frozenset(tool.name for tool in tools)
        self._make_id = make_id or (_short_id if family.short_ids else _long_id)
        calls = family.calls if tools else ()
        self._openings = {call.opening: call for call in calls if call.opening}
        self._bare = next((call for call in calls if not call.opening), None)
        self._closings = {call.closing for call in calls if call.closing and not call.known_only}
        sections = [section for call in calls for section in call.sections]
        self._marks = Marks((*self._openings, *self._closings, *sections, *family.wrappers))
        self._closing = Marks((family.reasoning.closing,) if family.reasoning else ())
        self._held = ""
        self._thinking = in_reasoning and family.reasoning is not None
        self._at_start = not continued  # nothing but white space since the beginning or since a mark
        self._after_mark = self._thinking and not continued  # white space that follows is the mark's
        self._said = continued and not in_reasoning  # whether there is content before what comes now
        self._reader: CallReader | None = None
        self._body = 0  # where, in the text held, what the reader reads begins
        self._unclosed = ""  # a closing mark that belongs to what turned out to be no call
        self._out: list[Parts] = []

    @property
    def in_reasoning(self) -> bool:
        """Whether what comes next is thinking, as far as is certain."""
        return self._thinking

    def push(self, text: str) -> Parts:
        """Return what has become certain with this piece of text."""
        self._held += text
        return self._drain(final=False)

    def flush(self) -> Parts:
        """Return the rest at the end of the answer."""
        return self._drain(final=True)

    def _drain(self, *, final: bool) -> Parts:
        self._out = []
        while self._held and self._advance(final):
            pass
        return Parts(
            "".join(part.content for part in self._out),
            "".join(part.reasoning for part in self._out),
            tuple(call for part in self._out for call in part.tool_calls),
        )

    def _advance(self, final: bool) -> bool:
        """Take what is certain off the text held; tell whether there may be more."""
        if self._thinking:
            return self._think(final)
        if self._reader is not None:
            return self._read_call(self._reader, final)
        if self._at_start:
            begun = self._begin(final)
            if begun is not None:
                return begun
        return self._speak(final)

    def _think(self, final: bool) -> bool:
        text = self._held.lstrip() if self._after_mark else self._held
        place, mark = self._closing.find_whole(text)
        if mark is not None:
            self._out.append(Parts(reasoning=text[:place].rstrip()))
            self._thinking = False
            self._pass_mark(text[place + len(mark) :])
            return True
        sure = len(text) if final else len(text[: self._closing.find_partial(text)].rstrip())
        self._after_mark = self._after_mark and sure == 0
        self._out.append(Parts(reasoning=text[:sure]))
        self._held = text[sure:]
        return False

    def _begin(self, final: bool) -> bool | None:
        """Look for what may stand at the beginning only; None leaves the text to `_speak`."""
        rest = self._held.lstrip()
        opening = self._family.reasoning.opening if self._family.reasoning else ""
        if opening and rest.startswith(opening):
            self._thinking = True
            self._pass_mark(rest[len(opening) :])
            return True
        if not final and (not rest or (opening and opening.startswith(rest))):
            return False
        if self._bare is not None and rest.startswith("{"):
            self._open_call(self._bare, len(self._held) - len(rest))
            return True
        return None

    def _speak(self, final: bool) -> bool:
        text = self._held
        place, mark = self._marks.find_whole(text)
        partial = self._marks.find_partial(text)
        if mark is None or place > partial:
            sure = partial
            if self._marks:  # white space before a mark would be the mark's
                sure = len(text[:partial].rstrip())
            sure = len(text) if final else sure
            self._say(text[:sure])
            self._held = text[sure:]
            return False
        before = len(text[:place].rstrip())
        self._say(text[:before])
        if mark in self._openings:
            self._held = text[before:]
            self._open_call(self._openings[mark], place - before + len(mark))
        elif mark == self._unclosed:
            self._unclosed = ""
            self._say(text[before : place + len(mark)])
            self._held = text[place + len(mark) :]
        else:
            self._pass_mark(text[place + len(mark) :])
        return True

    def _open_call(self, syntax: CallSyntax, body: int) -> None:
        self._reader = CallReader(syntax, self._names if syntax.known_only else None, self._make_id)
        self._body = body

    def _read_call(self, reader: CallReader, final: bool) -> bool:
        outcome = reader.read(self._held[self._body :], final=final)
        if outcome is None:
            return False
        self._reader = None
        if outcome.calls:
            self._out.append(Parts(tool_calls=outcome.calls))
            self._pass_mark(self._held[self._body + outcome.end :])
            return True
        self._unclosed = reader.syntax.closing
        self._say(self._held[: self._body])
        self._at_start = False  # a bare object that is no call is not looked at again
        self._held = self._held[self._body :]
        return True

    def _say(self, text: str) -> None:
        """Add content."""
        if self._after_mark and not (self._said and text.strip()):
            text = text.lstrip()
        if text:
            self._at_start = self._after_mark = False
            self._said = True
            self._out.append(Parts(text))

    def _pass_mark(self, rest: str) -> None:
        """Go on behind a mark."""
        self._held = rest
        self._at_start = self._after_mark = True


def _long_id(given: str) -> str:
    """Return the id given, or one like OpenAI's."""
    return given or f"call_{secrets.token_hex(12)}"


def _short_id(given: str) -> str:
    """Return the id given if it is nine letters and digits, as Mistral's templates want it, or such a one."""
    if len(given) == _SHORT and given.isascii() and given.isalnum():
        return given
    return "".join(secrets.choice(_ALPHANUMERIC) for _ in range(_SHORT))
