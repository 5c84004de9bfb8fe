"""Which cores this process may use, and how many threads are worth a trial."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from collections import Counter
from pathlib import Path

CPU_FOLDER = Path("/sys/devices/system/cpu")
_ANSWER_SECONDS = 2.0
_MANY_CORES = 4  # from here on, half of the cores may be enough for the memory


def usable_cores() -> int:
    """Return how many cores this process may run on, as the system counts them."""
    return len(_usable())


def thread_candidates(folder: Path = CPU_FOLDER) -> tuple[int, ...]:
    """Return numbers of threads worth a trial, each once, the likeliest first.

    Real cores come before the threads that share them; where there are fast and slow cores, the fast ones alone are a
    candidate too: llama.cpp gives every thread the same work, so the slowest core sets the pace. Half of many cores
    may do as well as all of them where the memory is the limit, and better where others compute too.

    Args:
        folder: where Linux describes its CPUs.
    """
    usable = _usable()
    if platform.system() == "Darwin":
        real, fast = _sysctl("hw.physicalcpu"), _sysctl("hw.perflevel0.physicalcpu")
    else:
        real, fast = _real_and_fast(usable, folder)
    real = min(real or len(usable), len(usable))
    fast = min(fast or real, real)
    half = real // 2 if real >= _MANY_CORES else real
    return tuple(dict.fromkeys((fast, real, len(usable), half)))


def _usable() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _real_and_fast(cpus: list[int], folder: Path) -> tuple[int, int]:
    """Return how many real cores these CPUs are, and how many of those are of the fastest kind; 0 for unknown."""
    speeds: dict[str, int] = {}
    for cpu in cpus:
        siblings = _read(folder / f"cpu{cpu}/topology/thread_siblings_list")
        if siblings is None:
            return 0, 0
        speed = _read(folder / f"cpu{cpu}/cpu_capacity") or _read(folder / f"cpu{cpu}/cpufreq/cpuinfo_max_freq")
        speeds[siblings] = int(speed) if speed is not None and speed.isdecimal() else 0
    # Boost clocks differ by a few percent from core to core; another kind of core is a quarter slower at least.
    counts = Counter(4 * speed >= 3 * max(speeds.values()) for speed in speeds.values())
    return len(speeds), counts[True]


def _read(path: Path) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text("ascii").strip()
    return None


def _sysctl(name: str) -> int:
    """Return a number that macOS knows of its CPU; 0 for unknown."""
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        command = ["sysctl", "-n", name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=True)
        return int(done.stdout)
    return 0
