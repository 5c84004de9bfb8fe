"""What a model says of a text that is there already: the log probabilities of a prompt that is echoed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.errors import BackendError
from recycle_cpp.types import GenerateOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from recycle_cpp.types import Chunk, FloatArray, IntArray, TokenLogprobs


def score(
    stream: Callable[[list[int], GenerateOptions], Iterator[Chunk]],
    prompt: Sequence[int],
    n_top: int,
) -> list[TokenLogprobs | None]:
    """Return what the model says where each token of a prompt stands; None for the first.

    The prompt is decoded as an answer that is told what to say, so it takes as long as an answer.

    Args:
        stream: decodes.
        prompt: the tokens.
        n_top: likeliest tokens to report at each place.

    Raises:
        BackendError: if the runtime says nothing of a token.
    """
    tokens = list(prompt)

    def dictate(seen: IntArray, logits: FloatArray) -> FloatArray:
        told = np.full_like(logits, -np.inf)
        told[tokens[len(seen)]] = 0
        return told

    said: list[TokenLogprobs | None] = [None]
    while len(said) < len(tokens):  # more than once where the prompt holds tokens that end a generation
        known = len(said)
        options = GenerateOptions(max_tokens=len(tokens) - known, logprobs=n_top, logits_processors=(dictate,))
        for chunk in stream(tokens[:known], options):
            said += chunk.logprobs
        if len(said) == known:
            raise BackendError(f"nothing was said of token {known} of the prompt: ask without echo or without logprobs")
    return said
