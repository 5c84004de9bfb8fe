"""Measure what a step costs outside llama.cpp, phase by phase, at several widths and context sizes.

    python benchmarks/host_time.py [-m MODEL] [--steps N] > host_time.json

Prints one line per context size and width to standard error, and JSON to standard output. Trees are the published one,
cut to the width in level order, so that every step drafts, verifies and commits for real.
"""

import argparse
import json
import sys
import time
from datetime import UTC, datetime

import numpy as np

from recycle_cpp.backend.loaded import LoadedModel
from recycle_cpp.decoding import kernels
from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting import template
from recycle_cpp.drafting.drafter import TemplateDrafter
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.models import fingerprint, resolve
from recycle_cpp.models.folders import cache_folder
from recycle_cpp.types import LoadOptions, PhaseTimes, Step

WIDTHS = (1, 8, 16, 81)
CONTEXTS = (2048, 32768)
PROMPT = "Tell the story of the three little pigs, then tell it again from the wolf's point of view."


def cut_template(width: int) -> template.TreeTemplate:
    published = template.published()
    return template.TreeTemplate(published.parent[:width], published.rank[:width])


def run_width(loaded: LoadedModel, width: int, n_steps: int) -> list[Step]:
    """Return steps of exactly this width, once the matrix knows enough to fill it."""
    engine = Engine(loaded.backend)
    matrix = AdjacencyMatrix(loaded.model.n_vocab)
    prompt = loaded.model.tokenize(PROMPT, add_special=True, parse_special=False)
    warm = TemplateDrafter(matrix, template.published())
    for drafter in (warm, TemplateDrafter(matrix, cut_template(width))):
        engine.prepare(prompt)
        steps: list[Step] = []
        for step in engine.steps(Request(drafter, GreedySampler())):
            steps.append(step)
            if len([s for s in steps if s.width == width]) == n_steps or len(steps) == 3 * n_steps:
                break
    return [step for step in steps if step.width == width]


def time_top_k(n_vocab: int, width: int, repeats: int = 30) -> dict[str, float]:
    """Return milliseconds of top-k and of reading the same rows once (numpy's maximum)."""
    logits = np.random.default_rng(0).normal(size=(width, n_vocab)).astype(np.float32)
    ids, values = np.empty((width, 8), np.int32), np.empty((width, 8), np.float32)
    maxima = np.empty(min(kernels.LANES, n_vocab), np.float32)
    spent: dict[str, list[float]] = {"top_k": [], "read": []}
    for _ in range(repeats):
        start = time.perf_counter()
        kernels.top_k(logits, ids, values, maxima)
        middle = time.perf_counter()
        logits.max(axis=1)
        spent["top_k"].append(middle - start)
        spent["read"].append(time.perf_counter() - middle)
    return {name: round(1000 * float(np.median(seconds)), 4) for name, seconds in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", default="smollm2-135m")
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    path = resolve(arguments.model).path
    rows = []
    for n_ctx in CONTEXTS:
        options = LoadOptions(n_ctx=n_ctx)
        loaded = LoadedModel(path, options, cache_folder() / "profiles", fingerprint(path), print_note)
        for width in WIDTHS:
            steps = run_width(loaded, width, arguments.steps)
            milliseconds = 1000 * np.median([step.times for step in steps], axis=0)
            phases = dict(zip(PhaseTimes._fields, np.round(milliseconds, 4).tolist(), strict=True))
            host = round(1000 * float(np.median([step.times.host for step in steps])), 4)
            row = {"n_ctx": n_ctx, "width": width, "steps": len(steps), "host": host, **phases}
            row["top_k_alone"] = time_top_k(loaded.model.n_vocab, width)
            rows.append(row)
            print_note(json.dumps(row))
        loaded.close()
    report = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "model": arguments.model, "rows": rows}
    print(json.dumps(report, indent=1))


def print_note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
