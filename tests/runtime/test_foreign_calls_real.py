"""Real SmolLM2: calls with what they cannot use, from where they cannot be served, and after the end."""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from real_prompts import SMOLLM

from recycle_cpp import (
    AsyncRuntime,
    BusyError,
    CancelledError,
    ChatOptions,
    GenerateOptions,
    LoadOptions,
    Message,
    Runtime,
    SamplingOptions,
    UsageError,
)

PROMPT = "Name a colour."
SHORT = GenerateOptions(max_tokens=8, exact=True)
LONG = GenerateOptions(max_tokens=400, sampling=SamplingOptions(ignore_eos=True))
CHAT = [Message("user", PROMPT)]
CALLS = {
    "options that are a text": (lambda r: r.generate(PROMPT, "x"), "the options are 'x'; give GenerateOptions"),
    "options that are a dict": (lambda r: r.stream(PROMPT, {}), "the options are {}; give GenerateOptions"),
    "another record": (lambda r: r.chat(CHAT, SamplingOptions()), "the options are SamplingOptions("),
    "options for loading": (lambda r: r.record(PROMPT, LoadOptions()), "the options are LoadOptions("),
    "cancel that is no event": (lambda r: r.generate(PROMPT, SHORT, cancel=True), "cancel is True; give a threading.E"),
    "a chat that is nothing": (lambda r: r.chat(None), "a chat is a list of Message"),
    "a role that is no text": (lambda r: r.generate([Message(5, "x")]), "messages[0].role is of type int; give a text"),
    "tokens that are nothing": (lambda r: r.detokenize(None), "what is to be a text is no token, or no list of them"),
    "tokens that are a text": (lambda r: r.detokenize("abc"), "what is to be a text is no token, or no list of them"),
    "a prompt of dicts": (lambda r: r.tokenize([{"role": "user"}]), "the prompt is no text and no list of Message"),
    "a session's file that is a number": (lambda r: r.save_session(5), "the session's file is 5; give a text or a Pa"),
    "a session's file of bytes": (lambda r: r.restore_session(b"x"), "the session's file is b'x'; give a text or a P"),
    "a session of dicts": (lambda r: r.save_session("x", [{"role": "user"}]), "a chat is a list of Message"),
    "a session of objects": (lambda r: r.save_session("x", [Message("user", object())]), "messages[0].content is of"),
    "a model that is a number": (lambda _: Runtime.load(5), "the model is 5; give a text or a Path"),
    "a model's options": (lambda _: Runtime.load(SMOLLM, GenerateOptions()), "the options are GenerateOptions("),
}


@pytest.mark.parametrize("what", CALLS)
def test_what_a_call_cannot_use_is_one_line(smollm: Runtime, what: str) -> None:
    call, complaint = CALLS[what]
    with pytest.raises(UsageError, match=re.escape(complaint)) as caught:
        call(smollm)
    assert "\n" not in str(caught.value)


def test_any_numbers_that_are_whole_are_tokens(smollm: Runtime) -> None:
    tokens = smollm.tokenize("A fox", raw=True)
    for given in (tuple(tokens), np.array(tokens), (token for token in tokens)):
        assert smollm.detokenize(given) == "A fox"


def test_a_model_is_loaded_by_its_path(model_file) -> None:
    path = Path(model_file(SMOLLM))
    options = LoadOptions(n_ctx=64, n_threads=1, flash_attention="on", learned=False)
    with Runtime.load(path, options) as runtime:
        assert runtime.path == path


def test_a_model_cannot_be_closed_by_a_function_of_its_own_request(smollm: Runtime) -> None:
    def close(_tokens, row):
        smollm.close()
        return row

    with pytest.raises(BusyError):
        smollm.generate(PROMPT, GenerateOptions(max_tokens=4, logits_processors=(close,)))
    assert smollm.generate(PROMPT, SHORT).usage.completion_tokens > 0


def test_an_error_of_a_function_is_no_cancellation_whatever_its_kind(smollm: Runtime) -> None:
    def give_up(_tokens, _row):
        raise CancelledError("of my own")

    with pytest.raises(CancelledError, match="of my own"):
        smollm.generate(PROMPT, GenerateOptions(max_tokens=4, stop_tests=(give_up,)))


def test_a_chat_that_another_thread_is_reading_ends_whole_when_the_model_is_closed(load) -> None:
    for delay in (0.02, 0.1, 0.2):
        runtime, answers = load(n_ctx=128), []

        def chat(runtime=runtime, answers=answers) -> None:
            try:
                answers.append(runtime.chat(CHAT, ChatOptions(max_tokens=40, sampling=LONG.sampling)).finish_reason)
            except Exception as error:
                answers.append(str(error))

        thread = threading.Thread(target=chat)
        thread.start()
        thread.join(delay)
        runtime.close()
        thread.join(10)
        assert answers in (["length"], ["the model is closed: load it again"])


def test_an_asynchronous_runtime_that_is_closed_says_so(load) -> None:
    async def after_the_end() -> None:
        runtime = AsyncRuntime(load(n_ctx=64))
        await runtime.close()
        for call in (runtime.generate(PROMPT), runtime.chat(CHAT), anext(runtime.stream(PROMPT))):
            with pytest.raises(UsageError, match="the model is closed: load it again"):
                await call

    asyncio.run(asyncio.wait_for(after_the_end(), 20))


AFTER_CLOSE = """
import sys, threading
from recycle_cpp import LoadOptions, Runtime
def load():
    return Runtime.load(sys.argv[1], LoadOptions(n_ctx=64, n_threads=1, flash_attention="on", learned=False))
def ask(runtime):
    try:
        while True:
            runtime.detokenize(runtime.tokenize("a long story " * 20_000, raw=True))
    except Exception as error:
        print(error)
for delay in (0.0, 0.01, 0.03, 0.06, 0.1):
    runtime = load()
    threads = [threading.Thread(target=ask, args=(runtime,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    threads[0].join(delay)
    runtime.close()
    for thread in threads:
        thread.join()
try:
    runtime.cost_curve
except Exception as error:
    print(error)
"""


def test_who_asks_for_tokens_while_another_thread_closes_the_model_is_told_so(model_file) -> None:
    command = [sys.executable, "-c", AFTER_CLOSE, model_file(SMOLLM)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the model is closed: load it again") == 16


def test_a_process_forked_after_the_load_is_told_so_instead_of_waiting_for_threads_that_it_has_not(
    smollm: Runtime,
) -> None:
    smollm.generate(PROMPT, SHORT)

    def ask(said) -> None:
        calls = (lambda: smollm.generate(PROMPT, SHORT), smollm.forget, lambda: smollm.save_session("x"), smollm.close)
        for call in calls:
            try:
                said.put(call())
            except UsageError as error:
                said.put(str(error))

    fork = multiprocessing.get_context("fork")
    said = fork.Queue()
    child = fork.Process(target=ask, args=(said,))
    child.start()
    answers = [said.get(timeout=20) for _ in range(4)]
    child.join(20)
    told = "the model was loaded before this process was forked: load it in the process that uses it"
    assert answers == [told, told, told, None]
    assert smollm.generate(PROMPT, SHORT).usage.completion_tokens > 0
