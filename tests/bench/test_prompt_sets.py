"""Benchmark prompts: files in Spec-Bench's format, and the built-in sets."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from recycle_cpp.backend.model import LlamaModel
from recycle_cpp.bench import generated
from recycle_cpp.bench.prompts import SETS, read_prompts, take
from recycle_cpp.errors import UsageError
from recycle_cpp.types import LoadOptions

CATEGORIES = {
    "fresh prose",
    "chat",
    "code writing",
    "code editing",
    "summarising",
    "extraction to JSON",
    "translation",
    "reasoning",
}
MODELS = Path(os.environ.get("RECYCLE_CPP_MODELS") or Path.home() / ".cache/recycle-cpp/models")


def test_a_limit_takes_prompts_spread_evenly_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    lines = [json.dumps({"question_id": i, "category": "qa", "turns": [f"q{i}"]}) for i in range(10)]
    path.write_text("\n".join(lines) + "\n\n")
    prompts = read_prompts(path)
    assert [p.question_id for p in take(prompts, 4)] == ["0", "2", "5", "7"]
    assert len(take(prompts, 99)) == len(take(prompts, None)) == 10


def test_the_eight_mt_bench_categories_of_two_turns_count_as_one(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    lines = ('{"category": "humanities", "turns": ["a", "b"]}', '{"category": "rag", "turns": ["c"]}')
    path.write_text("\n".join((*lines, '{"category": "reasoning", "turns": ["d"]}')))
    assert [p.category for p in read_prompts(path)] == ["multi-turn", "rag", "reasoning"]


def test_a_line_ends_at_a_line_feed_alone(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"category": "a", "turns": ["b\u2028c\x85d"]}\r\n{"category": "a", "turns": ["e"]}\n', "utf-8")
    assert [prompt.turns for prompt in read_prompts(path)] == [("b\u2028c\x85d",), ("e",)]


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "{}"]
    + [f'{{"category": "a", "turns": {turns}}}' for turns in ("[]", "[1]", '"a text"', '{"a": 1}', r'["\ud800"]')]
    + [r'{"category": "\udfff", "turns": ["a"]}'],
)
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


def test_the_everyday_prompts_cover_eight_categories_with_four_each_and_no_text_twice() -> None:
    prompts = SETS["everyday"]()
    categories = [prompt.category for prompt in prompts]
    assert {category: categories.count(category) for category in categories} == dict.fromkeys(CATEGORIES, 4)
    assert len({prompt.turns for prompt in prompts}) == len({prompt.question_id for prompt in prompts}) == 32


def test_eight_of_the_everyday_prompts_are_one_of_each_category() -> None:
    assert {prompt.category for prompt in take(SETS["everyday"](), 8)} == CATEGORIES


def test_prompts_to_copy_from_hold_more_text_than_the_answer_is_long() -> None:
    prompts = SETS["copy"]()
    assert len(prompts) == 12
    assert min(len(prompt.turns[0]) for prompt in prompts) > 700


@pytest.mark.parametrize(("name", "digest"), [("long", "28da3d8b47fa99ae"), ("random", "9c72f23dfa69e67a")])
def test_generated_prompts_are_the_same_on_every_machine(name: str, digest: str) -> None:
    texts = [text for prompt in SETS[name]() for text in prompt.turns]
    assert len(texts) == 8
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] == digest


def test_another_seed_makes_other_prompts() -> None:
    for texts in (generated.long_texts, generated.random_texts):
        assert set(texts(1)).isdisjoint(texts(2))


def test_no_line_of_a_long_prompt_stands_there_twice() -> None:
    for text in generated.long_texts():
        blocks = text.split("\n\n") if "def " in text else text.split("\n")
        assert len(set(blocks)) == len(blocks) > 10


@pytest.mark.parametrize("name", ["smollm2-135m-instruct-q4_1", "qwen2.5-coder-0.5b-instruct-q4_k_m"])
def test_long_prompts_have_a_thousand_tokens_and_leave_room_for_an_answer(name: str) -> None:
    path = MODELS / f"{name}.gguf"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in {MODELS}")
    model = LlamaModel(path, LoadOptions())
    counts = [len(model.tokenize(text, add_special=True, parse_special=True)) for text in generated.long_texts()]
    model.close()
    assert min(counts) >= 1000
    assert max(counts) < 1900
