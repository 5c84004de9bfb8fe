"""recycle-cpp chat on a real model, each chat a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chat_terminal import CTRL_C, CTRL_D, ENTER, Terminal

PROGRAM = [sys.executable, "-c", "from recycle_cpp.cli.main import main; main()", "chat", "--no-learned"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
PROMPT_TOKENS = re.compile(r"prompt (\d+) tokens?(?: \(and (\d+) cached\))?")


def converse(model: str, *lines: str, arguments: tuple[str, ...] = ()) -> tuple[int, list[str], list[str]]:
    done = subprocess.run(
        [*PROGRAM, "-m", model, "--max-tokens", "12", "--draft", "off", *arguments],
        input="\n".join(lines).encode(),
        capture_output=True,
        env=ENVIRONMENT,
        timeout=300,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    return done.returncode, done.stdout.decode().splitlines(), done.stderr.decode().splitlines()


def prompts_of(lines: list[str]) -> list[tuple[int, int]]:
    """Return, for each answer's statistics, the prompt tokens that were evaluated and that were cached."""
    found = [PROMPT_TOKENS.search(line) for line in lines if " tok/s · " in line]
    return [(int(match[1]), int(match[2] or 0)) for match in found if match]


def test_a_turn_evaluates_what_is_new_and_a_repeated_question_is_answered_alike(model: str) -> None:
    status, out, err = converse(model, "What is 2+2?", "And 3+3?", "/undo", "And 3+3?")
    assert (status, len(out)) == (0, 3)
    assert out[1] == out[2]
    first, second, third = prompts_of(err)
    assert first[1] == 0
    assert second[0] < first[0] <= second[1]
    assert sum(second) == sum(third)


def test_a_message_that_does_not_fit_is_told_and_the_chat_goes_on(model: str) -> None:
    status, out, err = converse(model, "word " * 200, "Hi", arguments=("--ctx-size", "128"))
    assert (status, len(out)) == (2, 1)
    assert any(line.startswith("error: ") and "the message is not kept" in line for line in err)
    status, _, err = converse(
        model, "Tell me a long story.", arguments=("--ctx-size", "64", "--ignore-eos", "--max-tokens", "500")
    )
    assert status == 0
    assert any("is full, and the answer is cut: /reset" in line for line in err)


def test_a_json_schema_holds_in_every_answer(model: str) -> None:
    schema = '{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}'
    asked = ("--json-schema", schema, "--max-tokens", "60")
    status, out, err = converse(model, "Is water wet?", "Is fire cold?", arguments=asked)
    assert status == 0
    answers, rest = [], "\n".join(out)
    while rest.strip():
        answer, end = json.JSONDecoder().raw_decode(rest.lstrip())
        answers.append(answer)
        rest = rest.lstrip()[end:]
    assert len(answers) == 2, err
    assert all(isinstance(answer["ok"], bool) for answer in answers)


def test_a_session_goes_on_with_its_cache(model: str, tmp_path) -> None:
    pytest.importorskip("recycle_cpp.runtime.session_file")
    file = tmp_path / "session"
    kept = ("--session", str(file))
    assert converse(model, "What is 2+2?", arguments=kept)[0] == 0
    status, out, err = converse(model, "And 3+3?", "/show", arguments=kept)
    assert (status, len(out)) == (0, 1)
    assert any(line.startswith(f"{file}: 2 messages restored") for line in err)
    evaluated, cached = prompts_of(err)[0]
    assert evaluated < cached


def test_ctrl_c_stops_a_real_answer_within_a_second_and_the_chat_goes_on(model: str, tmp_path) -> None:
    arguments = ("-m", model, "--ignore-eos", "--max-tokens", "3000", "--draft", "off", "--no-history")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    terminal = Terminal(cache, *arguments, command=PROGRAM, PYTHONPATH=ENVIRONMENT["PYTHONPATH"])
    try:
        terminal.prompt(120)
        terminal.type("Tell me a very long story.", ENTER)
        terminal.wait_for("story.")
        time.sleep(1)
        terminal.type(CTRL_C)
        start = time.monotonic()
        terminal.wait_for(" tokens (stopped) · ")
        assert time.monotonic() - start < 1.5
        terminal.prompt()
        terminal.type("/set ignore-eos off", ENTER)
        terminal.prompt()
        terminal.type("/set max-tokens 5", ENTER)
        terminal.prompt()
        terminal.type("Hi", ENTER)
        terminal.wait_for(" · draft off")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.status() == 0
    finally:
        terminal.close()
