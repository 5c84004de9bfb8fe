"""Functions of the caller's own: logits processors before the choice of a token, stop tests where one is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.decoding.sampling.protocol import NOTHING, Sampler
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recycle_cpp.types import DraftTree, FloatArray, IntArray, LogitsProcessor, StopTest

HIGHEST = np.float32(1e8)  # llama.cpp sorts no higher logits; +inf is a way to say "this token"


class HookedSampler(Sampler):
    """Hands each logits row through the caller's functions, and the result to another sampler.

    What a function raises goes through to whoever asked for the answer.
    """

    def __init__(
        self,
        inner: Sampler,
        processors: Sequence[LogitsProcessor],
        stop_tests: Sequence[StopTest],
        prompt: Sequence[int],
    ) -> None:
        self._inner = inner
        self._processors = processors
        self._stop_tests = stop_tests
        self._n = len(prompt)
        self._tokens = np.empty(2 * self._n + 64, np.int32)
        self._tokens[: self._n] = prompt

    def sample(self, logits: FloatArray, best: int) -> int:
        """Return what the inner sampler chooses from the processed row, NOTHING where a stop test says so."""
        tokens = self._so_far()
        row = logits.copy()
        for processor in self._processors:
            row = _checked(processor(tokens, row), len(logits))
        if any(_is_true(test(tokens, row)) for test in self._stop_tests):
            return NOTHING
        best = int(np.argmax(row))
        token = NOTHING if row[best] == -np.inf else self._inner.sample(row, best)
        if token != NOTHING:
            self._append(token)
        return token

    def prune(self, tree: DraftTree) -> DraftTree:
        """Return the tree as the inner sampler prunes it: what that forbids, no processor can allow."""
        return self._inner.prune(tree)

    def close(self) -> None:
        """Free the inner sampler's memory. Safe to call twice."""
        self._inner.close()

    def _so_far(self) -> IntArray:
        """Return int32[n], the tokens so far; read-only."""
        tokens = self._tokens[: self._n]
        tokens.flags.writeable = False
        return tokens

    def _append(self, token: int) -> None:
        if self._n == len(self._tokens):
            self._tokens = np.concatenate((self._tokens, np.empty_like(self._tokens)))
        self._tokens[self._n] = token
        self._n += 1


def _checked(row: object, n_vocab: int) -> FloatArray:
    """Return a processor's result as float32[n_vocab]; what is not a number can never be chosen.

    Raises:
        UsageError: if it is something else.
    """
    if not (isinstance(row, np.ndarray) and row.shape == (n_vocab,) and row.dtype.kind == "f"):
        what = f"{row.dtype}{list(row.shape)}" if isinstance(row, np.ndarray) else type(row).__name__
        raise UsageError(
            f"a logits processor returned {what}: let it return the float32[{n_vocab}] logits to go on with"
        )
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and cut below
        row = np.ascontiguousarray(row, np.float32)
    if np.isnan(row).any() or row.max() > HIGHEST:
        row = np.where(np.isnan(row), np.float32(-np.inf), np.minimum(row, HIGHEST))
    return row


def _is_true(answer: object) -> bool:
    """Return a stop test's result as a truth value.

    Raises:
        UsageError: if it has none, as arrays.
    """
    try:
        return bool(answer)
    except Exception as error:
        raise UsageError(f"a stop test returned {type(answer).__name__}: let it return True or False") from error
