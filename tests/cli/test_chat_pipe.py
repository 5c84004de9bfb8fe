"""recycle-cpp chat through a pipe: lines in, answers out, everything else on standard error."""

from __future__ import annotations

import io
import json
import signal
import subprocess

import pytest
from fake_runtime import TIMINGS

from recycle_cpp.cli import text_input
from recycle_cpp.cli.chat.piped_lines import PipedLines
from recycle_cpp.errors import UsageError
from recycle_cpp.text.grammars import json_grammar
from recycle_cpp.types import ChatOptions, GenerateOptions, LoadOptions, Message, SamplingOptions

STATISTICS = (
    "the m · 120 tokens · 48.0 tok/s · prompt 31 tokens 0.12 s · 2.03 tokens per step (51% recycled) · width 80.3 · "
    "draft auto\n"
)


def user(text: str) -> Message:
    return Message("user", text)


def said(text: str) -> Message:
    return Message("assistant", text)


def test_each_line_is_a_message_and_the_conversation_grows(call, fake) -> None:
    status, out, err = call("chat", "-m", "m", stdin="é 🦙\nthink\n".encode())
    assert (status, out, err) == (0, "é 🦙\nso\n", STATISTICS * 2)
    assert [messages for messages, _ in fake.asked] == [
        (user("é 🦙"),),
        (user("é 🦙"), said("é 🦙"), user("think")),
    ]
    assert fake.asked[0][1] == ChatOptions(max_tokens=1024)
    assert fake.loaded == [("m", LoadOptions())]
    assert fake.events == ["stream closed", "stream closed", "runtime closed"]


@pytest.mark.parametrize(
    "stdin", [b"a\nb\n", b"a\nb", b"a\r\nb\r\n", b"\n\na\n \t \r\n\r\nb\n\n", b"a\n/color off\nb\n/exit\nnever read\n"]
)
def test_line_ends_of_any_kind_and_empty_lines_make_no_difference(call, fake, stdin: bytes) -> None:
    status, out, err = call("chat", "-m", "m", stdin=stdin)
    assert (status, out, err) == (0, "a\nb\n", STATISTICS * 2)
    assert fake.asked[1][0] == (user("a"), said("a"), user("b"))


def test_nothing_to_read_is_an_empty_chat(call) -> None:
    assert call("chat", "-m", "m") == (0, "", "")


def test_an_answer_comes_out_as_it_is(call) -> None:
    assert call("chat", "-m", "m", stdin=b"a\x1b[2J\tb\\\n").out == "a\x1b[2J\tb\\\n"


