"""What applications do with a `llama_cpp.Llama` beyond its documented calls: it works here too, or says why not."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from comparing import assert_same_responses, said

from recycle_cpp import UsageError
from recycle_cpp.drop_in.streams import OpenStreams
from recycle_cpp.types import Chunk

FRANCE = "The capital of France is"


@pytest.mark.parametrize(
    "call",
    [
        {"max_tokens": np.int64(3)},
        {"max_tokens": 3.0},
        {"max_tokens": 2.5},
        {"max_tokens": True},
        {"temperature": np.float32(0)},
        {"temperature": False},
        {"top_k": 10**10},
        {"top_k": np.int32(40)},
        {"stopping_criteria": lambda tokens, row: len(tokens) > 7},
        {"logit_bias": {7042: 1e9}},
        {"logit_bias": {7042: float("inf")}},
        {"logit_bias": {"7042": "-100"}},
    ],
    ids=str,
)
def test_numbers_of_any_type_and_single_functions_do_what_they_do_there(llama, theirs, call: dict[str, Any]) -> None:
    asked = {"prompt": FRANCE, "max_tokens": 4, "temperature": 0.0, **call}
    assert_same_responses(llama.create_completion(**asked), theirs.llama.create_completion(**asked))


def test_a_logits_processor_alone_is_heard(llama) -> None:
    """llama_cpp says nothing, and leaves it out."""

    def dictate(_tokens: Any, row: Any) -> Any:
        row[:] = -np.inf
        row[7042] = 0
        return row

    assert said(llama(FRANCE, max_tokens=2, temperature=0.0, logits_processor=dictate)) == " Paris Paris"


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ({"max_tokens": "4"}, "max_tokens is '4': give a number"),
        ({"temperature": None}, "temp is None: give a number"),
        ({"temperature": float("nan")}, "temp is nan: give a number"),
        ({"top_k": 2.5}, "top_k is 2.5: give a whole number"),
        ({"min_p": None}, "min_p is None: give a number"),
        ({"logprobs": "2"}, "logprobs is '2': give a number"),
        ({"logit_bias": {7042: None}}, "logit_bias is None: give a number"),
        ({"seed": "a"}, "seed is 'a': give a whole number"),
        ({"prompt": b"abc"}, "neither a text nor a list of tokens"),
        ({"prompt": {5: 1}}, "neither a text nor a list of tokens"),
        ({"prompt": [FRANCE]}, "neither a text nor a list of tokens"),
    ],
    ids=str,
)
def test_what_is_no_number_and_no_prompt_is_one_line_and_a_value_error(llama, call, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as raised:
        llama.create_completion(**{"prompt": FRANCE, "max_tokens": 2, **call})
    assert isinstance(raised.value, UsageError)
    assert "\n" not in str(raised.value)


def test_a_prompt_of_tokens_may_be_any_collection_that_keeps_their_order(llama) -> None:
    tokens = llama.tokenize(FRANCE.encode())
    for prompt in (tuple(tokens), np.array(tokens), iter(tokens), [float(token) for token in tokens]):
        assert said(llama(prompt, max_tokens=1, temperature=0.0)) == " Paris"


@pytest.mark.parametrize("tokens", [[-1], [10**6], [2**70], ["a"], [None], [2.5]], ids=str)
def test_tokens_that_there_are_not_are_refused(llama, tokens: list[Any]) -> None:
    with pytest.raises(ValueError, match="the model has no token"):
        llama.detokenize(tokens)


def test_bytes_of_any_kind_are_text_and_nothing_else_is(llama) -> None:
    assert llama.tokenize(bytearray(b"abc")) == llama.tokenize(b"abc")
    with pytest.raises(ValueError, match="the text is a NoneType: give its UTF-8 as bytes"):
        llama.tokenize(None)


def test_the_last_tokens_can_be_taken_back(llama) -> None:
    tokens = llama.tokenize(FRANCE.encode())
    llama.reset()
    llama.eval([*tokens, 5, 5])
    llama.n_tokens = len(tokens)
    assert list(llama.eval_tokens) == tokens
    assert llama.detokenize([llama.sample(temp=0.0)]) == b" Paris"
    with pytest.raises(UsageError, match="give a number from 0 to 5"):
        llama.n_tokens = 6


@pytest.mark.parametrize("name", ["scores", "_scores", "eval_logits", "ctx", "_ctx", "_batch", "model"])
def test_what_only_llama_cpp_can_give_says_what_to_do_instead(llama, name: str) -> None:
    with pytest.raises(AttributeError, match="recycle_cpp") as raised:
        getattr(llama, name)
    assert "\n" not in str(raised.value)
    assert not hasattr(llama, name)


def test_arguments_of_the_class_are_its_attributes(llama, theirs) -> None:
    for name in ("n_threads", "lora_path", "tensor_split", "kv_overrides", "n_batch", "last_n_tokens_size"):
        assert getattr(llama, name) == getattr(theirs.llama, name)


def steps(text: str) -> Any:
    for letter in text:
        yield Chunk(letter, (1,), finish_reason="stop" if letter == text[-1] else None)


def test_a_thread_that_serves_many_ends_nobodys_stream() -> None:
    """So do web servers: the pieces of every answer are read in any thread of a pool, in the request's context."""
    streams = OpenStreams()
    first, second = streams.run(lambda: steps("abc")), streams.run(lambda: steps("xyz"))
    with ThreadPoolExecutor(max_workers=1) as pool:
        steps_read = [pool.submit(contextvars.copy_context().run, next, one) for one in (first, second, first, second)]
    assert [step.result().text for step in steps_read] == ["a", "x", "b", "y"]


def test_who_leaves_a_stream_half_read_ends_it_with_the_next() -> None:
    streams = OpenStreams()
    first = streams.run(lambda: steps("abc"))
    next(first)
    assert next(streams.run(lambda: steps("xyz"))).text == "x"
    with pytest.raises(UsageError, match="its caller began another"):
        next(first)


def test_requests_of_a_web_server_are_answered_one_after_the_other(llama) -> None:
    def begin() -> Any:
        return iter(llama("1, 2, 3, 4,", max_tokens=12, temperature=0.0, stream=True))

    async def request() -> str:
        answer = await asyncio.to_thread(begin)
        text = ""
        while (chunk := await asyncio.to_thread(next, answer, None)) is not None:
            text += chunk["choices"][0]["text"]
            await asyncio.sleep(0.01)
        return text

    async def requests() -> list[str]:
        return await asyncio.wait_for(asyncio.gather(*(request() for _ in range(3))), 60)

    alone = said(llama("1, 2, 3, 4,", max_tokens=12, temperature=0.0))
    assert asyncio.run(requests()) == [alone] * 3


def test_a_stream_half_read_in_an_event_loop_does_not_block_it(llama) -> None:
    async def impatient() -> str:
        next(llama(FRANCE, max_tokens=40, temperature=0.0, stream=True))
        half_read = llama(FRANCE, max_tokens=40, temperature=0.0, stream=True)
        next(half_read)
        return await asyncio.create_task(answer())

    async def answer() -> str:
        return said(llama(FRANCE, max_tokens=1, temperature=0.0))

    assert asyncio.run(impatient()) == " Paris"
