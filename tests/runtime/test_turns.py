"""The queue in front of the model."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from recycle_cpp.errors import BusyError, CancelledError
from recycle_cpp.runtime.turns import Turns


def wait_until(holds) -> None:
    for _ in range(2000):
        if holds():
            return
        time.sleep(0.005)
    raise AssertionError("it never came to that")


class Caller(threading.Thread):
    """Takes a turn, notes its number while it has it, and holds it until released."""

    def __init__(self, turns: Turns, number: int, order: list[int], cancel: threading.Event | None = None) -> None:
        super().__init__(daemon=True)
        self.turns, self.number, self.order, self.cancel = turns, number, order, cancel
        self.error: Exception | None = None
        self.release = threading.Event()

    def run(self) -> None:
        try:
            with self.turns.hold(self.cancel):
                self.order.append(self.number)
                self.release.wait(30)
        except CancelledError as error:
            self.error = error


def queue_of(n: int, turns: Turns, order: list[int], cancels=None) -> list[Caller]:
    """Start callers one after the other, so that they stand in line in that order."""
    callers = []
    for number in range(n):
        callers.append(Caller(turns, number, order, cancels and cancels[number]))
        before = turns.waiting
        callers[-1].start()
        wait_until(lambda before=before: turns.waiting == before + 1)
    return callers


def test_callers_are_served_in_the_order_in_which_they_came() -> None:
    turns, order = Turns(), []
    callers = queue_of(6, turns, order)
    for n, caller in enumerate(callers):
        wait_until(lambda n=n: len(order) == n + 1)
        caller.release.set()
        caller.join(30)
    assert order == [0, 1, 2, 3, 4, 5]
    assert turns.waiting == 0


def test_a_newcomer_does_not_overtake_one_who_waits() -> None:
    turns, order = Turns(), []
    first, second = queue_of(2, turns, order)
    first.release.set()
    second.release.set()
    with turns.hold():  # asked for at the very moment in which the turn is free
        assert order == [0, 1]


def test_one_who_gives_up_leaves_the_queue_and_the_others_keep_their_places() -> None:
    turns, order = Turns(), []
    cancels = [threading.Event() for _ in range(3)]
    callers = queue_of(3, turns, order, cancels)
    cancels[1].set()
    callers[1].join(2)
    assert isinstance(callers[1].error, CancelledError)
    callers[0].release.set()
    callers[2].release.set()
    callers[2].join(30)
    assert order == [0, 2]


def test_one_who_gave_up_before_the_turn_came_is_not_served_although_it_is_free() -> None:
    cancel = threading.Event()
    cancel.set()
    turns = Turns()
    with pytest.raises(CancelledError), turns.hold(cancel):
        raise AssertionError("served")
    assert turns.waiting == 0


def test_a_thread_does_not_wait_for_itself() -> None:
    turns = Turns()
    with turns.hold(), pytest.raises(BusyError), turns.hold():
        raise AssertionError("served")
    assert turns.waiting == 0


def test_the_turn_ends_with_an_error_of_who_had_it() -> None:
    turns = Turns()
    with pytest.raises(ValueError, match="mine"), turns.hold():
        raise ValueError("mine")
    with turns.hold():
        assert turns.waiting == 1


class Interruption:
    """Interrupts `hold` at its n-th line."""

    def __init__(self, at: int | None) -> None:
        self.at, self.n_lines = at, 0

    def run(self, work) -> None:
        before, code = sys.gettrace(), Turns.hold.__wrapped__.__code__
        sys.settrace(lambda frame, *_: self._line if frame.f_code is code else None)
        try:
            work()
        finally:
            sys.settrace(before)

    def _line(self, _frame, event, _argument):
        self.n_lines += event == "line"
        if event == "line" and self.n_lines == self.at:
            raise KeyboardInterrupt
        return self._line


def test_after_an_interrupt_at_any_line_before_it_is_given_back_the_turn_is_free() -> None:
    def hold(turns: Turns) -> None:
        with turns.hold():
            pass

    counted = Interruption(None)
    counted.run(lambda: hold(Turns()))
    assert counted.n_lines > 5
    for at in range(1, counted.n_lines):  # the last line gives it back
        turns = Turns()
        with pytest.raises(KeyboardInterrupt):
            Interruption(at).run(lambda turns=turns: hold(turns))
        assert turns.waiting == 0
        hold(turns)
