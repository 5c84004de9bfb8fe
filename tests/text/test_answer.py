from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from pieces import PieceVocabulary

from recycle_cpp.text.answers.answer_text import AnswerText, shown_pieces


def run(pieces: list[bytes], stops: tuple[str, ...]) -> tuple[str, int]:
    """Push tokens until stopped; return the text and how many tokens that took."""
    answer = AnswerText(PieceVocabulary(pieces), stops)
    text = ""
    used = 0
    for token in range(len(pieces)):
        text += answer.push(token)
        used += 1
        if answer.stopped:
            break
    return text + answer.flush(), used


@pytest.mark.parametrize("whole", ["a🦙STOPb", "中END文", "x\n\ny"])
@pytest.mark.parametrize("stops", [("STOP",), ("🦙", "END"), ("\n\n", "文")])
def test_bytes_cut_anywhere_give_the_text_before_the_stop_string(whole: str, stops: tuple[str, ...]) -> None:
    data = whole.encode()
    expected = min((whole.split(stop, maxsplit=1)[0] for stop in stops), key=len)
    for count in range(3):
        for places in combinations(range(1, len(data)), count):
            pieces = [data[a:b] for a, b in pairwise([0, *places, len(data)])]
            assert run(pieces, stops)[0] == expected


def test_the_token_that_completes_the_stop_string_is_the_one_at_which_it_is_stopped() -> None:
    answer = AnswerText(PieceVocabulary([b"ab", b"EN", b"Dx", b"more"]), ("END",))
    seen = [(answer.push(token), answer.stopped) for token in range(4)]
    assert seen == [("ab", False), ("", False), ("", True), ("", True)]
    assert answer.flush() == ""


def test_a_stop_string_of_one_character_stops_with_the_last_byte_of_it() -> None:
    answer = AnswerText(PieceVocabulary([bytes([byte]) for byte in "🦙".encode()]), ("🦙",))
    stopped = []
    for token in range(4):
        assert answer.push(token) == ""
        stopped.append(answer.stopped)
    assert stopped == [False, False, False, True]


def test_the_end_delivers_an_incomplete_character_and_an_incomplete_stop_string() -> None:
    answer = AnswerText(PieceVocabulary([b"aEN", b"\xf0\x9f"]), ("END",))
    assert answer.push(0) == "a"
    assert answer.push(1) == ""
    assert answer.flush() == "EN\ufffd"
    assert not answer.stopped


def test_a_stop_string_that_only_the_end_decides_sets_stopped_in_flush() -> None:
    answer = AnswerText(PieceVocabulary([b"abc"]), ("abcd", "bc"))
    assert answer.push(0) == ""
    assert not answer.stopped
    assert answer.flush() == "a"
    assert answer.stopped


def test_a_replacement_character_made_at_the_end_can_be_a_stop_string() -> None:
    answer = AnswerText(PieceVocabulary([b"a\xf0\x9f"]), ("\ufffd",))
    assert answer.push(0) + answer.flush() == "a"
    assert answer.stopped


def test_control_tokens_add_nothing() -> None:
    assert run([b"a", b"", b"b"], ()) == ("ab", 3)


def test_a_stop_string_over_many_tokens_never_leaks_and_ends_at_the_token_that_completes_it() -> None:
    pieces = [b"a", b"\n", b"Us", b"", b"er", b":", b" more"]  # the fourth is a control token
    answer = AnswerText(PieceVocabulary(pieces), ("\nUser:",))
    seen = [(answer.push(token), answer.stopped) for token in range(len(pieces))]
    assert seen == [("a", False), *[("", False)] * 4, ("", True), ("", True)]
    assert answer.flush() == ""


def test_a_stop_string_in_one_accepted_token_leaves_what_stands_before_it() -> None:
    answer = AnswerText(PieceVocabulary([b"so\n\nQ", b"x"]), ("\n\n",))
    assert (answer.push(0), answer.stopped, answer.push(1), answer.flush()) == ("so", True, "", "")


def test_text_held_back_for_a_stop_string_comes_with_what_flush_makes_of_half_a_character() -> None:
    answer = AnswerText(PieceVocabulary([b"a EN", "é".encode()[:1]]), ("END",))
    assert answer.push(0) + answer.push(1) == "a "
    assert answer.flush() == "EN\ufffd"


def test_control_tokens_are_text_where_they_are_to_be_shown() -> None:
    answer = AnswerText(PieceVocabulary([b"a", b"", b"", b"b"]), ("[END]",), shown={1: b"[CALL]", 2: b"[END]"})
    assert [answer.push(token) for token in range(4)] == ["a", "[CALL]", "", ""]
    assert answer.stopped


def test_only_the_control_tokens_of_marks_are_shown() -> None:
    class Marked(PieceVocabulary):
        def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
            return {"<call>": [0], "<channel>final": [1, 2]}[text]

        def piece(self, token: int, *, special: bool = False) -> bytes:
            return [b"<call>", b"<channel>" if special else b"", b"final"][token]

    assert shown_pieces(Marked(), ["<call>", "<channel>final"]) == {1: b"<channel>"}
