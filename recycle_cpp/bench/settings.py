"""Request settings of every kind, by name: what losslessness is tested on, and what their cost is measured on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from recycle_cpp.types import GenerateOptions, Grammar, SamplingOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recycle_cpp.types import FloatArray, IntArray

WORD_LIST = Grammar('root ::= item+\nitem ::= "- " [a-zA-Z ]+ "\\n"')
FULL_CHAIN = SamplingOptions(
    temperature=0.8,
    top_k=40,
    top_p=0.95,
    min_p=0.05,
    typical_p=0.9,
    repeat_penalty=1.1,
    presence_penalty=0.2,
    frequency_penalty=0.2,
    dry_multiplier=0.8,
    seed=5,
)


def dampen_even(_tokens: IntArray, logits: FloatArray) -> FloatArray:
    """Return logits that make every other token unlikely: a logits processor that changes many choices."""
    logits[::2] -= 4
    return logits


def request_settings(json: Grammar) -> dict[str, GenerateOptions]:
    """Return requests by what is special in them.

    Args:
        json: the grammar of JSON.
    """
    requests = {name: GenerateOptions(sampling=sampling) for name, sampling in _SAMPLINGS.items()}
    seeded = SamplingOptions(temperature=0.8, seed=11)
    lazy = Grammar(WORD_LIST.text, triggers=("- ",))
    more: Mapping[str, GenerateOptions] = {
        "stop string": GenerateOptions(stop=("the", "\n\n")),
        "JSON": GenerateOptions(grammar=json),
        "JSON, sampled": GenerateOptions(grammar=json, sampling=seeded),
        "grammar": GenerateOptions(grammar=WORD_LIST),
        "grammar, sampled, penalised": GenerateOptions(grammar=WORD_LIST, sampling=FULL_CHAIN),
        "lazy grammar": GenerateOptions(grammar=lazy),
        "grammar without an end": GenerateOptions(grammar=WORD_LIST, sampling=SamplingOptions(ignore_eos=True)),
        "logprobs": GenerateOptions(logprobs=5),
        "logprobs, sampled": GenerateOptions(logprobs=3, sampling=seeded),
        "raw": GenerateOptions(raw=True),
        "one token": GenerateOptions(max_tokens=1),
        "logits processor": GenerateOptions(logits_processors=(dampen_even,)),
        "logits processor, sampled": GenerateOptions(logits_processors=(dampen_even,), sampling=seeded),
        "stop test": GenerateOptions(stop_tests=(lambda tokens, _logits: tokens[-1] % 13 == 0,)),
        "everything": GenerateOptions(
            grammar=lazy, sampling=FULL_CHAIN, logprobs=2, stop=("zebra",), logits_processors=(dampen_even,)
        ),
    }
    return {**requests, **more}


_SAMPLINGS = {
    "greedy": SamplingOptions(),
    "temperature 0.8": SamplingOptions(temperature=0.8, seed=1),
    "temperature 1.5, all tokens": SamplingOptions(temperature=1.5, top_k=0, top_p=1, min_p=0, seed=2),
    "dynamic temperature": SamplingOptions(temperature=0.8, dynatemp_range=0.5, dynatemp_exponent=1.2, seed=3),
    "top-k 3": SamplingOptions(temperature=1, top_k=3, seed=4),
    "top-p 0.5": SamplingOptions(temperature=1, top_k=0, top_p=0.5, seed=5),
    "min-p 0.2": SamplingOptions(temperature=1.2, top_k=0, top_p=1, min_p=0.2, seed=6),
    "typical 0.5": SamplingOptions(temperature=0.9, typical_p=0.5, seed=7),
    "typical 0.5, greedy": SamplingOptions(typical_p=0.5),
    "top-n-sigma": SamplingOptions(temperature=1, top_n_sigma=1, seed=8),
    "XTC": SamplingOptions(temperature=1, xtc_probability=0.7, xtc_threshold=0.05, seed=9),
    "XTC, greedy": SamplingOptions(xtc_probability=0.5, seed=10),
    "Mirostat 1": SamplingOptions(temperature=1, mirostat=1, seed=11),
    "Mirostat 2": SamplingOptions(temperature=1, mirostat=2, mirostat_tau=3, seed=12),
    "repeat penalty": SamplingOptions(repeat_penalty=1.3),
    "repeat penalty, sampled": SamplingOptions(temperature=0.8, repeat_penalty=1.3, repeat_last_n=-1, seed=13),
    "presence penalty": SamplingOptions(presence_penalty=1.5),
    "frequency penalty": SamplingOptions(frequency_penalty=0.8),
    "rewarded repetition": SamplingOptions(presence_penalty=-0.5, temperature=0.7, seed=14),
    "DRY": SamplingOptions(dry_multiplier=0.8, dry_allowed_length=1),
    "DRY, sampled": SamplingOptions(dry_multiplier=0.8, temperature=0.8, dry_penalty_last_n=64, seed=15),
    "bias": SamplingOptions(logit_bias=((13, 4.0), (28, -math.inf), (260, -math.inf))),
    "no end": SamplingOptions(ignore_eos=True),
    "reversed order": SamplingOptions(
        samplers=("temperature", "xtc", "min_p", "top_p", "typ_p", "top_k", "dry", "penalties"),
        temperature=0.9,
        repeat_penalty=1.2,
        dry_multiplier=0.5,
        seed=16,
    ),
    "temperature only": SamplingOptions(samplers=("temperature",), temperature=0.6, seed=17),
    "full chain": FULL_CHAIN,
}
