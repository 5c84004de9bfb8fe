"""How a token is chosen from a logits row: the argmax, or llama.cpp's own sampler chain."""

from __future__ import annotations

import ctypes
import secrets
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recycle_cpp.types import FloatArray, SamplingOptions

PENALTY_WINDOW = 64  # tokens that the repeat penalty looks back on, as in llama.cpp
_TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Sampler(Protocol):
    """Chooses the tokens of one request, one call per emitted token, in order."""

    def sample(self, logits: FloatArray, best: int) -> int:
        """Return the token chosen from float32[n_vocab] logits, whose argmax is `best`, and remember it."""

    def close(self) -> None:
        """Free the memory. Safe to call twice."""


class GreedySampler:
    """Takes the argmax, which the update of the adjacency matrix has found already."""

    def sample(self, logits: FloatArray, best: int) -> int:
        """Return `best`."""
        return best

    def close(self) -> None:
        """Do nothing."""


class ChainSampler:
    """llama.cpp's sampler chain: penalties, top-k, top-p, min-p, temperature, then the draw."""

    def __init__(self, options: SamplingOptions, n_vocab: int, prompt: Sequence[int]) -> None:
        """Build the chain and let it accept the prompt, which the penalties look back on."""
        from llama_cpp import llama_cpp as c

        self._c = c
        self._ids = np.arange(n_vocab, dtype=np.int32)
        self._data = np.zeros(n_vocab, _TOKEN_DATA)
        self._chain = c.llama_sampler_chain_init(c.llama_sampler_chain_default_params())
        if options.repeat_penalty != 1:
            self._add(c.llama_sampler_init_penalties(n_vocab, PENALTY_WINDOW, options.repeat_penalty, 0.0, 0.0))
        if options.temperature == 0:
            self._add(c.llama_sampler_init_greedy())
        else:
            seed = secrets.randbits(32) if options.seed is None else options.seed
            self._add(c.llama_sampler_init_top_k(options.top_k))
            self._add(c.llama_sampler_init_top_p(options.top_p, 1))
            self._add(c.llama_sampler_init_min_p(options.min_p, 1))
            self._add(c.llama_sampler_init_temp(options.temperature))
            self._add(c.llama_sampler_init_dist(seed))
        for token in prompt[-PENALTY_WINDOW:]:
            c.llama_sampler_accept(self._chain, token)

    def _add(self, sampler: object) -> None:
        self._c.llama_sampler_chain_add(self._chain, sampler)

    def sample(self, logits: FloatArray, best: int) -> int:
        """Return the chain's choice from float32[n_vocab] logits, and let the chain accept it."""
        c = self._c
        self._data["id"] = self._ids
        self._data["logit"] = logits
        array = c.llama_token_data_array()
        array.data = ctypes.cast(self._data.ctypes.data, c.llama_token_data_p)
        array.size = len(self._data)
        array.selected = -1
        array.sorted = False
        c.llama_sampler_apply(self._chain, ctypes.byref(array))
        token = int(array.data[array.selected].id)
        c.llama_sampler_accept(self._chain, token)
        return token

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
        if self._chain:
            self._c.llama_sampler_free(self._chain)
            self._chain = None

    def __del__(self) -> None:
        """Free the chain of a run that was abandoned."""
        self.close()


def make_sampler(options: SamplingOptions, n_vocab: int, prompt: Sequence[int]) -> Sampler:
    """Return a fresh sampler for one request."""
    return GreedySampler() if options.is_argmax else ChainSampler(options, n_vocab, prompt)
