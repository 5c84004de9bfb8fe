"""What a call of a completion asks for, under llama_cpp's names, and how that is said to the runtime."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from operator import index
from typing import TYPE_CHECKING, Any

from recycle_cpp.drop_in.refusals import BadArgumentError
from recycle_cpp.types import GenerateOptions, Grammar, SamplingOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from recycle_cpp.types import SamplerName

_HOTTEST = 1e6  # all tokens are equally likely long before
_STRONGEST = 1e6  # a bias that no logit stands against
_MOST_TOKENS = 2**31 - 1
_WITHOUT_EFFECT = ("tfs_z", "penalize_nl")
RANDOM_SEED = 0xFFFFFFFF  # llama.cpp draws a seed for this one
_FILTERS: tuple[SamplerName, ...] = ("penalties", "top_k", "typ_p", "top_p", "min_p", "temperature")


@dataclass(frozen=True, slots=True)
class Choosing:
    """How tokens are chosen: the arguments that `generate`, `sample` and completions of llama_cpp share.

    `tfs_z` and `penalize_nl` do nothing, there either.
    """

    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    temp: float = 0.80
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    tfs_z: float = 1.0
    mirostat_mode: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    penalize_nl: bool = True
    logits_processor: Iterable[Callable[..., Any]] | None = None
    stopping_criteria: Iterable[Callable[..., Any]] | None = None
    grammar: Any = None
    logit_bias: Mapping[int, float] | None = None

    def __post_init__(self) -> None:
        """Turn every number into Python's own: llama_cpp takes those of numpy, and whole ones for any.

        Raises:
            BadArgumentError: if one is none.
        """
        for field in fields(self):
            if isinstance(field.default, int | float) and field.name not in _WITHOUT_EFFECT:
                number = _number(field.name, getattr(self, field.name))
                if isinstance(field.default, int):
                    number = _whole(field.name, number)
                object.__setattr__(self, field.name, number)

    def sampling(self, *, seed: int, window: int, n_vocab: int) -> SamplingOptions:
        """Return the settings of llama_cpp's own chain: its samplers, in its order, numbers of any type.

        Its penalties look back on the answer, never on the prompt; Mirostat works without a temperature; below
        temperature 0 nothing is filtered.

        Args:
            seed: of the draws.
            window: tokens that penalties look back on.
            n_vocab: size of the vocabulary.

        Raises:
            UsageError: if a value is out of its range.
        """
        base: dict[str, Any] = {
            "repeat_last_n": max(0, window),
            "penalize_prompt": False,
            "repeat_penalty": self.repeat_penalty,
            "frequency_penalty": self.frequency_penalty,
            "presence_penalty": self.presence_penalty,
            "logit_bias": self._biases(n_vocab),
            "seed": None if seed & RANDOM_SEED == RANDOM_SEED else seed & RANDOM_SEED,
        }
        temperature = min(self.temp, _HOTTEST)
        if self.temp < 0:
            return SamplingOptions(**base, samplers=("penalties",))
        if self.temp == 0:
            return SamplingOptions(**base, samplers=("penalties", "temperature"))
        if self.mirostat_mode in (1, 2):
            tau, eta = self.mirostat_tau, self.mirostat_eta
            base |= {"mirostat": self.mirostat_mode, "mirostat_tau": tau, "mirostat_eta": eta}
            return SamplingOptions(**base, temperature=1.0, samplers=("penalties", "temperature"))
        shares: dict[str, Any] = {name: _share(getattr(self, name)) for name in ("top_p", "min_p", "typical_p")}
        top_k = min(max(0, self.top_k), n_vocab)
        return SamplingOptions(**base, **shares, top_k=top_k, temperature=temperature, samplers=_FILTERS)

    def _biases(self, n_vocab: int) -> tuple[tuple[int, float], ...]:
        biases = tuple((int(token), _number("logit_bias", bias)) for token, bias in (self.logit_bias or {}).items())
        for token, _ in biases:
            if not 0 <= token < n_vocab:
                raise BadArgumentError(f"logit_bias names token {token}: give tokens from 0 to {n_vocab - 1}")
        return tuple((token, bias if bias == -math.inf else _within(bias, _STRONGEST)) for token, bias in biases)

    def rules(self) -> dict[str, Any]:
        """Return what else decides on tokens, as fields of GenerateOptions.

        Raises:
            BadArgumentError: if the grammar is none of llama_cpp's.
        """
        return {
            "grammar": _grammar(self.grammar),
            "logits_processors": _functions(self.logits_processor),
            "stop_tests": _functions(self.stopping_criteria),
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of one completion.

    Attributes:
        prompt: a text, or tokens.
        suffix: what the answer is to lead up to.
        max_tokens: tokens of the answer at most; None, 0 and less go on to the end of the context.
        logprobs: how many of the likeliest tokens to report at each place.
        echo: put the prompt before the answer.
        stop: strings that end the answer.
        stream: answer in pieces.
        model: name to answer under.
        choosing: how tokens are chosen.
    """

    prompt: str | Sequence[int]
    suffix: str | None
    max_tokens: int | None
    logprobs: int | None
    echo: bool
    stop: tuple[str, ...]
    stream: bool
    model: str | None
    choosing: Choosing

    @classmethod
    def of(cls, arguments: dict[str, Any]) -> Asked:
        """Return the arguments of a call of `create_completion`, by their names but for the seed.

        Raises:
            BadArgumentError: if prompt, suffix or stop are of a wrong type.
        """
        own = {name: arguments.pop(name) for name in cls.__slots__ if name in arguments}
        stop, prompt = own["stop"], own["prompt"]
        own["stop"] = (stop,) if isinstance(stop, str) else tuple(stop or ())
        if not all(isinstance(text, str) for text in own["stop"]):
            raise BadArgumentError(f"stop is {stop!r}: give a text or a list of texts")
        if not isinstance(prompt, str):
            own["prompt"] = _tokens(prompt)
        if own["max_tokens"] is not None:
            own["max_tokens"] = math.ceil(_within(_number("max_tokens", own["max_tokens"]), _MOST_TOKENS))
        if own["logprobs"] is not None:
            own["logprobs"] = _whole("logprobs", _number("logprobs", own["logprobs"]))
        if not isinstance(own["suffix"], str | None):
            raise BadArgumentError(f"suffix is {own['suffix']!r}: give a text")
        return cls(**own, choosing=Choosing(temp=arguments.pop("temperature"), **arguments))

    def options(self, sampling: SamplingOptions, max_tokens: int) -> GenerateOptions:
        """Return this as the runtime takes it.

        Raises:
            UsageError: if a value is out of its range.
        """
        return GenerateOptions(
            max_tokens=max_tokens,
            sampling=sampling,
            stop=tuple(stop for stop in self.stop if stop),
            logprobs=self.logprobs,
            **self.choosing.rules(),
        )


