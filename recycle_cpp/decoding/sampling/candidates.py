"""The candidates of one choice, in the memory and form that llama.cpp's samplers work on."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.backend.library import load_library
from recycle_cpp.decoding import kernels
from recycle_cpp.decoding.sampling.protocol import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from recycle_cpp.types import FloatArray, IntArray

MOST_BEST = kernels.LANES // 2  # more than these are faster found by llama.cpp in the whole row


class Candidates:
    """A buffer of candidates, made once and filled for each choice; its order is that of the tokens.

    Attributes:
        always: bool[n_vocab], tokens that `fill_best` lists whatever their logits.
    """

    def __init__(self, n_vocab: int) -> None:
        c = load_library().c
        self._ids = np.zeros((n_vocab, 3), np.int32)
        self._values = self._ids.view(np.float32)
        self._found = np.empty(n_vocab, np.int32)
        self._maxima, self._best = np.empty((2, min(kernels.LANES, n_vocab)), np.float32)
        self._listed = np.empty(0, np.int32)
        self.always = np.zeros(n_vocab, np.bool_)
        self.array = c.llama_token_data_array()
        self._data = ctypes.cast(self._ids.ctypes.data, c.llama_token_data_p)

    def list_always(self, tokens: Iterable[int]) -> None:
        """Have `fill_best` list these tokens from now on."""
        new = [token for token in tokens if not self.always[token]]
        if new:
            self.always[new] = True
            self._listed = np.flatnonzero(self.always).astype(np.int32) if len(new) > 1 else self._with(new[0])

    def _with(self, token: int) -> IntArray:
        return np.insert(self._listed, int(np.searchsorted(self._listed, token)), token).astype(np.int32)

    def fill(self, logits: FloatArray) -> None:
        """List every token of float32[n_vocab] logits."""
        kernels.list_all(logits, self._ids, self._values)
        self._reset(len(self._ids))

    def fill_best(self, logits: FloatArray, k: int) -> None:
        """List the tokens of `list_always`, and of all others at least the k best."""
        n = kernels.list_best(
            logits,
            k,
            self._listed,
            self.always,
            self._maxima,
            self._best,
            self._found,
            self._ids,
            self._values,
        )
        self._reset(n)

    def fill_with(self, tokens: IntArray) -> None:
        """List these tokens, all with logit 0."""
        n = len(tokens)
        self._ids[:n, 0] = tokens
        self._values[:n, 1] = 0
        self._reset(n)

    def _reset(self, n: int) -> None:
        array = self.array
        array.data = self._data
        array.size = n
        array.selected = -1
        array.sorted = False

    @property
    def tokens(self) -> IntArray:
        """int32[n], the tokens listed, for as long as no sampler has moved them."""
        return self._ids[: self.array.size, 0]

    @property
    def values(self) -> FloatArray:
        """float32[n], their logits."""
        return self._values[: self.array.size, 1]

    def chosen(self) -> int:
        """Return the token that a sampler has selected, NOTHING if it was none that may be chosen.

        Where the temperature came so near to 0 that logits grew beyond all numbers, it is the best of those, as at 0.
        """
        array = self.array
        if not 0 <= array.selected < array.size:
            return NOTHING
        selected = array.data[array.selected]
        if selected.p != selected.p or selected.logit != selected.logit:
            return self._overflowed()
        return NOTHING if selected.logit == -np.inf else int(selected.id)

    def _overflowed(self) -> int:
        for i in range(self.array.size):
            candidate = self.array.data[i]
            if candidate.logit == np.inf or candidate.logit != candidate.logit:
                return int(candidate.id)
        return NOTHING
