"""Measure what starting a model costs, cold and with its measurements kept, and how right the first cost curve is.

    python benchmarks/startup.py [-m MODEL ...] [--rounds N] > startup.json

Each model starts twice on a profile folder of its own. Then every width is timed for long, in turns with single rows,
at the two fills at which the curve was measured; ratios of T(W) / T(1), measured at start over these, are the error.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from recycle_cpp.backend.cost import Curve
from recycle_cpp.backend.llama import MAX_WIDTH, LlamaContext
from recycle_cpp.backend.loaded import LoadedModel
from recycle_cpp.backend.model import LlamaModel
from recycle_cpp.backend.timing import Bench, Budget
from recycle_cpp.backend.tune import CONTEXT, LOW_CELLS, Settings
from recycle_cpp.models import fingerprint, resolve
from recycle_cpp.types import LoadOptions

WIDTHS = (2, 3, 4, 6, 8, 12, 16)
FILLS = (LOW_CELLS, CONTEXT - LOW_CELLS)


def seconds_of(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


def start(path: Path, profiles: Path) -> tuple[float, Settings, Curve]:
    """Load a model; return the seconds from the weights in memory to the curve, the settings and the curve.

    The context in use is made in this time, too, and the weights of the least of three loads are taken off.
    """
    options = LoadOptions()
    weights = min(seconds_of(lambda: LlamaModel(path, options).close()) for _ in range(3))
    before = time.perf_counter()
    loaded = LoadedModel(path, options, profiles, fingerprint(path), lambda line: None)
    curve = loaded.curve()
    seconds = time.perf_counter() - before - weights
    settings = loaded.settings
    loaded.close()
    return seconds, settings, curve


def careful_ratios(path: Path, settings: Settings, fill: int, rounds: int) -> dict[int, float]:
    """Return T(W) / T(1) for each width, both the least of many evaluations in turns."""
    model = LlamaModel(path, LoadOptions())
    cache = {"type_k": "f16", "type_v": "f16"}
    context = LlamaContext(model, n_ctx=CONTEXT, n_batch=MAX_WIDTH, **cache, **settings._asdict())
    bench = Bench(context, Budget(0))
    bench.fill(fill)
    least: dict[int, float] = {}
    for _ in range(rounds):
        for width in (1, *WIDTHS):
            for _ in range(3):
                least[width] = min(bench.run(width), least.get(width, 1e9))
    context.close()
    model.close()
    return {width: least[width] / least[1] for width in WIDTHS}


def measure(name: str, rounds: int) -> dict[str, object]:
    """Return the row of one model."""
    path = resolve(name).path
    with tempfile.TemporaryDirectory() as folder:
        cold, settings, curve = start(path, Path(folder))
        cached, again, _ = start(path, Path(folder))
    assert settings == again, "what was kept is what was measured"
    ratios: dict[str, dict[str, list[float]]] = {}
    for fill in FILLS:
        seconds = {w: b + s * fill for w, b, s in zip(curve.ladder, curve.base, curve.slope, strict=True)}
        careful = careful_ratios(path, settings, fill, rounds)
        ratios[f"{fill} cells"] = {
            str(width): [round(seconds[width] / seconds[1], 2), round(careful[width], 2)] for width in WIDTHS
        }
    row = {
        "model": name,
        "settings": str(settings),
        "cold_seconds": round(cold, 2),
        "cached_seconds": round(cached, 3),
        "single_row_ms": round(1000 * (curve.base[0] + curve.slope[0] * FILLS[1]), 2),
        "switch_ms": round(1000 * curve.switch, 2),
        "ratio_at_start_and_careful": ratios,
    }
    print(row, file=sys.stderr, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", action="append", help="may be repeated; default: smollm2-135m")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    rows = [measure(name, arguments.rounds) for name in arguments.model or ["smollm2-135m"]]
    print(json.dumps({"date": datetime.now(UTC).isoformat(timespec="seconds"), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
