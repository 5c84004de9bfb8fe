"""A drafter that starts with what another one learned drafts like that one, and the text is still plain decoding's."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToyModel
from test_planned import FLAT, MODELS, KnownCosts, Planned

from recycle_cpp.drafting.drafter import Limits
from recycle_cpp.drafting.knowledge import Knowledge
from recycle_cpp.drafting.learned import pack, unpack
from recycle_cpp.drafting.planned import PlannedDrafter

PROMPT = list(range(1, 12))


def reloaded(knowledge: Knowledge, n_vocab: int) -> Knowledge:
    again = Knowledge(n_vocab)
    again.adopt(unpack(pack(knowledge.arrays(), "toy"), again.arrays(), "toy"))
    return again


def learn_nothing(drafter: PlannedDrafter, root: int) -> None:
    """Take the first step of a run, behind which nothing is drafted, without an update."""
    assert drafter.draft(root, Limits(0, 64, 12)).width == 1
    drafter._n_emitted = 1


def drafts(knowledge: Knowledge, model: ToyModel) -> list[list[list[int]]]:
    """Return the trees that a new drafter draws at many contexts."""
    drafter = PlannedDrafter(knowledge, KnownCosts(FLAT))
    rng = np.random.default_rng(5)
    found = []
    for _ in range(60):
        context = rng.integers(0, model.n_vocab, 9).tolist() + PROMPT[: rng.integers(2, 9)]
        drafter.begin(context)
        learn_nothing(drafter, context[-1])
        found.append([part.tolist() for part in drafter.draft(context[-1], Limits(0, 64, 12))])
    return found


@pytest.mark.parametrize("model", MODELS)
def test_after_a_round_trip_the_same_trees_are_drafted(model: ToyModel) -> None:
    planned = Planned(model, n_ctx=700)
    planned.run(PROMPT, max_tokens=500)
    again = reloaded(planned.knowledge, model.n_vocab)
    planned.knowledge.calibration.relax()
    trees = drafts(planned.knowledge, model)
    assert max(len(tree[0]) for tree in trees) > 8
    assert drafts(again, model) == trees
    assert drafts(Knowledge(model.n_vocab), model) != trees


@pytest.mark.parametrize("model", MODELS)
def test_a_warm_start_drafts_from_the_first_step_and_leaves_the_text_alone(model: ToyModel) -> None:
    cold = Planned(model, n_ctx=700)
    cold.run(PROMPT, max_tokens=500)
    n_cold = len(cold.emitted[:100]) / sum(cold.emitted[:100])
    warm = Planned(model, knowledge=reloaded(cold.knowledge, model.n_vocab), n_ctx=700)
    warm.run(PROMPT, max_tokens=200)  # compared with plain decoding there
    n_warm = len(warm.emitted) / sum(warm.emitted)
    assert warm.widths[:2] == [1, max(warm.widths[1], 2)], "behind the first token nothing is drafted"
    assert n_warm < 0.9 * n_cold, "steps per token"
