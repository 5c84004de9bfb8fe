"""Real models: a node's logits row is that of its root-to-node path decoded alone, but for rounding.

Measured, the largest difference of any logit of any node: SmolLM2 1.24 (flash attention off) and 1.09 (on), Gemma 3
1.17 and 1.29, Qwen2.5-Coder 0.41 and 0.43. One node under a wrong parent: 3.9 to 37.
"""

from __future__ import annotations

import numpy as np
import pytest

from recycle_cpp.backend.llama import MAX_WIDTH, LlamaContext
from recycle_cpp.backend.model import LlamaModel
from recycle_cpp.backend.replay import decode_one, replay_paths
from recycle_cpp.backend.tree import TreeBackend
from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting.drafter import Limits, TemplateDrafter
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.template import published
from recycle_cpp.errors import BackendError
from recycle_cpp.types import DraftTree, LoadOptions

BOUND = 2.0
SMOLLM, GEMMA = "smollm2-135m-instruct-q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"
EDGE_WIDTHS = [*range(1, 6), *range(7, 10), *range(15, 18), *range(31, 34), *range(63, 66), 81]
TEXT = (
    "The museum opened in 1893. It has three floors: the first floor holds paintings, the second floor holds "
    "sculptures, and the third floor holds maps. The first floor"
)


class Replay:
    """A model with one context, one thread, and a drafter that has learned from 30 tokens of its text."""

    def __init__(self, path, *, flash_attention: bool, n_ctx: int = 512) -> None:
        self.model = LlamaModel(path, LoadOptions())
        settings = {"n_ctx": n_ctx, "n_batch": 512, "n_threads": 1, "type_k": "f16", "type_v": "f16"}
        self.context = LlamaContext(self.model, flash_attention=flash_attention, **settings)
        self.backend = TreeBackend(self.context, self.model.is_eog, n_ctx, MAX_WIDTH)

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_) -> None:
        self.backend.close()
        self.model.close()

    def grown_tree(self) -> DraftTree:
        """Decode a text with the published tree; return the fullest tree that its tokens now draft."""
        drafter = TemplateDrafter(AdjacencyMatrix(self.model.n_vocab), published())
        engine = Engine(self.backend)
        engine.prepare(self.model.tokenize(TEXT, add_special=True, parse_special=True))
        steps = list(engine.steps(Request(drafter, GreedySampler(), 30)))
        assert sum(step.n_accepted for step in steps) > 5
        trees = (drafter.draft(root, Limits(0, 81, 6)) for root in engine.tokens)
        return max((DraftTree(*(a.copy() for a in tree)) for tree in trees), key=lambda tree: tree.width)

    def tree_rows(self, tree: DraftTree) -> np.ndarray:
        rows = self.backend.evaluate(tree).logits.copy()
        self.backend.rewind(self.backend.n_past)
        return rows

    def miswired_rows(self, tree: DraftTree, leaf: int, other: int) -> np.ndarray:
        """Return the rows of a tree whose two leaves have changed their sequence ids, and so their parents."""
        self.tree_rows(tree)  # brings all ids up to date
        n_past = self.backend.n_past
        leaf_from = tree.leaf_from.copy()
        leaf_from[[leaf, other]] = leaf_from[[other, leaf]]
        order = np.argsort(tree.depths, kind="stable")  # llama.cpp wants rising positions within a sequence
        columns = (tree.tokens, tree.depths + np.int32(n_past), leaf_from, tree.leaf_count)
        rows = np.empty((tree.width, self.context.n_vocab), np.float32)
        rows[order] = self.context.decode_tree(*(column[order] for column in columns))
        self.context.seq_rm(-1, n_past, -1)
        return rows


