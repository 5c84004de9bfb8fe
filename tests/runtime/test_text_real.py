"""Real SmolLM2: stop strings at every place, characters cut over tokens, budgets."""

from __future__ import annotations

import pytest

from recycle_cpp.runtime import Runtime
from recycle_cpp.types import Chunk, GenerateOptions

PROMPT = "Write a short note that thanks a friend for dinner."
BUDGET = 14
CUT_CHARACTERS = [
    "🙂🙃🙂🙃🙂🙃🙂🙃🙂",
    "👩‍👩‍👧‍👦, 👩‍👩‍👧‍👦, 👩‍👩‍👧‍👦,",
    "你好，世界。你好，世界。你好，",
    "日本語の文章。日本語の文章。日本",
    "한국어 문장. 한국어 문장. 한국",
]


def options(draft: str, **more) -> GenerateOptions:
    return GenerateOptions(**{"max_tokens": BUDGET, "draft": draft, "exact": draft == "tree", **more})


def stream(runtime: Runtime, request: GenerateOptions, prompt: str = PROMPT) -> list[Chunk]:
    return list(runtime.stream(prompt, request))


def counts(chunk: Chunk) -> tuple[int, int]:
    return chunk.usage.prompt_tokens, chunk.usage.completion_tokens


def emitted(chunks: list[Chunk]) -> list[int]:
    return [token for chunk in chunks for token in chunk.tokens]


def test_no_byte_of_a_stop_string_is_sent_wherever_it_stands_and_the_cache_ends_there(smollm: Runtime) -> None:
    plain = smollm.generate(PROMPT, options("off"))
    whole = plain.text
    assert len(whole) > 30
    smollm.generate(PROMPT, options("tree"))  # so that the chains hit
    prompt = smollm.tokenize(PROMPT)
    pieces = [smollm._loaded.model.piece(token).decode() for token in plain.tokens]
    n_inside_a_step = n_held_back = 0
    for start in range(len(whole) - 3):
        for size in (3,) if start % 4 else (1, 12):
            stop = whole[start : start + size]
            n = next(n for n in range(len(pieces) + 1) if stop in "".join(pieces[:n]))
            for draft in ("tree",) if start % 5 else ("tree", "off"):
                chunks = stream(smollm, options(draft, stop=(stop,)))
                assert "".join(chunk.text for chunk in chunks) == whole[: whole.find(stop)]
                assert emitted(chunks) == list(plain.tokens[:n])
                assert (counts(chunks[-1]), chunks[-1].finish_reason) == ((len(prompt), n), "stop")
                assert smollm._requests._engine.prepare([*prompt, *plain.tokens[:n], 5]) == 1, (
                    "more than the rest is evaluated"
                )
                n_inside_a_step += len(chunks[-1].tokens) > 1
                n_held_back += len(chunks) > 1 and chunks[-2].text == ""
    assert n_inside_a_step > 10 or smollm._loaded.exact_widths().width == 1
    assert n_held_back > 5


def test_a_stop_string_cuts_a_trees_accepted_tokens_too(smollm: Runtime) -> None:
    first = smollm.generate(PROMPT, options("tree", exact=False))
    again = stream(smollm, options("tree", exact=False))
    assert max(len(chunk.tokens) for chunk in again) > 2
    text = "".join(chunk.text for chunk in again)
    for start in (4, 9, 17):
        chunks = stream(smollm, options("tree", exact=False, stop=(text[start : start + 4],)))
        assert "".join(chunk.text for chunk in chunks) == text[: text.find(text[start : start + 4])]
        assert emitted(chunks) == emitted(again)[: len(emitted(chunks))]
        assert smollm._requests._engine.prepare([*smollm.tokenize(PROMPT), *emitted(chunks), 5]) == 1
    assert first.usage.completion_tokens == len(emitted(again)) == BUDGET


def test_a_stop_string_that_never_comes_changes_nothing(smollm: Runtime) -> None:
    for draft in ("off", "tree"):
        one = smollm.generate(PROMPT, options(draft))
        other = smollm.generate(PROMPT, options(draft, stop=("never said", one.text[-2:] + "\0")))
        assert (one.text, one.tokens, one.finish_reason) == (other.text, other.tokens, "length")


@pytest.mark.parametrize("prompt", CUT_CHARACTERS)
def test_pieces_of_cut_characters_join_to_the_whole_text(smollm: Runtime, prompt: str) -> None:
    for draft in ("off", "tree"):
        request = options(draft, raw=True, max_tokens=20)
        chunks = stream(smollm, request, prompt)
        whole = smollm.generate(prompt, request)
        piece = smollm._loaded.model.piece
        expected = b"".join(piece(token) for token in whole.tokens).decode("utf-8", "replace")
        assert "".join(chunk.text for chunk in chunks) == whole.text == expected
        assert "\ufffd" not in "".join(chunk.text for chunk in chunks[:-1])
        assert not whole.text.isascii()
    assert any(chunk.text == "" for chunk in chunks) or all(_is_whole(piece(token)) for token in whole.tokens)


def test_some_of_these_prompts_do_cut_characters_over_tokens(smollm: Runtime) -> None:
    piece = smollm._loaded.model.piece
    answers = [smollm.generate(prompt, options("off", raw=True, max_tokens=20)) for prompt in CUT_CHARACTERS]
    assert sum(any(not _is_whole(piece(token)) for token in answer.tokens) for answer in answers) >= 3


def _is_whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("max_tokens", range(1, 13))
def test_as_many_tokens_are_delivered_and_counted_as_were_asked_for(
    smollm: Runtime, max_tokens: int, exact: bool
) -> None:
    chunks = stream(smollm, options("tree", exact=exact, max_tokens=max_tokens))
    last = chunks[-1]
    assert len(emitted(chunks)) == last.usage.completion_tokens == last.timings.predicted_n == max_tokens
    assert (last.finish_reason, last.usage.prompt_tokens) == ("length", len(smollm.tokenize(PROMPT)))
    assert all((c.finish_reason, c.usage, c.timings) == (None, None, None) for c in chunks[:-1])
