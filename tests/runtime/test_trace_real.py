"""Recording what a real model says at every position, and replaying it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recycle_cpp.bench.curves import named_curve
from recycle_cpp.bench.prompts import BenchPrompt
from recycle_cpp.bench.replay import compare
from recycle_cpp.bench.trace import Trace, record_trace
from recycle_cpp.types import GenerateOptions

PROMPT = BenchPrompt("1", "writing", ("Name three colours.", "Name three more."))


def test_a_trace_of_a_real_run_is_plain_decoding_position_by_position(smollm, tmp_path: Path) -> None:
    options = GenerateOptions(max_tokens=24)
    turns = tuple(record_trace(smollm, [PROMPT], options))
    assert [turn.category for turn in turns] == ["writing", "writing"]
    plain = smollm.generate(PROMPT.turns[0], GenerateOptions(max_tokens=24, draft="off"))
    assert turns[0].emitted.tolist() == list(plain.tokens)
    assert turns[0].prompt.tolist() == smollm.tokenize(PROMPT.turns[0])
    for turn in turns:
        assert turn.top.shape == turn.values.shape == (len(turn.emitted), 8)
        assert np.array_equal(turn.top[:, 0], turn.emitted), "decoding is greedy: the best candidate is the text's"
        assert (np.diff(turn.values, axis=1) <= 0).all(), "best first"
        assert all(len(set(row)) == 8 for row in turn.top.tolist())
    first, second = turns[0].prompt.tolist(), turns[1].prompt.tolist()
    assert second[: len(first)] == first, "the second turn goes on from the first"
    Trace("smollm", 49_152, turns).save(tmp_path / "kept.npz")
    read = Trace.load(tmp_path / "kept.npz")
    for name, tallies in compare(read, named_curve("a100-like")).items():
        assert tallies["all"].emitted == sum(len(turn.emitted) for turn in turns), name
    assert compare(read, named_curve("a100-like"))["plain"]["all"].speedup == 1


def test_a_raw_trace_passes_the_prompt_without_the_chat_template(smollm) -> None:
    turns = tuple(record_trace(smollm, [PROMPT], GenerateOptions(max_tokens=4, raw=True)))
    assert turns[0].prompt.tolist() == smollm.tokenize(PROMPT.turns[0], raw=True)
    assert len(turns[1].prompt) > len(turns[0].prompt)


def test_a_recording_keeps_no_cell_that_a_wide_evaluation_may_have_rounded(smollm) -> None:
    options = GenerateOptions(max_tokens=24, draft="tree", raw=True)
    drafted = [smollm.generate("One, two, three,", options) for _ in range(2)]
    assert max(drafted[1].timings.widths) > 1
    recorded, _, _ = smollm.record("One, two, three," + drafted[1].text, GenerateOptions(max_tokens=1, raw=True))
    assert recorded.timings.prompt_n > 8, "what was drafted is evaluated again"
