"""From the prompt of a completion to its tokens."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recycle_cpp.drop_in.vocabulary import ModelFace

_MARK = "☺"  # takes the space that some tokenizers put before a text, and is cut off again


class PromptTokens(NamedTuple):
    """A prompt as it is decoded.

    Attributes:
        tokens: all of it, a suffix to lead up to included.
        opening: tokens that count as the answer's first, though they are not decoded: for an empty prompt the token
            that begins a text, so that the answer does not begin with a space.
        tail: text to put behind the answer: a suffix that the model has no tokens to mark with.
    """

    tokens: list[int]
    opening: list[int]
    tail: str


def prompt_tokens(
    prompt: str | Sequence[int],
    suffix: str | None,
    model: ModelFace,
    tokenize: Callable[[bytes, bool, bool], list[int]],
    *,
    suffix_first: bool,
) -> PromptTokens:
    """Return the tokens of a prompt.

    A suffix is marked by the model's own tokens for that; llama_cpp 0.3.36 writes token 0 instead, whatever that is.

    Args:
        prompt: a text, or tokens that are taken as they are.
        suffix: what the answer is to lead up to.
        model: knows the special tokens.
        tokenize: turns UTF-8 into tokens, told whether to add the token that begins a text, and to read control tokens.
        suffix_first: put the suffix before the prefix.
    """
    marks = (model.token_prefix(), model.token_suffix(), model.token_middle())
    infill = suffix is not None and min(marks) >= 0
    if isinstance(prompt, str):
        body = tokenize(prompt.encode(), False, not infill) if prompt else []
    else:
        model.require_tokens(prompt)
        body = [int(token) for token in prompt]
    if suffix is not None and infill:
        before, after, middle = marks
        parts = [[before, *body], [after, *_suffix_tokens(suffix, model, tokenize)]]
        body = [token for part in (reversed(parts) if suffix_first else parts) for token in part] + [middle]
    given = not isinstance(prompt, str) and suffix is None
    bos, sep = model.token_bos(), model.token_sep()
    begin = [] if given or bos < 0 or not model.add_bos_token() else [bos]
    end = [] if given or not (model.add_eos_token() or sep >= 0) else [sep if sep >= 0 else model.token_eos()]
    tokens = begin + body + end
    if bos >= 0 and tokens[:2] == [bos, bos]:
        warnings.warn(
            f'Detected duplicate leading "{model.token_get_text(bos)}" in prompt, this will likely reduce response '
            "quality, consider removing it...",
            RuntimeWarning,
            stacklevel=2,
        )
    return PromptTokens(tokens, [] if len(prompt) else [bos], "" if infill or suffix is None else suffix)


def _suffix_tokens(suffix: str, model: ModelFace, tokenize: Callable[[bytes, bool, bool], list[int]]) -> list[int]:
    """Return a suffix's tokens, without the space that a SentencePiece tokenizer puts before a text."""
    if not suffix:
        return []
    metadata = model.metadata()
    spaced = metadata.get("tokenizer.ggml.model") == "llama"
    if not spaced or metadata.get("tokenizer.ggml.add_space_prefix", "true") != "true":
        return tokenize(suffix.encode(), False, False)
    return tokenize((_MARK + suffix).encode(), False, False)[2:]
