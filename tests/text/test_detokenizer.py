from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pieces import PieceVocabulary

from recycle_cpp.text.answers.detokenizer import Detokenizer

# The edges of UTF-8: leads of every length, continuations, surrogate halves, overlong and too high forms.
EDGES = bytes([0x00, 0x41, 0x80, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF])


def streamed(pieces: list[bytes]) -> str:
    detokenizer = Detokenizer(PieceVocabulary(pieces))
    return "".join(detokenizer.push(token) for token in range(len(pieces))) + detokenizer.flush()


def cut(whole: bytes, places: list[int]) -> list[bytes]:
    return [whole[a:b] for a, b in pairwise([0, *sorted(places), len(whole)])]


byte_strings = st.one_of(
    st.binary(max_size=40),
    st.lists(st.sampled_from(list(EDGES)), max_size=24).map(bytes),
    st.text(max_size=16).map(lambda text: text.encode()),
)


@given(byte_strings, st.data())
def test_any_bytes_split_in_any_way_join_to_the_decoded_whole(whole: bytes, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(whole)), max_size=12))
    assert streamed(cut(whole, places)) == whole.decode("utf-8", "replace")


@given(byte_strings)
def test_single_bytes_join_to_the_decoded_whole(whole: bytes) -> None:
    assert streamed([bytes([byte]) for byte in whole]) == whole.decode("utf-8", "replace")


@given(st.text(max_size=12), st.data())
def test_valid_text_never_shows_a_replacement_character_on_the_way(text: str, data: st.DataObject) -> None:
    whole = text.encode()
    pieces = cut(whole, data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    detokenizer = Detokenizer(PieceVocabulary(pieces))
    so_far = ""
    for token in range(len(pieces)):
        so_far += detokenizer.push(token)
        assert text.startswith(so_far)
    assert so_far == text
    assert detokenizer.flush() == ""


def test_a_character_appears_with_its_last_byte() -> None:
    detokenizer = Detokenizer(PieceVocabulary([bytes([byte]) for byte in "🦙".encode()]))
    assert [detokenizer.push(token) for token in range(4)] == ["", "", "", "🦙"]


@pytest.mark.parametrize("incomplete", [b"\xf0\x9f\xa6", b"\xf0\x9f", b"\xf0", b"\xe4\xb8", b"\xc3"])
def test_an_incomplete_character_at_the_end_becomes_one_replacement_character(incomplete: bytes) -> None:
    detokenizer = Detokenizer(PieceVocabulary([b"a" + incomplete]))
    assert detokenizer.push(0) == "a"
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""


def test_a_control_token_in_the_middle_of_a_character_changes_nothing() -> None:
    assert streamed([b"\xe4", b"", b"\xb8\xad"]) == "中"
