"""Options that say how a token is chosen, under llama.cpp's names, and the record made from them."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from recycle_cpp.cli.sections import Section, together
from recycle_cpp.cli.text_input import argument_text, unescaped
from recycle_cpp.errors import UsageError
from recycle_cpp.types import SAMPLERS, SamplingOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SAMPLED_TEMPERATURE = 0.8  # llama.cpp's default
DRAWING = Section("Sampling")
GREEDY_TOO = Section("Penalties and biases, greedy or not")
# All other options of the section Sampling: whoever gives one wants tokens drawn.
ASK_FOR_SAMPLING = (
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "dynatemp_range",
    "dynatemp_exponent",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "samplers",
    "seed",
)
NO_BREAKERS = "none"
BIAS = re.compile(r"\s*([0-9]+)\s*([+-])\s*([0-9.eE+-]+|inf)\s*", re.IGNORECASE)
OTHER_NAMES = {"nucleus": "top_p", "typical": "typ_p", "typical_p": "typ_p", "typ": "typ_p", "temp": "temperature"}


def sampling_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a token is chosen; read them with `sampling_from`."""
    return together(_temperature_options(), _filter_options(), _rare_options(), _penalty_options())(command)


def _temperature_options() -> Callable[..., Any]:
    default = SamplingOptions()
    return together(
        DRAWING.real(
            f"{default.temperature:g}, or {SAMPLED_TEMPERATURE:g} with any other option of this section",
            "--temperature",
            "--temp",
            metavar="T",
            text="Randomness; 0 is greedy and takes the likeliest token.",
        ),
        DRAWING.number("drawn afresh", "--seed", text="Seed of the random draws."),
    )


def _filter_options() -> Callable[..., Any]:
    default = SamplingOptions()
    return together(
        DRAWING.number(default.top_k, "--top-k", text="Keep the K likeliest tokens; 0 keeps all.", metavar="K"),
        DRAWING.real(default.top_p, "--top-p", metavar="P", text="Keep the likeliest up to this sum."),
        DRAWING.real(default.min_p, "--min-p", metavar="P", text="Drop below this share of the likeliest."),
        DRAWING.real(
            default.typical_p, "--typical", "typical_p", metavar="P", text="Keep the most typical up to this sum."
        ),
        DRAWING.real(
            default.top_n_sigma, "--top-n-sigma", text="Keep logits within X standard deviations of the best; -1 all."
        ),
    )


def _rare_options() -> Callable[..., Any]:
    default = SamplingOptions()
    real, number = DRAWING.real, DRAWING.number
    return together(
        real(default.xtc_probability, "--xtc-probability", metavar="P", text="Chance to drop all likely but one."),
        real(default.xtc_threshold, "--xtc-threshold", metavar="P", text="Probability that is likely, for XTC."),
        real(default.dynatemp_range, "--dynatemp-range", text="Let the temperature vary by X with the entropy."),
        real(default.dynatemp_exponent, "--dynatemp-exp", "dynatemp_exponent", text="How entropy maps to temperature."),
        number(default.mirostat, "--mirostat", text="1 or 2: Mirostat of that version instead of filters; 0: off."),
        real(default.mirostat_eta, "--mirostat-lr", "mirostat_eta", text="Learning rate of Mirostat (eta)."),
        real(default.mirostat_tau, "--mirostat-ent", "mirostat_tau", text="Target surprise of Mirostat (tau)."),
        DRAWING.option(
            ";".join(SAMPLERS),
            "--samplers",
            metavar="NAMES",
            text="Filters in this order, with ; between; one that is left out is not applied.",
        ),
    )


def _penalty_options() -> Callable[..., Any]:
    default = SamplingOptions()
    real, number = GREEDY_TOO.real, GREEDY_TOO.number
    breakers = " ".join(text.replace("\n", "\\n") for text in default.dry_sequence_breakers)
    return together(
        number(default.repeat_last_n, "--repeat-last-n", text="Tokens that penalties look back on; -1 all."),
        real(default.repeat_penalty, "--repeat-penalty", metavar="R", text="Divide their logits by this; 1 is none."),
        real(default.presence_penalty, "--presence-penalty", text="Subtract this from their logits."),
        real(default.frequency_penalty, "--frequency-penalty", text="Subtract this for each time they came."),
        real(default.dry_multiplier, "--dry-multiplier", text="Strength of DRY, against repeated texts; 0 is none."),
        real(default.dry_base, "--dry-base", text="Growth of DRY with the length of the repetition."),
        number(default.dry_allowed_length, "--dry-allowed-length", text="Longest repetition that DRY leaves alone."),
        number(default.dry_penalty_last_n, "--dry-penalty-last-n", text="Tokens that DRY looks back on; -1 all."),
        GREEDY_TOO.texts(
            breakers,
            "--dry-sequence-breaker",
            "dry_sequence_breakers",
            text=f"Text that ends a repetition for DRY (\\n and \\t are read; {NO_BREAKERS}: no such text)",
        ),
        GREEDY_TOO.texts(
            None,
            "-l",
            "--logit-bias",
            metavar="TOKEN+BIAS",
            text="Add to a token's logit: 15043+1 favours it, 15043-1 does the opposite, 15043-inf forbids it",
        ),
        GREEDY_TOO.flag("--ignore-eos", text="Never choose an end-of-generation token."),
    )


def sampling_from(params: Mapping[str, Any]) -> SamplingOptions:
    """Return how to choose tokens: greedy, unless an option asks for sampling.

    Raises:
        UsageError: if a value cannot be read or is out of its range.
    """
    given = {field.name: params[field.name] for field in fields(SamplingOptions) if _is_given(params, field.name)}
    if any(name in given for name in ASK_FOR_SAMPLING):
        given.setdefault("temperature", SAMPLED_TEMPERATURE)
    for name, read in (("samplers", _samplers), ("logit_bias", _biases), ("dry_sequence_breakers", _breakers)):
        if name in given:
            given[name] = read(given[name])
    return SamplingOptions(**given)


def _is_given(params: Mapping[str, Any], name: str) -> bool:
    return params.get(name) not in (None, ())


def _samplers(text: str) -> tuple[str, ...]:
    names = [name.strip().replace("-", "_") for name in text.split(";") if name.strip()]
    names = [OTHER_NAMES.get(name, name) for name in names]
    unknown = [name for name in names if name not in SAMPLERS]
    if unknown:
        raise UsageError(f"--samplers: {unknown[0]!r} is no sampler: give names out of {';'.join(SAMPLERS)}")
    return tuple(names)


def _biases(texts: tuple[str, ...]) -> tuple[tuple[int, float], ...]:
    pairs = []
    for text in texts:
        found = BIAS.fullmatch(text)
        try:
            if found is None:
                raise ValueError
            pairs.append((int(found[1]), float(found[3]) * (-1 if found[2] == "-" else 1)))
        except ValueError:
            raise UsageError(f"--logit-bias: {text!r} is no bias: give TOKEN+BIAS or TOKEN-BIAS, as 15043-1") from None
    return tuple(pairs)


def _breakers(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        unescaped(argument_text(text, "the text of --dry-sequence-breaker")) for text in texts if text != NO_BREAKERS
    )
