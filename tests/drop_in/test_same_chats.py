"""Chats by llama_cpp's own handlers, on both classes."""

from __future__ import annotations

import contextlib
import json
import sys
from types import ModuleType, SimpleNamespace

import pytest
from comparing import assert_same_responses, assert_same_streams, said, streamed

COUNT = [
    {"role": "user", "content": "Count from 1 to 5."},
    {"role": "assistant", "content": "1, 2, 3, 4, 5"},
    {"role": "user", "content": "Count from 1 to 8."},
]
JSON = [
    {"role": "system", "content": "You are a helpful assistant that outputs in JSON."},
    {"role": "user", "content": "Who won the world series in 2020"},
]
SCHEMA = {"type": "object", "properties": {"team_name": {"type": "string"}}, "required": ["team_name"]}
TOOL = {
    "type": "function",
    "function": {
        "name": "UserDetail",
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            "required": ["name", "age"],
        },
    },
}
CHOSEN = {"type": "function", "function": {"name": "UserDetail"}}
EXTRACT = [
    {"role": "system", "content": "The assistant calls functions with appropriate input when necessary"},
    {"role": "user", "content": "Extract Jason is 25 years old"},
]
CALLS = {
    "a chat": {"messages": COUNT, "max_tokens": 12},
    "a chat to its end": {"messages": COUNT, "max_tokens": 60},
    "a stop string": {"messages": COUNT, "stop": ["7,", "x"]},
    "a stop string as text": {"messages": COUNT, "stop": ", 4"},
    "JSON mode": {"messages": JSON, "max_tokens": 20, "response_format": {"type": "json_object"}},
    "a schema": {"messages": JSON, "max_tokens": 20, "response_format": {"type": "json_object", "schema": SCHEMA}},
    "a tool by the template": {"messages": EXTRACT, "max_tokens": 20, "tools": [TOOL], "tool_choice": CHOSEN},
    "a function, as of old": {
        "messages": EXTRACT,
        "max_tokens": 20,
        "functions": [TOOL["function"]],
        "function_call": {"name": "UserDetail"},
    },
}


@contextlib.contextmanager
def chat_format(name: str | None, *llamas):
    """Let models answer by another of llama_cpp's formats."""
    before = [llama.chat_format for llama in llamas]
    for llama in llamas:
        llama.chat_format = name
    try:
        yield
    finally:
        for llama, old in zip(llamas, before, strict=True):
            llama.chat_format = old


@pytest.mark.parametrize("name", CALLS)
def test_a_chat_is_answered_the_same(ours, theirs, name: str) -> None:
    call = {"temperature": 0.0, **CALLS[name]}
    assert_same_responses(ours.create_chat_completion(**call), theirs.create_chat_completion(**call))


@pytest.mark.parametrize("name", ["a chat to its end", "a stop string", "a schema", "a tool by the template"])
def test_a_chat_is_streamed_the_same(ours, theirs, name: str) -> None:
    call = {"temperature": 0.0, "stream": True, **CALLS[name]}
    mine, other = (list(llama.create_chat_completion(**call)) for llama in (ours, theirs))
    assert_same_streams(mine, other)


@pytest.mark.parametrize("name", ["chatml", "alpaca", "zephyr"])
def test_registered_formats_answer_the_same(ours, theirs, name: str) -> None:
    with chat_format(name, ours, theirs):
        call = {"messages": COUNT, "max_tokens": 10, "temperature": 0.0}
        assert_same_responses(ours.create_chat_completion(**call), theirs.create_chat_completion(**call))


@pytest.mark.parametrize("choice", [CHOSEN, "auto", "none"])
def test_the_format_for_function_calling_answers_the_same(ours, theirs, choice: object) -> None:
    with chat_format("chatml-function-calling", ours, theirs):
        call = {"messages": EXTRACT, "tools": [TOOL], "tool_choice": choice, "temperature": 0.0, "max_tokens": 20}
        assert_same_responses(ours.create_chat_completion(**call), theirs.create_chat_completion(**call))


def test_json_parses_with_a_temperature_too(llama) -> None:
    call = {"messages": JSON, "response_format": {"type": "json_object", "schema": SCHEMA}, "max_tokens": 60}
    for seed in range(2):
        answer = llama.create_chat_completion(**call, temperature=0.7, seed=seed)
        if answer["choices"][0]["finish_reason"] == "stop":
            assert list(json.loads(said(answer))) == ["team_name"]


def test_a_streamed_chat_joins_to_the_whole(llama) -> None:
    call = {"messages": COUNT, "max_tokens": 20, "temperature": 0.0}
    chunks = list(llama.create_chat_completion(**call, stream=True))
    assert streamed(chunks) == said(llama.create_chat_completion(**call))
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


def test_a_handler_of_ones_own_is_called_with_the_model(llama) -> None:
    def handler(*, llama, messages, **settings):
        tokens = llama.tokenize(messages[-1]["content"].encode(), special=True)
        return llama.create_completion(prompt=tokens, max_tokens=settings["max_tokens"], temperature=0.0)

    llama.chat_handler = handler
    try:
        answer = llama.create_chat_completion([{"role": "user", "content": "1, 2, 3, 4,"}], max_tokens=2)
    finally:
        llama.chat_handler = None
    assert said(answer) == " 5"


@pytest.mark.parametrize("stream", [False, True])
def test_answers_come_in_the_classes_of_openai_if_these_are_asked_for(llama, monkeypatch, stream: bool) -> None:
    chat = ModuleType("openai.types.chat")
    chat.ChatCompletion = chat.ChatCompletionChunk = lambda **response: SimpleNamespace(**response)
    monkeypatch.setitem(sys.modules, "openai", ModuleType("openai"))
    monkeypatch.setitem(sys.modules, "openai.types", ModuleType("openai.types"))
    monkeypatch.setitem(sys.modules, "openai.types.chat", chat)
    answer = llama.create_chat_completion_openai_v1(messages=COUNT, max_tokens=2, stream=stream)
    if stream:
        assert {chunk.object for chunk in answer} == {"chat.completion.chunk"}
    else:
        assert answer.object == "chat.completion"


def test_without_openai_its_classes_are_refused_in_one_line(llama, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "openai.types.chat", None)
    with pytest.raises(ImportError, match="pip install openai"):
        llama.create_chat_completion_openai_v1(COUNT, max_tokens=1)
