"""Cost curves: those that are shipped are sane, files are read, and what is no curve is said to be none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from recycle_cpp.backend.cost import LADDER, CostCurve
from recycle_cpp.bench.curves import MACHINES, find_curve, named_curve, read_curve
from recycle_cpp.errors import UsageError

KEPT = {"ladder": [1, 2, 4], "base": [0.01, 0.012, 0.015], "slope": [1e-6, 1e-6, 2e-6], "switch": 0.001}


@pytest.mark.parametrize("name", MACHINES)
def test_a_shipped_curve_starts_at_one_and_rises_to_no_more_than_rows_one_by_one(name: str) -> None:
    curve = named_curve(name)
    times = np.array(curve.base)
    assert (curve.ladder, len(times), curve.base[0]) == (LADDER, len(LADDER), 1.0)
    assert (times >= 1).all()
    # As measured: a width may be a little cheaper than the one before it, and two rows dearer than two steps.
    assert (times[1:] / times[:-1] > 0.9).all()
    assert (times <= 1.2 * np.array(LADDER)).all()
    assert 0 <= curve.switch < 1
    assert not any(curve.slope)
    live = CostCurve(curve).seconds(100)
    assert (np.diff(live[1:]) > -1e-9).all(), "as the planner sees them they fall nowhere"


def test_the_measured_points_stand_in_the_curve() -> None:
    for name, (costs, switch) in MACHINES.items():
        curve = named_curve(name)
        assert curve.switch == switch
        for width, cost in costs.items():
            if width in LADDER:
                assert curve.base[LADDER.index(width)] == pytest.approx(cost)


def test_a_curve_is_read_from_its_own_file_and_from_a_report(tmp_path: Path) -> None:
    for name, kept in (("own", KEPT), ("report", {"machine": "x", "cost_curve": KEPT})):
        path = tmp_path / name
        path.write_text(json.dumps(kept))
        curve = read_curve(path)
        assert find_curve(str(path)) == curve
        assert (curve.ladder, curve.base) == ((1, 2, 4), (0.01, 0.012, 0.015))
        assert (curve.slope, curve.switch) == ((1e-6, 1e-6, 2e-6), 0.001)


@pytest.mark.parametrize(
    "text",
    ["", "no json", "[]", "3", "null", "{}", '{"cost_curve": 3}', '{"cost_curve": null}', "[" * 100_000, "\xff"]
    + [
        json.dumps({**KEPT, **change})
        for change in (
            {"ladder": []}, {"ladder": [2, 4, 8]}, {"ladder": [1, 4, 2]}, {"ladder": [1, 2, 2]}, {"ladder": [1, 2]},
            {"ladder": 1}, {"ladder": ["a", 2, 4]}, {"ladder": [1, 2, float("inf")]}, {"base": [1.0, 2.0]},
            {"base": [0.0, 1.0, 2.0]}, {"base": [-1.0, 1.0, 2.0]}, {"base": [1.0, 2.0, float("nan")]},
            {"base": [1.0, 2.0, float("inf")]}, {"base": None}, {"slope": [0.0]}, {"slope": [0.0, 0.0, float("nan")]},
            {"ladder": [1, 2, 10**9]}, {"ladder": [1, 2, 10**12]}, {"slope": [0.0, -1e-3, 0.0]}, {"switch": -1.0},
            {"switch": None}, {"switch": "much"}, {"switch": float("nan")}, {"base": [1.0, 2.0, 10**400]},
        )
    ],
)  # fmt: skip
def test_a_file_without_a_curve_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "curve.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match="has no cost curve") as caught:
        read_curve(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_part_that_is_missing_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "curve.json"
    for name in KEPT:
        path.write_text(json.dumps({key: value for key, value in KEPT.items() if key != name}))
        with pytest.raises(UsageError, match="has no cost curve"):
            read_curve(path)


def test_what_is_neither_a_machine_nor_a_file_is_refused_with_the_machines_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no cost curve 'a100'.*a100-like"):
        find_curve("a100")
    with pytest.raises(UsageError, match="no cost curve 'a"):
        find_curve("a" * 5000)
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(UsageError, match="cannot be read"):
            read_curve(path)
