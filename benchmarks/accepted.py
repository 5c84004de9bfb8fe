"""Measure mean accepted tokens of planned trees of fixed widths, and of the published tree, on the real model.

    python benchmarks/accepted.py [-m MODEL] [--prompts FILE] [--limit N] [--max-tokens N] > accepted.json

Every drafter has its own knowledge, cold at first and kept from prompt to prompt, and decodes the first turn of every
prompt. Counts, no speeds: but for near-ties they are the same on every machine. Milliseconds are our own time for
drafting and planning, a mean over all steps.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from recycle_cpp.backend.loaded import LoadedModel
from recycle_cpp.bench.prompts import EVERYDAY, SETS, BenchPrompt, read_prompts, take
from recycle_cpp.bench.replay import AlwaysWidest
from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting import template
from recycle_cpp.drafting.drafter import Drafter, TemplateDrafter
from recycle_cpp.drafting.knowledge import Knowledge
from recycle_cpp.drafting.planned import PlannedDrafter
from recycle_cpp.models import fingerprint, resolve
from recycle_cpp.models.folders import cache_folder
from recycle_cpp.text.chat import ChatTemplate
from recycle_cpp.types import LoadOptions, Message

WIDTHS = (4, 8, 16, 80)


@dataclass
class Count:
    """What the steps of one drafter came to."""

    emitted: int = 0
    steps: int = 0
    rows: int = 0
    expected: float = 0.0
    draft_seconds: float = 0.0


def drafters(n_vocab: int) -> dict[str, Drafter]:
    found: dict[str, Drafter] = {
        f"planned {width}": PlannedDrafter(Knowledge(n_vocab), AlwaysWidest(width)) for width in WIDTHS
    }
    found["published tree"] = TemplateDrafter(Knowledge(n_vocab).matrix, template.published())
    return found


def tokens_of(loaded: LoadedModel, text: str) -> list[int]:
    model = loaded.model
    if model.chat_template is None:
        return model.tokenize(text, add_special=True, parse_special=True)

    def piece(token: int) -> str:
        return "" if token < 0 else model.piece(token, special=True).decode("utf-8", "replace")

    chat = ChatTemplate(model.chat_template, bos_token=piece(model.bos), eos_token=piece(model.eos))
    return model.tokenize(chat.render([Message("user", text)]), add_special=False, parse_special=True)


def measure(loaded: LoadedModel, prompts: list[BenchPrompt], max_tokens: int) -> dict[str, Count]:
    """Return what each drafter's steps came to."""
    engine, every = Engine(loaded.backend), drafters(loaded.model.n_vocab)
    counts = {name: Count() for name in every}
    for prompt in prompts:
        tokens = tokens_of(loaded, prompt.turns[0])
        if len(tokens) + max_tokens > loaded.backend.n_ctx:
            continue
        for name, drafter in every.items():
            engine.prepare(tokens)
            count = counts[name]
            for step in engine.steps(Request(drafter, GreedySampler(), max_tokens)):
                count.emitted += len(step.tokens)
                count.steps += 1
                count.rows += step.width
                count.expected += step.expected
                count.draft_seconds += step.times.draft
    return counts


def row_of(count: Count) -> dict[str, float]:
    return {
        "mean_accepted_tokens": round(count.emitted / count.steps, 3),
        "mean_width": round(count.rows / count.steps, 1),
        "promised_over_got": round(count.expected / count.emitted, 3),
        "draft_ms": round(1000 * count.draft_seconds / count.steps, 3),
        "steps": count.steps,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", default="smollm2-135m")
    parser.add_argument("--prompts", type=Path)
    parser.add_argument("--limit", type=int, default=48)
    parser.add_argument("--max-tokens", type=int, default=128)
    given = parser.parse_args()
    path = resolve(given.model).path
    loaded = LoadedModel(path, LoadOptions(), cache_folder() / "profiles", fingerprint(path), print_note)
    prompts = take(read_prompts(given.prompts) if given.prompts else SETS[EVERYDAY](), given.limit)
    rows = {name: row_of(count) for name, count in measure(loaded, prompts, given.max_tokens).items()}
    head = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "model": given.model, "limit": given.limit}
    print(json.dumps({**head, "max_tokens": given.max_tokens, "drafters": rows}, indent=1))


def print_note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
