"""Cost curves of machines, to replay traces on: published ones, and some of our own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from recycle_cpp.backend.cost import LADDER, Curve, interpolate
from recycle_cpp.bench.replay import MOST_ROWS
from recycle_cpp.errors import UsageError

# C(W) = T(W) / T(1) at some widths, and the price of a change of width in the same unit.
MACHINES: dict[str, tuple[dict[int, float], float]] = {
    # Token Recycling's own measurements of an 80-node tree (arXiv 2408.08696).
    "a100-like": ({1: 1.0, 81: 1.23}, 0.0),
    "3090-like": ({1: 1.0, 81: 1.95}, 0.0),
    "b200-like": ({1: 1.0, 12: 1.7}, 0.0),
    "apple-like": ({1: 1.0, 2: 1.17, 3: 1.62, 4: 1.61, 5: 1.70, 6: 2.75}, 0.0),
    # Measured with `recycle-cpp bench`: 2 cores, flash attention off, 128 tokens of context.
    "xeon-2-cores-smollm2": ({1: 1.0, 2: 1.8, 4: 2.15, 8: 3.0, 16: 4.05, 32: 7.0, 64: 13.1}, 0.35),
    "xeon-2-cores-qwen2.5-coder-0.5b": ({1: 1.0, 2: 1.4, 4: 1.62, 8: 2.45, 16: 3.9, 32: 7.5, 64: 14.7}, 0.05),
    "epyc-2-cores-smollm2": ({1: 1.0, 2: 2.1, 3: 2.5, 4: 3.0, 8: 4.6, 12: 6.3, 16: 7.7, 32: 14.4, 64: 27.5}, 0.15),
    "epyc-2-cores-qwen2.5-coder-0.5b": (
        {1: 1.0, 2: 2.3, 3: 2.8, 4: 3.1, 6: 4.4, 8: 4.1, 12: 5.0, 16: 5.3, 24: 8.0, 32: 9.8, 64: 17.6},
        0.15,
    ),
    # The same with our kernels for few rows (docs/building.md).
    "epyc-2-cores-few-columns-smollm2": (
        {1: 1.0, 2: 1.31, 3: 1.52, 4: 1.61, 6: 1.96, 8: 2.31, 12: 3.26, 16: 3.86, 24: 5.8, 32: 7.6, 64: 15.0},
        0.1,
    ),
    "epyc-2-cores-few-columns-qwen2.5-coder-0.5b": (
        {1: 1.0, 2: 1.31, 3: 1.6, 4: 1.66, 6: 2.03, 8: 2.5, 12: 3.44, 16: 4.01, 24: 6.6, 32: 9.2, 64: 19.7},
        0.05,
    ),
}


def find_curve(name: str) -> Curve:
    """Return the curve of a machine, or of a file.

    Raises:
        UsageError: if it is neither, or the file has no curve.
    """
    return named_curve(name) if name in MACHINES or not os.path.lexists(name) else read_curve(Path(name))


def named_curve(name: str) -> Curve:
    """Return a machine's curve; a single token takes one second.

    Raises:
        UsageError: if there is no such machine.
    """
    if name not in MACHINES:
        raise UsageError(f"there is no cost curve {name!r}: give a JSON file or one of {', '.join(MACHINES)}")
    costs, switch = MACHINES[name]
    return Curve(LADDER, interpolate(costs, LADDER), tuple(0.0 for _ in LADDER), switch)


def read_curve(path: Path) -> Curve:
    """Return the curve of a bench report, or of {"ladder": [...], "base": [...], "slope": [...], "switch": seconds}.

    Raises:
        UsageError: if the file cannot be read or has no curve.
    """
    try:
        kept: Any = json.loads(path.read_text("utf-8"))
        kept = kept.get("cost_curve", kept)
        ladder = tuple(int(width) for width in kept["ladder"])
        base, slope = (tuple(float(value) for value in kept[name]) for name in ("base", "slope"))
        curve = Curve(ladder, base, slope, float(kept["switch"]))
        in_order = list(ladder) == sorted(set(ladder)) and ladder[0] == 1 and ladder[-1] <= MOST_ROWS
        is_finite = np.isfinite([*base, *slope, curve.switch]).all()
        is_time = is_finite and min(base) > 0 and min(*slope, curve.switch) >= 0
        if not (in_order and len(base) == len(slope) == len(ladder) and is_time):
            raise ValueError
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): give a cost curve") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise UsageError(
            f"{path} has no cost curve: give ladder (1 to {MOST_ROWS}), base, slope and switch in JSON"
        ) from error
    return curve
