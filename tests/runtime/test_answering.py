"""From steps to chunks, on a toy model."""

from __future__ import annotations

import pytest
from fakes import ToyModel, fake_backend

from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.metrics import RunMeter
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting.drafter import PlainDrafter
from recycle_cpp.runtime.answering import Answering
from recycle_cpp.text.answers.answer_text import AnswerText


class Always:
    """A vocabulary in which every token says the same."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        raise NotImplementedError

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return self._data


@pytest.mark.parametrize(("stops", "text", "reason"), [(("abcd", "bc"), "a", "stop"), (("abcd",), "abc", "length")])
def test_a_stop_string_that_only_the_end_decides_is_why_the_answer_ends(stops, text: str, reason: str) -> None:
    engine = Engine(fake_backend(ToyModel(1, eog=-50))[0])
    engine.prepare([1, 2, 3])
    answering = Answering(
        engine,
        Request(PlainDrafter(), GreedySampler(), max_tokens=1),
        AnswerText(Always(b"abc"), stops),
        RunMeter(2, 0.0),
        is_eog=lambda _token: False,
        prompt_tokens=3,
        cached_tokens=0,
    )
    (last,) = answering.chunks()
    assert (last.text, last.pieces, last.finish_reason) == (text, (text,), reason)
