"""recycle-cpp chat on a pseudo-terminal: keys in, what a person sees out. The runtime is the fake one."""

from __future__ import annotations

import os
import stat
import termios
import time

import pytest
from chat_terminal import CTRL_C, CTRL_D, CTRL_J, ENTER, ESCAPE, PASTE, PASTED, TAB, Terminal


@pytest.fixture
def chat(tmp_path):
    """Start a chat, wait for its prompt, and see that nothing it showed was a traceback."""
    started: list[Terminal] = []

    def start(*arguments: str, **environment: str) -> Terminal:
        try:
            started.append(Terminal(tmp_path, *arguments, **environment))
        except OSError as error:
            pytest.skip(f"no pseudo-terminal here: {error}")
        started[-1].prompt()
        return started[-1]

    yield start
    for terminal in started:
        terminal.close()


def test_a_message_is_answered_and_ctrl_d_leaves_with_status_0(chat) -> None:
    terminal = chat()
    terminal.type("hello you", ENTER)
    assert "hello you\r\n" in terminal.wait_for(" · draft auto")
    terminal.prompt()
    terminal.type(CTRL_D)
    assert terminal.status() == 0


def test_the_greeting_names_the_model_and_the_help(tmp_path) -> None:
    terminal = Terminal(tmp_path)
    terminal.wait_for("the m · a context of 1000 tokens · /help lists commands, Ctrl-D leaves")
    terminal.close()


def test_ctrl_c_at_the_prompt_leaves_with_status_0_and_closes_the_model(chat, tmp_path) -> None:
    terminal = chat("--session", str(tmp_path / "kept"))
    terminal.type("half a mess", CTRL_C)
    assert terminal.status() == 0
    assert (tmp_path / "kept").exists()


def test_ctrl_c_stops_an_answer_and_what_was_said_stays(chat) -> None:
    terminal = chat()
    terminal.type("forever", ENTER)
    terminal.wait_for("x" * 300)
    terminal.type(CTRL_C)
    terminal.wait_for("120 tokens (stopped)")
    terminal.prompt()
    terminal.type("/show", ENTER)
    terminal.wait_for("user: forever\r\nassistant: xxxx")
    terminal.type(CTRL_D)
    assert terminal.status() == 0


def test_ctrl_c_before_a_word_takes_the_message_back(chat) -> None:
    terminal = chat()
    terminal.type("nothing", ENTER)
    time.sleep(0.3)
    terminal.type(CTRL_C, CTRL_C)
    terminal.wait_for("stopped before a word: the message is not kept")
    terminal.prompt()
    terminal.type("/show", ENTER)
    terminal.wait_for("nothing was said yet")
    terminal.type(CTRL_D)
    assert terminal.status() == 0


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("a", CTRL_J, "b"), "a\r\nb\r\n"),
        (("a", ESCAPE, ENTER, "b"), "a\r\nb\r\n"),
        (("a\\", ENTER, "b"), "a\r\nb\r\n"),
        ((PASTE, "a\nb\n\nc", PASTED), "a\r\nb\r\n\r\nc\r\n"),
        ((PASTE, "//x\nb", PASTED), "/x\r\nb\r\n"),
        (("a", TAB, "b"), "a\tb\r\n"),
    ],
)
def test_a_message_may_have_many_lines(chat, keys: tuple[str, ...], answer: str) -> None:
    terminal = chat()
    for key in keys:  # apart: an escape that comes together with other keys is another key
        terminal.type(key)
        time.sleep(0.05 if key != ESCAPE else 0)
    terminal.type(ENTER)
    assert answer in terminal.wait_for(" · draft auto")
    terminal.prompt()
    terminal.type(CTRL_D)
    assert terminal.status() == 0


def test_what_is_typed_while_an_answer_comes_waits_for_the_prompt(chat) -> None:
    terminal = chat()
    terminal.type("slow", ENTER)
    terminal.wait_for("\ns")
    terminal.type("typed ahead", ENTER, CTRL_D)
    assert "typed" not in terminal.wait_for(" · draft auto"), "keys are not echoed into the answer"
    terminal.prompt()
    terminal.wait_for("\ntyped ahead\r\n")
    assert terminal.status() == 0


