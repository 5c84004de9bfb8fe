"""Text, stop strings and what a stream may say, on bytes cut at random; llama_cpp's own way is the reference."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recycle_cpp.drop_in.answer import Answer
from recycle_cpp.types import Chunk

TEXTS = st.text(st.sampled_from("abc é你😀\n"), max_size=30)
STOPS = st.lists(st.text(st.sampled_from("abc é你😀"), min_size=1, max_size=3), max_size=3)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut bytes at some places, modulo their length."""
    at = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(at)]


def answer_of(pieces: list[bytes], stops: list[str], max_tokens: int = 1000, opening: tuple[int, ...] = ()) -> Answer:
    return Answer(opening, stops, max_tokens, lambda token, _before: pieces[token], lambda token: token == len(pieces))


def run(answer: Answer, n: int, *, by_token: bool, size: int = 3) -> list[str]:
    """Give an answer n tokens and the end, some at a time, and return what it shows."""
    tokens = list(range(n + 1))
    shown = []
    for at in range(0, len(tokens), size):
        shown += answer.take(Chunk("", tuple(tokens[at : at + size])), by_token=by_token)
        if answer.reason is not None:
            break
    return [part.text for part in shown + answer.rest()]


def llama_cpps_stream(pieces: list[bytes], stops: list[str]) -> list[str]:
    """Return the texts that llama_cpp streams, but for its last, empty one, and for its wait after a character."""
    sequences = [stop.encode() for stop in stops]
    shown, tokens, returned = [], [], 0
    for piece in pieces:
        tokens.append(piece)
        if any(stop in b"".join(tokens) for stop in sequences):
            break
        rest = b"".join(tokens[returned:])
        held = max((n for s in sequences for n in range(len(s) + 1) if rest.endswith(s[:n])), default=0)
        position = 0
        while returned < len(tokens):
            for i in range(returned + 1, len(tokens) + 1):
                try:
                    text = b"".join(tokens[returned:i]).decode()
                    break
                except UnicodeError:
                    pass
            else:
                break
            position += len(text.encode())
            if position > len(rest) - held:
                break
            shown.append(text)
            returned = i
    rest = b"".join(tokens[returned:])
    end = min((rest.index(s) for s in sequences if s in rest), default=len(rest))
    position = 0
    for piece in tokens[returned:]:
        position += len(piece)
        if position >= end:
            shown.append(piece[: len(piece) - (position - end)].decode("utf-8", "ignore"))
            break
        shown.append(piece.decode("utf-8", "ignore"))
    return shown


@given(TEXTS, st.lists(st.integers(0, 200)), STOPS, st.integers(1, 4))
def test_a_stream_is_llama_cpps_text_by_text(text: str, places: list[int], stops: list[str], size: int) -> None:
    pieces = cut(text.encode(), places)
    mine = run(answer_of(pieces, stops), len(pieces), by_token=False, size=size)
    expected = llama_cpps_stream(pieces, stops)
    assert len(mine) == len(expected)
    if all(piece.decode("utf-8", "ignore").encode() == piece for piece in pieces):
        assert mine == expected  # where a character is cut, llama_cpp loses it at the end


@given(st.binary(max_size=40) | TEXTS.map(str.encode), st.lists(st.integers(0, 200)), STOPS, st.booleans())
def test_what_is_shown_joins_to_the_text_up_to_the_first_stop(
    data: bytes, places: list[int], stops: list[str], by_token: bool
) -> None:
    pieces = cut(data, places)
    answer = answer_of(pieces, stops)
    shown = "".join(run(answer, len(pieces), by_token=by_token))
    end = len(data)
    for text in accumulate(pieces):  # the first token that completes a stop string ends the text
        found = [text.index(stop.encode()) for stop in stops if stop.encode() in text]
        if found:
            end = min(found)
            break
    assert shown == answer.text == data[:end].decode("utf-8", "ignore")
    assert answer.reason == "stop"


@given(TEXTS, st.lists(st.integers(0, 200)))
def test_offsets_count_the_characters_before_each_token(text: str, places: list[int]) -> None:
    pieces = cut(text.encode(), places)
    answer = answer_of(pieces, [])
    run(answer, len(pieces), by_token=True)
    befores = [len(b"".join(pieces[:i]).decode("utf-8", "ignore")) for i in range(len(pieces))]
    assert [part.before for part in answer.parts] == befores


@pytest.mark.parametrize("max_tokens", [1, 2, 3])
def test_an_answer_takes_no_more_tokens_than_asked_for(max_tokens: int) -> None:
    answer = answer_of([b"a", b"b", b"c", b"d"], [], max_tokens)
    assert "".join(run(answer, 4, by_token=False)) == "abc"[:max_tokens]
    assert answer.reason == "length"
    assert len(answer.tokens) == max_tokens


def test_a_stop_counts_the_token_that_completes_it_and_none_after() -> None:
    answer = answer_of([b"a", b"b", b"c", b"d"], ["bc"])
    assert run(answer, 4, by_token=False) == ["a", ""]
    assert answer.tokens == [0, 1, 2]


def test_an_empty_prompts_answer_begins_without_the_space() -> None:
    answer = answer_of([b" a", b" b"], [], opening=(9,))
    assert run(answer, 2, by_token=False) == ["", "a", " b"]
    assert answer.tokens == [9, 0, 1]


def test_an_answer_that_the_runtime_ends_without_a_token_ends_for_that_reason() -> None:
    answer = answer_of([b"a"], [])
    answer.take_all(iter([Chunk("a", (0,)), Chunk("", (), finish_reason="stop")]))
    assert (answer.text, answer.reason) == ("a", "stop")
