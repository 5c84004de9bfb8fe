"""The command line on a real model, each call a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "from recycle_cpp.cli.main import main; main()"
STORY = ["-p", "Tell me a very long story.", "--temperature", "1", "--max-tokens", "3000"]
COUNTING = ["-p", "Count from one to thirty in words.", "--max-tokens", "24"]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, "generate", "--no-learned", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def call(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
    done = subprocess.run(
        command(*arguments),
        input=stdin.encode(),
        capture_output=True,
        env=environment(),
        timeout=300,
        check=False,
    )
    # What a first start measures is told in lines before the last one, and depends on what is kept on disk.
    return done.returncode, done.stdout.decode(), (done.stderr.decode().splitlines() or [""])[-1]


def test_the_streamed_text_is_that_of_the_json_object(model: str) -> None:
    plain = ["-m", model, *COUNTING, "--draft", "off"]
    status, out, err = call(*plain)
    assert status == 0
    assert err.startswith(f"{Path(model).stem} · 24 tokens (the limit) · ")
    assert err.endswith(" · 1.00 tokens per step · width 1.0 · draft off")
    status, as_json, _ = call(*plain, "--json")
    answer = json.loads(as_json)
    assert status == 0
    assert answer["text"] == out.removesuffix("\n")
    assert answer["finish_reason"] == "length"
    assert len(answer["tokens"]) == answer["usage"]["completion_tokens"] == 24
    assert answer["timings"]["predicted_n"] == answer["timings"]["steps"] == 24


@pytest.mark.parametrize("draft", ["tree", "auto"])
def test_drafting_emits_as_many_tokens_as_asked_for(model: str, draft: str) -> None:
    status, out, _ = call("-m", model, *COUNTING, "--draft", draft, "--json")
    answer = json.loads(out)
    assert status == 0
    assert len(answer["tokens"]) == answer["usage"]["completion_tokens"] == 24
    assert answer["timings"]["steps"] <= 24


def test_exact_drafting_gives_the_text_of_plain_decoding(model: str) -> None:
    plain = call("-m", model, *COUNTING, "--draft", "off")
    exact = call("-m", model, *COUNTING, "--draft", "auto", "--exact")
    assert (exact[0], exact[1]) == (0, plain[1])


def test_the_same_seed_gives_the_same_text_and_another_seed_another(model: str) -> None:
    sampled = [
        "-m",
        model,
        "-p",
        "Tell me a story.",
        "--max-tokens",
        "24",
        "--temperature",
        "1.5",
        "--draft",
        "off",
    ]
    first, again, other = (call(*sampled, "--seed", seed) for seed in ("1", "1", "2"))
    assert first[:2] == again[:2]
    assert first[1] != other[1]


def test_a_stop_string_ends_the_text_before_it(model: str) -> None:
    plain = json.loads(call("-m", model, *COUNTING, "--draft", "off", "--json")[1])["text"]
    stop = plain[20:26]
    status, out, _ = call("-m", model, *COUNTING, "--draft", "off", "--stop", stop, "--json")
    answer = json.loads(out)
    assert status == 0
    assert answer["text"] == plain[: plain.index(stop)]
    assert answer["finish_reason"] == "stop"


def test_a_raw_prompt_of_any_script_comes_through_standard_input(model: str) -> None:
    for prompt in ("👩‍👩‍👧‍👦 你好 مرحبا e\u0301", "a\x00b", "<|im_end|>"):
        status, out, err = call("-m", model, "--raw", "--max-tokens", "4", "--draft", "off", stdin=prompt)
        assert status == 0, err
        assert err.endswith(" · draft off")
        assert out.endswith("\n")


def test_what_cannot_be_loaded_or_fit_is_one_line_and_status_2(model: str, tmp_path) -> None:
    text, short, empty = tmp_path / "text.gguf", tmp_path / "short.gguf", tmp_path / "empty.gguf"
    text.write_text("this is no model")
    short.write_bytes(Path(model).read_bytes()[:200_000])
    empty.write_bytes(b"")
    cases = [["-m", str(path), "-p", "x"] for path in (text, short, empty, tmp_path / "missing.gguf", tmp_path)]
    cases += [["-m", "no-such-model", "-p", "x"], ["-m", model, "-p", "word " * 100, "--ctx-size", "64"]]
    for arguments in cases:
        status, out, err = call(*arguments)
        assert (status, out) == (2, ""), err
        assert err.startswith("error: "), err


def test_an_interrupt_ends_a_real_generation_without_a_traceback(model: str) -> None:
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command("-m", model, *STORY), env=environment(), **streams) as process:
        assert process.stdout.read(4)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert b"Traceback" not in err


def test_a_reader_that_goes_away_ends_a_real_generation_quietly(model: str) -> None:
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command("-m", model, *STORY), env=environment(), **streams) as process:
        assert process.stdout.read(4)
        process.stdout.close()
        assert process.wait(timeout=300) == 1
        assert b"rror" not in process.stderr.read()


def test_a_json_schema_and_log_probabilities_go_end_to_end(model: str) -> None:
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    status, out, err = call("-m", model, "-p", "Give me a number.", "-j", schema, "--json", "--logprobs", "2")
    assert status == 0, err
    answer = json.loads(out)
    assert isinstance(json.loads(answer["text"])["n"], int)
    records = answer["logprobs"]
    assert [record["token"] for record in records] == answer["tokens"]
    assert "".join(record["text"] for record in records).startswith(answer["text"])
    for record in records:
        assert len(record["top"]) == 2
        assert record["top"][0]["logprob"] >= record["top"][1]["logprob"]
        assert record["top"][0]["logprob"] >= record["logprob"]
