"""Runs of the engine of a real model, step by step, with what the runtime would choose for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recycle_cpp.backend.measure import PLAIN_ONLY, ExactWidths
from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.sampling.protocol import Sampler
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting.drafter import PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.template import chain, published
from recycle_cpp.runtime import Runtime
from recycle_cpp.types import Step, TokenLogprobs


class SeededDraw(Sampler):
    """Draws at a temperature; one call of its own generator per token."""

    def __init__(self, seed: int, temperature: float = 0.8) -> None:
        self._rng = np.random.default_rng(seed)
        self._temperature = temperature

    def sample(self, logits: np.ndarray, best: int) -> int:
        weights = np.exp((logits.astype(np.float64) - logits[best]) / self._temperature)
        return int(np.searchsorted(np.cumsum(weights), self._rng.uniform() * weights.sum()))

    def close(self) -> None:
        pass


class Run(NamedTuple):
    """What one run did."""

    evaluated: int
    tokens: list[int]
    logprobs: list[TokenLogprobs]
    steps: list[Step]

    @property
    def n_accepted(self) -> int:
        return sum(step.n_accepted for step in self.steps)


class RealRuns:
    """Runs on one engine, with a matrix of their own."""

    def __init__(self, runtime: Runtime) -> None:
        self.engine: Engine = runtime._requests._engine
        self.loaded = runtime._loaded
        self.matrix = AdjacencyMatrix(runtime.n_vocab)

    def tokens(self, text: str) -> list[int]:
        return self.loaded.model.tokenize(text, add_special=True, parse_special=True)

    def drafter(self, kind: str):
        return {
            "plain": PlainDrafter(),
            "tree": TemplateDrafter(self.matrix, published()),
            "chain": TemplateDrafter(self.matrix, chain(4)),
        }[kind]

    def widths(self, kind: str, exact: bool) -> ExactWidths | None:
        return PLAIN_ONLY if kind == "plain" else self.loaded.exact_widths() if exact else None

    def run(
        self, prompt: list[int], kind: str, *, sampler=None, max_tokens: int = 24, exact: bool = False, **request
    ) -> Run:
        """Prepare a prompt as the runtime would, and decode."""
        reuse = "fresh" if exact else "plain" if kind == "plain" else "all"
        evaluated = self.engine.prepare(prompt, reuse=reuse)
        asked = Request(
            self.drafter(kind), sampler or GreedySampler(), max_tokens, self.widths(kind, exact), logprobs=3, **request
        )
        steps = list(self.engine.steps(asked))
        records = [record for step in steps for record in step.logprobs]
        return Run(evaluated, [token for step in steps for token in step.tokens], records, steps)
