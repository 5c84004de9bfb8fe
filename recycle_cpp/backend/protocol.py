"""What decoding asks of whatever runs the model, and what the tree logic asks of a context."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from recycle_cpp.types import DraftTree, FloatArray, IntArray


class Evaluation(NamedTuple):
    """The logits of an evaluated tree and what it cost.

    Attributes:
        logits: float32[W, n_vocab], row i for node i; a view that dies at the next evaluation or prefill.
        build: seconds spent on sequence ids and the batch.
        decode: seconds spent in llama.cpp.
    """

    logits: FloatArray
    build: float
    decode: float


class Backend(Protocol):
    """One model with one cache. The cache holds `n_past` committed tokens; nothing else survives a commit."""

    @property
    def n_ctx(self) -> int:
        """Tokens that the cache holds at most."""

    @property
    def n_vocab(self) -> int:
        """Length of a logits row."""

    @property
    def n_past(self) -> int:
        """Tokens in the cache."""

    @property
    def max_width(self) -> int:
        """Rows of one evaluation at most."""

    @property
    def n_batch(self) -> int:
        """Tokens of a prompt that are evaluated at once."""

    @property
    def can_shift(self) -> bool:
        """Whether the memory can drop tokens from its middle and move what follows down."""

    def is_eog(self, token: int) -> bool:
        """Return whether a token ends the generation."""

    def prefill(self, tokens: Sequence[int], cancel: threading.Event | None = None) -> None:
        """Append tokens to the cache in chunks of n_batch, without logits; setting `cancel` ends that early.

        Raises:
            CancelledError: if `cancel` is set before the end; the cache is then as before.
            BackendError: if llama.cpp fails; the cache is then as before.
        """

    def evaluate(self, tree: DraftTree) -> Evaluation:
        """Run a draft tree whose root stands at position n_past, in one evaluation.

        The nodes stay in the cache, uncommitted, until `commit` or `rewind`.

        Raises:
            BackendError: if the tree does not fit or llama.cpp fails; the cache is then as before.
        """

    def commit(self, path: Sequence[int]) -> None:
        """Keep the nodes of a path, which starts at the root, and forget the rest of the evaluated tree."""

    def rewind(self, n_past: int) -> None:
        """Forget every token from position n_past on, and any uncommitted node.

        A memory that cannot forget a part forgets everything: look at n_past afterwards.
        """

    def shift(self, n_keep: int, n_discard: int) -> None:
        """Drop tokens behind the first n_keep and move what follows down to their positions.

        Raises:
            BackendError: if the memory cannot do that.
        """

    def snapshot(self) -> bytes:
        """Return the whole cache as bytes that `restore` takes.

        Raises:
            BackendError: if llama.cpp cannot save it.
        """

    def restore(self, data: bytes, n_tokens: int) -> None:
        """Replace the cache by a snapshot of n tokens.

        Raises:
            BackendError: if it is none that this context can hold; the cache is then empty.
        """

    def close(self) -> None:
        """Free the memory. Safe to call twice."""


class Context(Protocol):
    """The few calls of llama.cpp that the tree logic stands on, so that tests can put strict rules behind them."""

    n_ctx: int
    n_batch: int
    n_vocab: int
    n_seq_max: int
    can_shift: bool

    def decode_prompt(self, tokens: IntArray, first: int, cancel: threading.Event | None = None) -> None:
        """Evaluate int32[n] tokens of sequence 0 from position `first` on, without logits.

        Raises:
            CancelledError: if `cancel` is set meanwhile; cells may be left to be removed.
        """

    def decode_tree(self, tokens: IntArray, positions: IntArray, seq_from: IntArray, seq_count: IntArray) -> FloatArray:
        """Evaluate one row per node and return float32[W, n_vocab], a view that dies at the next decode.

        Args:
            tokens: int32[W].
            positions: int32[W].
            seq_from: int32[W], first sequence id of each row.
            seq_count: int32[W], how many sequence ids each row carries, counting up.
        """

    def seq_rm(self, seq: int, first: int, last: int) -> None:
        """Take sequence `seq` (-1: all) off the cells at positions [first, last); last -1 is the end."""

    def seq_cp(self, source: int, target: int, first: int, last: int) -> None:
        """Add sequence `target` to the cells of `source` at positions [first, last)."""

    def seq_add(self, seq: int, first: int, last: int, delta: int) -> None:
        """Add `delta` to the positions of the cells of a sequence at [first, last)."""

    def snapshot(self) -> bytes:
        """Return the cells of sequence 0 as bytes that `restore` takes."""

    def restore(self, data: bytes, seq: int) -> bool:
        """Put a snapshot's cells into the cache as sequence `seq`; False if they do not fit."""

    def n_held(self, seq: int) -> int:
        """Return the position after the last cell of a sequence; 0 if it has none."""

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
