from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fake_runtime import TIMINGS, USAGE

from recycle_cpp.cli.show import statistics_line
from recycle_cpp.types import Chunk, GenerateOptions, LoadOptions, Message, Usage

STATISTICS = (
    "the m · 120 tokens · 48.0 tok/s · prompt 31 tokens 0.12 s · 2.03 tokens per step (51% recycled) · width 80.3 · "
    "draft auto\n"
)


def test_the_text_goes_to_standard_output_and_one_line_of_statistics_to_standard_error(call) -> None:
    status, out, err = call("generate", "-m", "m", "-p", "héllo 🦙")
    assert (status, out, err) == (0, "héllo 🦙\n", STATISTICS)


def test_a_text_that_ends_in_a_newline_gets_no_second_one(call) -> None:
    assert call("generate", "-m", "m", "-p", "a\n").out == "a\n"
    assert call("generate", "-m", "m", "-p", "a\n\n").out == "a\n\n"
    assert call("generate", "-m", "m", "-p", "silent").out == "\n"


def test_without_options_every_default_is_that_of_the_records(call, fake) -> None:
    call("generate", "-m", "m", "-p", "x")
    assert fake.loaded == [("m", LoadOptions())]
    assert fake.asked == [("x", GenerateOptions(max_tokens=1024))]


def test_without_a_model_the_default_of_models_toml_is_taken(call, fake) -> None:
    from recycle_cpp.models.registry import Registry

    call("generate", "-p", "x")
    assert fake.loaded[0][0] == Registry.load().default


def test_json_is_one_object_with_the_promised_shape_and_nothing_else(call) -> None:
    status, out, err = call("generate", "-m", "m", "-p", "hé\n", "--json")
    answer = json.loads(out)
    assert list(answer) == ["text", "tokens", "finish_reason", "usage", "timings"]
    assert (answer["text"], answer["tokens"], answer["finish_reason"]) == ("hé\n", [0, 1, 2], "stop")
    assert answer["usage"] == {"prompt_tokens": 31, "completion_tokens": 120, "cached_tokens": 0, "total_tokens": 151}
    timings = answer["timings"]
    assert timings["predicted_per_second"] == 48.0
    assert timings["mean_accepted_tokens"] == 120 / 59
    assert set(timings) >= {"prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "draft_n"}
    assert set(timings) >= {"draft_n_accepted", "steps", "widths"}
    assert "é" in out
    assert out.count("\n") == 1
    assert (status, err) == (0, STATISTICS)


@pytest.mark.parametrize(
    ("options", "shown"), [("", False), ("--verbose", True), ("--exact", True), ("--json --exact", True)]
)
def test_notes_are_shown_when_asked_for_and_with_exact(call, options: str, shown: bool) -> None:
    err = call("generate", "-m", "m", "-p", "x", *options.split()).err
    assert ("note: drafting is off: 81 rows cost 18x one row here\n" in err) is shown
    assert ("settings: flash attention off, 2 threads, 2 for wide batches (measured)\n" in err) is (
        "--verbose" in options
    )
    assert err.count("\n") == 1 + shown + ("--verbose" in options)


def test_the_statistics_tell_a_text_that_the_limit_has_cut() -> None:
    end = Chunk("", (), finish_reason="length", usage=USAGE, timings=TIMINGS)
    assert " · 120 tokens (the limit) · " in statistics_line("m", end, "auto")
    assert " · 120 tokens (stopped) · " in statistics_line("m", replace(end, finish_reason="cancelled"), "auto")
    assert " · 120 tokens · " in statistics_line("m", replace(end, finish_reason="stop"), "auto")


def test_the_statistics_tell_what_was_cached_and_what_came_from_drafts() -> None:
    usage = Usage(prompt_tokens=481, completion_tokens=120, cached_tokens=450)
    end = Chunk("", (), finish_reason="stop", usage=usage, timings=TIMINGS)
    assert " · prompt 31 tokens (and 450 cached) 0.12 s · 2.03 tokens per step (51% recycled) · " in statistics_line(
        "m", end, "auto"
    )
    undrafted = replace(end, usage=USAGE, timings=replace(TIMINGS, draft_n_accepted=0))
    assert " · prompt 31 tokens 0.12 s · 2.03 tokens per step · " in statistics_line("m", undrafted, "off")


def test_the_statistics_name_the_draft_mode(call) -> None:
    assert call("generate", "-m", "m", "-p", "x", "--draft", "off").err.endswith(" · draft off\n")


def test_what_loading_does_once_is_told_on_standard_error(call) -> None:
    _, out, err = call("generate", "-m", "new", "-p", "x")
    assert out == "x\n"
    assert err.startswith("measuring what 8 rows cost here (once per model)\nthe new · ")


def test_the_stream_is_closed_before_the_runtime_also_after_an_interrupt(call, fake) -> None:
    assert call("generate", "-m", "m", "-p", "interrupt").status == 130
    assert fake.events == ["stream closed", "runtime closed"]


def test_an_error_in_the_middle_of_the_text_ends_its_line_first(call, fake) -> None:
    status, out, err = call("generate", "-m", "m", "-p", "fail")
    assert (status, out) == (1, "half\n")
    assert err == "error: llama.cpp failed an evaluation; file an issue\n"
    assert fake.events == ["stream closed", "runtime closed"]


def test_log_probabilities_are_shown_with_the_texts_of_their_tokens(call) -> None:
    status, out, _ = call("generate", "-m", "m", "-p", "ab", "--json", "--logprobs", "2")
    assert status == 0
    top = [{"token": 2, "text": "\\xf0\\x9f", "logprob": -0.25}, {"token": 7, "text": "7", "logprob": None}]
    assert json.loads(out)["logprobs"] == [
        {"token": 0, "text": "<s>", "logprob": -1.5, "top": top},
        {"token": 1, "text": "1", "logprob": -1.5, "top": top},
    ]
    only = json.loads(call("generate", "-m", "m", "-p", "a", "--json", "--logprobs", "0").out)["logprobs"]
    assert only == [{"token": 0, "text": "<s>", "logprob": -1.5, "top": []}]
    assert "logprobs" not in json.loads(call("generate", "-m", "m", "-p", "a", "--json").out)


def test_a_system_message_goes_before_the_prompt(call, fake) -> None:
    call("generate", "-m", "m", "-p", "x", "--system", "be brief")
    assert fake.asked[0][0] == [Message("system", "be brief"), Message("user", "x")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--system a --raw", "--system needs the chat template and --raw leaves it out: give one of them"),
        ("--logprobs 3", "--logprobs is shown in the JSON object only: give --json, too"),
        ("--logprobs 129 --json", "logprobs is 129; give a whole number from 0 to 128"),
    ],
)
def test_options_that_contradict_each_other_are_one_line(call, fake, arguments: str, message: str) -> None:
    assert call("generate", "-m", "m", "-p", "x", *arguments.split()) == (2, "", f"error: {message}\n")
    assert fake.loaded == []
