"""Two dictionaries of two libraries, compared in all but what no two answers share."""

from __future__ import annotations

import re
from typing import Any

import pytest

SETTINGS = {"n_ctx": 512, "n_batch": 512, "n_threads": 1, "n_threads_batch": 1, "flash_attn": False, "verbose": False}
CLOSE = 0.02  # of log probabilities
ID = r"cmpl-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


class Remembered:
    """A model that is asked each question once: every way of drafting is compared with the same answer."""

    def __init__(self, llama: Any) -> None:
        self.llama = llama
        self.tokenize, self.detokenize = llama.tokenize, llama.detokenize
        self.chat_format = llama.chat_format
        self._said: dict[str, Any] = {}

    def __call__(self, prompt: Any, **call: Any) -> Any:
        return self.create_completion(prompt=prompt, **call)

    def create_completion(self, **call: Any) -> Any:
        return self._ask(self.llama.create_completion, call)

    def create_chat_completion(self, **call: Any) -> Any:
        return self._ask(self.llama.create_chat_completion, call)

    def _ask(self, method: Any, call: dict[str, Any]) -> Any:
        self.llama.chat_format = self.chat_format
        key = f"{method.__name__} {self.chat_format} {call}"
        if key not in self._said:
            answer = method(**call)
            self._said[key] = list(answer) if call.get("stream") else answer
        return self._said[key]


def settled(response: dict[str, Any]) -> dict[str, Any]:
    """Return a response without its time, one word for its id wherever that stands; both are checked to be such."""
    assert re.fullmatch(f"(chat)?{ID}", response["id"])
    assert isinstance(response["created"], int)

    def settle(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: settle(item) for key, item in value.items()}
        if isinstance(value, list):
            return [settle(item) for item in value]
        return re.sub(ID, "ID", value) if isinstance(value, str) else value

    return {key: settle(value) for key, value in response.items() if key != "created"}


def assert_same(ours: Any, theirs: Any) -> None:
    """Check that two values are equal, floats nearly, and keys in the same order."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict)
        assert list(ours) == list(theirs)
        for key, value in theirs.items():
            assert_same(ours[key], value)
    elif isinstance(theirs, list):
        assert isinstance(ours, list)
        assert len(ours) == len(theirs), (ours, theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif hasattr(theirs, "dtype") or isinstance(theirs, float):
        assert type(ours) is float
        assert ours == pytest.approx(float(theirs), abs=CLOSE)
    else:
        assert ours == theirs


def assert_same_responses(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert_same(settled(ours), settled(theirs))


def assert_same_streams(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    assert_same([settled(chunk) for chunk in ours], [settled(chunk) for chunk in theirs])
    assert len({chunk["id"] for chunk in ours}) == 1


def said(response: dict[str, Any]) -> str:
    """Return a whole answer's text."""
    choice = response["choices"][0]
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    assert isinstance(text, str)
    return text


def streamed(chunks: list[dict[str, Any]]) -> str:
    """Return the join of a streamed answer's texts."""
    choices = [chunk["choices"][0] for chunk in chunks]
    return "".join(c["text"] if "text" in c else c["delta"].get("content") or "" for c in choices)
