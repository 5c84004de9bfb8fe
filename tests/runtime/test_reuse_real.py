"""Real SmolLM2: what is kept of the cache, cancelled prompts, and full contexts that go on."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from real_runs import RealRuns

from recycle_cpp.errors import CancelledError, UsageError
from recycle_cpp.runtime import Runtime
from recycle_cpp.types import GenerateOptions

N_BATCH = 8
FIRST = "<|im_start|>user\nName three animals that live in the sea, and three that live in the woods.<|im_end|>\n"
SECOND = "<|im_end|>\n<|im_start|>user\nWhich of them is the largest, and which can fly?<|im_end|>\n"
ANSWER = "<|im_start|>assistant\n"


def same(one, other) -> bool:
    return one.tokens == other.tokens and one.logprobs == other.logprobs


@pytest.mark.parametrize("attention", ["on", "off"])
@pytest.mark.parametrize("kind", ["plain", "chain"])
def test_exact_turns_say_to_the_bit_what_a_fresh_process_says(load, attention: str, kind: str) -> None:
    settings = {"n_batch": N_BATCH, "flash_attention": attention}
    used = RealRuns(load(**settings))
    prompt = used.tokens(FIRST + ANSWER)
    assert len(prompt) > 2 * N_BATCH
    assert (len(prompt) - 1) % N_BATCH, "the last chunk is a whole one"
    used.run(used.tokens("Something else entirely, to begin with, drafted by trees. " * 2), "tree", max_tokens=30)
    used.run(prompt, "tree")  # its cells are rounded, and lie where trees have left room
    first = used.run(prompt, kind, exact=True)
    again = used.run(prompt, kind, exact=True)
    assert again.evaluated == 0
    turn = [*prompt, *first.tokens, *used.tokens(SECOND + ANSWER)]
    used.run(turn, "tree")
    second = used.run(turn, kind, exact=True)
    assert second.evaluated == len(turn) - 1 - (len(prompt) - 1) // N_BATCH * N_BATCH
    edited = [*turn[:20], turn[3], *turn[21:]]
    third = used.run(edited, kind, exact=True)
    assert third.evaluated == len(edited) - 1 - 20 // N_BATCH * N_BATCH

    for asked, said in ((prompt, first), (prompt, again), (turn, second), (edited, third)):
        fresh = RealRuns(load(**settings))
        assert same(fresh.run(asked, "plain", exact=True), said)


def test_cells_of_other_evaluations_do_differ_so_that_the_test_above_means_something(load) -> None:
    used, fresh = (RealRuns(load(n_batch=N_BATCH, flash_attention="off")) for _ in range(2))
    prompt = used.tokens(FIRST + ANSWER)
    text = used.run(prompt, "plain").tokens
    turn = [*prompt, *text, *used.tokens(SECOND + ANSWER)]
    assert used.run(turn, "plain").evaluated < len(turn) - len(prompt)
    assert used.run(turn, "plain").logprobs != fresh.run(turn, "plain", exact=True).logprobs


def test_a_long_prompt_is_cancelled_at_once_and_the_next_request_is_right(load) -> None:
    runtime = load(n_ctx=2560, n_batch=512, n_threads=1, n_threads_batch=1)
    runs = RealRuns(runtime)
    short = runs.tokens(FIRST + ANSWER)
    said = runs.run(short, "plain", exact=True, max_tokens=6)
    held = runs.engine.tokens
    long = [*short, *runs.tokens("The sea is wide, and many kinds of fish live in it. " * 170)][:2040]
    assert len(long) > 2000
    for seconds in (0.0, 0.2, 1.0):
        cancel = threading.Event()
        timer = threading.Timer(seconds, cancel.set)
        timer.start()
        start = time.perf_counter()
        with pytest.raises(CancelledError, match="cancelled"):
            runs.engine.prepare(long, cancel=cancel)
        took = time.perf_counter() - start
        timer.join()
        assert took < seconds + 0.25, "a chunk was evaluated to its end"
        assert runs.engine.tokens == held[: len(short)]
        held = runs.engine.tokens
    assert same(runs.run(short, "plain", exact=True, max_tokens=6), said)
    start = time.perf_counter()
    assert runs.engine.prepare(long, cancel=threading.Event()) > 2000
    assert time.perf_counter() - start > 1.5, "the prompt is too short to be cancelled on the way"


def test_decoding_is_not_slowed_by_the_means_to_cancel_a_prompt(load) -> None:
    context = load(n_batch=N_BATCH)._requests._engine._backend._context
    asked = 0

    class Counting(threading.Event):
        def is_set(self) -> bool:
            nonlocal asked
            asked += 1
            return super().is_set()

    context.decode_prompt(np.arange(5, 13, dtype=np.int32), 0, Counting())
    during = asked
    assert during > 100, "llama.cpp asks after every node"
    context.decode_tree(*np.array([[5], [8], [0], [1]], np.int32))
    context.decode_prompt(np.arange(5, 13, dtype=np.int32), 9)
    assert asked == during
    context.seq_rm(-1, 0, -1)


@pytest.mark.parametrize("n_ctx", [64, 96])
def test_a_full_context_goes_on_and_exact_drafting_still_is_plain_decoding_to_the_bit(load, n_ctx: int) -> None:
    plain, drafted = (RealRuns(load(n_ctx=n_ctx)) for _ in range(2))
    prompt = plain.tokens(FIRST + ANSWER)
    request = {"exact": True, "max_tokens": 2 * n_ctx, "shift_keep": 4}
    one, other = plain.run(prompt, "plain", **request), drafted.run(prompt, "chain", **request)
    assert len(one.tokens) + len(prompt) > n_ctx + n_ctx // 2, "the text ends before a second shift"
    assert same(one, other)
    assert one.steps[-1].finish_reason == other.steps[-1].finish_reason
    assert drafted.engine.tokens == plain.engine.tokens
    assert len(plain.engine.tokens) <= n_ctx + 1
    ended = RealRuns(load(n_ctx=n_ctx)).run(prompt, "plain", exact=True, max_tokens=2 * n_ctx)
    assert (len(ended.tokens), ended.steps[-1].finish_reason) == (n_ctx - len(prompt) + 1, "length")
    assert one.tokens[: len(ended.tokens)] == ended.tokens
    assert same(
        plain.run(prompt, "plain", exact=True, max_tokens=9),
        ended._replace(tokens=ended.tokens[:9], logprobs=ended.logprobs[:9]),
    )


@pytest.mark.parametrize("cache", ["f16", "q8_0"])
def test_trees_go_on_in_a_full_context_with_words_and_keep_its_beginning(load, cache: str) -> None:
    runs = RealRuns(load(n_ctx=96, type_k=cache, type_v=cache))
    prompt = runs.tokens(FIRST + ANSWER)
    run = runs.run(prompt, "tree", max_tokens=150, shift_keep=8)
    assert runs.engine.tokens[:8] == tuple(prompt[:8])
    assert run.n_accepted > 0
    text = b"".join(runs.loaded.model.piece(token) for token in run.tokens).decode("utf-8", "replace")
    assert text.isprintable() or "\n" in text
    assert len(set(run.tokens)) > 10
    with pytest.raises(UsageError, match="keeps 93 tokens leaves too little of a context of 96: keep 92 at most"):
        runs.engine.check(prompt, shift_keep=93)


def test_the_runtime_asks_for_what_its_options_say(load, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime: Runtime = load()
    asked: list[str] = []
    prepare = runtime._requests._engine.prepare

    def noting(prompt, **how) -> int:
        asked.append(how["reuse"])
        return prepare(prompt, **how)

    monkeypatch.setattr(runtime._requests._engine, "prepare", noting)
    for options in ({"exact": True}, {"draft": "off", "exact": True}, {"draft": "off"}, {}, {"draft": "tree"}):
        runtime.generate("Hi", GenerateOptions(max_tokens=1, **options))
    assert asked == ["fresh", "fresh", "plain", "all", "all"]
