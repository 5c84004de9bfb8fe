"""recycle-cpp chat: a conversation."""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from recycle_cpp.cli import options, show
from recycle_cpp.cli.answer_writer import AnswerWriter, color_option
from recycle_cpp.cli.chat.settings import Settings
from recycle_cpp.cli.sections import SectionedCommand
from recycle_cpp.cli.text_input import argument_text
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from recycle_cpp.cli.chat.session import ChatSession
    from recycle_cpp.runtime import Runtime


class Messages(Protocol):
    """Where messages come from."""

    def read(self) -> str | None:
        """Return the next message, or None at the end."""


@click.command(cls=SectionedCommand, short_help="Hold a conversation.")
@options.model_option
@click.option("--system", metavar="TEXT", help="A system message before the conversation.")
@click.option("--session", metavar="FILE", help="Go on with the conversation of a file, and keep it there at the end.")
@click.option("--no-history", is_flag=True, help="Keep no history of what is typed from chat to chat.")
@color_option
@click.option("--verbose", is_flag=True, help="Show settings, notes on this machine and llama.cpp's own log.")
@options.request_options
@options.load_options
@options.learned_option
@click.pass_context
def chat(context: click.Context, /, **params: Any) -> int:
    """Hold a conversation; /help lists its commands.

    On a terminal, Enter sends a message, and Ctrl-C stops an answer; at the prompt, Ctrl-C and Ctrl-D leave. From
    a pipe or a file each line is a message, and answers alone go to standard output. Statistics go to standard error.
    """
    settings = Settings(params, context.command.params)
    loading = options.load_options_from(params)
    if params["system"] is not None:
        params["system"] = argument_text(params["system"], "the text of --system")
    if params["session"] is not None:
        params["session"] = _session_file(params["session"])
    interactive = _is_interactive()
    model = options.model_from(params)
    from recycle_cpp.runtime import Runtime

    with Runtime.load(model, loading, show.dim) as runtime:
        _require_template(runtime)
        if params["verbose"]:
            show.dim(f"settings: {runtime.settings}")
        with _interruptible(interactive) as new_cancel:
            session = _session(runtime, settings, params, new_cancel)
            status = _converse(session, _messages(runtime, params, interactive=interactive))
        if params["verbose"]:
            show.notes(runtime.notes)
        if session.file is not None:
            session.save()
    return 0 if interactive else status


def _is_interactive() -> bool:
    """Tell whether a person types and reads.

    Raises:
        UsageError: if there is nothing to read from.
    """
    if sys.stdin is None:  # the shell has closed it
        raise UsageError("standard input is closed: type messages, or give them in a pipe or a file, one a line")
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextlib.contextmanager
def _interruptible(interactive: bool) -> Iterator[Callable[[], threading.Event]]:
    """Yield what gives each answer an event that stops it: Ctrl-C does on a terminal, nothing elsewhere."""
    if not interactive:
        yield threading.Event
        return
    from recycle_cpp.cli.chat.interruption import Interruption

    with Interruption() as interruption:
        yield interruption.of_answer


def _session(
    runtime: Runtime, settings: Settings, params: dict[str, Any], new_cancel: Callable[[], threading.Event]
) -> ChatSession:
    """Return a session as the command line asks for it, with what its file holds."""
    from recycle_cpp.cli.chat.session import ChatSession

    file, system = params["session"], params["system"]
    session = ChatSession(runtime, settings, AnswerWriter(params["color"]), new_cancel=new_cancel, file=file)
    if file is not None and file.exists():
        session.load(file)
        show.dim(f"{file}: {len(session.conversation.turns)} messages restored")
    if system is not None:
        session.conversation.system = system
    return session


def _messages(runtime: Runtime, params: dict[str, Any], *, interactive: bool) -> Messages:
    if not interactive:
        from recycle_cpp.cli.chat.piped_lines import PipedLines

        return PipedLines(sys.stdin.buffer)
    from recycle_cpp.cli.chat.commands import COMMANDS
    from recycle_cpp.cli.chat.editor import LineEditor

    show.dim(f"{runtime.name} · a context of {runtime.n_ctx} tokens · /help lists commands, Ctrl-D leaves")
    return LineEditor([f"/{name}" for name in COMMANDS], history=not params["no_history"])


def _converse(session: ChatSession, messages: Messages) -> int:
    """Take messages to their end, and return the exit status: of the first that could not be used, else 0."""
    from recycle_cpp.cli.chat.commands import Leave, take

    status = 0
    while True:
        try:
            text = messages.read()
            if text is None:
                return status
            take(session, text)
        except Leave:
            return status
        except UsageError as error:  # of one message: the conversation goes on
            show.error(str(error))
            status = status or error.exit_code


def _session_file(name: str) -> Path:
    """Return the path of --session after checking that it can be written at the end."""
    from recycle_cpp.cli.output_file import writable
    from recycle_cpp.models.folders import expanded

    return writable(str(expanded(name)))


def _require_template(runtime: Runtime) -> None:
    if not runtime.is_chat:
        raise UsageError(
            f"{runtime.name} is a base model without a chat template, so there is no chat with it: "
            "let `recycle-cpp generate --raw` go on with a text, or take another model"
        )
