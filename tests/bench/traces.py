"""Traces made by hand, and texts that are repetitive or random."""

from __future__ import annotations

import numpy as np

from recycle_cpp.bench.trace import Trace, TracedTurn

N_VOCAB = 300


def turn(prompt: list[int], emitted: list[int], category: str = "made", rng: np.random.Generator | None = None):
    """Return a turn whose best candidate at each position is the text's own; the others are drawn, or follow it."""
    n = len(emitted)
    others = rng.integers(0, N_VOCAB, (n, 7)) if rng else (np.array(emitted)[:, None] + np.arange(1, 8)) % N_VOCAB
    top = np.concatenate([np.array(emitted).reshape(n, 1), others], axis=1).astype(np.int32)
    values = -np.tile(np.arange(8, dtype=np.float32), (n, 1))
    return TracedTurn(category, np.array(prompt, np.int32), np.array(emitted, np.int32), top, values)


def as_trace(*turns: TracedTurn) -> Trace:
    return Trace("made up", N_VOCAB, turns)


def repetitive_trace(n: int = 400) -> Trace:
    """Return a text that repeats its prompt again and again."""
    sentence = np.random.default_rng(1).permutation(N_VOCAB)[:30].tolist()
    return as_trace(turn(sentence, (sentence * (n // 30 + 1))[:n], "copying"))


def random_trace(n: int = 400) -> Trace:
    """Return a text in which nothing foretells anything."""
    rng = np.random.default_rng(2)
    return as_trace(turn(rng.integers(0, N_VOCAB, 30).tolist(), rng.integers(0, N_VOCAB, n).tolist(), "noise", rng))


def mixed_trace() -> Trace:
    """Return both, one after the other, twice."""
    return as_trace(*(repetitive_trace(200).turns + random_trace(300).turns) * 2)
