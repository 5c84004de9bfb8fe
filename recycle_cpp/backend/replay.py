"""The self-test of tree attention: each node against its own path, decoded alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.types import DraftTree

if TYPE_CHECKING:
    from recycle_cpp.backend.protocol import Backend
    from recycle_cpp.types import FloatArray


def decode_one(backend: Backend, token: int) -> FloatArray:
    """Evaluate and commit one token alone; return a copy of its float32[n_vocab] logits."""
    root = DraftTree(*np.array([[token], [-1], [0], [0], [1]], np.int32))
    row: FloatArray = backend.evaluate(root).logits[0].copy()
    backend.commit([0])
    return row


def replay_paths(backend: Backend, tree: DraftTree) -> tuple[FloatArray, FloatArray]:
    """Evaluate a tree at once, and every root-to-node path of it alone; leave the cache as it was.

    Rows that differ by more than rounding show that a node attended to what is not its path: a wrong sequence id,
    position or left-over cell. (A tree right by row number and wrong by depth looks right along its first path.)

    Returns:
        float32[W, n_vocab] rows of the tree, and float32[W, n_vocab] rows of single-row steps.

    Raises:
        BackendError: if llama.cpp fails.
    """
    start = backend.n_past
    together = backend.evaluate(tree).logits.copy()
    backend.rewind(start)
    alone = []
    for token, depth in zip(tree.tokens.tolist(), tree.depths.tolist(), strict=True):
        backend.rewind(start + depth)  # in preorder the cache then holds just the node's ancestors
        alone.append(decode_one(backend, token))
    backend.rewind(start)
    return together, np.array(alone)
