"""The cost curve: its bounds, and that nothing measured in a slow moment lasts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recycle_cpp.backend.cost import LADDER, CostCurve, Curve, interpolate

SEEDS = st.integers(0, 2**32 - 1)
# Relative costs of real machines, between the widths measured there.
MACHINES = {
    "smollm2": {1: 1.0, 2: 1.9, 4: 2.2, 8: 2.8, 16: 4.2, 80: 15.0},
    "qwen 0.5b": {1: 1.0, 2: 1.4, 4: 1.6, 8: 2.4, 16: 3.9, 80: 20.0},
    "qwen 1.5b": {1: 1.0, 2: 1.5, 4: 1.6, 8: 1.7, 16: 2.1, 80: 15.0},
    "gpu": {1: 1.0, 80: 1.3},
}
MARGIN = 1.03


def expected_tokens(share: float) -> np.ndarray:
    """Return E(W) for the ladder where each further row adds a falling share."""
    gains = share / np.arange(1, LADDER[-1]) ** 0.9
    sums = np.concatenate(([1.0], 1 + np.cumsum(gains)))
    return np.array([sums[width - 1] for width in LADDER])


def choose(expected: np.ndarray, seconds: np.ndarray) -> int:
    """Return the rung with the most expected tokens per second; plain decoding unless the margin is beaten."""
    speed = expected / seconds
    speed[0] *= MARGIN
    return int(np.argmax(speed))


class Machine:
    """Steps of known cost that a curve is corrected by.

    Attributes:
        chosen: the widths that were chosen.
    """

    def __init__(self, curve: CostCurve, seconds: np.ndarray, expected: np.ndarray, noise: float = 0.02) -> None:
        self.curve = curve
        self.seconds = seconds
        self.expected = expected
        self.chosen: list[int] = []
        self._rng = np.random.default_rng(0)
        self._noise = noise

    def run(self, n_steps: int) -> list[int]:
        """Choose, take the step and correct, again and again; return what was chosen."""
        for _ in range(n_steps):
            rung = choose(self.expected, self.curve.seconds(100).copy())
            self.chosen.append(LADDER[rung])
            self.curve.observe(LADDER[rung], 100, self.seconds[rung] * (1 + self._rng.exponential(self._noise)))
        return self.chosen[-n_steps:]

    def worth(self, widths: list[int]) -> float:
        """Return the tokens per second of these steps, as a share of the best that there is."""
        rungs = [LADDER.index(width) for width in widths]
        speed = self.expected[rungs].sum() / self.seconds[rungs].sum()
        return speed / (self.expected / self.seconds).max()


def seconds_of(name: str) -> np.ndarray:
    return 0.01 * np.array(interpolate(MACHINES[name], LADDER))


def flat_curve(seconds, switch: float = 0.0) -> CostCurve:
    return CostCurve(Curve(LADDER, tuple(seconds), (0.0,) * len(LADDER), switch))


def slow_moments(seconds: np.ndarray) -> np.ndarray:
    """Return a curve with T(1) three times too high, and T(4) and wider four times."""
    return seconds * np.array([3.0 if width == 1 else 4.0 if width >= 4 else 1.0 for width in LADDER])


@given(seed=SEEDS, n=st.integers(0, 60))
def test_more_rows_never_take_less_time_and_never_more_than_their_parts(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    base, slope = rng.exponential(0.01, len(LADDER)), rng.normal(0, 1e-5, len(LADDER))
    curve = CostCurve(Curve(LADDER, tuple(base), tuple(slope), 0.0))
    for _ in range(n + 1):
        spare = curve.spare
        curve.spare = 0.0  # nothing may be lost on trials: what is known alone counts
        seconds = curve.seconds(int(rng.integers(5000)))
        curve.spare = spare
        assert (seconds > 0).all()
        assert (np.diff(seconds) >= -1e-12).all()
        assert (np.diff(seconds / LADDER) <= 1e-12).all()
        curve.observe(int(rng.integers(1, 90)), int(rng.integers(5000)), float(rng.exponential(0.02)))


def test_a_measured_curve_that_keeps_the_bounds_is_taken_as_it_is() -> None:
    seconds = seconds_of("smollm2")
    slope = 1e-6 * np.array(LADDER)
    curve = CostCurve(Curve(LADDER, tuple(seconds), tuple(slope), 0.0))
    assert curve.ladder == LADDER
    assert curve.seconds(0) == pytest.approx(seconds)
    assert curve.seconds(1000) == pytest.approx(seconds + 1000 * slope)


def test_a_change_of_width_costs_the_switch_and_staying_does_not() -> None:
    curve = flat_curve(seconds_of("gpu"), switch=0.002)
    before = curve.seconds(0).copy()
    assert before - seconds_of("gpu") == pytest.approx([0.0, *[0.6 * 0.002] * (len(LADDER) - 1)])
    curve.observe(8, 0, before[LADDER.index(8)])
    after = curve.seconds(0) - seconds_of("gpu")
    assert after.argmin() == LADDER.index(8)
    assert np.delete(after, 5).min() > after[5] + 0.001


def test_a_change_of_width_is_charged_in_full_where_changes_are_frequent_and_little_where_they_are_rare() -> None:
    curve = flat_curve(seconds_of("gpu"), switch=0.002)
    for width in (8, 1) * 50:
        curve.observe(width, 0, seconds_of("gpu")[LADDER.index(width)] + 0.002)
    assert curve.seconds(0)[LADDER.index(8)] - seconds_of("gpu")[LADDER.index(8)] == pytest.approx(0.002, rel=0.2)
    for _ in range(200):
        curve.observe(8, 0, seconds_of("gpu")[LADDER.index(8)])
    assert curve.seconds(0)[0] - seconds_of("gpu")[0] < 0.0004


def test_a_width_off_the_ladder_says_nothing_but_that_the_graph_has_changed() -> None:
    curve = flat_curve(seconds_of("gpu"), switch=0.002)
    curve.observe(5, 0, 9.0)
    assert curve.seconds(0) == pytest.approx(seconds_of("gpu") + 0.002 * (0.1 + 2 * (0.25 + 0.05 * 0.75)))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.45, 0.6])
@pytest.mark.parametrize(("name", "n_steps"), [("smollm2", 300), ("qwen 0.5b", 300), ("qwen 1.5b", 300), ("gpu", 500)])
def test_a_curve_from_slow_moments_becomes_right(name: str, share: float, n_steps: int) -> None:
    seconds, expected = seconds_of(name), expected_tokens(share)
    machine = Machine(flat_curve(slow_moments(seconds)), seconds, expected)
    machine.run(n_steps)
    after = machine.run(100)
    best = LADDER[choose(expected, seconds)]
    assert after.count(best) >= 50 or machine.worth(after) > 0.97, (best, after)
    assert machine.worth(after) > 0.95


def test_the_width_of_the_true_curve_is_chosen_after_slow_moments_where_it_is_clearly_the_best() -> None:
    seconds, expected = seconds_of("qwen 1.5b"), expected_tokens(0.45)
    speed = np.sort(expected / seconds)
    assert speed[-1] > speed[-2], "the choice is clear"
    machine = Machine(flat_curve(slow_moments(seconds)), seconds, expected)
    machine.run(300)
    assert machine.run(20)[-1] in {LADDER[i] for i in np.argsort(-expected / seconds)[:2]}


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_that_gets_three_times_slower_keeps_its_choice(name: str) -> None:
    seconds, expected = seconds_of(name), expected_tokens(0.45)
    machine = Machine(flat_curve(seconds), seconds, expected)
    machine.run(400)
    machine.seconds = 3 * seconds
    during = machine.run(60)
    assert machine.worth(during) > 0.88, during
    assert machine.worth(machine.run(100)) > 0.95


@pytest.mark.parametrize("share", [0.1, 0.45])
@pytest.mark.parametrize("name", MACHINES)
def test_trying_widths_that_were_never_used_costs_little_where_the_curve_was_right(name: str, share: float) -> None:
    machine = Machine(flat_curve(seconds_of(name)), seconds_of(name), expected_tokens(share))
    assert machine.worth(machine.run(2000)) > 0.97


def test_one_slow_moment_changes_no_choice() -> None:
    seconds, expected = seconds_of("qwen 1.5b"), expected_tokens(0.45)
    machine = Machine(flat_curve(seconds), seconds, expected)
    machine.run(200)
    before = machine.chosen[-1]
    machine.curve.observe(before, 100, 50 * seconds[LADDER.index(before)])
    assert machine.worth(machine.run(30)) > 0.93


def test_a_width_that_was_never_used_is_tried_in_the_end() -> None:
    seconds, expected = seconds_of("gpu"), expected_tokens(0.45)
    wrong = seconds * np.where(np.array(LADDER) == 1, 1.0, 1.9 * np.array(LADDER) ** 0.2)
    machine = Machine(flat_curve(np.minimum(wrong, seconds[0] * np.array(LADDER))), seconds, expected)
    machine.run(1000)
    assert LADDER[choose(expected, seconds)] in machine.chosen
    assert machine.worth(machine.chosen[-100:]) > 0.95


def test_interpolation_keeps_what_was_measured_and_goes_on_straight() -> None:
    found = dict(zip(LADDER, interpolate({1: 1.0, 2: 2.0, 4: 3.0, 8: 5.0, 16: 5.0, 32: 9.0}, LADDER), strict=True))
    assert [found[width] for width in (1, 2, 4, 8, 16, 32)] == [1, 2, 3, 5, 5, 9]
    assert [found[width] for width in (3, 6, 12, 24)] == [2.5, 4, 5, 7]
    assert [found[width] for width in (48, 64, 80)] == [13, 17, 21]


def test_interpolation_of_one_measured_width_is_that_width() -> None:
    assert interpolate({1: 0.25}, (1,)) == (0.25,)


@pytest.mark.parametrize("share", [0.3, 0.45, 0.6])
@pytest.mark.parametrize("name", MACHINES)
def test_slow_moments_that_come_and_go_turn_no_width_off_for_long(name: str, share: float) -> None:
    seconds, expected = seconds_of(name), expected_tokens(share)
    machine = Machine(flat_curve(seconds), seconds, expected)
    rng = np.random.default_rng(1)
    worth = []
    for _ in range(40):
        machine.seconds = rng.uniform(1.5, 4.0) * seconds
        machine.run(int(rng.integers(1, 12)))
        machine.seconds = seconds
        machine.run(40)
        worth.append(machine.worth(machine.run(60)))
    assert np.mean(worth) > 0.95
    assert min(worth[-10:]) > 0.8


def test_a_width_used_now_and_then_is_not_given_up_for_what_slow_moments_made_of_it() -> None:
    seconds = seconds_of("qwen 1.5b")
    curve = flat_curve(seconds)
    rng = np.random.default_rng(2)
    rung = LADDER.index(4)
    for step in range(4000):
        width = 4 if step % 15 == 7 else 1  # text that is foreseen now and then
        slow = 3.0 if rng.uniform() < 0.1 else 1.0  # another process takes a core for a step
        curve.observe(width, 100, slow * seconds[LADDER.index(width)])
    for _ in range(100):
        curve.observe(1, 100, seconds[0])
    assert curve.seconds(100)[rung] / curve.seconds(100)[0] == pytest.approx(seconds[rung] / seconds[0], rel=0.15)
