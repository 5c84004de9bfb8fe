"""Tree evaluation by sequence ids: one id per leaf path, on any context that keeps llama.cpp's rules.

A token attends to the cells that carry its first sequence id at positions up to its own. So each leaf path gets an
id, a node carries the ids of all leaf paths through it, and the committed prefix carries every id in use. Sequence 0
is the first leaf path's and always holds the whole committed prefix.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.backend.protocol import Evaluation
from recycle_cpp.errors import BackendError, CancelledError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from recycle_cpp.backend.protocol import Context
    from recycle_cpp.types import DraftTree


class TreeBackend:
    """A Backend over one context.

    Copying and removing sequence ids costs a scan of the whole cache per call, so ids are brought up to date only
    when a tree uses them, and only where they lag behind: `_synced[s]` counts the committed positions that s holds.
    """

    def __init__(self, context: Context, is_eog: Callable[[int], bool], n_ctx: int, max_width: int) -> None:
        self._context = context
        self.is_eog = is_eog
        self._n_ctx = n_ctx
        self._max_width = min(max_width, context.n_batch, n_ctx)
        self._n_past = 0
        self._synced = [0] * context.n_seq_max
        self._tree: DraftTree | None = None

    @property
    def n_ctx(self) -> int:
        """Tokens that the cache holds at most."""
        return self._n_ctx

    @property
    def n_vocab(self) -> int:
        """Length of a logits row."""
        return self._context.n_vocab

    @property
    def n_past(self) -> int:
        """Tokens in the cache."""
        return self._n_past

    @property
    def max_width(self) -> int:
        """Rows of one evaluation at most."""
        return self._max_width

    @property
    def n_batch(self) -> int:
        """Tokens of a prompt that are evaluated at once."""
        return self._context.n_batch

    @property
    def can_shift(self) -> bool:
        """Whether the memory can drop tokens from its middle and move what follows down."""
        return self._context.can_shift

    def prefill(self, tokens: Sequence[int], cancel: threading.Event | None = None) -> None:
        """Append tokens to the cache in chunks of n_batch, without logits; setting `cancel` ends that early.

        Raises:
            CancelledError: if `cancel` is set before the end; the cache is then as before.
            BackendError: if they do not fit or llama.cpp fails; the cache is then as before.
        """
        if self._n_past + len(tokens) > self._n_ctx:
            raise BackendError(f"{len(tokens)} tokens after {self._n_past} do not fit a context of {self._n_ctx}")
        array = np.array(tokens, np.int32)
        before = self._n_past
        try:
            for start in range(0, len(array), self._context.n_batch):
                if cancel is not None and cancel.is_set():
                    raise CancelledError("the request was cancelled while its prompt was evaluated")
                chunk = array[start : start + self._context.n_batch]
                self._context.decode_prompt(chunk, self._n_past, cancel)
                self._n_past += len(chunk)
                self._synced[0] = self._n_past
        except BaseException:
            self._forget(before)  # an interrupt may come after the cells were filled and before they were counted
            raise

    def evaluate(self, tree: DraftTree) -> Evaluation:
        """Run a draft tree whose root stands at position n_past, in one evaluation.

        Raises:
            BackendError: if the tree does not fit or llama.cpp fails; the cache is then as before.
        """
        start = time.perf_counter()
        n_leaves = int(tree.leaf_count[0])
        if tree.width > min(self._max_width, self._n_ctx - self._n_past) or n_leaves > len(self._synced):
            raise BackendError(
                f"a tree of {tree.width} nodes and {n_leaves} leaf paths does not fit: {self._n_past} of {self._n_ctx} "
                f"cells are taken, {self._max_width} rows and {len(self._synced)} paths are the most"
            )
        for seq in range(1, n_leaves):
            if self._synced[seq] < self._n_past:
                self._context.seq_cp(0, seq, self._synced[seq], self._n_past)
                self._synced[seq] = self._n_past
        positions = tree.depths + np.int32(self._n_past)
        built = time.perf_counter()
        self._tree = tree
        try:
            logits = self._context.decode_tree(tree.tokens, positions, tree.leaf_from, tree.leaf_count)
        except BaseException:
            self.rewind(self._n_past)
            raise
        return Evaluation(logits, built - start, time.perf_counter() - built)

    def commit(self, path: Sequence[int]) -> None:
        """Keep the nodes of a path, which starts at the root, and forget the rest of the evaluated tree."""
        tree = self._tree
        assert tree is not None and len(path) > 0 and path[0] == 0, "commit follows evaluate, from the root"
        end = self._n_past + len(path)
        context = self._context
        if tree.width > len(path):
            context.seq_rm(-1, end, -1)  # every deeper node, whatever its path: one scan
        kept = int(tree.leaf_from[path[-1]])
        covered = self._cover(tree, path)
        for seq, common in enumerate(covered):
            if common < len(path):
                context.seq_rm(seq, self._n_past + common, end)
        if kept != 0 and covered[0] < len(path):
            context.seq_cp(kept, 0, self._n_past + covered[0], end)
            covered[0] = len(path)
        for seq, common in enumerate(covered):
            self._synced[seq] = self._n_past + common
        self._n_past = end
        self._tree = None

    @staticmethod
    def _cover(tree: DraftTree, path: Sequence[int]) -> list[int]:
        """Return how many nodes of the path each leaf path of the tree runs through."""
        covered = [0] * int(tree.leaf_count[0])
        for node in path:
            first = int(tree.leaf_from[node])
            for seq in range(first, first + int(tree.leaf_count[node])):
                covered[seq] += 1
        return covered

    def rewind(self, n_past: int) -> None:
        """Forget every token from position n_past on, and any uncommitted node.

        A memory that cannot forget a part (recurrent models) forgets everything: look at n_past afterwards.
        """
        assert 0 <= n_past <= self._n_past, "rewind goes back only"
        if n_past < self._n_past or self._tree is not None:
            self._forget(n_past)

    def _forget(self, n_past: int) -> None:
        try:
            self._context.seq_rm(-1, n_past, -1)
        except BackendError:
            n_past = 0
            self._context.seq_rm(-1, 0, -1)
        self._n_past = n_past
        self._synced = [min(synced, n_past) for synced in self._synced]
        self._tree = None

    def shift(self, n_keep: int, n_discard: int) -> None:
        """Drop n_discard tokens behind the first n_keep and move what follows down to their positions.

        Raises:
            BackendError: if the memory cannot do that.
        """
        assert 0 <= n_keep < n_keep + n_discard <= self._n_past and self._tree is None, "only committed tokens move"
        context, end = self._context, n_keep + n_discard
        for seq in range(1, len(self._synced)):
            if self._synced[seq] > n_keep:  # cells of several ids would move once for each
                context.seq_rm(seq, n_keep, -1)
                self._synced[seq] = n_keep
        context.seq_rm(0, n_keep, end)
        self._n_past -= n_discard
        self._synced[0] = self._n_past
        context.seq_add(0, end, -1, -n_discard)

    def snapshot(self) -> bytes:
        """Return the whole cache as bytes that `restore` takes.

        Raises:
            BackendError: if llama.cpp cannot save it.
        """
        data = self._context.snapshot()
        if not data and self._n_past:
            raise BackendError("llama.cpp cannot save the cache of this model")
        return data

    def restore(self, data: bytes, n_tokens: int) -> None:
        """Replace the cache by a snapshot of n tokens.

        Raises:
            BackendError: if it is none that this context can hold; the cache is then empty.
        """
        self._forget(0)
        if n_tokens == 0:
            return
        try:
            if not self._context.restore(data, 0) or self._context.n_held(0) != n_tokens:
                raise BackendError(f"llama.cpp cannot restore a cache of {n_tokens} tokens from this")
        except BaseException:
            self._forget(0)
            raise
        self._n_past = self._synced[0] = n_tokens

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
        self._context.close()
