"""A pruned tree is a tree, changes no text, and promises only what is left of it."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import HashSampler, ToyModel, fake_backend, make_tree, path_tokens, random_parents, toy_vocabulary
from hypothesis import given, settings
from hypothesis import strategies as st

from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.sampling.chain import ChainSampler
from recycle_cpp.decoding.sampling.pruning import Pruner
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting.drafter import Limits, Outcome, TemplateDrafter
from recycle_cpp.drafting.knowledge import Knowledge
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.planned import PlannedDrafter
from recycle_cpp.drafting.template import published
from recycle_cpp.types import SamplingOptions

SEEDS = st.integers(0, 2**32 - 2)
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def distinct_tree(rng: np.random.Generator, width: int):
    return make_tree(rng.permutation(1000)[:width], random_parents(rng, width))


@given(seed=SEEDS, width=st.integers(1, 40))
def test_what_is_left_is_every_path_without_a_node_that_is_out(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    tree, pruner = distinct_tree(rng, width), Pruner()
    for share in (0.0, 0.1, 0.5, 1.0):
        is_out = rng.uniform(size=width) < share
        is_out[0] = False
        out = {int(token) for token in tree.tokens[is_out]}
        paths = [path_tokens(tree, node) for node in range(width)]
        wanted = [path for path in paths if not out & set(path)]
        pruned = pruner.without(tree, is_out)
        assert (pruned is tree) == (len(out) == 0)
        assert [path_tokens(pruned, node) for node in range(pruned.width)] == wanted
        again = make_tree(pruned.tokens, pruned.parents)  # lays it out anew: ranges of leaf paths and depths are right
        for ours, theirs in zip(pruned, again, strict=True):
            assert ours.tolist() == theirs.tolist()


class Fussy(HashSampler):
    """A stand-in for a grammar: which tokens may come depends on all that came; it prunes the whole tree by that."""

    def __init__(self, prunes: bool) -> None:
        super().__init__(3)
        self._pruner = Pruner()
        self._prunes = prunes
        self.n_out = 0

    def may(self, token: int, before: list[int]) -> bool:
        return (7 * token + sum(before) + len(before)) % 3 != 0

    def sample(self, logits: np.ndarray, best: int) -> int:
        allowed = [token for token in range(len(logits)) if self.may(token, self.chosen)]
        masked = np.full_like(logits, -100)
        masked[allowed] = logits[allowed]
        return super().sample(masked, int(masked.argmax()))

    def prune(self, tree):
        if not self._prunes:
            return tree
        paths = [path_tokens(tree, node)[1:] for node in range(tree.width)]
        is_out = np.array([bool(p) and not self.may(p[-1], [*self.chosen, *p[:-1]]) for p in paths])
        pruned = self._pruner.without(tree, is_out)
        self.n_out += tree.width - pruned.width
        return pruned


class Cheap:
    """Costs under which many rows cost little more than one."""

    ladder = (1, 2, 4, 8, 16, 32)

    def seconds(self, n_past: int) -> np.ndarray:
        return np.array([1.0, 1.001, 1.002, 1.003, 1.004, 1.005])

    def observe(self, width: int, n_past: int, seconds: float) -> None:
        pass


def test_the_drafter_is_told_what_of_its_draft_is_evaluated() -> None:
    class Told(TemplateDrafter):
        def __init__(self) -> None:
            super().__init__(AdjacencyMatrix(48), published())
            self.drafted: list[int] = []
            self.narrowed: dict[int, int] = {}

        def draft(self, root, limits):
            tree = super().draft(root, limits)
            self.drafted.append(tree.width)
            return tree

        def narrow(self, tree) -> None:
            self.narrowed[len(self.drafted) - 1] = tree.width

    drafter, engine = Told(), Engine(fake_backend(ToyModel(1, eog=-50), n_ctx=160)[0])
    engine.prepare(PROMPT)
    widths = [step.width for step in engine.steps(Request(drafter, Fussy(True), 60))]
    assert drafter.narrowed == {at: n for at, n in enumerate(widths) if n < drafter.drafted[at]}
    assert 0 < len(drafter.narrowed) < len(widths)


@pytest.mark.parametrize("planned", [False, True])
def test_pruning_changes_no_text_and_saves_rows(planned: bool) -> None:
    rows = {False: 0, True: 0}
    n_out = n_accepted = 0
    for seed in range(6):
        model = ToyModel(seed, eog=-50)
        for prunes in (False, True):
            backend, _ = fake_backend(model, n_ctx=160)
            engine = Engine(backend)
            template_drafter = TemplateDrafter(AdjacencyMatrix(model.n_vocab), published())
            drafter = PlannedDrafter(Knowledge(model.n_vocab), Cheap()) if planned else template_drafter
            for _ in range(2):
                sampler = Fussy(prunes)
                engine.prepare(PROMPT)
                steps = list(engine.steps(Request(drafter, sampler, 60)))
                text = [token for step in steps for token in step.tokens]
                assert text == model.plain_text(PROMPT, Fussy(False), n_ctx=160, max_tokens=60)[0]
                assert all(step.expected >= 1 for step in steps) or not planned
                rows[prunes] += sum(step.width for step in steps)
                n_accepted += sum(step.n_accepted for step in steps)
            n_out += sampler.n_out
    assert n_out > (5 if planned else 50) and n_accepted > (5 if planned else 50)
    assert rows[True] < rows[False] or planned  # a planner may draft more, since more is kept of what it promises


def test_a_root_that_is_forbidden_stays_since_it_is_there_already() -> None:
    forbidden = SamplingOptions(logit_bias=((7, -np.inf),))
    pruned = ChainSampler(forbidden, toy_vocabulary(), PROMPT).prune(make_tree([7, 7, 3], [-1, 0, 0]))
    assert pruned.tokens.tolist() == [7, 3]


def test_what_was_promised_for_pruned_nodes_is_taken_back() -> None:
    knowledge = Knowledge(48)
    drafter = PlannedDrafter(knowledge, Cheap())
    text = [1, 2, 3, 4, 5] * 12
    drafter.begin(text)
    drafter._n_emitted = 8
    tree = drafter.draft(5, Limits(n_past=60, width=32, depth=20))
    assert tree.width > 2
    promised = drafter.expected
    first = int(tree.tokens[1])
    is_out = tree.tokens == first
    is_out[0] = False
    pruned = Pruner().without(tree, is_out)
    drafter.narrow(pruned)
    assert 1.0 <= drafter.expected < promised
    nodes = drafter._nodes
    left = {tuple(path_tokens(pruned, node)) for node in range(1, pruned.width)}
    for node in range(1, tree.width):
        path = [int(nodes.tokens[node])]
        above = int(nodes.parents[node])
        while above >= 0:
            path.insert(0, int(nodes.tokens[above]))
            above = int(nodes.parents[above])
        assert (nodes.probabilities[node] > 0) == (tuple(path) in left)
    everything = Pruner().without(tree, np.arange(tree.width) > 0)
    drafter.narrow(everything)
    assert drafter.expected == 1.0
    trust = drafter.trust
    top, values = np.full((1, 8), 7, np.int32), np.zeros((1, 8), np.float32)
    drafter.update(Outcome(everything, top, values, [7]))
    assert drafter.trust >= trust  # nothing was promised, so nothing was broken


@settings(max_examples=50)
@given(seed=SEEDS, width=st.integers(2, 30))
def test_only_forbidden_tokens_and_what_hangs_on_them_go(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    tree = make_tree(rng.integers(0, 48, width), random_parents(rng, width))
    options = SamplingOptions(logit_bias=((5, -np.inf), (9, -np.inf), (4, -100.0)), ignore_eos=True)
    pruned = ChainSampler(options, toy_vocabulary(), []).prune(tree)
    kept = [path_tokens(tree, node) for node in range(width) if not {0, 5, 9} & set(path_tokens(tree, node)[1:])]
    assert [path_tokens(pruned, node) for node in range(pruned.width)] == kept
    assert GreedySampler().prune(tree) is tree
