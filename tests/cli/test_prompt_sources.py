from __future__ import annotations

import pytest

TEXT = "naïve 🦙 你好\r\n\tمرحبا\x00end"


@pytest.mark.parametrize("option", [[], ["-f", "-"]])
def test_standard_input_is_read_as_utf8_whatever_the_locale(call, fake, option: list[str]) -> None:
    assert call("generate", "-m", "m", *option, stdin=TEXT.encode()).status == 0
    assert fake.asked[0][0] == TEXT


def test_a_file_is_read_as_utf8(call, fake, tmp_path) -> None:
    (tmp_path / "prompt 🦙.txt").write_bytes(TEXT.encode())
    assert call("generate", "-m", "m", "-f", str(tmp_path / "prompt 🦙.txt")).status == 0
    assert fake.asked[0][0] == TEXT


@pytest.mark.parametrize(
    ("data", "options", "prompt"),
    [
        (b"a\n", [], "a"),
        (b"a\r\n", [], "a"),
        (b"a\n\n", [], "a\n"),
        (b"a\n", ["--raw"], "a\n"),
        (b"a\r\n", ["--raw"], "a\r\n"),
    ],
)
def test_the_newline_that_ends_a_file_is_dropped_unless_the_prompt_is_raw(
    call, fake, data: bytes, options: list[str], prompt: str
) -> None:
    call("generate", "-m", "m", *options, stdin=data)
    assert fake.asked[0][0] == prompt


def test_a_prompt_on_the_command_line_is_passed_as_it_is(call, fake) -> None:
    call("generate", "-m", "m", "-p", "a\n", stdin=b"not read")
    assert fake.asked[0][0] == "a\n"


def test_arguments_are_utf8_also_where_the_locale_is_ascii(call, fake) -> None:
    # So Python passes the two bytes of é on in such a locale.
    call("generate", "-m", "m", "-p", "caf\udcc3\udca9", "--stop", "\udcc3\udca9")
    assert fake.asked[0][0] == "café"
    assert fake.asked[0][1].stop == ("é",)


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (
            [],
            b"ab\xff\xfe",
            "standard input: the byte 0xff at offset 2 is not UTF-8; convert the text to UTF-8",
        ),
        (
            [],
            b"ab\xf0\x9f",
            "standard input: the byte 0xf0 at offset 2 is not UTF-8; convert the text to UTF-8",
        ),
        (["-p", "a\udcffb"], b"", "the prompt of -p: the byte 0xff at offset 1 is not UTF-8; convert"),
        (["-p", "x", "--stop", "\udcff"], b"", "the text of --stop: the byte 0xff at offset 0 is not UTF-8;"),
        ([], b"", "the prompt is empty; give it with -p TEXT, with -f FILE or on standard input"),
        ([], b"\n", "the prompt is empty; give it with"),
        (["-p", ""], b"x", "the prompt is empty; give it with"),
        (["-p", "a", "-f", "b"], b"", "there are two prompts, -p and -f; give one of them"),
        (["-f", "/no/such/file"], b"", "/no/such/file: the prompt file cannot be read (No such file"),
        (["-f", "/"], b"", "/: the prompt file cannot be read (Is a directory)"),
    ],
)
def test_a_prompt_that_cannot_be_used_is_one_line_and_status_2(
    call, fake, arguments: list[str], stdin: bytes, message: str
) -> None:
    status, out, err = call("generate", "-m", "m", *arguments, stdin=stdin)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1
    assert fake.loaded == [], "nothing is loaded for a prompt that cannot be used"


def test_an_invalid_file_is_named_with_the_offset_of_the_byte(call, tmp_path) -> None:
    file = tmp_path / "utf16.txt"
    file.write_bytes("hello".encode("utf-16"))
    err = call("generate", "-m", "m", "-f", str(file)).err
    assert err == f"error: {file}: the byte 0xff at offset 0 is not UTF-8; convert the text to UTF-8\n"


def test_a_closed_standard_input_says_how_to_give_a_prompt(call, monkeypatch, capsys, fake) -> None:
    from recycle_cpp.cli.main import run

    monkeypatch.setattr("sys.stdin", None)
    assert run(["generate", "-m", "m"]) == 2
    assert capsys.readouterr().err.startswith("error: there is no prompt; give it with -p TEXT")


@pytest.mark.parametrize("command", [["bench"], ["trace", "kept.npz"]])
def test_a_stop_string_that_is_no_text_is_refused_by_every_command(
    call, tmp_path, monkeypatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = call(*command, "-m", "none.gguf", "--stop", "\udcff")
    assert (status, out) == (2, "")
    assert err.startswith("error: the text of --stop: the byte 0xff at offset 0 is not UTF-8;")
