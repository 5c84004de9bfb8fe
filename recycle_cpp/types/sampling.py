"""How a token is chosen: sampling settings and grammars, under llama.cpp's names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from recycle_cpp.types.checks import is_name, is_number, is_whole, require, require_flags

SamplerName = Literal["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]
SAMPLERS: tuple[SamplerName, ...] = get_args(SamplerName)  # llama.cpp's own order


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How a token is chosen from a logits row. The default is greedy.

    Attributes:
        temperature: 0 is greedy.
        dynatemp_range: let the temperature vary by this much either way with the row's entropy; 0 does not.
        dynatemp_exponent: how entropy maps to temperature.
        top_k: keep the k likeliest tokens; 0 keeps all.
        top_p: keep the smallest set whose probability reaches this; 1 keeps all.
        min_p: drop tokens below this share of the likeliest one's probability; 0 drops none.
        typical_p: keep the most typical tokens up to this probability; 1 keeps all.
        top_n_sigma: keep logits within this many standard deviations of the best; -1 keeps all.
        xtc_probability: chance, per token, to drop all likely tokens but the least likely of them; 0 never does.
        xtc_threshold: probability from which a token is likely, for XTC.
        repeat_last_n: tokens that the penalties look back on; 0 none, -1 the whole context.
        penalize_prompt: let the penalties look back on the prompt, too.
        repeat_penalty: divide the logits of those tokens by this; 1 changes nothing. Applies when greedy too.
        presence_penalty: subtract this from the logits of those tokens.
        frequency_penalty: subtract this from them for each time they came.
        dry_multiplier: strength of the DRY penalty on repeated sequences; 0 is none.
        dry_base: growth of the DRY penalty with the length of the repetition.
        dry_allowed_length: longest repetition that DRY leaves alone.
        dry_penalty_last_n: tokens that DRY looks back on; 0 none, -1 the whole context.
        dry_sequence_breakers: texts that end a repetition for DRY.
        mirostat: 0 off, 1 or 2 the version that replaces the filters above.
        mirostat_tau: target surprise of Mirostat, in bits.
        mirostat_eta: learning rate of Mirostat.
        logit_bias: pairs of a token and what is added to its logit; -inf forbids it.
        ignore_eos: never choose an end-of-generation token.
        samplers: order in which filters are applied; one that is left out is not applied.
        seed: 32-bit seed of the random draws, below 4294967295; None draws a fresh one.
    """

    temperature: float = 0.0
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repeat_last_n: int = 64
    penalize_prompt: bool = True
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    logit_bias: tuple[tuple[int, float], ...] = ()
    ignore_eos: bool = False
    samplers: tuple[SamplerName, ...] = SAMPLERS
    seed: int | None = None

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UsageError: if a value is out of its range.
        """
        for name, (low, high, wanted) in _NUMBERS.items():
            require(is_number(getattr(self, name), low, high), self, name, wanted)
        for name, low, wanted in _WHOLE:
            require(is_whole(getattr(self, name), low), self, name, wanted)
        require(is_whole(self.mirostat, 0) and self.mirostat <= 2, self, "mirostat", "0, 1 or 2")
        texts = isinstance(self.dry_sequence_breakers, tuple) and all(
            isinstance(text, str) and text for text in self.dry_sequence_breakers
        )
        require(texts, self, "dry_sequence_breakers", "a tuple of strings that are not empty")
        require(_are_biases(self.logit_bias), self, "logit_bias", "pairs of a token and a number, -inf to forbid it")
        known = isinstance(self.samplers, tuple) and all(is_name(name, SAMPLERS) for name in self.samplers)
        once = known and len(set(self.samplers)) == len(self.samplers)
        require(once, self, "samplers", f"names out of {', '.join(SAMPLERS)}, each once at most")
        require_flags(self, "penalize_prompt", "ignore_eos")
        # llama.cpp takes 4294967295 for "draw a seed".
        seed_fits = self.seed is None or (is_number(self.seed, 0, 2**32 - 2) and isinstance(self.seed, int))
        require(seed_fits, self, "seed", "a whole number from 0 to 4294967294")

    @property
    def draws(self) -> bool:
        """Whether the choice may depend on the seed."""
        tempered = "temperature" in self.samplers or self.mirostat > 0
        crossed = self.xtc_probability > 0 and "xtc" in self.samplers and self.mirostat == 0
        return not tempered or self.temperature > 0 or self.dynatemp_range > 0 or crossed

    @property
    def is_argmax(self) -> bool:
        """Whether the choice is the row's highest logit and nothing else."""
        penalised = self.repeat_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0
        moved = penalised or self.dry_multiplier != 0 or bool(self.logit_bias) or self.ignore_eos
        return not self.draws and not moved and self.typical_p == 1  # the most typical token may be another


