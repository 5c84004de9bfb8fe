"""What decoding asks of whatever runs the model, and what the tree logic asks of a context."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
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

    def is_eog(self, token: int) -> bool:
        """Return whether a token ends the generation."""

    def prefill(self, tokens: Sequence[int]) -> None:
        """Append tokens to the cache, without logits.

        Raises:
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

    def close(self) -> None:
        """Free the memory. Safe to call twice."""


class Context(Protocol):
    """The few calls of llama.cpp that the tree logic stands on, so that tests can put strict rules behind them."""

    n_ctx: int
    n_batch: int
    n_vocab: int
    n_seq_max: int

    def decode_prompt(self, tokens: IntArray, first: int) -> None:
        """Evaluate int32[n] tokens of sequence 0 from position `first` on, without logits."""

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

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
