"""Measure what a sampler chain and a grammar cost, plain and drafted.

    python benchmarks/settings_cost.py [-m MODEL] [--limit N] [--max-tokens N] [--repeats N] > settings-cost.json

Every prompt is decoded under every setting, plainly and with `auto`, interleaved. Ratios of tokens per second: plain
decoding under a setting over greedy plain decoding, and `auto` over plain under the same setting; the median of the
repeats, with the lowest and the highest. Texts differ from setting to setting, so the first ratio compares tokens of
different texts; the second compares the same setting and seed.
"""

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median

from recycle_cpp import GenerateOptions, LoadOptions, Runtime, json_grammar
from recycle_cpp.bench.settings import FULL_CHAIN, request_settings

QUESTIONS = (
    "Describe a person as a JSON object with name, age, town and hobbies.",
    "Give three books as a JSON list of objects with title, author and year.",
    "Describe the weather of a week in April as a JSON object, one member for each day.",
    "Write a JSON object that configures a small web server: port, host, logging, routes.",
    "List the planets of the solar system as JSON, with their radius and number of moons.",
    "Write a recipe for pancakes as a JSON object with ingredients and steps.",
)


def settings() -> dict[str, GenerateOptions]:
    every = request_settings(json_grammar())
    return {
        "greedy": GenerateOptions(),
        "temperature 0.8": every["temperature 0.8"],
        "full chain": GenerateOptions(sampling=FULL_CHAIN),
        "JSON grammar": every["JSON"],
        "JSON grammar, sampled": every["JSON, sampled"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", default="smollm2-135m")
    parser.add_argument("--limit", type=int, default=len(QUESTIONS), help="questions to ask")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    speeds: dict[tuple[str, str], list[float]] = defaultdict(list)
    with Runtime.load(arguments.model, LoadOptions(n_ctx=1024, learned=False)) as runtime:
        for draft in ("off", "auto"):
            runtime.generate(QUESTIONS[0], GenerateOptions(max_tokens=16, draft=draft))  # compile and touch memory
        for repeat in range(arguments.repeats):
            runtime.forget()
            tokens: dict[tuple[str, str], int] = defaultdict(int)
            spent: dict[tuple[str, str], float] = defaultdict(float)
            for number, question in enumerate(QUESTIONS[: arguments.limit]):
                order = [(name, draft) for name in settings() for draft in ("off", "auto")]
                turn = (number + repeat) % len(order)
                for name, draft in [*order[turn:], *order[:turn]]:
                    options = replace(settings()[name], draft=draft, exact=False, max_tokens=arguments.max_tokens)
                    timings = runtime.generate(question, options).timings
                    tokens[name, draft] += timings.predicted_n
                    spent[name, draft] += timings.predicted_ms / 1000
            for key, n in tokens.items():
                speeds[key].append(n / spent[key])
        report = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "model": runtime.name,
            "facts": runtime.facts,
            "limit": arguments.limit,
            "max_tokens": arguments.max_tokens,
            "settings": {name: ratios(speeds, name) for name in settings()},
        }
    json.dump(report, sys.stdout, indent=1)
    print()


def ratios(speeds: dict[tuple[str, str], list[float]], name: str) -> dict[str, object]:
    plain, auto, greedy = speeds[name, "off"], speeds[name, "auto"], speeds["greedy", "off"]
    return {
        "plain tok/s": spread(plain),
        "plain over greedy plain": spread([a / b for a, b in zip(plain, greedy, strict=True)]),
        "auto over plain": spread([a / b for a, b in zip(auto, plain, strict=True)]),
    }


def spread(values: list[float]) -> dict[str, float]:
    return {"median": round(median(values), 3), "low": round(min(values), 3), "high": round(max(values), 3)}


if __name__ == "__main__":
    main()
