"""The line editor of a chat on a terminal: many lines, history, completion of commands. Imported late: it is large."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from recycle_cpp.cli import show
from recycle_cpp.cli.text_input import argument_text
from recycle_cpp.models.folders import cache_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prompt_toolkit.key_binding.key_processor import KeyPressEvent
    from prompt_toolkit.output import Output

PROMPT, CONTINUATION = "> ", "  "


class LineEditor:
    """Reads messages from the terminal."""

    def __init__(self, commands: Sequence[str], *, history: bool) -> None:
        """Prepare the editor.

        Args:
            commands: what Tab completes at the beginning of a message.
            history: remember messages in a file of the user's, from chat to chat.
        """
        self._session: PromptSession[str] = PromptSession(
            history=_history(cache_folder() / "chat_history") if history else InMemoryHistory(),
            multiline=True,
            prompt_continuation=CONTINUATION,
            key_bindings=_keys(),
            completer=WordCompleter(list(commands), sentence=True),
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
            output=_output(),
        )

    def read(self) -> str | None:
        """Return the next message that holds any text, or None when the user leaves with Ctrl-C or Ctrl-D.

        Raises:
            UsageError: if what was typed is no UTF-8.
        """
        try:
            text = ""
            while not text.strip():
                text = self._session.prompt(PROMPT)
        except (EOFError, KeyboardInterrupt):
            return None
        return argument_text(text, "what was typed")


def _keys() -> KeyBindings:
    """Return the keys: Enter sends, unless a backslash before it asks for another line; Esc-Enter and Ctrl-J do, too.

    What is pasted comes in as one piece of text, so that its newlines send nothing.
    """
    keys = KeyBindings()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("enter")
    def send_or_go_on(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("tab", filter=~Condition(_may_complete))
    def insert_tab(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\t")

    return keys


def _may_complete() -> bool:
    from prompt_toolkit.application import get_app

    return get_app().current_buffer.text.startswith("/")


def _output() -> Output:
    """Return the terminal; it is not asked where its cursor is, since some answer into the message or not at all."""
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


def _history(path: Path) -> History:
    """Return the history kept in a file that only the user can read; in memory if that cannot be had."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):  # to read it would take for ever
                raise OSError(errno.EINVAL, "it is a pipe")
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        show.dim(f"note: {path} cannot be written ({error.strerror}), so this chat's history is not kept")
        return InMemoryHistory()
    return _KeptHistory(str(path))


class _KeptHistory(FileHistory):
    """A history in a file; a chat does not end because the disk is full."""

    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError):
            super().store_string(string)
