"""How many threads are worth a trial, from what Linux says of its CPUs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recycle_cpp.backend.cores import thread_candidates, usable_cores


def describe(folder: Path, siblings: list[str], speeds: list[int] | None = None) -> Path:
    """Write files as Linux has them: for each CPU its siblings, and its speed if known."""
    for cpu, siblings_list in enumerate(siblings):
        topology = folder / f"cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{siblings_list}\n")
        if speeds:
            (folder / f"cpu{cpu}/cpu_capacity").write_text(f"{speeds[cpu]}\n")
    return folder


@pytest.fixture
def on_cpus(monkeypatch):
    """Let this process run on so many CPUs of a Linux machine."""

    def set_number(n: int) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(n)), raising=False)
        monkeypatch.setattr("platform.system", lambda: "Linux")

    return set_number


PAIRS = ["0,1", "0,1", "2,3", "2,3", "4,5", "4,5", "6,7", "6,7"]


@pytest.mark.parametrize(
    ("siblings", "speeds", "expected"),
    [
        (["0", "1"], None, (2,)),
        (["0-1", "0-1"], None, (1, 2)),
        (["0", "1", "2", "3"], None, (4, 2)),
        (PAIRS, None, (4, 8, 2)),
        ([*PAIRS, "8", "9", "10", "11"], [1024] * 8 + [600] * 4, (4, 8, 12)),
        (["0", "1", "2", "3"], [1024, 1000, 990, 980], (4, 2)),
    ],
    ids=["two cores", "one core, two threads", "four cores", "four cores, eight threads", "hybrid", "boost clocks"],
)
def test_real_cores_come_first_then_all_then_half(tmp_path: Path, on_cpus, siblings, speeds, expected) -> None:
    on_cpus(len(siblings))
    assert thread_candidates(describe(tmp_path, siblings, speeds)) == expected


def test_a_machine_that_says_nothing_gets_all_cores(tmp_path: Path, on_cpus) -> None:
    on_cpus(3)
    assert thread_candidates(tmp_path / "none") == (3,)


def test_only_the_cores_that_this_process_may_use_count(tmp_path: Path, on_cpus) -> None:
    folder = describe(tmp_path, PAIRS)
    on_cpus(2)
    assert usable_cores() == 2
    assert thread_candidates(folder) == (1, 2)


def test_this_machine_has_candidates_that_it_can_use() -> None:
    assert all(1 <= n <= usable_cores() for n in thread_candidates())
