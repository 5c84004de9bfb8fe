"""Settings and cost curve, measured on a context whose costs are known and whose clock moves by them alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from recycle_cpp.backend.cost import LADDER, CostCurve
from recycle_cpp.backend.timing import Budget, Samples
from recycle_cpp.backend.tune import CONTEXT, SECONDS, Search, Settings, Tuned, Tuner, curve_of
from recycle_cpp.errors import BackendError

SLOPE = 2e-5  # what a filled cell adds to each row, in units of T(1)
WIDE = {1: 1.0, 2: 1.7, 4: 2.6, 8: 4.0, 16: 5.0, 32: 9.0, 64: 17.0, 80: 21.0}


class Machine:
    """A clock, and what evaluations cost on it.

    Attributes:
        seconds: the time.
        evaluations: flash attention, threads, width and cells seen of every evaluation.
        opened: contexts that were made, and are not closed.
    """

    def __init__(self, seconds: float, *, flash: float = 1.0, switch: float = 0.0, threads=None) -> None:
        self.seconds = 0.0
        self.evaluations: list[tuple[bool, int, int, int]] = []
        self.opened: list[TimedFake] = []
        self._one, self._flash, self._switch = seconds, flash, switch
        self._threads = threads or {}

    def clock(self) -> float:
        return self.seconds

    def cost(self, flash: bool, n_threads: int, width: int, cells: int) -> float:
        """Return the seconds of an evaluation in a row of equal ones."""
        relative = float(np.interp(width, list(WIDE), list(WIDE.values()))) + SLOPE * width * cells
        return self._one * relative * (self._flash if flash else 1.0) * self._threads.get(n_threads, 1.0)

    def evaluate(self, context: TimedFake, width: int) -> None:
        n_threads = context.threads[width > 1]
        self.evaluations.append((context.flash, n_threads, width, context.cells))
        changed = context.last_width not in (None, width)
        self.seconds += self.cost(context.flash, n_threads, width, context.cells) + self._switch * changed
        context.last_width = width

    def open(self, settings: Settings) -> TimedFake:
        self.opened.append(TimedFake(self, settings))
        return self.opened[-1]


class TimedFake:
    """As much of a context as timing needs: it counts the cells of sequence 0 by position."""

    n_batch, n_vocab, n_seq_max = 96, 48, 96

    def __init__(self, machine: Machine, settings: Settings) -> None:
        self.n_ctx = CONTEXT
        self.flash = settings.flash_attention
        self.threads = [settings.n_threads, settings.n_threads_batch]
        self.last_width: int | None = None
        self.refuses_rewind = False
        self._machine = machine
        self._held: dict[int, list[int]] = {0: []}

    @property
    def cells(self) -> int:
        return len(self._held[0])

    def decode_tree(self, tokens, positions, seq_from, seq_count) -> np.ndarray:
        del seq_from, seq_count
        assert len(tokens) <= self.n_batch and self.cells + len(tokens) <= self.n_ctx
        self._machine.evaluate(self, len(tokens))
        self._held[0] += positions.tolist()
        return np.zeros((len(tokens), self.n_vocab), np.float32)

    def seq_rm(self, seq: int, first: int, last: int) -> None:
        if self.refuses_rewind and first > 0:
            raise BackendError("cannot forget a part")
        for held in self._held if seq < 0 else [seq]:
            self._held[held] = [at for at in self._held[held] if at < first or (last >= 0 and at >= last)]

    def seq_cp(self, source: int, target: int, first: int, last: int) -> None:
        self._held[target] += [at for at in self._held[source] if first <= at < last]

    def snapshot(self) -> bytes:
        return bytes(self._held[0])

    def restore(self, data: bytes, seq: int) -> bool:
        self._held[seq] = list(data)
        return True

    def set_threads(self, n_threads: int, n_threads_batch: int) -> None:
        self.threads = [n_threads, n_threads_batch]

    def close(self) -> None:
        if self in self._machine.opened:
            self._machine.opened.remove(self)


def search(**changes) -> Search:
    return Search((False, True), (2,), (), 96)._replace(**changes)


def tune(machine: Machine, choices: Search | None = None, seconds: float = SECONDS) -> Tuned:
    return Tuner(machine.open, choices or search(), Budget(seconds, machine.clock)).run()


@pytest.mark.parametrize(("flash", "chosen"), [(0.7, True), (0.96, False), (1.0, False), (3.0, False)])
def test_the_attention_that_is_clearly_faster_is_chosen_and_off_where_none_is(flash: float, chosen: bool) -> None:
    assert tune(Machine(0.005, flash=flash)).settings.flash_attention is chosen


def test_the_attention_that_is_slow_is_left_after_one_round() -> None:
    machine = Machine(0.005, flash=3.0)
    tune(machine)
    assert [width for flash, _, width, _ in machine.evaluations if flash] == [1, 1, 1, 4, 4]


@pytest.mark.parametrize("changes", [{"attention": (True,)}, {"threads": (3,)}, {"threads_batch": (1,)}])
def test_what_the_user_chose_is_never_measured_against_anything_else(changes) -> None:
    machine = Machine(0.005, flash=3.0, threads={1: 9.0, 3: 9.0})
    found = tune(machine, search(**{"threads": (2, 4), **changes})).settings
    if "attention" in changes:
        assert found.flash_attention
        assert all(flash for flash, *_ in machine.evaluations)
    if "threads" in changes:
        assert {n for _, n, width, _ in machine.evaluations if width == 1} == {3}
    if "threads_batch" in changes:
        assert found.n_threads_batch == 1


def test_single_rows_and_wide_ones_get_the_threads_that_suit_each() -> None:
    class Shared(Machine):
        def cost(self, flash: bool, n_threads: int, width: int, cells: int) -> float:
            best = 4 if width == 1 else 8
            return super().cost(flash, n_threads, width, cells) * (1.0 if n_threads == best else 1.5)

    found = tune(Shared(0.002), search(threads=(16, 8, 4))).settings
    assert found[1:] == (4, 8)


def test_another_number_of_threads_must_be_clearly_faster_than_the_first() -> None:
    assert tune(Machine(0.002, threads={4: 0.97}), search(threads=(8, 4))).settings[1:] == (8, 8)


def test_the_curve_is_what_evaluations_cost_at_any_fill_and_width() -> None:
    machine = Machine(0.003, switch=0.0005)
    curve = tune(machine).curve
    assert curve.ladder == LADDER
    for cells in (0, 400, 2000):
        expected = [machine.cost(False, 2, width, cells) for width in LADDER]
        found = [base + slope * cells for base, slope in zip(curve.base, curve.slope, strict=True)]
        known = [rung for rung, width in enumerate(LADDER) if width in WIDE and width <= 32]
        assert np.take(found, known) == pytest.approx(np.take(expected, known), rel=0.02)
    assert curve.switch == pytest.approx(0.0005, rel=0.05)


def test_every_wide_evaluation_of_the_curve_follows_single_rows() -> None:
    machine = Machine(0.003)
    tune(machine, search(attention=(False,)))
    widths = [width for *_, width, _ in machine.evaluations]
    for before, width in pairwise(widths):
        assert 1 in (before, width) or before == width or width > 16, (before, width)


@pytest.mark.parametrize("one", [0.0005, 0.005, 0.015, 0.05, 0.1, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("attention", [(False,), (False, True)])
def test_the_budget_holds_within_one_evaluation_on_any_machine(one: float, attention) -> None:
    machine = Machine(one, flash=1.2)
    found = tune(machine, search(attention=attention, threads=(8, 4)))
    first = machine.cost(False, 8, 1, 0)
    longest = max(machine.cost(*evaluation) for evaluation in machine.evaluations)
    least = 3 * len(attention) * machine.cost(True, 8, 1, CONTEXT)  # a warm-up and single rows per context, in any case
    assert machine.seconds <= first + max(SECONDS + longest, least)
    speed = [width / seconds for width, seconds in zip(found.curve.ladder, found.curve.base, strict=True)]
    assert speed[-1] < 30 * speed[0], "what was not measured is not taken for free"


def test_a_slow_model_gets_single_rows_and_a_wide_evaluation_at_a_filled_cache() -> None:
    machine = Machine(0.3)
    found = tune(machine)
    counts = {width: sum(w == width for *_, w, _ in machine.evaluations) for width in WIDE}
    assert sum(counts.values()) <= 8
    assert counts[4] >= 1
    assert found.curve.base[0] == pytest.approx(machine.cost(False, 2, 1, 896), rel=0.05)


def test_a_fast_machine_stops_before_the_budget_is_spent() -> None:
    machine = Machine(0.0002)
    tune(machine)
    assert machine.seconds < 0.5 * SECONDS


def test_widths_that_no_tree_repays_are_not_measured_but_sixteen_is() -> None:
    machine = Machine(0.005)
    tune(machine)
    widths = {width for *_, width, _ in machine.evaluations}
    assert 16 in widths and 64 not in widths


def test_no_evaluation_is_wider_than_allowed() -> None:
    machine = Machine(0.002)
    curve = tune(machine, search(max_width=3)).curve
    assert max(width for *_, width, _ in machine.evaluations) <= 3
    assert curve.ladder == (1, 2, 3)


def test_a_change_of_width_timed_in_a_slow_moment_makes_no_time_negative() -> None:
    samples = Samples()
    for width, seconds, first in ((1, 0.01, False), (4, 0.5, True), (4, 0.012, False), (32, 0.06, True)):
        samples.add(width, seconds, first=first)
    curve = curve_of({896: samples}, 896, 32)
    assert min(curve.base) > 0
    assert (CostCurve(curve).seconds(100) >= 0.009).all()


def test_a_width_timed_in_a_slow_moment_sends_no_wider_one_below_zero() -> None:
    samples = Samples()
    for width, seconds in ((1, 0.01), (16, 0.06), (32, 0.025)):
        samples.add(width, seconds, first=False)
    curve = curve_of({896: samples}, 896, 96)
    assert curve.base[-1] == pytest.approx(0.025)
    assert (CostCurve(curve).seconds(100) > 0).all()


def test_a_memory_that_cannot_forget_a_part_is_timed_by_single_rows_alone() -> None:
    machine = Machine(0.002, flash=0.5)

    def open_context(settings: Settings) -> TimedFake:
        context = machine.open(settings)
        context.refuses_rewind = True
        return context

    choices = search(can_rewind=False)
    found = Tuner(open_context, choices, Budget(SECONDS, machine.clock)).run()
    assert found.settings.flash_attention
    assert {width for *_, width, _ in machine.evaluations} == {1}


@pytest.mark.parametrize("broken", [False, True])
def test_an_attention_whose_context_cannot_be_made_is_no_candidate(broken: bool) -> None:
    machine = Machine(0.002)

    def open_context(settings: Settings) -> TimedFake:
        if settings.flash_attention is broken:
            raise BackendError("no memory")
        return machine.open(settings)

    tuner = Tuner(open_context, search(), Budget(SECONDS, machine.clock))
    assert tuner.run().settings.flash_attention is not broken
    with pytest.raises(BackendError, match="no memory"):
        Tuner(open_context, search(attention=(broken,)), Budget(SECONDS, machine.clock)).run()


@pytest.mark.parametrize("fails", [False, True])
def test_every_context_is_closed_even_after_a_failure(fails: bool, monkeypatch) -> None:
    machine = Machine(0.002)
    if fails:
        monkeypatch.setattr(TimedFake, "snapshot", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tune(machine)
    else:
        tune(machine)
    assert machine.opened == []
