"""Compare two builds of llama.cpp: are their logits bit-identical, and what does each width cost?

    pip install --no-deps --target stock WHEEL; pip install --no-deps --target patched WHEEL
    python benchmarks/compare_builds.py stock patched [-m MODEL ...] > builds.json

Each argument is a folder that holds the package llama_cpp. A process per build takes a digest of every row of logits,
at widths 1 to 17, 24 and 33, with flash attention off and on, after contexts of 20, 300 and 900 random tokens; then
both are timed, one after the other, several times. Also told: at which widths all rows equal single-row evaluations.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.backend.library import load_library
from recycle_cpp.backend.llama import LlamaContext
from recycle_cpp.backend.loaded import usable_cores
from recycle_cpp.backend.measure import time_widths
from recycle_cpp.backend.model import LlamaModel
from recycle_cpp.models import resolve
from recycle_cpp.types import LoadOptions

if TYPE_CHECKING:
    from recycle_cpp.types import FloatArray, IntArray

MODELS = ["smollm2-135m", "qwen2.5-coder-0.5b", "gemma-3-270m"]
WIDTHS = (*range(1, 18), 24, 33)
CONTEXTS = (20, 300, 900)
TIMED_WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16)
TIMED_CELLS = (64, 896)
N_BATCH = 512
SEED = 5


def make_context(model: LlamaModel, flash_attention: bool, n_ctx: int) -> LlamaContext:
    settings = {"n_batch": N_BATCH, "n_threads": usable_cores(), "type_k": "f16", "type_v": "f16"}
    return LlamaContext(model, n_ctx=n_ctx, flash_attention=flash_attention, **settings)


def run_chain(context: LlamaContext, tokens: IntArray, first: int) -> FloatArray:
    n = len(tokens)
    positions = np.arange(first, first + n, dtype=np.int32)
    return context.decode_tree(tokens, positions, np.zeros(n, np.int32), np.ones(n, np.int32))


def digests(rows: FloatArray) -> list[str]:
    return [hashlib.sha256(row.tobytes()).hexdigest()[:16] for row in rows]


def dump(name: str) -> dict[str, list[str]]:
    """Return the digests of all rows, by settings and width; "single" are the same tokens one by one."""
    model = LlamaModel(resolve(name).path, LoadOptions())
    found: dict[str, list[str]] = {}
    for flash_attention in (False, True):
        context = make_context(model, flash_attention, 1024)
        tokens = np.random.default_rng(SEED).integers(0, context.n_vocab, 1024).astype(np.int32)
        for n_past in CONTEXTS:
            case = f"{name} flash {'on' if flash_attention else 'off'} context {n_past}"
            context.seq_rm(-1, 0, -1)
            for start in range(0, n_past, N_BATCH):
                context.decode_prompt(tokens[start : min(start + N_BATCH, n_past)], start)
            span = range(n_past, n_past + max(WIDTHS))
            found[f"{case} single"] = [d for i in span for d in digests(run_chain(context, tokens[i : i + 1], i))]
            for width in WIDTHS:
                context.seq_rm(-1, n_past, -1)
                found[f"{case} width {width}"] = digests(run_chain(context, tokens[n_past : n_past + width], n_past))
        context.close()
    model.close()
    return found


def times(name: str) -> dict[str, dict[int, float]]:
    """Return milliseconds by width, for each fill of the cache, flash attention off."""
    model = LlamaModel(resolve(name).path, LoadOptions())
    context = make_context(model, False, 2048)
    found = {
        f"{name} {n} cells": {w: 1e3 * t.seconds for w, t in time_widths(context, TIMED_WIDTHS, n, repeats=5).items()}
        for n in TIMED_CELLS
    }
    context.close()
    model.close()
    return found


def run(folder: Path, job: str, model: str) -> dict[str, object]:
    """Run one job in a process of its own that finds llama_cpp in `folder`."""
    paths = [str(folder.resolve()), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, __file__, "--job", job, "-m", model]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def exact_widths(found: dict[str, list[str]], case: str) -> list[int]:
    single = found[f"{case} single"]
    return [width for width in WIDTHS if found[f"{case} width {width}"] == single[:width]]


def compare(folders: list[Path], model: str, rounds: int) -> dict[str, object]:
    """Return what differs between two builds, the widths exact in each case, and the least times of each."""
    dumps = [run(folder, "dump", model) for folder in folders]
    results = dumps[0]["result"]
    cases = sorted({key.removesuffix(" single") for key in results if key.endswith(" single")})
    least: list[dict[str, dict[str, float]]] = [{}, {}]
    for _ in range(rounds):
        for folder, best in zip(folders, least, strict=True):
            for case, by_width in run(folder, "times", model)["result"].items():
                old = best.get(case, by_width)
                best[case] = {width: round(min(ms, old[width]), 2) for width, ms in by_width.items()}
    return {
        "model": model,
        "builds": [dump["build"] for dump in dumps],
        "evaluations": len(results),
        "different": [key for key, rows in results.items() if rows != dumps[1]["result"][key]],
        "exact widths": {case: exact_widths(results, case) for case in cases},
        "ms": least,
        "ratio to one row": [
            {case: {w: round(ms / by_width["1"], 2) for w, ms in by_width.items()} for case, by_width in best.items()}
            for best in least
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, help="two folders that hold the package llama_cpp")
    parser.add_argument("-m", "--model", action="append", help=f"may be repeated; default: {', '.join(MODELS)}")
    parser.add_argument("--rounds", type=int, default=3, help="how often each build is timed")
    parser.add_argument("--job", choices=["dump", "times"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    models = arguments.model or MODELS
    if arguments.job:
        result = dump(models[0]) if arguments.job == "dump" else times(models[0])
        print(json.dumps({"build": load_library().build, "result": result}))
        return
    if len(arguments.folders) != 2:
        parser.error("give two folders")
    rows = [compare(arguments.folders, model, arguments.rounds) for model in models]
    print(json.dumps({"date": datetime.now(UTC).isoformat(timespec="seconds"), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
