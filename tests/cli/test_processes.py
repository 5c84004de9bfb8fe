"""The command line as a process: pipes, signals, terminals, locales, imports. The runtime is the fake one."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

import pytest


def test_text_arrives_while_the_answer_goes_on_and_an_interrupt_ends_it_with_130(start) -> None:
    process = start("generate", "-m", "m", "-p", "forever")
    assert process.stdout.read(100) == b"x" * 100
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (130, b"\n")


def test_a_reader_that_goes_away_ends_it_quietly(start) -> None:
    process = start("generate", "-m", "m", "-p", "forever")
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(timeout=10) == 1
    assert process.stderr.read() == b""


@pytest.mark.parametrize("arguments", [["models"], ["models", "--json"], ["--help"], ["generate", "-p", "x"]])
def test_a_reader_that_was_never_there_ends_it_quietly(start, arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start(*arguments, stdout=writing)
    os.close(writing)
    assert process.wait(timeout=10) == 1
    assert process.stderr.read() == b""


@pytest.mark.parametrize("locale", [{"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "latin-1"}])
def test_input_and_output_are_utf8_in_any_locale(start, locale: dict[str, str]) -> None:
    environment = {**os.environ, "PYTHONUTF8": "0", **locale}
    process = start("generate", "-m", "m", stdin=subprocess.PIPE, env=environment)
    out, err = process.communicate("é 🦙".encode(), timeout=10)
    assert (process.returncode, out) == (0, "é 🦙\n".encode())
    assert " · 120 tokens · ".encode() in err


def test_a_terminal_without_a_prompt_is_told_how_to_give_one(start) -> None:
    terminal, other_end = pty.openpty()
    process = start("generate", "-m", "m", stdin=other_end)
    out, err = process.communicate(timeout=10)
    os.close(terminal)
    os.close(other_end)
    assert (process.returncode, out) == (2, b"")
    assert err == b"error: there is no prompt; give it with -p TEXT, with -f FILE or on standard input\n"


def test_a_terminal_gets_the_statistics_dim_and_the_models_as_a_table(start) -> None:
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    environment.pop("NO_COLOR", None)
    for arguments, shown in ((["generate", "-p", "x"], "\x1b[2m"), (["models"], "parameters")):
        terminal, other_end = pty.openpty()
        process = start(*arguments, stdout=other_end, stderr=other_end, env=environment)
        assert process.wait(timeout=10) == 0
        os.close(other_end)
        assert shown in os.read(terminal, 65536).decode()
        os.close(terminal)


def test_closed_outputs_do_no_harm(start) -> None:
    script = 'exec "$0" "$@" >&- 2>&-'
    command = [
        "sh",
        "-c",
        script,
        sys.executable,
        "-c",
        "import sys, fake_runtime; sys.modules['recycle_cpp.runtime'] = fake_runtime.fake_module(); ",
    ]
    command[-1] += "from recycle_cpp.cli.main import main; main()"
    folder = os.path.dirname(__file__)  # noqa: PTH120
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *sys.path])}
    done = subprocess.run([*command, "generate", "-p", "x"], env=environment, timeout=10, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("arguments", [["--help"], ["generate", "--help"], ["chat", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys; from recycle_cpp.cli.main import run; run(sys.argv[1:]); "
        "heavy = {'numpy', 'numba', 'llama_cpp', 'huggingface_hub', 'rich', 'prompt_toolkit', 'recycle_cpp.models'}; "
        "sys.exit(', '.join(heavy & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        capture_output=True,
        timeout=10,
        check=False,
    )
    assert done.stderr == b"\n"