_NUMBERS = {
    "temperature": (0, 1e6, "a number from 0 up"),
    "dynatemp_range": (0, 1e6, "a number from 0 up"),
    "dynatemp_exponent": (0, 1e6, "a number from 0 up"),
    "top_p": (0, 1, "a number from 0 to 1"),
    "min_p": (0, 1, "a number from 0 to 1"),
    "typical_p": (0, 1, "a number from 0 to 1"),
    "top_n_sigma": (-1, 1e6, "-1 or a number from 0 up"),
    "xtc_probability": (0, 1, "a number from 0 to 1"),
    "xtc_threshold": (0, 1, "a number from 0 to 1"),
    "repeat_penalty": (0.01, 100, "a number from 0.01 to 100"),
    "presence_penalty": (-100, 100, "a number from -100 to 100"),
    "frequency_penalty": (-100, 100, "a number from -100 to 100"),
    "dry_multiplier": (0, 1000, "a number from 0 to 1000"),
    "dry_base": (1, 1000, "a number from 1 to 1000"),
    "mirostat_tau": (0, 1000, "a number from 0 to 1000"),
    "mirostat_eta": (0, 1000, "a number from 0 to 1000"),
}
_WHOLE = (
    ("top_k", 0, "a whole number from 0 up"),
    ("repeat_last_n", -1, "-1 or a whole number from 0 up"),
    ("dry_allowed_length", 0, "a whole number from 0 up"),
    ("dry_penalty_last_n", -1, "-1 or a whole number from 0 up"),
)


def _are_biases(pairs: object) -> bool:
    if not isinstance(pairs, tuple):
        return False
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and is_whole(pair[0], 0)):
            return False
        if not is_number(pair[1], -1e6, 1e6) and pair[1] != -math.inf:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Grammar:
    """What an answer's text may be.

    Attributes:
        text: GBNF rules, as llama.cpp reads them.
        root: name of the rule that the text follows.
        triggers: texts that put the grammar in force, from their own first character on; without any it holds from
            the first token.
        trigger_tokens: tokens that do.
    """

    text: str
    root: str = "root"
    triggers: tuple[str, ...] = ()
    trigger_tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Check every field; whether the rules make sense is seen when they are read.

        Raises:
            UsageError: if a value cannot be used.
        """
        require(isinstance(self.text, str) and bool(self.text.strip()), self, "text", "GBNF rules")
        require(isinstance(self.root, str) and bool(self.root), self, "root", "the name of a rule")
        texts = isinstance(self.triggers, tuple) and all(isinstance(text, str) and text for text in self.triggers)
        require(texts, self, "triggers", "a tuple of strings that are not empty")
        tokens = isinstance(self.trigger_tokens, tuple) and all(is_whole(token, 0) for token in self.trigger_tokens)
        require(tokens, self, "trigger_tokens", "a tuple of tokens")

    @property
    def is_lazy(self) -> bool:
        """Whether it holds from a trigger on only."""
        return bool(self.triggers or self.trigger_tokens)
