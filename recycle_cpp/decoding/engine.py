"""The engine: the step and the token loop over one backend. Plain decoding is the same loop with W = 1."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recycle_cpp.decoding import kernels
from recycle_cpp.decoding.protocol import NOTHING
from recycle_cpp.drafting.drafter import Limits, Outcome, common_prefix
from recycle_cpp.errors import BackendError, PromptTooLongError, UsageError
from recycle_cpp.types import PhaseTimes, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recycle_cpp.backend.measure import ExactWidths
    from recycle_cpp.backend.protocol import Backend
    from recycle_cpp.decoding.protocol import Sampler
    from recycle_cpp.drafting.drafter import Drafter
    from recycle_cpp.types import DraftTree, FinishReason, FloatArray, IntArray


class Request(NamedTuple):
    """What one run of the token loop needs.

    Attributes:
        drafter: grows the draft trees.
        sampler: chooses tokens; it is asked once per emitted token, in order, and keeps its own state.
        max_tokens: tokens to emit at most; None goes on to the end of the context.
        exact: widths that leave logits bit-identical to plain decoding, to stay within; None does not care.
    """

    drafter: Drafter
    sampler: Sampler
    max_tokens: int | None = None
    exact: ExactWidths | None = None


class Engine:
    """Decodes on one backend. The cache holds all tokens but the last, which is pending.

    A run is `prepare` once, then `steps`. Each step is whole when it is yielded: a consumer may stop between any two,
    and the cache then ends exactly at the last emitted token but one.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tokens: list[int] = []  # the cache's tokens, and the pending one if there is any
        self._inexact_from: int | None = None  # position of the first cell that a wide evaluation may have rounded
        self._values = np.empty((backend.max_width, 1), np.float32)
        self._maxima = np.empty(min(kernels.LANES, backend.n_vocab), np.float32)
        self._top = np.empty((backend.max_width, 1), np.int32)

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens of the last run, prompt first; all but the last are in the cache."""
        return tuple(self._tokens)

    def prepare(self, prompt: Sequence[int], *, exact: bool = False) -> int:
        """Bring the cache to all of a prompt but its last token, which becomes the pending one.

        The longest common prefix with what the cache holds is kept; only the rest is evaluated. An exact run keeps
        none of what an inexact one has decoded.

        Returns:
            How many tokens were evaluated.

        Raises:
            UsageError: if the prompt is empty.
            PromptTooLongError: if it does not fit the context.
            BackendError: if llama.cpp fails; what was common is still in the cache then.
        """
        self.check(prompt)
        common = common_prefix(self._tokens[: self._backend.n_past], prompt[:-1])
        if exact and self._inexact_from is not None:
            common = min(common, self._inexact_from)
        self._rewind(common)
        common = self._backend.n_past
        self._tokens = list(prompt[:common])
        self._backend.prefill(prompt[common:-1])
        self._tokens = list(prompt)
        return len(prompt) - 1 - common

    def check(self, prompt: Sequence[int]) -> None:
        """Check that a prompt can be prepared.

        Raises:
            UsageError: if it is empty.
            PromptTooLongError: if it does not fit the context.
        """
        n_ctx = self._backend.n_ctx
        if not prompt:
            raise UsageError("the prompt is empty and the model has no token to begin with: give some text")
        if len(prompt) > n_ctx:
            raise PromptTooLongError(
                f"the prompt has {len(prompt)} tokens, the context {n_ctx}: shorten it or raise --ctx-size"
            )

    def steps(self, request: Request) -> Iterator[Step]:
        """Yield steps until an end-of-generation token, the token budget or the end of the context.

        Raises:
            BackendError: if llama.cpp fails; the cache is then as after the last yielded step.
        """
        emitted = 0
        self._reserve(request.drafter.top_k)
        request.drafter.begin(self._tokens)
        while True:
            budget = None if request.max_tokens is None else request.max_tokens - emitted
            step = self._step(request, budget)
            emitted += len(step.tokens)
            yield step
            if step.finish_reason is not None:
                return

    def keep(self, n_tokens: int) -> None:
        """Forget all but the first n tokens of `tokens`: the last one kept becomes pending."""
        del self._tokens[n_tokens:]
        self._rewind(min(self._backend.n_past, max(n_tokens - 1, 0)))

    def _rewind(self, n_past: int) -> None:
        self._backend.rewind(n_past)
        if self._inexact_from is not None and self._backend.n_past <= self._inexact_from:
            self._inexact_from = None

    def _step(self, request: Request, budget: int | None) -> Step:
        """Draft, evaluate once, verify along the path, update, commit (DESIGN.md, the step)."""
        backend, drafter = self._backend, request.drafter
        clock = [time.perf_counter()]
        tree = self._draft(request, budget)
        clock.append(time.perf_counter())
        evaluation = backend.evaluate(tree)
        try:
            clock.append(time.perf_counter())
            top, values = self._top_k(evaluation.logits)
            clock.append(time.perf_counter())
            path, tokens = self._verify(tree, evaluation.logits, top, request.sampler)
            clock.append(time.perf_counter())
            if len(tokens) == len(path):
                drafter.update(Outcome(tree, top, values, tokens))
            clock.append(time.perf_counter())
            backend.commit(path)
        except BaseException:
            backend.rewind(backend.n_past)
            raise
        if tree.width > 1 and request.exact is None and self._inexact_from is None:
            self._inexact_from = backend.n_past - len(path)
        self._tokens += tokens
        clock.append(time.perf_counter())
        drafter.observe(tree.width, backend.n_past - len(path), clock[-1] - clock[0])
        draft, evaluate, *rest = np.diff(clock).tolist()
        times = PhaseTimes(draft, evaluate - evaluation.decode, evaluation.decode, *rest)
        return Step(tuple(tokens), tree.width, times, drafter.expected, self._finish_reason(path, tokens, budget))

    def _draft(self, request: Request, budget: int | None) -> DraftTree:
        """Return the tree to evaluate; the drafter is told what the sampler has taken out."""
        tree = request.drafter.draft(self._tokens[-1], self._limits(request.exact, budget))
        pruned = request.sampler.prune(tree)
        if pruned is not tree:
            request.drafter.narrow(pruned)
        return pruned

    def _limits(self, exact: ExactWidths | None, budget: int | None) -> Limits:
        """Return what still fits: a path of depth d emits d + 1 tokens and needs d + 1 cells."""
        n_past = self._backend.n_past
        room = self._backend.n_ctx - n_past
        width = min(room, self._backend.max_width)
        if exact is not None:
            width = min(width, exact.at(n_past))
        depth = (room if budget is None else min(room, budget)) - 1
        return Limits(n_past, width, depth, may_branch=exact is None)

    def _verify(
        self, tree: DraftTree, logits: FloatArray, top: IntArray, sampler: Sampler
    ) -> tuple[list[int], list[int]]:
        """Sample along the tree from its root; return the accepted path and the tokens that it emits.

        These are as many as the path's nodes; one fewer where the sampler says that nothing may follow.

        The sampler is applied, and accepts, exactly once per emitted token and in order, as in plain decoding: that
        alone makes seeds, penalties and every other state of it exact.
        """
        node, path, tokens = 0, [0], list[int]()
        while True:
            best = int(top[node, 0])
            if best < 0:
                raise BackendError(f"llama.cpp returned no numbers as logits (row {node} of {tree.width})")
            token = sampler.sample(logits[node], best)
            if token == NOTHING:
                return path, tokens
            tokens.append(token)
            if self._backend.is_eog(token):
                return path, tokens
            node = kernels.find_child(node, token, tree.tokens, tree.parents)
            if node < 0:
                return path, tokens
            path.append(node)

    def _finish_reason(self, path: list[int], tokens: list[int], budget: int | None) -> FinishReason | None:
        if len(tokens) < len(path) or self._backend.is_eog(tokens[-1]):
            return "stop"
        if len(tokens) == budget or self._backend.n_past == self._backend.n_ctx:
            return "length"
        return None

    def _reserve(self, top_k: int) -> None:
        """Make the top-k buffers for a drafter; a step makes none."""
        if self._top.shape[1] != top_k:
            self._values = np.empty((self._backend.max_width, top_k), np.float32)
            self._top = np.empty((self._backend.max_width, top_k), np.int32)

    def _top_k(self, logits: FloatArray) -> tuple[IntArray, FloatArray]:
        top, values = self._top[: len(logits)], self._values[: len(logits)]
        kernels.top_k(logits, top, values, self._maxima)
        return top, values
