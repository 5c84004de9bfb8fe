"""The adjacency matrix through its own methods."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import falling, write_rows

from recycle_cpp.drafting.drafter import Limits, Outcome, PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.matrix import MAX_ROWS, AdjacencyMatrix
from recycle_cpp.drafting.template import chain, published
from recycle_cpp.types import DraftTree


def learn(matrix: AdjacencyMatrix, *rows: tuple[int, list[int]]) -> None:
    write_rows(matrix, [token for token, _ in rows], [top for _, top in rows])


def outcome(tree: DraftTree, top: list[list[int]]) -> Outcome:
    return Outcome(tree, np.array(top, np.int32), falling(top), [top[0][0]])


def small(max_rows: int = 8) -> AdjacencyMatrix:
    return AdjacencyMatrix(10, top_k=2, max_rows=max_rows)


def test_the_later_of_two_equal_tokens_wins() -> None:
    matrix = small()
    learn(matrix, (4, [1, 2]), (5, [3, 3]), (4, [7, 8]))
    assert matrix.row(4).tolist() == [7, 8]
    learn(matrix, (4, [9, 0]))
    assert matrix.row(4).tolist() == [9, 0]
    assert matrix.n_rows == 2
    matrix.check_integrity()


def test_a_token_never_seen_has_no_row_and_drafts_nothing() -> None:
    matrix = AdjacencyMatrix(10)
    learn(matrix, (4, [5, 6, 7, 8, 9, 0, 1, 2]))
    assert matrix.row(5) is None
    drafter = TemplateDrafter(matrix, published())
    assert drafter.draft(5, Limits(0, 81, 9)).tokens.tolist() == [5]
    assert drafter.draft(4, Limits(0, 81, 9)).tokens.tolist() == [4, 5, 6, 7, 8, 9, 0, 1, 2]


def test_past_the_last_row_the_oldest_goes() -> None:
    matrix = small(max_rows=3)
    learn(matrix, (1, [1, 1]), (2, [2, 2]), (3, [3, 3]), (1, [4, 4]))
    learn(matrix, (5, [5, 5]))  # 1 is the oldest, although it was written again
    assert [token for token in range(10) if matrix.row(token) is not None] == [2, 3, 5]
    learn(matrix, (1, [6, 6]), (7, [7, 7]))
    assert [token for token in range(10) if matrix.row(token) is not None] == [1, 5, 7]
    assert matrix.row(1).tolist() == [6, 6]
    assert matrix.n_rows == 3
    matrix.check_integrity()


def test_reset_forgets_everything() -> None:
    matrix = small(max_rows=2)
    learn(matrix, (1, [1, 1]), (2, [2, 2]), (3, [3, 3]))
    matrix.reset()
    fresh = small(max_rows=2)
    assert matrix.n_rows == 0
    for name in ("row_of", "rows", "gaps", "owner"):
        assert np.array_equal(getattr(matrix, name), getattr(fresh, name)), name
    learn(matrix, (9, [1, 2]))
    assert matrix.row(9).tolist() == [1, 2]
    matrix.check_integrity()


@pytest.mark.parametrize("n_vocab", [49_152, 151_936, 262_144])
def test_the_whole_state_stays_below_two_million_bytes_at_any_vocabulary(n_vocab: int) -> None:
    matrix = AdjacencyMatrix(n_vocab)
    arrays = (matrix.row_of, matrix.rows, matrix.gaps, matrix.owner)
    assert matrix.nbytes == sum(array.nbytes for array in arrays)
    assert 44 * MAX_ROWS < matrix.nbytes < 2_000_000


def test_every_row_of_a_full_matrix_can_be_reached() -> None:
    matrix = AdjacencyMatrix(49_152)
    tokens = np.arange(MAX_ROWS + 2, dtype=np.int32)
    write_rows(matrix, tokens, np.repeat(tokens[:, None], 8, axis=1))
    matrix.check_integrity()
    assert matrix.n_rows == MAX_ROWS
    assert [matrix.row(token) for token in (0, 1)] == [None, None]
    ends = [2, MAX_ROWS - 1, MAX_ROWS, MAX_ROWS + 1]
    assert [int(matrix.row(token)[7]) for token in ends] == ends


CORRUPTIONS = {
    "a row lost its owner": lambda m: m.owner.__setitem__(0, -1),
    "an unused row has an owner": lambda m: m.owner.__setitem__(5, 3),
    "two rows have one owner": lambda m: m.owner.__setitem__(0, m.owner[1]),
    "an owner is outside the vocabulary": lambda m: m.owner.__setitem__(0, 10),
    "a token points to another's row": lambda m: m.row_of.__setitem__(1, 1),
    "a token points to no row": lambda m: m.row_of.__setitem__(1, -1),
    "a token points to a row beyond the last": lambda m: m.row_of.__setitem__(1, 100),
    "a token that was never seen points to a row": lambda m: m.row_of.__setitem__(9, 0),
    "a candidate is outside the vocabulary": lambda m: m.rows.__setitem__((0, 0), 10),
    "a candidate is below -1": lambda m: m.rows.__setitem__((1, 1), -2),
}


@pytest.mark.parametrize("fault", CORRUPTIONS)
def test_the_integrity_check_finds_it_when(fault: str) -> None:
    matrix = small()
    learn(matrix, (1, [2, 3]), (2, [4, -1]))
    matrix.check_integrity()
    CORRUPTIONS[fault](matrix)
    with pytest.raises(ValueError, match=r"row|token|candidate"):
        matrix.check_integrity()


def test_the_plain_drafter_returns_the_root_alone_and_learns_nothing() -> None:
    drafter = PlainDrafter()
    tree = drafter.draft(7, Limits(0, 81, 9))
    drafter.update(outcome(tree, [[3]]))
    assert [column.tolist() for column in drafter.draft(7, Limits(0, 81, 9))] == [[7], [-1], [0], [0], [1]]


def test_a_drafter_that_learned_a_text_drafts_it() -> None:
    drafter = TemplateDrafter(AdjacencyMatrix(10, top_k=2), chain(4))
    tree = drafter.draft(1, Limits(0, 4, 3))
    assert tree.width == 1
    for token, following in ((1, 2), (2, 3), (3, 4)):
        drafter.update(outcome(drafter.draft(token, Limits(0, 1, 0)), [[following, 0]]))
    tree = drafter.draft(1, Limits(0, 4, 3))
    assert tree.tokens.tolist() == [1, 2, 3, 4]
    assert (int(tree.leaf_count[0]), tree.depths.tolist()) == (1, [0, 1, 2, 3])
