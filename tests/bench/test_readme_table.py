"""The README's tables are what the result files say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from made_up import answer, foreign, result

from recycle_cpp.bench import report

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("table", ROOT / "benchmarks/table.py")
table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(table)


def readme(kind: str, *names: str) -> str:
    return f"before\n<!-- table: {kind} {' '.join(names)} -->\nold\n<!-- end of table -->\nafter\n"


def write_report(path: Path, model: str, auto_ms: tuple[float, ...], **others) -> None:
    results = [
        result(category, repeat, plain=answer(ms=100), auto=answer(ms=ms * slower, steps=1), **others)
        for repeat, ms in enumerate(auto_ms)
        for category, slower in (("fast", 1), ("slow", 2))
    ]
    found = report.summary(results)
    facts = {"model": model, "prompts_from": "everyday", "options": {"max_tokens": 128}}
    path.write_text(json.dumps({**found, **facts}))


def test_the_readme_is_in_step_with_the_files_that_it_names() -> None:
    text = table.README.read_text("utf-8")
    assert "<!-- table: " in text
    assert table.filled(text) == text, "run python benchmarks/table.py"


def test_a_row_per_report_has_spread_lowest_category_and_the_arms_that_any_report_has(tmp_path: Path) -> None:
    write_report(tmp_path / "a.json", "small", (50, 40, 25), lookup=foreign((1, 2, 3), ms=100))
    write_report(tmp_path / "b.json", "large", (100,))
    lines = table.filled(readme("speed", "a.json", "b.json"), tmp_path).splitlines()
    assert lines[0] == "before"
    assert lines[-2:] == ["<!-- end of table -->", "after"]
    assert lines[2].split(" | ")[3:] == ["auto / plain", "lowest category", "tokens per step", "auto / lookup |"]
    assert (
        lines[4] == "| small | 2 everyday, 128 tokens | 20 | 1.67 (1.33-2.67) | slow 1.25 | 2.00 | 1.67 (1.33-2.67) |"
    )
    assert lines[5] == "| large | 2 everyday, 128 tokens | 20 | 0.67 | slow 0.50 | 2.00 | - |"


def test_making_a_table_twice_changes_nothing(tmp_path: Path) -> None:
    write_report(tmp_path / "a.json", "small", (50,))
    once = table.filled(readme("speed", "a.json"), tmp_path)
    assert "old" not in once
    assert table.filled(once, tmp_path) == once


def test_attention_is_shown_as_picked_at_a_thousand_tokens(tmp_path: Path) -> None:
    measured = ((128, 29.0), (1024, 60.0))
    rows = [{"model": "m", "cells": n, "off": off, "on": 30.0, "off/on": off / 30} for n, off in measured]
    (tmp_path / "a.json").write_text(json.dumps({"rows": rows}))
    lines = table.filled(readme("attention", "a.json"), tmp_path).splitlines()
    assert lines[4] == "| m | 128 / 1,024 | 30 / 30 | 29 / 60 | 0.97 / 2.00 |"


@pytest.mark.parametrize(("text", "reason"), [(readme("speed", "none.json"), "none.json"), (readme("x", "a"), "'x'")])
def test_a_table_that_cannot_be_made_says_why(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SystemExit, match=reason):
        table.filled(text, tmp_path)
