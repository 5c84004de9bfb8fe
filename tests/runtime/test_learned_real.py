"""Real SmolLM2: a second runtime starts with what the first one learned, unless it is told not to."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_prompts import PROMPTS

from recycle_cpp.models.learned_files import LearnedFile, learned_files, learned_folder
from recycle_cpp.runtime import Runtime
from recycle_cpp.types import Completion, GenerateOptions

# Exact drafting, so that texts are compared to the byte; chains need no cost curve.
CHAIN = GenerateOptions(max_tokens=40, draft="chain", exact=True)
PLAIN = GenerateOptions(max_tokens=40, draft="off")


@pytest.fixture
def open_in(load, tmp_path: Path, monkeypatch):
    """Load SmolLM2 in a cache folder of this test, as a user would who has drafting's memory on."""

    def open_with(**options) -> Runtime:
        return load(**{"n_ctx": 256, "learned": True, **options})

    monkeypatch.setattr("recycle_cpp.models.learned_files.cache_folder", lambda: tmp_path)
    return open_with


def answer(runtime: Runtime, prompt: str = PROMPTS[0], options: GenerateOptions = CHAIN) -> Completion:
    return runtime.generate(prompt, options)


def rows(runtime: Runtime) -> int:
    return runtime._requests._policy.knowledge.matrix.n_rows


def test_a_second_runtime_starts_warm_with_the_same_text(open_in) -> None:
    with open_in() as first:
        assert rows(first) == 0
        plain = answer(first, options=PLAIN)
        cold = answer(first)
        assert cold.text == plain.text
        learned = rows(first)
        assert learned > 10
        assert learned_files() == []  # not yet: neither closed nor a minute in use
    assert [file.path.stem for file in learned_files()] == [first.facts["fingerprint"]]
    with open_in() as second:
        assert second.notes == ()
        assert rows(second) == learned
        warm = answer(second)
        assert (warm.text, warm.tokens) == (plain.text, plain.tokens)
        assert warm.timings.draft_n_accepted > cold.timings.draft_n_accepted
        assert warm.timings.steps < cold.timings.steps


def test_auto_drafting_keeps_all_that_it_learns(open_in) -> None:
    auto = GenerateOptions(max_tokens=40)
    with open_in() as first:
        answer(first, options=auto)
        knowledge = first._requests._policy.knowledge
        count, rate = knowledge.suffix.count, knowledge.calibration.belief.trials.sum()
        assert min(count, rate) > 50
    with open_in() as second:
        knowledge = second._requests._policy.knowledge
        assert knowledge.suffix.count == count
        assert 0 < knowledge.calibration.belief.trials.sum() <= rate
        answer(second, PROMPTS[8], auto)
        knowledge.check_integrity()


def test_switched_off_nothing_is_loaded_and_nothing_written(open_in) -> None:
    with open_in(learned=False) as runtime:
        answer(runtime)
    assert not learned_folder().exists()
    with open_in() as runtime:
        answer(runtime)
    before = learned_files()[0].read()
    with open_in(learned=False) as runtime:
        assert rows(runtime) == 0
        answer(runtime, PROMPTS[3])
    assert learned_files()[0].read() == before


def test_plain_decoding_writes_nothing(open_in) -> None:
    with open_in() as runtime:
        answer(runtime, options=PLAIN)
    assert not learned_folder().exists()


def test_a_damaged_file_is_noted_in_one_line_and_replaced(open_in) -> None:
    with open_in() as runtime:
        answer(runtime)
    file = learned_files()[0]
    whole = file.read()
    file.path.write_bytes(whole[: len(whole) // 2])
    with open_in() as runtime:
        assert runtime.notes == ("drafting starts with nothing: what was kept is refused (damaged)",)
        assert rows(runtime) == 0
        answer(runtime)
    assert len(file.read()) == len(whole)
    with open_in() as runtime:
        assert runtime.notes == ()


def test_forgetting_in_a_runtime_leaves_the_file(open_in) -> None:
    with open_in() as runtime:
        answer(runtime)
    before = learned_files()[0].read()
    with open_in() as runtime:
        runtime.forget()
        assert rows(runtime) == 0
    assert learned_files()[0].read() == before


def test_what_was_learned_is_saved_after_the_last_chunk_and_of_two_runtimes_the_last_wins(open_in) -> None:
    first, second = open_in(), open_in()
    file = LearnedFile.of_user(str(first.facts["fingerprint"]))
    first._requests._learned._interval = 0.0
    stream = first.stream(PROMPTS[0], CHAIN)
    for _chunk in stream:
        assert file.read() is None, "while the text comes nothing is written"
    saved = file.read()
    assert saved is not None
    answer(second, PROMPTS[3])
    first.close()
    assert file.read() == saved
    second.close()
    assert file.read() not in (None, saved)
    with open_in() as third:
        assert rows(third) == rows(second)
