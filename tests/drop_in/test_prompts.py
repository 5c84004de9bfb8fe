"""Prompts of completions: what comes before, behind and between, by what the model wants."""

from __future__ import annotations

import pytest

from recycle_cpp.drop_in.prompts import PromptTokens, prompt_tokens

BOS, EOS, SEP, PRE, SUF, MID = 1, 2, 3, 4, 5, 6


class Model:
    """Stands in for a ModelFace: a token is a byte and 100."""

    def __init__(self, *, bos=True, eos=False, sep=-1, infill=False, tokenizer="gpt2") -> None:
        self.add_bos_token = lambda: bos
        self.add_eos_token = lambda: eos
        self.token_bos = lambda: BOS
        self.token_eos = lambda: EOS
        self.token_sep = lambda: sep
        self.token_prefix = lambda: PRE if infill else -1
        self.token_suffix = lambda: SUF if infill else -1
        self.token_middle = lambda: MID if infill else -1
        self.metadata = lambda: {"tokenizer.ggml.model": tokenizer}
        self.token_get_text = lambda token: f"<{token}>"
        self.asked: list[tuple[bytes, bool, bool]] = []

    def tokenize(self, text: bytes, add_bos: bool, special: bool) -> list[int]:
        self.asked.append((text, add_bos, special))
        if self.metadata()["tokenizer.ggml.model"] != "llama":
            return [100 + byte for byte in text]
        mark = "☺".encode()  # SentencePiece puts a space before a text
        return [99, *([98] if text.startswith(mark) else []), *(100 + byte for byte in text.removeprefix(mark))]

    def require_tokens(self, tokens) -> None:
        assert all(token >= 0 for token in tokens)


def tokens_of(model: Model, prompt, suffix=None, *, suffix_first=False) -> PromptTokens:
    return prompt_tokens(prompt, suffix, model, model.tokenize, suffix_first=suffix_first)


def letters(text: str) -> list[int]:
    return [100 + byte for byte in text.encode()]


@pytest.mark.parametrize(
    ("wants", "expected"),
    [
        ({}, [BOS, *letters("ab")]),
        ({"bos": False}, letters("ab")),
        ({"eos": True}, [BOS, *letters("ab"), EOS]),
        ({"sep": SEP}, [BOS, *letters("ab"), SEP]),
        ({"bos": False, "eos": True, "sep": SEP}, [*letters("ab"), SEP]),
    ],
)
def test_a_text_gets_the_tokens_around_it_that_the_model_wants(wants: dict, expected: list[int]) -> None:
    model = Model(**wants)
    assert tokens_of(model, "ab") == (expected, [], "")
    assert model.asked == [(b"ab", False, True)]  # control tokens are read


def test_tokens_are_taken_as_they_are() -> None:
    assert tokens_of(Model(eos=True), [7, 8]) == ([7, 8], [], "")


def test_an_empty_text_begins_the_answer_with_the_first_token() -> None:
    assert tokens_of(Model(), "") == ([BOS], [BOS], "")
    assert tokens_of(Model(bos=False), "") == ([], [BOS], "")


def test_a_suffix_stands_between_the_models_own_marks() -> None:
    model = Model(infill=True)
    assert tokens_of(model, "a", "b") == ([BOS, PRE, *letters("a"), SUF, *letters("b"), MID], [], "")
    assert model.asked == [(b"a", False, False), (b"b", False, False)]  # nothing in it is a mark
    first = tokens_of(model, "a", "b", suffix_first=True)
    assert first.tokens == [BOS, SUF, *letters("b"), PRE, *letters("a"), MID]
    assert tokens_of(model, [7], "").tokens == [BOS, PRE, 7, SUF, MID]


def test_a_suffix_of_a_sentencepiece_model_has_no_space_before_it() -> None:
    assert tokens_of(Model(infill=True, tokenizer="llama"), [7], "b").tokens == [BOS, PRE, 7, SUF, *letters("b"), MID]


def test_a_model_that_cannot_fill_in_leaves_the_suffix_to_be_put_behind() -> None:
    assert tokens_of(Model(), "a", "b") == ([BOS, *letters("a")], [], "b")


def test_a_doubled_first_token_is_warned_of() -> None:
    with pytest.warns(RuntimeWarning, match='duplicate leading "<1>"'):
        tokens_of(Model(), [BOS, BOS])
