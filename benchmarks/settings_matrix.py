"""Compare drafted with plain decoding under settings of every kind, on real models.

    python benchmarks/settings_matrix.py [-m MODEL]... [--max-tokens N] > settings-matrix.json

For every setting and prompt three ways of decoding: plain; `exact`, which must be equal in tokens, text, finish reason
and log probabilities, draws included; and the fixed 80-node tree, which may part from plain decoding at near-ties only.
Where they part, the two distributions must agree but for rounding: the largest difference of a log probability that
both report is kept, and, where the likeliest token is taken as it is, by how much the two tokens differ. Flash
attention is on, so that exact chains are really drafted. Ends with status 1 if anything exact differs.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from recycle_cpp import Completion, GenerateOptions, LoadOptions, Runtime, json_grammar
from recycle_cpp.bench.settings import request_settings

MODELS = ("smollm2-135m", "qwen2.5-coder-0.5b", "gemma-3-270m")
PROMPTS = (
    "Write a list of five animals, one a line, each with a dash before it.",
    "Describe a person as a JSON object with name, age and hobbies.",
)
WIDEST_LOGPROBS = 20


@dataclass
class Row:
    """What one setting came to on one model.

    Attributes:
        setting: its name.
        tokens: emitted by plain decoding.
        exact_equal: answers of `exact` that equal plain decoding's in everything, of how many.
        exact_drafted: tokens accepted by `exact`.
        tree_equal: answers of the tree that equal plain decoding's, of how many.
        tree_accepted: tokens accepted by the tree.
        parted_logprob: where tree and plain part, the largest difference of a log probability that both report.
        parted_margin: there, by how much the two tokens differ in plain decoding, where it takes the likeliest one.
    """

    setting: str
    tokens: int
    exact_equal: str
    exact_drafted: int
    tree_equal: str
    tree_accepted: int
    parted_logprob: float
    parted_margin: float


def same(one: Completion, other: Completion) -> bool:
    names = ("tokens", "text", "finish_reason", "logprobs")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def parting(plain: Completion, other: Completion) -> tuple[float, float]:
    """Return how far two answers' distributions are apart where they first differ, and the chosen tokens in plain's."""
    for a, b in zip(plain.logprobs, other.logprobs, strict=False):
        if a.token != b.token:
            mine, theirs = dict(a.top), dict(b.top)
            apart = max(abs(mine[token] - theirs[token]) for token in mine.keys() & theirs.keys())
            return apart, abs(a.logprob - mine.get(b.token, -99.0))
    return 0.0, 0.0


def run(runtime: Runtime, name: str, options: GenerateOptions, max_tokens: int) -> Row:
    options = replace(options, max_tokens=options.max_tokens or max_tokens)
    options = replace(options, logprobs=WIDEST_LOGPROBS if options.logprobs is None else options.logprobs)
    exact_equal = tree_equal = exact_drafted = tree_accepted = tokens = 0
    apart = margin = 0.0
    takes_best = options.sampling.is_argmax and options.grammar is None and not options.logits_processors
    for prompt in PROMPTS:
        plain = runtime.generate(prompt, replace(options, draft="off", exact=True))
        exact = runtime.generate(prompt, replace(options, draft="tree", exact=True))
        tree = runtime.generate(prompt, replace(options, draft="tree", exact=False))
        tokens += len(plain.tokens)
        exact_equal += same(plain, exact)
        exact_drafted += exact.timings.draft_n_accepted
        tree_equal += plain.tokens == tree.tokens
        tree_accepted += tree.timings.draft_n_accepted
        parted = parting(plain, tree)
        apart = max(apart, parted[0])
        margin = max(margin, parted[1]) if takes_best else margin
    n = len(PROMPTS)
    return Row(
        name,
        tokens,
        f"{exact_equal}/{n}",
        exact_drafted,
        f"{tree_equal}/{n}",
        tree_accepted,
        round(apart, 3),
        round(margin, 3),
    )


def rows_of(model: str, max_tokens: int, only: str | None) -> Iterator[Row]:
    loading = LoadOptions(n_ctx=1024, flash_attention="on", learned=False)
    with Runtime.load(model, loading, lambda line: print(line, file=sys.stderr)) as runtime:
        for name, options in request_settings(json_grammar()).items():
            if only is None or only == name:
                row = run(runtime, name, options, max_tokens)
                print(model, *asdict(row).values(), sep=" | ", file=sys.stderr, flush=True)
                yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", action="append", help="a name or a path; may be repeated")
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--only", help="name of one setting")
    arguments = parser.parse_args()
    models = arguments.model or MODELS
    found = {model: [asdict(row) for row in rows_of(model, arguments.max_tokens, arguments.only)] for model in models}
    n = len(PROMPTS)
    wrong = [
        (model, row["setting"]) for model, rows in found.items() for row in rows if row["exact_equal"] != f"{n}/{n}"
    ]
    json.dump({"prompts": PROMPTS, "max_tokens": arguments.max_tokens, "models": found, "wrong": wrong}, sys.stdout)
    print()
    if wrong:
        sys.exit(f"not equal: {wrong}")


if __name__ == "__main__":
    main()
