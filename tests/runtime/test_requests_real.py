"""Real SmolLM2: requests after, beside and inside each other, and what they leave behind."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest

from recycle_cpp.errors import BusyError, UsageError
from recycle_cpp.runtime import Runtime
from recycle_cpp.types import GenerateOptions, Message

PROMPTS = ("Name a colour.", "Name three animals that live in the sea.")
PAGE = os.sysconf("SC_PAGE_SIZE")


def options(**more) -> GenerateOptions:
    return GenerateOptions(**{"max_tokens": 12, "draft": "off", **more})


def memory() -> tuple[int, int]:
    """Return this process's bytes: of address space, and resident."""
    gc.collect()
    size, resident = Path("/proc/self/statm").read_text().split()[:2]
    return int(size) * PAGE, int(resident) * PAGE


def test_two_threads_share_a_runtime_and_both_get_their_answer(smollm: Runtime) -> None:
    alone = [smollm.generate(prompt, options()).text for prompt in PROMPTS]
    answers: dict[int, list[str]] = {0: [], 1: []}
    barrier = threading.Barrier(2)

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(4):
            chunks = smollm.stream(PROMPTS[number], options())
            answers[number].append("".join(chunk.text for chunk in chunks))

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == {0: [alone[0]] * 4, 1: [alone[1]] * 4}


def test_another_thread_waits_for_a_stream_that_is_open_and_then_gets_its_answer(smollm: Runtime) -> None:
    alone = [smollm.generate(prompt, options()).text for prompt in PROMPTS]
    stream = smollm.stream(PROMPTS[0], options())
    text = next(stream).text
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(smollm.generate(PROMPTS[1], options()).text))
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    assert not answers
    text += "".join(chunk.text for chunk in stream)
    thread.join(60)
    assert [text, *answers] == alone


def test_a_thread_that_would_wait_for_itself_is_told_so(smollm: Runtime) -> None:
    alone = smollm.generate(PROMPTS[1], options()).text
    stream = smollm.stream(PROMPTS[0], options())
    next(stream)
    for call in (lambda: smollm.generate(PROMPTS[1], options()), smollm.forget):
        with pytest.raises(BusyError, match="this thread has a generation open"):
            call()
    assert next(stream).tokens, "the open stream must go on"
    stream.close()
    assert smollm.generate(PROMPTS[1], options()).text == alone


def test_a_stream_that_is_given_up_leaves_the_cache_ready(smollm: Runtime) -> None:
    alone = smollm.generate(PROMPTS[0], options()).text
    for n_chunks in range(4):
        stream = smollm.stream(PROMPTS[1], options(draft="tree"))
        for _ in range(n_chunks):
            next(stream)
        stream.close()
        assert smollm.generate(PROMPTS[0], options()).text == alone


def test_the_next_turn_of_a_chat_evaluates_only_what_is_new(smollm: Runtime) -> None:
    first = Message("user", PROMPTS[1])
    answer = smollm.generate([first], options(max_tokens=30))
    cached = [*smollm.tokenize([first]), *answer.tokens][:-1]
    turn = [first, Message("assistant", answer.text), Message("user", "Which is the largest?")]
    prompt = smollm.tokenize(turn)
    common = next((i for i, (a, b) in enumerate(zip(cached, prompt, strict=False)) if a != b), len(cached))
    assert common > len(smollm.tokenize([first]))
    assert smollm.generate(turn, options()).timings.prompt_n == len(prompt) - 1 - common


def test_forgetting_empties_what_was_learned_and_the_cache(smollm: Runtime) -> None:
    smollm.generate(PROMPTS[1], options(draft="tree"))
    smollm.forget()
    again = smollm.generate(PROMPTS[1], options(draft="tree", max_tokens=1)).timings
    assert (again.draft_n, again.prompt_n) == (0, len(smollm.tokenize(PROMPTS[1])) - 1)
    assert smollm.draft_state_bytes < 2_000_000


def test_drafting_is_on_unless_switched_off() -> None:
    assert GenerateOptions().draft == "auto"


def test_no_buffer_grows_with_context_times_vocabulary(load) -> None:
    small = memory()[0]
    runtime = load(n_ctx=256)
    middle = memory()[0]
    load(n_ctx=4096).generate("word " * 300, options(raw=True, max_tokens=2))
    growth = (memory()[0] - middle) - (middle - small)
    whole = (4096 - 256) * runtime._loaded.model.n_vocab * 4
    assert growth < whole / 4, f"{growth / 1e6:.0f} MB more for 3,840 more tokens"


def test_a_closed_runtime_says_so_and_ends_its_streams(load) -> None:
    runtime = load(n_ctx=256)
    waiting = runtime.stream("Hello", GenerateOptions(max_tokens=5))
    begun = runtime.stream("Hello", GenerateOptions(max_tokens=5))
    next(begun)
    runtime.close()
    assert list(begun) == []
    for use in (lambda: runtime.is_chat, lambda: runtime.tokenize("a"), lambda: runtime.generate("a"), runtime.forget):
        with pytest.raises(UsageError, match="the model is closed"):
            use()
    assert list(waiting) == []
    runtime.close()


def test_a_stream_that_goes_to_another_thread_still_guards_it_against_waiting_for_itself(smollm: Runtime) -> None:
    stream = smollm.stream("Count to ten.", GenerateOptions(max_tokens=8, draft="off"))
    next(stream)
    caught: list[BaseException] = []

    def go_on() -> None:
        next(stream)
        try:
            smollm.generate("Hello")
        except BusyError as error:
            caught.append(error)
        stream.close()

    thread = threading.Thread(target=go_on)
    thread.start()
    thread.join(60)
    assert [type(error) for error in caught] == [BusyError]
    assert smollm.generate("Hello", options(max_tokens=1)).tokens


@pytest.mark.parametrize("prompt", [None, b"x", ["a"], [("user", "a")], 7])
def test_a_prompt_of_a_wrong_type_is_refused_in_one_line(smollm: Runtime, prompt: object) -> None:
    with pytest.raises(UsageError, match="no text and no list of Message"):
        smollm.generate(prompt)


def test_a_small_batch_neither_breaks_the_exact_probe_nor_the_text(load) -> None:
    whole, small = load(), load(n_batch=3)
    exact = small.generate(PROMPTS[0], options(draft="tree", exact=True))
    assert exact.tokens == whole.generate(PROMPTS[0], options()).tokens
    assert exact.timings.mean_width <= 3
