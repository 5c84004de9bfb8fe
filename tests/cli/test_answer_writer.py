"""Answers as they are shown: colours of accepted tokens, escapes of what could drive a terminal."""

from __future__ import annotations

import sys

import pytest

from recycle_cpp.cli.answer_writer import AnswerWriter

TEAL, CYAN, PLAIN = "\x1b[38;5;30m", "\x1b[36m", "\x1b[39m"


@pytest.fixture
def terminal(capsys, monkeypatch):
    """Let standard output be a terminal that knows 256 colours."""
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def shown(capsys, color: str | None = None, text="abc", pieces=("a", "b", "c"), n_accepted=2) -> str:
    writer = AnswerWriter(color)
    writer.write(text, pieces, n_accepted)
    writer.end()
    return capsys.readouterr().out


def test_accepted_tokens_are_in_colour_on_a_terminal(terminal, capsys) -> None:
    assert shown(capsys) == shown(capsys, "auto") == f"{TEAL}ab{PLAIN}c\n"
    assert shown(capsys, n_accepted=0) == "abc\n"
    assert shown(capsys, "never") == "abc\n"
    terminal.setenv("TERM", "vt100")
    assert shown(capsys) == f"{CYAN}ab{PLAIN}c\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_who_wants_no_colour_gets_none_unless_always_is_given(terminal, capsys, name: str, value: str) -> None:
    terminal.setenv(name, value)
    assert shown(capsys) == "abc\n"
    assert f"ab{PLAIN}c\n" in shown(capsys, "always")


def test_a_pipe_gets_plain_text_unless_always_is_given(capsys, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert shown(capsys) == "abc\n"
    assert shown(capsys, "always") == f"{TEAL}ab{PLAIN}c\n"
    assert shown(capsys, text="\x1b[2J\x00\r", pieces=(), n_accepted=0) == "\x1b[2J\x00\r\n"


def test_control_characters_cannot_drive_a_terminal_but_newlines_and_tabs_stay(terminal, capsys) -> None:
    text = "a\x1b]0;title\x07\tb\r\n\x9b31m\x7f é 👩‍👩‍👧 مرحبا"
    escaped = "a\\x1b]0;title\\x07\tb\\r\n\\x9b31m\\x7f é 👩‍👩‍👧 مرحبا\n"
    assert shown(capsys, "never", text, (), 0) == escaped
    assert shown(capsys, "always", "\x1b[2J", ("\x1b", "[2J"), 1) == f"{TEAL}\\x1b{PLAIN}[2J\n"


def test_pieces_that_do_not_join_to_the_text_are_not_trusted(terminal, capsys) -> None:
    assert shown(capsys, None, "xyz", ("a", "b"), 2) == "xyz\n"


def test_thoughts_are_dim_and_apart_from_what_is_said(terminal, capsys) -> None:
    writer = AnswerWriter()
    for thought, said in (("hm", ""), ("m\x1b", ""), ("", "so"), ("", "!")):
        writer.think(thought)
        writer.write(said)
    writer.end()
    assert capsys.readouterr().out == "\x1b[2mhm\x1b[22m\x1b[2mm\\x1b\x1b[22m\nso!\n"
    terminal.setenv("TERM", "dumb")
    writer = AnswerWriter()
    writer.think("hm\n")
    writer.write("so")
    writer.end()
    assert capsys.readouterr().out == "hm\nso\n"


def test_a_pipe_gets_no_thoughts(capsys) -> None:
    writer = AnswerWriter()
    writer.think("hm")
    writer.write("so")
    writer.end()
    assert capsys.readouterr().out == "so\n"


def test_each_answer_ends_its_line_once(capsys) -> None:
    writer = AnswerWriter()
    for text in ("a", "b\n", ""):
        writer.write(text)
        writer.end()
    assert capsys.readouterr().out == "a\nb\n\n"
    writer.end(always=False)
    writer.write("half")
    writer.end(always=False)
    assert capsys.readouterr().out == "half\n"
