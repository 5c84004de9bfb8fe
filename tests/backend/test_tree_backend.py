"""The tree logic over a context in memory: whatever was decided before, a row is that of its own path alone."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import FakeContext, ToyModel, fake_backend, make_tree, path_to, path_tokens, random_parents, seen
from hypothesis import given, settings
from hypothesis import strategies as st

from recycle_cpp.backend.tree import TreeBackend
from recycle_cpp.errors import BackendError
from recycle_cpp.types import DraftTree

SEEDS = st.integers(0, 2**32 - 1)
CHAIN_3 = ([5, 6, 7], [-1, 0, 1])
FORK = ([5, 6, 7, 8], [-1, 0, 0, 2])  # 5 has the children 6 and 7, and 7 the child 8


def draw_tree(rng: np.random.Generator, width: int, n_leaves: int = 64) -> DraftTree:
    return make_tree(rng.integers(1, 40, width), random_parents(rng, width, n_leaves))


class Driver:
    """Does the same to a backend and to a list of tokens, and compares after everything."""

    def __init__(self, seed: int, **settings) -> None:
        self.rng = np.random.default_rng(seed)
        self.model = ToyModel(seed % 3)
        self.backend, self.context = fake_backend(self.model, **settings)
        self.tokens: list[int] = []
        self.moved: list[int] = []  # how far shifts have moved each

    @property
    def room(self) -> int:
        return self.backend.n_ctx - len(self.tokens)

    def check(self) -> None:
        """Check that the cache holds exactly the committed tokens, each once, and sequence 0 all of them."""
        expected = list(enumerate(self.tokens))
        self.moved = (self.moved + [0] * len(expected))[: len(expected)]
        assert self.context.cells() == expected
        assert self.context.cells_of(0) == expected
        assert self.backend.n_past == len(expected)

    def prefill(self, size: int) -> None:
        tokens = self.rng.integers(1, 40, min(size, self.room)).tolist()
        self.backend.prefill(tokens)
        self.tokens += tokens
        self.check()

    def rewind(self, share: float) -> None:
        n_past = int(share * len(self.tokens))
        self.backend.rewind(n_past)
        del self.tokens[n_past:]
        self.check()

    def evaluate(self, size: int) -> DraftTree:
        """Evaluate a random tree and compare each row with what its path alone gives."""
        width = min(size, self.room, self.backend.max_width)
        tree = draw_tree(self.rng, width, self.context.n_seq_max)
        logits = self.backend.evaluate(tree).logits
        for node in range(width):
            path = [(token, 0) for token in path_tokens(tree, node)]
            cells = enumerate([*zip(self.tokens, self.moved, strict=True), *path])
            expected = self.model.row([seen(place, token, moved=moved) for place, (token, moved) in cells])
            assert np.array_equal(logits[node], expected), f"row {node} of parents {tree.parents.tolist()}"
        return tree

    def step(self, size: int) -> None:
        """Evaluate a random tree and commit a random path of it."""
        tree = self.evaluate(size)
        path = path_to(tree, int(self.rng.integers(tree.width)))
        self.backend.commit(path)
        self.tokens += [int(tree.tokens[node]) for node in path]
        self.check()

    def abandon(self, size: int) -> None:
        """Evaluate a random tree and commit nothing."""
        self.evaluate(size)
        self.backend.rewind(self.backend.n_past)
        self.check()

    def shift(self, share: float) -> None:
        """Drop tokens from the middle; the rest moves down, and is still what it was made to be."""
        n_keep = int(share * len(self.tokens))
        n_discard = (len(self.tokens) - n_keep) // 2
        if n_discard > 0:
            self.backend.shift(n_keep, n_discard)
            del self.tokens[n_keep : n_keep + n_discard]
            self.moved = self.moved[:n_keep] + [moved + n_discard for moved in self.moved[n_keep + n_discard :]]
            self.check()

    def fail(self, size: int, *, cells_stay: bool) -> None:
        """Let an evaluation or a prefill fail."""
        width = min(size, self.room, self.backend.max_width)
        self.context.plan_failure(BackendError("planned"), cells_stay=cells_stay)
        with pytest.raises(BackendError, match="planned"):
            if self.rng.uniform() < 0.5:
                self.backend.evaluate(draw_tree(self.rng, width, self.context.n_seq_max))
            else:
                self.backend.prefill(self.rng.integers(1, 40, width).tolist())
        self.check()


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["step"] * 4 + ["abandon", "rewind", "prefill", "shift", "fail", "die"]), SEEDS),
    max_size=25,
)


@settings(max_examples=400)
@given(
    seed=SEEDS,
    actions=ACTIONS,
    n_ctx=st.sampled_from([6, 24, 64, 128]),
    n_batch=st.sampled_from([1, 4, 8, 96]),
)
def test_after_any_history_every_row_is_that_of_its_path_and_the_cache_holds_the_committed_tokens(
    seed: int, actions, n_ctx: int, n_batch: int
) -> None:
    driver = Driver(seed, n_ctx=n_ctx, n_batch=n_batch)
    driver.prefill(seed % 5)
    for name, number in actions:
        size = 1 + number % (40 if number % 3 else 6)
        if name == "rewind":
            driver.rewind(number / 2**32)
        elif name == "prefill":
            driver.prefill(size)
        elif name == "shift":
            driver.shift(number / 2**32)
        elif driver.room == 0:
            driver.rewind(0.5)
        elif name == "step":
            driver.step(size)
        elif name == "abandon":
            driver.abandon(size)
        else:
            driver.fail(size, cells_stay=name == "die")


def test_a_shift_moves_each_cell_once_whatever_ids_it_carried() -> None:
    driver = Driver(1, n_ctx=64)
    driver.prefill(12)
    driver.step(20)  # many leaf paths: their ids are on every committed cell
    before = len(driver.tokens)
    driver.context.calls.clear()
    driver.shift(0.25)
    assert len(driver.tokens) == before - (before - before // 4) // 2
    assert [call[0] for call in driver.context.calls].count("seq_add") == 1
    driver.step(20)
    driver.evaluate(9)


def test_a_snapshot_comes_back_in_another_backend_and_goes_on_the_same() -> None:
    one, other = Driver(1, n_ctx=64), Driver(1, n_ctx=64)
    one.prefill(9)
    one.step(20)
    data = one.backend.snapshot()
    other.prefill(20)
    other.backend.restore(data, len(one.tokens))
    other.tokens = list(one.tokens)
    other.check()
    other.step(20)
    other.evaluate(20)
    other.backend.restore(fake_backend()[0].snapshot(), 0)
    assert (other.backend.n_past, other.context.cells()) == (0, [])


@pytest.mark.parametrize("n_tokens", [1, 8, 10])
def test_a_snapshot_of_another_size_than_said_is_refused_and_leaves_an_empty_cache(n_tokens: int) -> None:
    driver = Driver(1, n_ctx=64)
    driver.prefill(9)
    data = driver.backend.snapshot()
    with pytest.raises(BackendError, match=f"cannot restore a cache of {n_tokens} tokens"):
        driver.backend.restore(data, n_tokens)
    driver.tokens = []
    driver.check()
    driver.prefill(5)
    driver.step(9)


@pytest.mark.parametrize("width", [*range(1, 6), *range(7, 10), *range(15, 18), *range(31, 34), *range(63, 66), 81])
def test_rows_are_right_at_edge_widths(width: int) -> None:
    driver = Driver(width, n_ctx=256)
    driver.prefill(3)
    for _ in range(3):
        driver.step(width)


def test_a_row_is_that_of_a_fresh_context_that_evaluates_its_path_token_by_token() -> None:
    driver = Driver(1, n_ctx=64)
    driver.prefill(4)
    driver.step(9)
    tree = draw_tree(driver.rng, 12)
    logits = driver.backend.evaluate(tree).logits
    for node in range(12):
        fresh = FakeContext(driver.model)
        one = np.zeros(1, np.int32)
        for position, token in enumerate(driver.tokens + path_tokens(tree, node)):
            row = fresh.decode_tree(np.array([token], np.int32), one + position, one, one + 1)[0]
        assert np.array_equal(logits[node], row)


def test_a_chain_needs_no_bookkeeping_at_all() -> None:
    backend, context = fake_backend()
    backend.prefill([1, 2, 3])
    for token in range(4, 10):
        backend.evaluate(make_tree([token], [-1]))
        backend.commit([0])
    backend.evaluate(make_tree(*CHAIN_3))
    backend.commit([0, 1, 2])
    assert context.calls == []
    backend.evaluate(make_tree(*CHAIN_3))
    backend.commit([0])
    assert context.calls == [("seq_rm", -1, 13, -1)]


def test_ids_are_brought_up_to_date_only_when_used_and_only_where_they_lag() -> None:
    backend, context = fake_backend()
    backend.prefill([1, 2, 3])
    assert context.calls == []
    backend.evaluate(make_tree(*FORK))
    assert context.calls == [("seq_cp", 0, 1, 0, 3)]
    backend.commit([0, 1])  # the path of sequence 0: 1 holds the root, and the position of the other child no more
    assert context.cells_of(1) == [(0, 1), (1, 2), (2, 3), (3, 5)]
    context.calls.clear()
    backend.evaluate(make_tree([9], [-1]))
    backend.commit([0])
    assert context.calls == []
    backend.evaluate(make_tree([9, 5, 6, 7], [-1, 0, 0, 0]))
    assert context.calls == [("seq_cp", 0, 1, 4, 6), ("seq_cp", 0, 2, 0, 6)]


def test_a_path_of_another_sequence_is_taken_over_by_sequence_0() -> None:
    backend, context = fake_backend()
    backend.prefill([1, 2, 3])
    tree = make_tree(*FORK)
    backend.evaluate(tree)
    assert tree.tokens.tolist() == [5, 6, 7, 8]
    backend.commit([0, 2, 3])
    assert context.cells_of(0) == context.cells_of(1) == [(0, 1), (1, 2), (2, 3), (3, 5), (4, 7), (5, 8)]
    context.calls.clear()
    backend.evaluate(make_tree([9, 5, 6], [-1, 0, 0]))
    assert context.calls == []


def test_rewinding_to_where_it_stands_costs_nothing() -> None:
    backend, context = fake_backend()
    backend.prefill([1, 2, 3])
    backend.rewind(3)
    assert context.calls == []
    backend.rewind(1)
    assert context.calls == [("seq_rm", -1, 1, -1)]
    assert context.cells() == [(0, 1)]


def test_a_prompt_goes_through_in_chunks_of_the_batch() -> None:
    backend, context = fake_backend(n_batch=4)
    backend.prefill([1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert (context.decodes, context.rows) == (3, 9)
    backend.prefill([])
    assert (context.decodes, backend.n_past) == (3, 9)


def test_a_prompt_that_fails_in_its_second_chunk_leaves_nothing() -> None:
    backend, context = fake_backend(n_batch=4)
    backend.prefill([1, 2])
    decode, calls = context.decode_prompt, []

    def failing(tokens, first, cancel) -> None:
        calls.append(first)
        if len(calls) == 2:
            raise BackendError("planned")
        decode(tokens, first)

    context.decode_prompt = failing
    with pytest.raises(BackendError, match="planned"):
        backend.prefill([3, 4, 5, 6, 7, 8])
    assert calls == [2, 6]
    assert context.cells() == [(0, 1), (1, 2)]
    assert backend.n_past == 2


@pytest.mark.parametrize("interrupted", ["prefill", "evaluate"])
def test_an_interrupt_after_the_cells_are_filled_leaves_the_cache_as_before(interrupted: str) -> None:
    backend, context = fake_backend()
    backend.prefill([1, 2])
    context.plan_failure(KeyboardInterrupt(), cells_stay=True)
    with pytest.raises(KeyboardInterrupt):
        backend.prefill([3, 4]) if interrupted == "prefill" else backend.evaluate(make_tree(*FORK))
    assert context.cells() == [(0, 1), (1, 2)]
    backend.prefill([3, 4])
    assert context.cells() == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_what_does_not_fit_is_refused_with_the_numbers_and_changes_nothing() -> None:
    backend, context = fake_backend(n_ctx=8, n_batch=6, n_seq_max=3)
    backend.prefill([1, 2, 3])
    too_wide = make_tree([1, 2, 3, 4, 5, 6], [-1, 0, 1, 2, 3, 4])
    too_bushy = make_tree([1, 2, 3, 4, 5], [-1, 0, 0, 0, 0])
    for tree, numbers in ((too_wide, "6 nodes and 1 leaf"), (too_bushy, "5 nodes and 4 leaf")):
        with pytest.raises(BackendError, match=numbers):
            backend.evaluate(tree)
    with pytest.raises(BackendError, match="6 tokens after 3 do not fit a context of 8"):
        backend.prefill([1] * 6)
    assert context.cells() == [(0, 1), (1, 2), (2, 3)]
    backend.evaluate(make_tree([1, 2, 3, 4, 5], [-1, 0, 0, 0, 1]))
    backend.commit([0, 1, 2])
    assert context.cells() == [(0, 1), (1, 2), (2, 3), (3, 1), (4, 2), (5, 5)]


def test_the_widest_evaluation_is_what_batch_context_and_caller_allow() -> None:
    context = FakeContext(n_ctx=64, n_batch=32)
    widths = [
        TreeBackend(context, bool, n_ctx, most).max_width for n_ctx, most in ((64, 96), (16, 96), (64, 7), (16, 16))
    ]
    assert widths == [32, 16, 7, 16]


def test_the_last_cell_can_be_used_and_not_one_more() -> None:
    backend, context = fake_backend(n_ctx=4)
    backend.prefill([1, 2, 3])
    backend.evaluate(make_tree([4], [-1]))
    backend.commit([0])
    assert backend.n_past == backend.n_ctx == len(context.cells())
    with pytest.raises(BackendError, match="4 of 4 cells are taken"):
        backend.evaluate(make_tree([5], [-1]))
    with pytest.raises(BackendError, match="do not fit"):
        backend.prefill([5])


def test_closing_closes_the_context() -> None:
    backend, context = fake_backend()
    backend.close()
    assert context.closed
