"""Real SmolLM2: answers that another thread cancels."""

from __future__ import annotations

import threading
import time

from recycle_cpp import GenerateOptions, Runtime, SamplingOptions

PROMPT = "Write a long story about a fox."
NO_END = SamplingOptions(ignore_eos=True)
WHOLE = GenerateOptions(max_tokens=60, exact=True, sampling=NO_END)
OPTIONS = GenerateOptions(max_tokens=300, exact=True, sampling=NO_END)


def test_an_answer_ends_with_the_step_in_which_it_is_cancelled(smollm: Runtime) -> None:
    whole = smollm.generate(PROMPT, WHOLE)
    cancel = threading.Event()
    chunks = []
    for chunk in smollm.stream(PROMPT, OPTIONS, cancel=cancel):
        chunks.append(chunk)
        if len(chunks) == 5:
            cancel.set()
    assert len(chunks) == 6
    assert [chunk.finish_reason for chunk in chunks] == [None] * 5 + ["cancelled"]
    tokens = [token for chunk in chunks for token in chunk.tokens]
    assert tuple(tokens) == whole.tokens[: len(tokens)]
    assert chunks[-1].usage.completion_tokens == len(tokens)
    assert smollm.generate(PROMPT, WHOLE).text == whole.text


def test_a_whole_answer_that_is_cancelled_holds_what_there_is(smollm: Runtime) -> None:
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    start = time.perf_counter()
    answer = smollm.generate(PROMPT, OPTIONS, cancel=cancel)
    assert answer.finish_reason == "cancelled"
    assert time.perf_counter() - start < 1.3
    assert 0 < answer.usage.completion_tokens == len(answer.tokens) < 300


def test_what_is_cancelled_before_it_begins_evaluates_nothing(smollm: Runtime) -> None:
    cancel = threading.Event()
    cancel.set()
    answer = smollm.generate(PROMPT, OPTIONS, cancel=cancel)
    assert (answer.finish_reason, answer.text, answer.tokens) == ("cancelled", "", ())
    assert (answer.usage.completion_tokens, answer.timings.prompt_n) == (0, 0)


def test_who_waits_for_the_model_can_be_cancelled_while_another_is_served(smollm: Runtime) -> None:
    stream = smollm.stream(PROMPT, OPTIONS)
    next(stream)
    cancel, answers = threading.Event(), []
    thread = threading.Thread(target=lambda: answers.append(smollm.generate("Hello", OPTIONS, cancel=cancel)))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    cancel.set()
    thread.join(1)
    assert [answer.finish_reason for answer in answers] == ["cancelled"]
    assert next(stream).tokens, "the one that is served goes on"
    stream.close()


def test_a_long_prompt_is_given_up_within_a_second(load) -> None:
    runtime = load(n_ctx=4096)
    prompt = "The quick brown fox jumps over the lazy dog. " * 350
    start = time.perf_counter()
    runtime.generate(prompt, GenerateOptions(max_tokens=1, draft="off"))
    whole = time.perf_counter() - start
    runtime.forget_prompt()
    cancel = threading.Event()
    threading.Timer(whole / 4, cancel.set).start()
    start = time.perf_counter()
    answer = runtime.generate(prompt, GenerateOptions(max_tokens=1, draft="off"), cancel=cancel)
    assert answer.finish_reason == "cancelled"
    assert time.perf_counter() - start < min(whole * 0.8, whole / 4 + 1)
    assert runtime.generate("Name a colour.", GenerateOptions(max_tokens=4, exact=True)).tokens
