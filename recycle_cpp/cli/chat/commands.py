"""The /commands of a chat. What they show goes to standard error: standard output is for answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from recycle_cpp.cli import show
from recycle_cpp.errors import UsageError
from recycle_cpp.models.folders import expanded

if TYPE_CHECKING:
    from collections.abc import Callable

    from recycle_cpp.cli.chat.session import ChatSession

MOST_SHOWN = 60  # characters of a question that is named


class Leave(Exception):  # noqa: N818 (no error: the user wants to go)
    """Raised to end the chat."""


class Command(NamedTuple):
    """A command of the chat.

    Attributes:
        usage: what is typed behind its name.
        text: what it does.
        run: does it, with what was typed behind the name.
    """

    usage: str
    text: str
    run: Callable[[ChatSession, str], None]


def take(session: ChatSession, text: str) -> None:
    """Take what was typed: a command, or a message. "//x" is the message "/x".

    Raises:
        UsageError: if it cannot be used; the conversation stays as it was.
        Leave: if the user wants to go.
    """
    if not text.startswith("/") or text.startswith("//"):
        session.say(text.removeprefix("/"))
        return
    name, rest = [*text[1:].split(maxsplit=1), "", ""][:2]
    command = COMMANDS.get(name)
    if command is None:
        raise UsageError(f"/{name}: there is no such command: /help lists them, and //{name} sends the text /{name}")
    command.run(session, rest.strip())


def _help(_session: ChatSession, _rest: str) -> None:
    rows = [(f"/{name} {command.usage}".rstrip(), command.text) for name, command in COMMANDS.items()]
    width = max(len(left) for left, _ in rows)
    for left, right in rows:
        show.dim(f"{left:{width}}  {right}")
    show.dim("//text sends /text; a backslash before Enter, Esc-Enter or Ctrl-J begins another line")


def _system(session: ChatSession, rest: str) -> None:
    if rest:
        session.conversation.system = "" if rest == "-" else rest
    show.dim(f"system: {session.conversation.system}" if session.conversation.system else "there is no system message")


def _reset(session: ChatSession, _rest: str) -> None:
    session.conversation.turns = []
    show.dim("the conversation is forgotten" + ("; the system message stays" if session.conversation.system else ""))


def _undo(session: ChatSession, _rest: str) -> None:
    question = session.undo()
    show.dim(f"taken back: {question[:MOST_SHOWN]}{'...' if len(question) > MOST_SHOWN else ''}")


def _retry(session: ChatSession, _rest: str) -> None:
    session.retry()


def _save(session: ChatSession, rest: str) -> None:
    show.dim(f"saved: {session.save(rest)}")


def _load(session: ChatSession, rest: str) -> None:
    if not rest:
        raise UsageError("/load: give the name of a file that /save wrote")
    session.load(expanded(rest))
    show.dim(f"{len(session.conversation.turns)} messages restored: /show shows them")


def _show(session: ChatSession, _rest: str) -> None:
    if not session.conversation.messages:
        show.dim("nothing was said yet")
    for message in session.conversation.messages:
        show.told(f"{message.role}: {message.content}")


def _stats(session: ChatSession, _rest: str) -> None:
    for line in session.stats():
        show.dim(line)


def _color(session: ChatSession, rest: str) -> None:
    if rest not in ("on", "off"):
        raise UsageError(f"/color: {rest or 'nothing'} is neither on nor off")
    session.writer.colored = rest == "on"


def _set(session: ChatSession, rest: str) -> None:
    name, _, value = rest.partition(" ")
    if name and not value.strip():
        raise UsageError(f"/set {name}: give a value, too")
    if name:
        session.settings.set(name, value.strip())
        return
    for line in session.settings.lines() or ["all settings have their defaults"]:
        show.dim(line)
    show.dim(f"settings: {', '.join(session.settings.names())}")


def _exit(_session: ChatSession, _rest: str) -> None:
    raise Leave


COMMANDS = {
    "help": Command("", "show this", _help),
    "system": Command(
        "TEXT", "set the system message, from the next answer on; without TEXT show it; - is none", _system
    ),
    "reset": Command("", "forget the conversation", _reset),
    "undo": Command("", "take back the last question and its answer", _undo),
    "retry": Command("", "answer the last question again", _retry),
    "save": Command("FILE", "keep the conversation and the model's cache in a file", _save),
    "load": Command("FILE", "go on with what /save kept", _load),
    "show": Command("", "show the conversation", _show),
    "stats": Command("", "show speeds and how full the context is", _stats),
    "color": Command("on|off", "show accepted tokens in colour or not", _color),
    "set": Command("NAME VALUE", "change a setting, as temperature 0.7; default takes it back; alone: list", _set),
    "exit": Command("", "leave, as Ctrl-D does", _exit),
}
