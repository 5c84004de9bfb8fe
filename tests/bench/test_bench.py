"""The bench command on a real model, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recycle_cpp.bench.arms import ARMS, Question, open_arms, parse_arms
from recycle_cpp.types import GenerateOptions, LoadOptions

FOLDER = Path(os.environ.get("RECYCLE_CPP_MODELS") or Path.home() / ".cache/recycle-cpp/models")
MODEL = FOLDER / "smollm2-135m-instruct-q4_1.gguf"
needs_model = pytest.mark.skipif(not MODEL.is_file(), reason=f"{MODEL.name} is not in {FOLDER}")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "recycle_cpp.cli.main", "bench", "-m", str(MODEL), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@needs_model
def test_the_command_ends_with_one_json_object_and_writes_the_same_numbers_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    (tmp_path / "letters.gbnf").write_text("root ::= [a-z ]+")
    asked = ["--limit", "2", "--max-tokens", "6", "--draft", "tree", "--flash-attn", "off", "--json", str(target)]
    done = bench(*asked, "--grammar-file", str(tmp_path / "letters.gbnf"), "--logit-bias", "5-inf")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"speedup", "mean_accepted_tokens", "identical", "prompts", "categories", "host_ms_per_step"} <= set(found)
    assert (found["prompts"], found["subject"], list(found["arms"])) == (2, "tree", ["plain", "tree"])
    assert set(found["categories"]["fresh prose"]) >= {"speedup", "mean_accepted_tokens"}
    kept = json.loads(target.read_text())
    assert {name: kept[name] for name in found} == found
    assert len(kept["results"]) == found["turns"]
    assert {"date", "machine", "fingerprint", "build", "options", "settings"} <= set(kept)
    assert kept["cost_curve"]["ladder"][0] == 1
    assert str(tmp_path) not in target.read_text()
    assert kept["options"]["logit_bias"] == ["5-inf"]


@needs_model
def test_seven_arms_run_side_by_side_over_cold_and_warm_repeats_and_are_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "speeds.svg"
    asked = ["--arms", ",".join(ARMS), "--limit", "1", "--max-tokens", "5", "--repeats", "2", "--warm"]
    done = bench(*asked, "--fresh-prompts", "--svg", str(picture))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert list(found["arms"]) == list(ARMS)
    assert all(arm["tokens_per_second"] > 0 for arm in found["arms"].values())
    assert found["arms"]["stock"]["widths"] == {"1": 5}
    assert {"speedup", "categories"} <= set(found["cold"])
    drawn = picture.read_text()
    assert drawn.startswith("<?xml")
    assert all(f">{name}<" in drawn for name in ARMS)


@needs_model
def test_foreign_arms_go_past_a_batch_and_keep_within_the_context() -> None:
    request = GenerateOptions()
    loading = LoadOptions(n_ctx=160, n_batch=32)
    names = parse_arms("lookup,binding", request)
    with open_arms(names, str(MODEL), loading, request, lambda _line: None) as opened:
        text = "one two three four one two three four " * 9
        question = Question(text, opened.runtime.tokenize(text))
        assert len(question.tokens) > 2 * 32
        answers = {arm.name: arm.generate(question, 1000) for arm in opened.arms}
        n_room = opened.runtime.n_ctx - len(question.tokens) + 1
    assert 8 < max(len(answer.tokens) for answer in answers.values()) <= n_room
    assert answers["binding"].timed_n == len(answers["binding"].tokens) - 1
    assert answers["plain"].tokens[:8] == answers["binding"].tokens[:8] == answers["lookup"].tokens[:8]


@needs_model
def test_fixed_trees_learn_apart_from_auto_and_forgetting_a_prompt_keeps_what_was_learned() -> None:
    request = GenerateOptions()
    names = parse_arms("auto,tree", request)
    with open_arms(names, str(MODEL), LoadOptions(n_ctx=256), request, lambda _line: None) as opened:
        plain, auto, tree = opened.arms
        question = Question("Count to twenty.", opened.runtime.tokenize("Count to twenty."))
        tree.generate(question, 16)
        knowledge = opened.runtime._requests._policy.knowledge
        assert knowledge.suffix.count == 0
        assert (knowledge.matrix.row_of < 0).all()
        auto.generate(question, 16)
        n_known = knowledge.suffix.count
        assert n_known > 0
        auto.forget_prompt()
        assert knowledge.suffix.count == n_known
        fresh = plain.generate(question, 2)
        assert fresh.timings.prompt_n == len(question.tokens) - 1
        auto.forget()
        assert knowledge.suffix.count == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--limit", "0"], "--limit"),
        (["--prompts", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["--prompts", "nowhere.jsonl", "--set", "copy"], "--prompts and --set"),
        (["--set", "nowhere"], "nowhere"),
        (["--json", "no/such/folder/x.json"], "cannot be written"),
        (["--svg", "no/such/folder/x.svg"], "cannot be written"),
        (["--max-tokens", "0"], "max_tokens is 0"),
        (["--arms", "plain,quick"], "--arms has 'quick'"),
        (["--arms", "auto", "--draft", "tree"], "--draft and --arms"),
        (["--arms", "lookup", "--temperature", "1"], "the arm lookup is greedy"),
        (["--warm"], "--repeats 2"),
    ],
)
def test_bad_input_to_bench_is_one_line_and_status_2(capsys, arguments: list[str], reason: str) -> None:
    from recycle_cpp.cli.main import run

    assert run(["bench", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert reason in captured.err


def test_a_picture_without_matplotlib_is_refused_in_one_line_before_a_model_is_loaded(capsys, monkeypatch) -> None:
    from recycle_cpp.cli.main import run

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(["bench", "--svg", "x.svg"]) == 2
    assert "pip install 'recycle-cpp[plot]'" in capsys.readouterr().err
