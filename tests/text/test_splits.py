"""Two thousand random cuts through the whole chain: tokens, characters, stop strings, parts of the answer.

Each case says what the stream must join to: the text up to the first stop string, and what the parts of that text are
when they are told apart in one go.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest
from pieces import PieceVocabulary

from recycle_cpp.text import families
from recycle_cpp.text.answers.answer_text import AnswerText
from recycle_cpp.text.answers.parts import AnswerParts, Parts
from recycle_cpp.types import Tool, Vocabulary

N_SPLITS = 2_000
FAMILY = families.HERMES._replace(reasoning=families.THINK)
CALL = '<tool_call>\n{"name": "sag_es", "arguments": {"wort": "🦙 \\"</tool_call>\\" ع"}}\n</tool_call>'
PASSAGES = [
    "x 👩‍👩‍👧‍👦 and 🏳️‍🌈 🦙🧑🏽‍🚀!",
    "你好，世界。日本語の文章と한국어 𠮷野家",
    "السَّلامُ عليكم، كيف الحال؟",
    "naïve\r\n\tcafé \x00 −½ \u2028 e\u0301 नमस्ते ",
    "<think>\nOslo… 🦙\n</think>\n\n",
    "a < b <to <tool_call <|end|> STOP\n\nUser: ",
    CALL,
    "\n<tool_call>{kaputt}</tool_call> ",
]
MODELS = ["smollm2-135m-instruct-q4_1.gguf", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"]


class Case(NamedTuple):
    text: str
    stops: tuple[str, ...]
    tools: tuple[Tool, ...]


def make_case(rng: random.Random) -> Case:
    """Return some passages in a row and stop strings, most of them out of the text itself."""
    text = "".join(rng.choices(PASSAGES, k=rng.randint(1, 4)))
    stops = []
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        at = rng.randrange(len(text))
        stops.append(rng.choice([text[at : at + rng.randint(1, 8)], "STOP", "\n\nUser:", "🦙🦙", "عليكم"]))
    return Case(text, tuple(dict.fromkeys(stops)), rng.choice([(), (Tool("sag_es"),)]))


def expected(case: Case, text: str) -> tuple[str, Parts]:
    """Cut the whole text at the earliest stop string, and tell its parts apart in one go."""
    whole = text[: min((text.find(stop) for stop in case.stops if stop in text), default=len(text))]
    told = begin(case)
    return whole, joined([told.push(whole), told.flush()])


def begin(case: Case) -> AnswerParts:
    return AnswerParts(FAMILY, tools=case.tools, make_id=lambda written: written)


def joined(parts: list[Parts]) -> Parts:
    return Parts(
        "".join(part.content for part in parts),
        "".join(part.reasoning for part in parts),
        tuple(call for part in parts for call in part.tool_calls),
    )


def streamed(case: Case, vocabulary: Vocabulary, tokens: list[int]) -> tuple[str, Parts]:
    """Return the text and the parts as they come token by token; what was sent is looked at after each."""
    answer, told = AnswerText(vocabulary, case.stops), begin(case)
    text, parts = "", []
    for token in tokens:
        piece = answer.push(token)
        text += piece
        parts.append(told.push(piece))
        assert not any(stop in text for stop in case.stops), "a stop string was sent"
        if answer.stopped:
            break
    rest = answer.flush()
    parts += [told.push(rest), told.flush()]
    return text + rest, joined(parts)


@pytest.mark.parametrize("seed", range(4))
def test_bytes_cut_anywhere_stream_to_the_whole(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(N_SPLITS // 4):
        case = make_case(rng)
        data = case.text.encode()
        places = sorted(rng.choices(range(len(data) + 1), k=rng.choice([1, 3, 10, len(data)])))
        pieces = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
        tokens = list(range(len(pieces)))
        assert streamed(case, PieceVocabulary(pieces), tokens) == expected(case, case.text), (case, pieces)


@pytest.mark.parametrize("model", MODELS)
def test_real_tokens_of_texts_cut_anywhere_stream_to_the_whole(open_vocabulary, model: str) -> None:
    """The text is tokenized in random pieces, so that characters and marks are split in ways a model may choose."""
    vocabulary = open_vocabulary(model)
    rng = random.Random(1)
    for _ in range(N_SPLITS // 2):
        case = make_case(rng)
        places = sorted(rng.choices(range(len(case.text) + 1), k=rng.choice([0, 2, 8, 40])))
        spans = zip([0, *places], [*places, len(case.text)], strict=True)
        tokens = [
            token
            for a, b in spans
            for token in vocabulary.tokenize(case.text[a:b], add_special=False, parse_special=False)
        ]
        whole = b"".join(vocabulary.piece(token) for token in tokens).decode()
        assert whole == case.text
        assert streamed(case, vocabulary, tokens) == expected(case, whole), case


def test_bytes_that_are_no_text_are_replaced_once_at_every_cut() -> None:
    rng = random.Random(2)
    for _ in range(N_SPLITS):
        data = bytearray(rng.choice(PASSAGES).encode())
        for _ in range(rng.randint(1, 4)):
            data.insert(rng.randrange(len(data) + 1), rng.choice([0x80, 0xC3, 0xE4, 0xF0, 0x9F, 0xFF]))
        places = sorted(rng.choices(range(len(data) + 1), k=rng.choice([1, 3, len(data)])))
        pieces = [bytes(data[a:b]) for a, b in zip([0, *places], [*places, len(data)], strict=True)]
        case = Case("", rng.choice([(), ("\ufffd",), ("🦙",)]), ())
        whole = data.decode("utf-8", "replace")
        assert streamed(case, PieceVocabulary(pieces), list(range(len(pieces)))) == expected(case, whole)