def leaves_to_swap(tree: DraftTree) -> list[tuple[int, int]]:
    """Return pairs of leaves of equal depth with different parents, each leaf once."""
    leaves = sorted(set(range(tree.width)) - set(tree.parents.tolist()))
    pairs: list[tuple[int, int]] = []
    for leaf in leaves:
        others = (o for o in leaves if o > leaf and tree.depths[o] == tree.depths[leaf])
        other = next((o for o in others if tree.parents[o] != tree.parents[leaf]), None)
        if other is not None and not {leaf, other} & {node for pair in pairs for node in pair}:
            pairs.append((leaf, other))
    return pairs


@pytest.mark.parametrize(("name", "flash_attention"), [(SMOLLM, False), (SMOLLM, True), (GEMMA, False)])
def test_every_node_of_a_real_tree_has_the_row_of_its_path_alone(model_file, name: str, flash_attention: bool) -> None:
    with Replay(model_file(name), flash_attention=flash_attention) as replay:
        tree = replay.grown_tree()
        assert (tree.width > 60, tree.depths.max(), tree.leaf_count[0] > 30) == (True, 6, True)
        together, alone = replay_paths(replay.backend, tree)
        differences = np.abs(together - alone).max(axis=1)
        assert differences.max() < BOUND, f"node {differences.argmax()} differs by {differences.max():.2f}"
        for leaf, other in leaves_to_swap(tree)[:3]:
            miswired = np.abs(replay.miswired_rows(tree, leaf, other) - alone).max(axis=1)
            assert max(miswired[leaf], miswired[other]) > BOUND
            assert np.delete(miswired, [leaf, other]).max() < BOUND


@pytest.mark.parametrize("flash_attention", [False, True])
def test_chains_of_edge_widths_have_the_rows_of_plain_decoding(model_file, flash_attention: bool) -> None:
    with Replay(model_file(SMOLLM), flash_attention=flash_attention) as replay:
        tokens = replay.model.tokenize(TEXT * 4, add_special=True, parse_special=True)
        replay.backend.prefill(tokens[:20])
        alone = np.array([decode_one(replay.backend, token) for token in tokens[20 : 20 + max(EDGE_WIDTHS)]])
        replay.backend.rewind(20)
        for width in EDGE_WIDTHS:
            column = np.arange(width, dtype=np.int32)
            chain = DraftTree(
                np.array(tokens[20 : 20 + width], np.int32), column - 1, column, column * 0, column * 0 + 1
            )
            rows = replay.tree_rows(chain)
            assert rows.shape == (width, replay.model.n_vocab)
            assert np.abs(rows - alone[:width]).max() < BOUND, f"width {width}"
            assert np.abs(rows - np.roll(alone, 1, axis=0)[:width]).max() > BOUND, "any rows would pass"


def test_a_committed_path_goes_on_as_if_it_had_been_decoded_alone(model_file) -> None:
    with Replay(model_file(SMOLLM), flash_attention=False) as replay:
        tree = replay.grown_tree()
        start = replay.backend.n_past
        for leaf in (6, tree.width // 2, tree.width - 1):
            path = [leaf]
            while path[0] != 0:
                path.insert(0, int(tree.parents[path[0]]))
            replay.backend.evaluate(tree)
            replay.backend.commit(path)
            after = decode_one(replay.backend, 11)
            replay.backend.rewind(start)
            for node in path:
                decode_one(replay.backend, int(tree.tokens[node]))
            alone = decode_one(replay.backend, 11)
            replay.backend.rewind(start)
            assert np.abs(after - alone).max() < BOUND


def test_a_refusal_gives_llama_cpps_reason_on_one_line(model_file) -> None:
    with Replay(model_file(SMOLLM), flash_attention=False, n_ctx=256) as replay:
        replay.backend.prefill([1, 2, 3])
        one = np.array([[5], [7], [0], [1]], np.int32)
        with pytest.raises(BackendError, match=r"could not evaluate 1 tokens \(status -1\): .*sequence 0") as caught:
            replay.context.decode_tree(*one)
        assert "\n" not in str(caught.value)
