"""Measure what choosing a token costs: chains over the whole vocabulary and over what is enough, and grammars.

    python benchmarks/sampling.py [-m MODEL] [--tokens N] > sampling.json

Prints one line per case to standard error, and JSON to standard output. Rows are made up: a few favourites and noise.
"""

import argparse
import json
import sys
import time
from datetime import UTC, datetime

import numpy as np

from recycle_cpp.backend.model import LlamaModel, SamplerVocabulary
from recycle_cpp.decoding.sampling.chain import ChainSampler
from recycle_cpp.decoding.sampling.samplers import NOTHING, Sampler, make_sampler
from recycle_cpp.models import resolve
from recycle_cpp.types import GenerateOptions, Grammar, LoadOptions, SamplingOptions

VOCABULARIES = (49_152, 151_936)
FULL = {"repeat_penalty": 1.1, "dry_multiplier": 0.8, "dry_sequence_breakers": (), "typical_p": 0.95}
CHAINS = {
    "greedy with penalties": SamplingOptions(**FULL | {"typical_p": 1.0}),
    "llama.cpp's defaults": SamplingOptions(temperature=0.8, seed=1),
    "all filters": SamplingOptions(temperature=0.8, seed=1, **FULL),
    "no top-k": SamplingOptions(temperature=0.8, seed=1, top_k=0),
    "mirostat": SamplingOptions(temperature=0.8, seed=1, mirostat=2),
}
WORDS = Grammar(r'root ::= ("\"" [a-z ]{1,30} "\"" ", "?)+')


def made_up_rows(n_vocab: int, n: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    return (rng.normal(0, 2, n_vocab) + rng.normal(0, 2, (n, n_vocab))).astype(np.float32)


def microseconds(sampler: Sampler, rows: np.ndarray, n_tokens: int) -> float:
    """Return the median cost of one choice."""
    spent = []
    for i in range(n_tokens):
        row = rows[i % len(rows)]
        start = time.perf_counter()
        token = sampler.sample(row, 0)
        spent.append(time.perf_counter() - start)
        if token == NOTHING:
            break
    return round(1e6 * float(np.median(spent)), 1)


def chain_costs(n_tokens: int) -> list[dict[str, object]]:
    costs: list[dict[str, object]] = []
    for n_vocab in VOCABULARIES:
        vocab = SamplerVocabulary(None, n_vocab, (), 2048)
        rows = made_up_rows(n_vocab, 16)
        prompt = list(range(1000, 1500))
        for name, options in CHAINS.items():
            enough, whole = ChainSampler(options, vocab, prompt), ChainSampler(options, vocab, prompt)
            whole.plan = whole.plan._replace(n_best=0)
            row = {"n_vocab": n_vocab, "chain": name, "microseconds": microseconds(enough, rows, n_tokens)}
            row["over_the_whole_vocabulary"] = microseconds(whole, rows, n_tokens)
            print_note(json.dumps(row))
            costs.append(row)
    return costs


def grammar_costs(model: LlamaModel, n_tokens: int) -> list[dict[str, object]]:
    costs: list[dict[str, object]] = []
    vocab = model.sampler_vocabulary(2048)
    rows = made_up_rows(model.n_vocab, 16)
    for name in ("greedy with penalties", "llama.cpp's defaults"):
        sampler = make_sampler(GenerateOptions(sampling=CHAINS[name], grammar=WORDS), vocab, [1, 2, 3])
        row = {"n_vocab": model.n_vocab, "grammar": name, "microseconds": microseconds(sampler, rows, n_tokens)}
        print_note(json.dumps(row))
        costs.append(row)
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", default="smollm2-135m")
    parser.add_argument("--tokens", type=int, default=200)
    arguments = parser.parse_args()
    model = LlamaModel(resolve(arguments.model).path, LoadOptions())
    rows = chain_costs(arguments.tokens) + grammar_costs(model, arguments.tokens)
    report = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "model": arguments.model, "rows": rows}
    print(json.dumps(report, indent=1))


def print_note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