def whole_seed(seed: Any) -> int:
    """Return a seed as a whole number; llama.cpp takes its lowest 32 bits.

    Raises:
        BadArgumentError: if it is none.
    """
    try:
        return int(index(seed))
    except TypeError:
        raise BadArgumentError(f"seed is {seed!r}: give a whole number") from None


def _share(value: float) -> float:
    """Return a probability; llama.cpp takes what is beyond as the end that it is beyond."""
    return min(1.0, max(0.0, value))


def _within(value: float, most: float) -> float:
    return min(most, max(-most, value))


def _number(name: str, value: Any) -> float:
    """Return a number of any type as Python's own."""
    try:
        number = None if isinstance(value, str | bytes) and name != "logit_bias" else float(value)
    except (TypeError, ValueError):
        number = None
    if number is None or math.isnan(number):
        raise BadArgumentError(f"{name} is {value!r}: give a number")
    return number


def _whole(name: str, number: float) -> int:
    if not math.isfinite(number) or number != int(number):
        raise BadArgumentError(f"{name} is {number!r}: give a whole number")
    return int(number)


def _tokens(prompt: Any) -> list[int]:
    """Return a prompt's tokens, given in any order-keeping collection of whole numbers.

    Raises:
        BadArgumentError: if it is something else: bytes, too, are text that is not decoded yet.
    """
    try:
        if isinstance(prompt, bytes | bytearray | memoryview | dict | set | frozenset):
            raise TypeError
        tokens = list(prompt)
        if all(int(token) == token for token in tokens):
            return [int(token) for token in tokens]
    except (TypeError, ValueError, OverflowError):
        pass
    raise BadArgumentError("the prompt is neither a text nor a list of tokens: give one of them")


def _functions(given: Any) -> tuple[Callable[..., Any], ...]:
    """Return the functions of one of llama_cpp's lists; one alone is a list of it."""
    if callable(given) and not hasattr(given, "__iter__"):
        return (given,)
    return tuple(given or ())


def _grammar(grammar: Any) -> Grammar | None:
    if grammar is None:
        return None
    try:
        return Grammar(text=grammar._grammar, root=grammar._root)
    except AttributeError:
        raise BadArgumentError(f"grammar is a {type(grammar).__name__}: give a llama_cpp.LlamaGrammar") from None
