"""The engine: the step and the token loop over one backend. Plain decoding is the same loop with W = 1."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recycle_cpp.decoding import kernels
from recycle_cpp.decoding.logprobs import LogprobReader
from recycle_cpp.decoding.prefix import Provenance
from recycle_cpp.decoding.sampling.protocol import NOTHING
from recycle_cpp.drafting.drafter import Limits, Outcome, common_prefix
from recycle_cpp.errors import BackendError, PromptTooLongError, UsageError
from recycle_cpp.types import PhaseTimes, Step

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence

    from recycle_cpp.backend.measure import ExactWidths
    from recycle_cpp.backend.protocol import Backend
    from recycle_cpp.decoding.prefix import Reuse
    from recycle_cpp.decoding.sampling.protocol import Sampler
    from recycle_cpp.drafting.drafter import Drafter
    from recycle_cpp.types import DraftTree, FinishReason, FloatArray, IntArray, TokenLogprobs


LEAST_MOVING = 4  # cells of the context that a shift must be able to move, as in llama.cpp's server


class Request(NamedTuple):
    """What one run of the token loop needs.

    Attributes:
        drafter: grows the draft trees.
        sampler: chooses tokens; it is asked once per emitted token, in order, and keeps its own state.
        max_tokens: tokens to emit at most; None goes on to the end of the context.
        exact: widths that leave logits bit-identical to plain decoding, to stay within; None does not care.
        shift_keep: where the context is full, drop the older half of all but this many first tokens, and go on; None
            ends the run there.
        logprobs: record each token's log probability and this many of the likeliest at its place; None records none.
    """

    drafter: Drafter
    sampler: Sampler
    max_tokens: int | None = None
    exact: ExactWidths | None = None
    shift_keep: int | None = None
    logprobs: int | None = None


class CacheState(NamedTuple):
    """A cache, to be kept and restored.

    Attributes:
        tokens: those in the cache.
        data: llama.cpp's state of them.
        n_plain: how many of them, from the first on, no drafted run has decoded.
    """

    tokens: list[int]
    data: bytes
    n_plain: int


class Engine:
    """Decodes on one backend. The cache holds all tokens but the last, which is pending.

    A run is `prepare` once, then `steps`. Each step is whole when it is yielded: a consumer may stop between any two,
    and the cache then ends exactly at the last emitted token but one.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tokens: list[int] = []  # the cache's tokens, and the pending one if there is any
        self._dropped = 0  # tokens of this run that shifts have taken out of `_tokens`
        self._shift_keep = 0
        self._cells = Provenance(backend.n_batch)
        self._values = np.empty((backend.max_width, 1), np.float32)
        self._maxima = np.empty(min(kernels.LANES, backend.n_vocab), np.float32)
        self._top = np.empty((backend.max_width, 1), np.int32)
        self._reader: LogprobReader | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens of the last run, prompt first, without those that shifts dropped; all but the last are cached."""
        return tuple(self._tokens)

    def prepare(self, prompt: Sequence[int], *, reuse: Reuse = "all", cancel: threading.Event | None = None) -> int:
        """Bring the cache to all of a prompt but its last token, which becomes the pending one.

        Of the longest common prefix with what the cache holds, as much is kept as `reuse` allows (see
        `Provenance.usable`); only the rest is evaluated.

        Returns:
            How many tokens were evaluated.

        Raises:
            UsageError: if the prompt is empty.
            PromptTooLongError: if it does not fit the context.
            CancelledError: if `cancel` is set before the end; what was kept is still in the cache then.
            BackendError: if llama.cpp fails; what was kept is still in the cache then.
        """
        self.check(prompt)
        wanted = len(prompt) - 1
        common = common_prefix(self._tokens[: self._backend.n_past], prompt[:-1])
        self._rewind(self._cells.usable(common, wanted, reuse))
        kept = self._backend.n_past
        self._tokens = list(prompt)  # before the cells: tokens without cells are passed over, the reverse is not
        self._dropped = 0
        try:
            self._backend.prefill(prompt[kept:-1], cancel)
        except BaseException:
            self._rewind(self._backend.n_past)  # a memory that cannot forget a part has forgotten all
            del self._tokens[self._backend.n_past :]
            raise
        self._cells.prefilled(kept, wanted)
        return wanted - kept

    def check(self, prompt: Sequence[int], shift_keep: int | None = None) -> None:
        """Check that a prompt can be prepared, and that a run can shift, if it is asked to.

        Raises:
            UsageError: if the prompt is empty, or no shift is possible.
            PromptTooLongError: if it does not fit the context.
        """
        n_ctx = self._backend.n_ctx
        if not prompt:
            raise UsageError("the prompt is empty and the model has no token to begin with: give some text")
        if len(prompt) > n_ctx:
            raise PromptTooLongError(
                f"the prompt has {len(prompt)} tokens, the context {n_ctx}: shorten it or raise --ctx-size"
            )
        if shift_keep is not None and not self._backend.can_shift:
            raise UsageError("the memory of this model cannot shift: leave --context-shift out or raise --ctx-size")
        if shift_keep is not None and not 0 <= shift_keep <= n_ctx - LEAST_MOVING:
            most = n_ctx - LEAST_MOVING
            room = f"keep {most} at most" if most >= 0 else "raise --ctx-size"
            raise UsageError(
                f"a shift that keeps {shift_keep} tokens leaves too little of a context of {n_ctx}: {room}"
            )

    def steps(self, request: Request) -> Iterator[Step]:
        """Yield steps until an end-of-generation token, the token budget or, without shifts, the end of the context.

        Raises:
            UsageError: if the run may shift, and cannot.
            BackendError: if llama.cpp fails; the cache is then as after the last yielded step.
        """
        emitted = 0
        if request.shift_keep is not None:
            self.check(self._tokens, request.shift_keep)
        self._reserve(request)
        request.drafter.begin(self._tokens)
        while True:
            if request.shift_keep is not None and self._backend.n_past == self._backend.n_ctx:
                self._shift(request.shift_keep)
            budget = None if request.max_tokens is None else request.max_tokens - emitted
            step = self._step(request, budget)
            emitted += len(step.tokens)
            yield step
            if step.finish_reason is not None:
                return

    def keep(self, n_tokens: int) -> None:
        """Forget all but the first n tokens of the run: the last one kept becomes pending.

        Tokens that shifts have dropped count; where the end of what is to be kept is among them, only what no shift
        touches is kept.
        """
        if self._dropped and n_tokens > self._shift_keep:
            n_tokens = max(n_tokens - self._dropped, self._shift_keep)
        del self._tokens[n_tokens:]
        self._rewind(min(self._backend.n_past, max(n_tokens - 1, 0)))

    def snapshot(self) -> CacheState:
        """Return the cache, to be restored in another process. What shifts have moved is forgotten, here too.

        Raises:
            BackendError: if llama.cpp cannot save it.
        """
        unmoved = self._cells.unmoved
        if unmoved is not None:
            self._rewind(unmoved)
        n_past = self._backend.n_past
        return CacheState(self._tokens[:n_past], self._backend.snapshot(), self._cells.plain(n_past))

    def restore(self, state: CacheState) -> None:
        """Replace the cache by another one, that the caller vouches for: llama.cpp trusts its bytes.

        Raises:
            UsageError: if the context is too small for it, or a token is not in the vocabulary.
            BackendError: if llama.cpp refuses it; the cache is empty then.
        """
        n_tokens, n_ctx = len(state.tokens), self._backend.n_ctx
        if n_tokens > n_ctx:
            raise UsageError(f"the session has {n_tokens} tokens, the context {n_ctx}: raise --ctx-size")
        if not all(0 <= token < self._backend.n_vocab for token in state.tokens):
            raise UsageError("the session has tokens that are not in this model's vocabulary: use its own model")
        self.keep(0)
        self._tokens = list(state.tokens)
        self._dropped = 0
        try:
            self._backend.restore(state.data, n_tokens)
        except BaseException:
            self.keep(0)
            raise
        self._cells.restored(n_tokens, state.n_plain)

    def _rewind(self, n_past: int) -> None:
        self._backend.rewind(n_past)
        self._cells.rewound(self._backend.n_past)

    def _shift(self, n_keep: int) -> None:
        """Drop the older half of all tokens behind the first n_keep, as llama.cpp's server does."""
        n_discard = (self._backend.n_past - n_keep) // 2
        try:
            self._backend.shift(n_keep, n_discard)
            self._cells.shifted(n_keep)
            del self._tokens[n_keep : n_keep + n_discard]
        except BaseException:  # an interrupt: nobody knows how far it has come
            self._rewind(n_keep)
            raise
        self._dropped += n_discard
        self._shift_keep = n_keep

    def _step(self, request: Request, budget: int | None) -> Step:
        """Draft, evaluate once, verify along the path, update, commit (docs/structure.md, the step)."""
        backend, drafter = self._backend, request.drafter
        clock = [time.perf_counter()]
        tree = self._draft(request, budget)
        clock.append(time.perf_counter())
        try:
            evaluation = backend.evaluate(tree)
            clock.append(time.perf_counter())
            top, values = self._top_k(evaluation.logits)
            clock.append(time.perf_counter())
            path, tokens = self._verify(tree, evaluation.logits, top, request.sampler)
            logprobs = self._logprobs(evaluation.logits, path, tokens)
            clock.append(time.perf_counter())
            if len(tokens) == len(path):
                drafter.update(Outcome(tree, top, values, tokens))
            clock.append(time.perf_counter())
            self._cells.decoded(backend.n_past, rounded=tree.width > 1 and request.exact is None)
            self._tokens += tokens
            backend.commit(path)
        except BaseException:
            del self._tokens[backend.n_past + 1 :]
            backend.rewind(backend.n_past)
            raise
        clock.append(time.perf_counter())
        draft, evaluate, *rest = np.diff(clock).tolist()
        times = PhaseTimes(draft, evaluate - evaluation.decode, evaluation.decode, *rest)
        # Choosing costs the same for every token, whatever the width: it must not make those steps that won much dear.
        drafter.observe(tree.width, backend.n_past - len(path), times.total - times.verify)
        reason = self._finish_reason(request, path, tokens, budget)
        return Step(tuple(tokens), tree.width, times, drafter.expected, reason, logprobs)

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
            # What was proven holds for cells in the order of their positions.
            width = min(width, exact.at(n_past)) if self._cells.unmoved is None else 1
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

    def _logprobs(self, logits: FloatArray, path: list[int], tokens: list[int]) -> tuple[TokenLogprobs, ...]:
        """Return a record per token, from the very row that it was chosen from, if the run was asked for them."""
        if self._reader is None:
            return ()
        return tuple(self._reader.read(logits[node], token) for node, token in zip(path, tokens, strict=False))

    def _finish_reason(
        self, request: Request, path: list[int], tokens: list[int], budget: int | None
    ) -> FinishReason | None:
        if len(tokens) < len(path) or self._backend.is_eog(tokens[-1]):
            return "stop"
        is_full = self._backend.n_past == self._backend.n_ctx and request.shift_keep is None
        return "length" if is_full or len(tokens) == budget else None

    def _reserve(self, request: Request) -> None:
        """Make the buffers for a run; a step makes none."""
        n_best, top_k = request.logprobs, request.drafter.top_k
        self._reader = None if n_best is None else LogprobReader(n_best, self._backend.n_vocab)
        if self._top.shape[1] != top_k:
            self._values = np.empty((self._backend.max_width, top_k), np.float32)
            self._top = np.empty((self._backend.max_width, top_k), np.int32)

    def _top_k(self, logits: FloatArray) -> tuple[IntArray, FloatArray]:
        top, values = self._top[: len(logits)], self._values[: len(logits)]
        kernels.top_k(logits, top, values, self._maxima)
        return top, values
