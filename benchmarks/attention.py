"""Measure plain decoding with flash attention on and off, at several fills of the cache.

    python benchmarks/attention.py [-m MODEL ...] > attention.json

Evaluations of one row alternate between the two settings in blocks, five blocks each; the median block counts.
"""

import argparse
import json
import statistics
import sys
from datetime import UTC, datetime

from recycle_cpp.backend.cores import usable_cores
from recycle_cpp.backend.llama import LlamaContext
from recycle_cpp.backend.model import LlamaModel
from recycle_cpp.backend.timing import Bench, Budget
from recycle_cpp.models import resolve
from recycle_cpp.types import LoadOptions

FILLS = (128, 1024, 4032)
BLOCKS = 5


def measure(name: str) -> list[dict[str, object]]:
    """Return one row per fill: tokens per second with flash attention off and on."""
    model = LlamaModel(resolve(name).path, LoadOptions())
    settings = {"n_ctx": 4096, "n_batch": 512, "n_threads": usable_cores(), "type_k": "f16", "type_v": "f16"}
    contexts = {on: LlamaContext(model, flash_attention=on, **settings) for on in (False, True)}
    benches = {on: Bench(context, Budget(0)) for on, context in contexts.items()}
    rows: list[dict[str, object]] = []
    for fill in FILLS:
        for bench in benches.values():
            bench.fill(fill)
        speeds: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(BLOCKS):
            for on, bench in benches.items():
                speeds[on].append(1 / min(bench.run(1) for _ in range(6)))
        off, on_ = (statistics.median(speeds[on]) for on in (False, True))
        row = {"model": name, "cells": fill, "off": round(off, 1), "on": round(on_, 1), "off/on": round(off / on_, 2)}
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    for context in contexts.values():
        context.close()
    model.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", action="append", help="may be repeated; default: smollm2-135m")
    models = parser.parse_args().model or ["smollm2-135m"]
    rows = [row for name in models for row in measure(name)]
    print(json.dumps({"date": datetime.now(UTC).isoformat(timespec="seconds"), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
