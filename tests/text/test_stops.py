from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recycle_cpp.text.answers.stops import StopMachine

CASES = [
    ((), "anything at all"),
    (("ab",), "xxabyy"),
    (("aab", "ab"), "xaabx"),
    (("aab", "ab"), "aaab"),
    (("ab", "abc"), "xabcab"),
    (("abc", "ab"), "xabd"),
    (("abcd", "bc"), "xabcdx"),
    (("abcd", "bc"), "xabcx"),
    (("abcd", "bc"), "xabc"),
    (("abcde", "bcx", "c"), "abcdy"),
    (("aaaa",), "aaabaaaa"),
    (("aaab",), "aaaaaab"),
    (("abab", "ba"), "ababab"),
    (("\n\n", "\nUser:"), "hi\nUser: x"),
    (("👩‍👧", "👧"), "a👩‍👩‍👧b"),
    (("中文", "文"), "这是中文字"),
    (("السلام",), "قال السلام عليكم"),
    (("e\u0301",), "cafe\u0301"),
]


def reference(stops: tuple[str, ...], whole: str) -> tuple[str, str | None]:
    """Cut the whole text at the earliest place where a stop string starts; the shortest if several do."""
    found = [(whole.find(stop), len(stop), stop) for stop in stops if stop in whole]
    if not found:
        return whole, None
    at, _, stop = min(found)
    return whole[:at], stop


def streamed(stops: tuple[str, ...], pieces: list[str]) -> tuple[str, str | None]:
    machine = StopMachine(stops)
    delivered = "".join(machine.push(piece) for piece in pieces) + machine.flush()
    assert machine.flush() == ""
    return delivered, machine.matched


def every_split(text: str) -> list[list[str]]:
    splits = []
    for count in range(len(text)):
        if count > 3 and count < len(text) - 1:
            continue  # up to three cuts, and into single characters
        splits += [
            [text[a:b] for a, b in pairwise([0, *places, len(text)])]
            for places in combinations(range(1, len(text)), count)
        ]
    return splits


@pytest.mark.parametrize(("stops", "whole"), CASES)
def test_the_text_is_cut_at_the_earliest_stop_string_at_every_split(stops: tuple[str, ...], whole: str) -> None:
    expected = reference(stops, whole)
    for pieces in every_split(whole):
        assert streamed(stops, pieces) == expected, pieces


small_texts = st.text(alphabet="ab", max_size=14)
wide_texts = st.text(alphabet="abc\n中🦙\u0301ع", max_size=14)


@given(st.one_of(small_texts, wide_texts), st.data())
def test_any_text_any_stops_any_split_equal_the_slow_reference(whole: str, data: st.DataObject) -> None:
    parts = st.text(alphabet=sorted(set(whole) | {"a"}), min_size=1, max_size=5)
    stops = tuple(data.draw(st.lists(parts, max_size=4)))
    places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=14)))
    pieces = [whole[a:b] for a, b in pairwise([0, *places, len(whole)])]
    assert streamed(stops, pieces) == reference(stops, whole)
    assert streamed(stops, list(whole)) == reference(stops, whole)


@given(small_texts, st.lists(st.text(alphabet="ab", min_size=1, max_size=5), min_size=1, max_size=3))
def test_less_than_a_stop_string_is_held_back_and_only_text_that_may_become_one(whole: str, stops: list[str]) -> None:
    machine = StopMachine(tuple(stops))
    delivered = ""
    for length, character in enumerate(whole, 1):
        delivered += machine.push(character)
        if machine.matched is not None:
            break
        held = whole[len(delivered) : length]
        assert len(held) < max(map(len, stops))
        assert not held or any(stop.startswith(held) for stop in stops)


@given(small_texts, st.lists(st.text(alphabet="ab", min_size=1, max_size=5), min_size=1, max_size=3))
def test_no_character_of_the_matched_stop_string_is_ever_delivered(whole: str, stops: list[str]) -> None:
    machine = StopMachine(tuple(stops))
    delivered = ""
    for character in whole:
        delivered += machine.push(character)
        assert not any(stop in delivered for stop in stops)
    if machine.matched is not None:
        assert whole.startswith(delivered + machine.matched)


def test_after_a_match_nothing_more_is_delivered() -> None:
    machine = StopMachine(("END",))
    assert machine.push("text END and more") == "text "
    assert machine.push("END") == ""
    assert machine.flush() == ""
    assert machine.matched == "END"


def test_a_match_is_known_with_the_character_that_completes_it() -> None:
    machine = StopMachine(("aab", "ab"))
    assert [machine.push(character) for character in "xaa"] == ["x", "", ""]
    assert machine.matched is None
    assert machine.push("b") == ""
    assert machine.matched == "aab"


def test_a_match_does_not_wait_for_a_longer_stop_string_at_the_same_place() -> None:
    machine = StopMachine(("abc", "ab"))
    assert machine.push("xab") == "x"
    assert machine.matched == "ab"


def test_a_match_inside_a_longer_one_waits_only_while_that_one_may_come_true() -> None:
    machine = StopMachine(("abcde", "bc"))
    assert [machine.push(character) for character in "abcd"] == ["", "", "", ""]
    assert machine.matched is None
    assert machine.push("x") == "a"
    assert machine.matched == "bc"


def test_without_stop_strings_every_piece_passes_at_once() -> None:
    machine = StopMachine(())
    assert [machine.push(piece) for piece in ("a", "", "bc\n")] == ["a", "", "bc\n"]
    assert machine.flush() == ""


def test_text_held_back_is_delivered_when_the_generation_ends_otherwise() -> None:
    machine = StopMachine(("<|end|>",))
    assert machine.push("1 <|en") == "1 "
    assert machine.flush() == "<|en"
    assert machine.matched is None


def test_a_long_stop_string_does_not_make_a_long_text_slow() -> None:
    seen = 0

    class CountedText(str):
        __slots__ = ()

        def startswith(self, *arguments: object) -> bool:
            nonlocal seen
            seen += 1
            return str.startswith(self, *arguments)

    stop = CountedText("a" * 200 + "b")
    machine = StopMachine((stop,))
    text = ("a" * 150 + "c") * 20
    assert "".join(map(machine.push, text)) + machine.flush() == text
    assert seen < 4 * len(text)