@pytest.mark.parametrize(
    ("stdin", "line"),
    [
        (b"a\n\xff\xfe\nb\n", "line 2 of standard input: the byte 0xff at offset 0 is not UTF-8; convert the text"),
        (b"a\n" + b"x" * 2000 + b"\nb\n", "line 2 of standard input: is larger than 0 MiB, more than any context"),
        (b"a\ntoo long\nb\n", "the prompt has 1100 tokens, the context 1000: shorten it or raise --ctx-size; the "),
        (b"a\nrefused\nb\n", "this model's chat template refuses these messages"),
        (b"a\n/nope it\nb\n", "/nope: there is no such command: /help lists them, and //nope sends the text /nope"),
        (b"a\n/\nb\n", "/: there is no such command"),
        (b"a\n/load none\nb\n", "none: is no session: give a file that was saved"),
        (b"a\n/load\nb\n", "/load: give the name of a file that /save wrote"),
        (b"a\n/save\nb\n", "/save: give the name of a file"),
        (b"a\n/set top_p 7\nb\n", "top_p is 7.0; give a number from 0 to 1"),
        (b"a\n/set top-k many\nb\n", "/set top-k: 'many' is not a valid integer"),
        (b"a\n/set nothing 1\nb\n", "/set: there is no setting nothing: give one of max-tokens, stop,"),
        (b"a\n/set top-k\nb\n", "/set top-k: give a value, too"),
        (b'a\n/set stop "x\nb\n', "/set stop: No closing quotation: close the quote"),
        (b"a\n/set ignore-eos maybe\nb\n", "/set ignore-eos: 'maybe' is neither on nor off"),
        (b"a\n/color maybe\nb\n", "/color: maybe is neither on nor off"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_the_conversation_goes_on_without_it(
    call, fake, monkeypatch, stdin: bytes, line: str
) -> None:
    monkeypatch.setattr(text_input, "MOST_BYTES", 1000)
    status, out, err = call("chat", "-m", "m", stdin=stdin)
    assert (status, out) == (2, "a\nb\n")
    complaint = err.removeprefix(STATISTICS).removesuffix(STATISTICS)
    assert complaint.startswith(f"error: {line}")
    assert complaint.count("\n") == 1
    assert fake.asked[-1][0] == (user("a"), said("a"), user("b"))


@pytest.mark.parametrize("command", [b"/undo", b"/retry"])
def test_nothing_can_be_taken_back_or_answered_again_before_a_question(call, command: bytes) -> None:
    status, out, err = call("chat", "-m", "m", stdin=command)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"{command.decode()}: there is no question" in err


def test_a_prompt_that_does_not_fit_says_what_to_do(call) -> None:
    err = call("chat", "-m", "m", stdin=b"too long\n").err
    assert err.endswith("; the message is not kept: /reset or /undo makes room\n")


def test_a_base_model_is_one_line_and_status_2(call, fake) -> None:
    status, out, err = call("chat", "-m", "base", stdin=b"a\n")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: the base is a base model without a chat template, so there is no chat with it: ")
    assert fake.events == ["runtime closed"]


def test_a_failure_of_the_model_ends_the_chat_with_status_1(call, fake) -> None:
    status, out, err = call("chat", "-m", "m", stdin=b"fail\nb\n")
    assert (status, out, err) == (1, "half\n", "error: llama.cpp failed an evaluation; file an issue\n")
    assert fake.events == ["stream closed", "runtime closed"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--session /no/such/folder/file", "/no/such/folder/file cannot be written (No such file or directory): give"),
        ("--session .", ". is no plain file: give the name of a file"),
        ("--top-p 3", "top_p is 3.0; give a number from 0 to 1"),
        ("--system \udcff", "the text of --system: the byte 0xff at offset 0 is not UTF-8"),
    ],
)
def test_a_command_line_that_cannot_be_used_is_one_line_and_nothing_is_loaded(
    call, fake, arguments: str, message: str
) -> None:
    status, out, err = call("chat", "-m", "m", *arguments.split(), stdin=b"a\n")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {message}")
    assert fake.loaded == []


def test_a_closed_standard_input_is_one_line(call, monkeypatch, capsys, fake) -> None:
    from recycle_cpp.cli.main import run

    monkeypatch.setattr("sys.stdin", None)
    assert run(["chat", "-m", "m"]) == 2
    assert capsys.readouterr().err.startswith("error: standard input is closed: type messages, or give them in a pipe")


def test_an_input_that_cannot_be_read_is_one_line_and_the_end() -> None:
    class Broken(io.BytesIO):
        def readline(self, *_):
            raise OSError(5, "Input/output error")

    lines = PipedLines(Broken())
    with pytest.raises(UsageError, match=r"standard input cannot be read \(Input/output error\): give messages"):
        lines.read()
    assert lines.read() is None


def test_a_session_goes_on_where_it_ended(call, fake, tmp_path) -> None:
    file = tmp_path / "chat session"
    call("chat", "-m", "m", "--session", str(file), "--system", "be brief", stdin=b"a\n")
    assert json.loads(file.read_text())[0][:2] == ["system", "be brief"]
    status, out, err = call("chat", "-m", "m", "--session", str(file), stdin=b"b\n")
    assert (status, out) == (0, "b\n")
    assert err == f"{file}: 2 messages restored\n{STATISTICS}"
    assert fake.asked[-1][0] == (Message("system", "be brief"), user("a"), said("a"), user("b"))


def test_a_file_that_is_no_session_is_one_line_and_is_kept(call, tmp_path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    status, out, err = call("chat", "-m", "m", "--session", str(file), stdin=b"a\n")
    assert (status, out) == (2, "")
    assert err == f"error: {file}: is no session: give a file that was saved\n"
    assert file.read_text() == "mine"


def test_options_reach_the_request_as_those_of_generate_do(call, fake) -> None:
    call("chat", "-m", "m", "--top-k", "5", "--stop", "x", "--exact", "--json-object", "--no-learned", stdin=b"a\n")
    request = fake.asked[0][1]
    assert (request.sampling, request.stop, request.exact) == (SamplingOptions(temperature=0.8, top_k=5), ("x",), True)
    assert request.grammar == json_grammar()
    assert fake.loaded == [("m", LoadOptions(learned=False))]


def test_chat_knows_every_option_of_generate_that_makes_sense_there() -> None:
    from recycle_cpp.cli.chat.command import chat
    from recycle_cpp.cli.generate import generate

    missing = {option.name for option in generate.params} - {option.name for option in chat.params}
    assert missing == {"prompt", "file", "as_json", "raw", "logprobs"}
    assert "raw" in GenerateOptions.__slots__


def test_an_interrupt_ends_a_chat_through_a_pipe_with_130(start) -> None:
    process = start("chat", "-m", "m", stdin=subprocess.PIPE)
    process.stdin.write(b"forever\n")
    process.stdin.flush()
    assert process.stdout.read(100) == b"x" * 100
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (130, b"\n")


def test_an_answer_is_out_before_the_next_message_comes(start) -> None:
    process = start("chat", "-m", "m", stdin=subprocess.PIPE)
    for text in (b"one\n", b"two\n"):
        process.stdin.write(text)
        process.stdin.flush()
        assert process.stdout.readline() == text
    process.stdin.close()
    assert process.wait(timeout=10) == 0


def test_a_reader_that_goes_away_ends_a_chat_quietly(start) -> None:
    process = start("chat", "-m", "m", stdin=subprocess.PIPE)
    process.stdin.write(b"forever\n")
    process.stdin.flush()
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(timeout=10) == 1
    assert process.stderr.read() == b""


def test_the_fake_timings_are_those_that_the_lines_name() -> None:
    assert (TIMINGS.predicted_n, TIMINGS.steps, TIMINGS.draft_n_accepted) == (120, 59, 61)
