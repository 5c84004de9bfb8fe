"""The context in memory refuses what llama.cpp refuses and what would silently change the text there."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import FakeContext, ToyModel, seen

from recycle_cpp.backend.measure import ExactWidths
from recycle_cpp.errors import BackendError


def evaluate(context: FakeContext, *nodes: tuple[int, int, int, int]) -> np.ndarray:
    """Evaluate nodes of (token, position, first sequence, how many)."""
    return context.decode_tree(*np.array(nodes, np.int32).reshape(-1, 4).T)


def prompted(**settings) -> FakeContext:
    """Return a context that holds the tokens 1, 2, 3 as sequences 0 and 1."""
    context = FakeContext(**settings)
    context.decode_prompt(np.array([1, 2, 3], np.int32), 0)
    context.seq_cp(0, 1, 0, 3)
    return context


REFUSED = [
    ("sequence 0 holds 3 tokens and goes on at [4]", [(5, 4, 0, 1)]),
    ("sequence 0 holds 3 tokens and goes on at [2]", [(5, 2, 0, 1)]),
    ("sequence 0 holds 3 tokens and goes on at [3, 5]", [(5, 3, 0, 1), (6, 5, 0, 1)]),
    ("sequence 0 holds 3 tokens and goes on at [4, 3]", [(5, 4, 0, 1), (6, 3, 0, 1)]),
    ("sequence 0 holds 3 tokens and goes on at [3, 3]", [(5, 3, 0, 1), (6, 3, 0, 1)]),
    ("sequence 2 holds 0 tokens and goes on at [3]", [(5, 3, 2, 1)]),
    ("sequence 2 holds 0 tokens and goes on at [3]", [(5, 3, 0, 3)]),
    ("sequence 0 joins others again", [(5, 3, 0, 1), (6, 3, 1, 1), (7, 4, 0, 2)]),
    ("ids range(3, 5) are not below 4", [(5, 3, 3, 2)]),
    ("token 5 has no sequence id", [(5, 3, 0, 0)]),
    ("token 48 in a vocabulary of 48", [(48, 3, 0, 1)]),
    ("token -1 in a vocabulary of 48", [(-1, 3, 0, 1)]),
    ("7 rows in a batch of 6", [(5, 3 + i, 0, 1) for i in range(7)]),
    ("0 rows in a batch of 6", []),
]


@pytest.mark.parametrize(("complaint", "nodes"), REFUSED)
def test_it_refuses_with_one_clear_line(complaint: str, nodes) -> None:
    context = prompted(n_seq_max=4, n_batch=6)
    before = context.cells()
    with pytest.raises(BackendError) as caught:
        evaluate(context, *nodes)
    assert str(caught.value) == f"llama.cpp would refuse this: {complaint}"
    assert (context.cells(), context.decodes) == (before, 1)


def test_it_refuses_coupled_sequences_that_hold_other_cells_at_the_same_positions() -> None:
    context = FakeContext()
    for seq in (0, 1):
        evaluate(context, (1, 0, seq, 1), (2, 1, seq, 1))
    evaluate(context, (3, 2, 0, 1))
    context.seq_rm(0, 2, -1)
    with pytest.raises(BackendError, match="sequences 0 and 1 have diverged"):
        evaluate(context, (3, 2, 0, 2))


def test_it_refuses_to_go_on_where_a_rejected_node_was_left() -> None:
    context = prompted()
    evaluate(context, (5, 3, 0, 2), (6, 4, 0, 1), (7, 4, 1, 1))
    context.seq_cp(1, 0, 4, 5)
    with pytest.raises(BackendError, match=r"sequence 0 holds the positions \[0, 1, 2, 3, 4, 4\]"):
        evaluate(context, (8, 5, 0, 1))


def test_it_refuses_more_tokens_than_there_are_empty_cells() -> None:
    context = prompted(n_ctx=8)
    with pytest.raises(BackendError, match="no room for 6 tokens: 3 of 8 cells are taken"):
        context.decode_prompt(np.arange(6, dtype=np.int32), 3)
    context.decode_prompt(np.arange(5, dtype=np.int32), 3)
    assert len(context.cells()) == 8


def test_a_row_hangs_on_every_cell_seen_and_on_nothing_else() -> None:
    model = ToyModel(seed=3)
    context = prompted(model=model)
    logits = evaluate(context, (5, 3, 0, 2), (6, 4, 0, 1), (7, 4, 1, 1))
    assert np.array_equal(logits[0], model.row_after([1, 2, 3, 5]))
    assert np.array_equal(logits[1], model.row_after([1, 2, 3, 5, 6]))
    assert np.array_equal(logits[2], model.row_after([1, 2, 3, 5, 7]))
    prompt = [seen(0, 1), seen(1, 2), seen(2, 3)]
    others = [
        [*prompt, seen(4, 5)],
        [*prompt[1:], seen(3, 5)],
        [*prompt, seen(2, 3), seen(3, 5)],
        [seen(0, 2), seen(1, 1), seen(2, 3), seen(3, 5)],
        [*prompt, seen(3, 5, rounded=True)],
    ]
    assert np.array_equal(model.row([*prompt, seen(3, 5)]), logits[0])
    for other in others:
        assert not np.array_equal(model.row(sorted(other)), logits[0]), other


def test_rows_die_at_the_next_decode() -> None:
    context = prompted()
    logits = evaluate(context, (5, 3, 0, 1))
    assert np.isfinite(logits).all()
    evaluate(context, (6, 4, 0, 1))
    assert np.isnan(logits).all()


def test_freed_cells_are_filled_again_so_that_a_commit_leaves_gaps() -> None:
    context = prompted()
    evaluate(context, (5, 3, 0, 2), (6, 4, 0, 1), (7, 4, 1, 1))
    assert context.places() == [0, 1, 2, 3, 4, 5]
    context.seq_rm(0, 4, -1)  # the later sibling stays
    assert context.places() == [0, 1, 2, 3, 5]
    evaluate(context, (8, 5, 1, 1), (9, 6, 1, 1))
    assert context.places() == [0, 1, 2, 3, 5, 4, 6]


def test_a_cell_is_freed_with_its_last_sequence_only() -> None:
    context = prompted()
    context.seq_rm(0, 1, 2)
    assert context.cells() == [(0, 1), (1, 2), (2, 3)]
    assert context.cells_of(0) == [(0, 1), (2, 3)]
    context.seq_rm(1, 0, -1)
    assert context.cells() == [(0, 1), (2, 3)]
    context.seq_rm(-1, 0, 2)
    assert context.cells() == [(2, 3)]


def test_a_wider_evaluation_than_is_exact_rounds_and_spoils_its_cells() -> None:
    model = ToyModel()
    exact, wide = (prompted(model=model, exact=ExactWidths(2, 6)) for _ in range(2))
    evaluate(exact, (5, 3, 0, 1), (6, 4, 0, 1))
    evaluate(wide, (5, 3, 0, 1), (6, 4, 0, 1), (7, 5, 0, 1))
    wide.seq_rm(-1, 5, -1)
    assert wide.cells() == exact.cells()
    plain = model.row_after([1, 2, 3, 5, 6, 7])
    assert np.array_equal(evaluate(exact, (7, 5, 0, 1))[0], plain)
    assert not np.array_equal(evaluate(wide, (7, 5, 0, 1))[0], plain)
    assert not np.array_equal(evaluate(exact, (8, 6, 0, 1), (9, 7, 0, 1))[0], model.row_after([1, 2, 3, 5, 6, 7, 8]))


@pytest.mark.parametrize("cells_stay", [False, True])
def test_a_planned_failure_comes_once_with_or_without_cells(cells_stay: bool) -> None:
    context = prompted()
    context.plan_failure(BackendError("planned"), cells_stay=cells_stay)
    with pytest.raises(BackendError, match="planned"):
        evaluate(context, (5, 3, 0, 1))
    assert len(context.cells()) == 3 + cells_stay
    context.seq_rm(-1, 3, -1)
    assert evaluate(context, (5, 3, 0, 1)).shape == (1, 48)


def test_a_shift_that_llama_cpp_would_get_wrong_is_refused() -> None:
    context = prompted()
    with pytest.raises(BackendError, match="other sequences hold cells of 0"):
        context.seq_add(0, 2, -1, -1)
    context.seq_rm(1, 0, -1)
    for first, delta, complaint in ((2, -1, "a position would hold two cells"), (0, -1, "a position would be below 0")):
        with pytest.raises(BackendError, match=complaint):
            context.seq_add(0, first, -1, delta)
    context.seq_rm(0, 0, 1)
    context.seq_add(0, 1, -1, -1)
    assert context.cells() == [(0, 2), (1, 3)]
    with pytest.raises(BackendError, match="cannot shift"):
        prompted(can_shift=False).seq_add(0, 2, -1, 1)


def test_a_cell_that_was_moved_is_not_that_of_a_text_without_what_was_dropped() -> None:
    context = prompted()
    context.seq_rm(1, 0, -1)
    context.seq_rm(0, 0, 1)
    context.seq_add(0, 1, -1, -1)
    moved = evaluate(context, (5, 2, 0, 1))[0]
    assert not np.array_equal(moved, context.model.row_after([2, 3, 5]))
    assert np.array_equal(moved, context.model.row([seen(0, 2, moved=1), seen(1, 3, moved=1), seen(2, 5)]))