def test_accepted_tokens_are_in_colour_and_what_could_drive_the_terminal_is_escaped(chat) -> None:
    terminal = chat()
    terminal.type("draft", ENTER)
    deadline = time.monotonic() + 15
    while "draft auto" not in terminal.seen and time.monotonic() < deadline:
        terminal.read(0.1)
    assert "\x1b[38;5;30ma\r\nb\x1b[39mc" in terminal.seen
    terminal.type("think", ENTER)
    terminal.wait_for("hm\\x1b\r\nso\r\n")


def test_tab_completes_commands(chat) -> None:
    terminal = chat()
    terminal.type("/he", TAB)
    terminal.wait_for("/help")
    terminal.type(ENTER)
    terminal.wait_for("//text sends /text")
    terminal.prompt()
    terminal.type("/exit", ENTER)
    assert terminal.status() == 0


def test_the_history_is_the_users_alone_and_goes_from_chat_to_chat(chat, tmp_path) -> None:
    for keys in (("what was this?", ENTER), ("\x1b[A", ENTER)):
        terminal = chat()
        terminal.type(*keys)
        assert "what was this?" in terminal.wait_for(" · draft auto")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.status() == 0
    file = tmp_path / "recycle-cpp" / "chat_history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "+what was this?\n" in file.read_text()


def test_no_history_writes_none(chat, tmp_path) -> None:
    terminal = chat("--no-history")
    terminal.type("secret", ENTER)
    terminal.wait_for(" · draft auto")
    terminal.type(CTRL_D)
    assert terminal.status() == 0
    assert list(tmp_path.rglob("chat_history")) == []


def test_a_history_that_is_a_pipe_is_a_note(tmp_path) -> None:
    (tmp_path / "recycle-cpp").mkdir()
    os.mkfifo(tmp_path / "recycle-cpp" / "chat_history")
    terminal = Terminal(tmp_path)
    terminal.wait_for("chat_history cannot be written (it is a pipe), so this chat's history is not kept")
    terminal.prompt()
    terminal.type(CTRL_D)
    assert terminal.status() == 0
    terminal.close()


def test_a_history_that_cannot_be_written_is_a_note(tmp_path) -> None:
    (tmp_path / "recycle-cpp" / "chat_history").mkdir(parents=True)
    terminal = Terminal(tmp_path)
    terminal.wait_for("chat_history cannot be written (Is a directory), so this chat's history is not kept")
    terminal.prompt()
    terminal.type("a", ENTER)
    terminal.wait_for(" · draft auto")
    terminal.type(CTRL_D)
    assert terminal.status() == 0
    terminal.close()


def test_bytes_that_are_no_text_are_one_line_and_the_chat_goes_on(chat) -> None:
    terminal = chat()
    terminal.type("a\udcff\udcfeb", ENTER)
    terminal.wait_for("error: what was typed: the byte 0xff at offset 1 is not UTF-8; convert the text to UTF-8")
    terminal.prompt()
    terminal.type("b", ENTER)
    terminal.wait_for(" · draft auto")
    terminal.type(CTRL_D)
    assert terminal.status() == 0


def test_errors_of_messages_do_not_change_the_exit_status_on_a_terminal(chat) -> None:
    terminal = chat()
    for text, line in (("/nope", "error: /nope: there is no such command"), ("too long", "error: the prompt has 1100")):
        terminal.type(text, ENTER)
        terminal.wait_for(line)
        terminal.prompt()
    terminal.type(ENTER, "  ", ENTER, CTRL_D)
    assert terminal.status() == 0


def test_a_simple_terminal_works_too(chat) -> None:
    terminal = chat(TERM="dumb")
    terminal.type("draft", ENTER)
    terminal.wait_for("a\r\nbc\r\n")
    assert "\x1b[38" not in terminal.seen
    terminal.type(CTRL_D)
    assert terminal.status() == 0


def test_the_terminal_is_as_before_when_the_chat_has_ended(tmp_path) -> None:
    terminal = Terminal(tmp_path)
    before = termios.tcgetattr(terminal.master)
    terminal.prompt()
    terminal.type("forever", ENTER)
    terminal.wait_for("x" * 300)
    terminal.type(CTRL_C)
    terminal.wait_for("(stopped)")
    terminal.prompt()
    terminal.type(CTRL_D)
    assert terminal.status() == 0
    assert termios.tcgetattr(terminal.master)[:4] == before[:4]
    terminal.close()
