"""The bench: prompts in, arms interleaved, a report out; arithmetic on made-up timings, the whole on a real model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recycle_cpp.bench import report
from recycle_cpp.bench.prompts import BUILT_IN, BenchPrompt, read_prompts
from recycle_cpp.bench.run import PLAIN, RECYCLED, TurnResult, arms_of, run_arms
from recycle_cpp.errors import PromptTooLongError, UsageError
from recycle_cpp.types import Completion, GenerateOptions, Message, SamplingOptions, Timings, Usage


def completion(text: str = "x", tokens: tuple[int, ...] = (1, 2), *, ms: float = 100, steps: int = 2) -> Completion:
    timings = Timings(0, 0.0, len(tokens), ms, 4, 0, steps, {3: steps}, host_ms=1.0 * steps)
    return Completion(text, tokens, "stop", Usage(3, len(tokens)), timings)


def result(category: str, plain: Completion, recycled: Completion, repeat: int = 0, question: str = "1") -> TurnResult:
    prompt = BenchPrompt(question, category, ("hello",))
    return TurnResult(prompt, 0, repeat, {PLAIN: plain, RECYCLED: recycled})


class ScriptedRuntime:
    """Answers every request with its number, and writes down what it was asked."""

    is_chat = True

    def __init__(self, too_long_from: int = 99) -> None:
        self.asked: list[tuple[object, GenerateOptions]] = []
        self.forgotten = 0
        self._too_long_from = too_long_from

    def generate(self, prompt, options):
        if not isinstance(prompt, str) and len(prompt) >= self._too_long_from:
            raise PromptTooLongError("too long")
        self.asked.append((prompt if isinstance(prompt, str) else tuple(prompt), options))
        return completion(f"answer of {options.draft}")

    def forget(self):
        self.forgotten += 1


def test_a_limit_takes_prompts_spread_evenly_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    lines = [json.dumps({"question_id": i, "category": "qa", "turns": [f"q{i}"]}) for i in range(10)]
    path.write_text("\n".join(lines) + "\n\n")
    assert [p.question_id for p in read_prompts(path, 4)] == ["0", "2", "5", "7"]
    assert len(read_prompts(path, 99)) == len(read_prompts(path)) == 10


def test_the_eight_mt_bench_categories_count_as_one(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"category": "humanities", "turns": ["a", "b"]}\n{"category": "rag", "turns": ["c"]}\n')
    assert [p.category for p in read_prompts(path)] == ["multi-turn", "rag"]


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"category": "a", "turns": []}', '{"category": "a", "turns": [1]}'])
def test_a_line_that_is_no_prompt_is_named_with_its_place(tmp_path: Path, line: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"category": "a", "turns": ["b"]}\n' + line)
    with pytest.raises(UsageError, match=r"prompts\.jsonl:2 is not a prompt") as error:
        read_prompts(path)
    assert "\n" not in str(error.value)


def test_a_file_that_is_missing_empty_or_no_text_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, reason in (("none", "cannot be read"), ("empty", "no prompts"), ("binary", "not UTF-8 at byte 0")):
        with pytest.raises(UsageError, match=reason):
            read_prompts(tmp_path / name)


def test_the_built_in_prompts_cover_eight_categories_twice() -> None:
    categories = [prompt.category for prompt in read_prompts(BUILT_IN)]
    assert len(set(categories)) == 8
    assert all(categories.count(category) == 2 for category in categories)


def test_both_arms_sample_alike_and_a_missing_seed_is_fixed() -> None:
    arms = arms_of(GenerateOptions(sampling=SamplingOptions(temperature=0.8), draft="tree", exact=True))
    assert arms[PLAIN].sampling == arms[RECYCLED].sampling
    assert arms[PLAIN].sampling.seed == 0
    assert (arms[PLAIN].draft, arms[PLAIN].exact) == ("off", False)
    assert (arms[RECYCLED].draft, arms[RECYCLED].exact) == ("tree", True)


def test_arms_take_turns_at_going_first_and_follow_the_plain_answers() -> None:
    runtime = ScriptedRuntime()
    prompts = [BenchPrompt("1", "a", ("one", "two")), BenchPrompt("2", "a", ("three",))]
    results = list(run_arms(runtime, prompts, arms_of(GenerateOptions(draft="tree"))))
    warm_up, measured = runtime.asked[:2], runtime.asked[2:]
    assert runtime.forgotten == 1
    assert {options.max_tokens for _, options in warm_up} == {8}
    assert [options.draft for _, options in measured] == ["off", "tree", "off", "tree", "tree", "off"]
    second = (Message("user", "one"), Message("assistant", "answer of off"), Message("user", "two"))
    assert [prompt for prompt, _ in measured[2:4]] == [second, second]
    assert [(r.prompt.question_id, r.turn) for r in results] == [("1", 0), ("1", 1), ("2", 0)]


def test_a_conversation_ends_where_it_no_longer_fits_and_the_next_goes_on() -> None:
    runtime = ScriptedRuntime(too_long_from=3)
    prompts = [BenchPrompt("1", "a", ("one", "two")), BenchPrompt("2", "a", ("three",))]
    results = list(run_arms(runtime, prompts, arms_of(GenerateOptions())))
    assert [(r.prompt.question_id, r.turn) for r in results] == [("1", 0), ("2", 0)]


def test_speed_is_tokens_over_time_of_a_group_and_repeats_give_median_and_spread() -> None:
    results = [
        result("a", completion(ms=100), completion(ms=50, steps=1), repeat=0),
        result("a", completion(ms=100), completion(ms=100, steps=1), repeat=1),
        result("a", completion(ms=100), completion(ms=200, steps=1), repeat=2),
        result("b", completion(ms=300), completion(ms=100, tokens=(1,), steps=1), repeat=0, question="2"),
    ]
    found = report.summary(results)
    assert found["categories"]["a"]["speedup"] == 1.0
    assert found["categories"]["a"]["speedup_spread"] == [0.5, 2.0]
    assert found["categories"]["a"]["mean_accepted_tokens"] == 2.0
    assert found["categories"]["b"]["speedup"] == 1.5
    assert found["prompts"] == 2
    assert found["host_ms_per_step"] == 1.0
    assert (found["identical"], found["identical_turns"], found["turns"]) == (False, 3, 4)


@pytest.mark.parametrize("other", [completion("y"), completion(tokens=(1, 3))])
def test_texts_or_tokens_that_differ_are_not_called_identical(other: Completion) -> None:
    assert report.summary([result("a", completion(), completion())])["identical"] is True
    assert report.summary([result("a", completion(), other)])["identical"] is False


def test_the_command_ends_with_one_json_object_and_writes_the_same_numbers_to_a_file(tmp_path: Path) -> None:
    folder = Path(os.environ.get("RECYCLE_CPP_MODELS") or Path.home() / ".cache/recycle-cpp/models")
    model = folder / "smollm2-135m-instruct-q4_1.gguf"
    if not model.is_file():
        pytest.skip(f"{model.name} is not in {folder}")
    target = tmp_path / "report.json"
    asked = ["bench", "-m", str(model), "--limit", "2", "--max-tokens", "6", "--draft", "tree", "--flash-attn", "off"]
    done = subprocess.run(
        [sys.executable, "-m", "recycle_cpp.cli.main", *asked, "--json", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"speedup", "mean_accepted_tokens", "identical", "prompts", "categories", "host_ms_per_step"} <= set(found)
    assert found["prompts"] == 2
    assert set(found["categories"]["fresh prose"]) >= {"speedup", "mean_accepted_tokens"}
    kept = json.loads(target.read_text())
    assert {name: kept[name] for name in found} == found
    assert len(kept["results"]) == found["turns"]
    assert {"date", "machine", "fingerprint", "build", "options"} <= set(kept)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--limit", "0"], "--limit"),
        (["--prompts", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["--json", "no/such/folder/x.json"], "cannot be written"),
        (["--max-tokens", "0"], "max_tokens is 0"),
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
