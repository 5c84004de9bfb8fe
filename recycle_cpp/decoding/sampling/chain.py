"""llama.cpp's own sampler chain, built from the options as llama.cpp builds it.

Most of a vocabulary cannot be chosen where the chain keeps the k best: it is then enough to hand it these, and the
tokens that a sampler before that may lift or lower. What comes out is the same, for a fraction of the time.
"""

from __future__ import annotations

import ctypes
import secrets
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recycle_cpp.backend.library import load_library
from recycle_cpp.decoding.sampling.candidates import MOST_BEST, Candidates
from recycle_cpp.decoding.sampling.protocol import NOTHING, Sampler
from recycle_cpp.decoding.sampling.pruning import Pruner
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recycle_cpp.backend.model import SamplerVocabulary
    from recycle_cpp.types import DraftTree, FloatArray, IntArray, SamplingOptions

LEAST_TEMPERATURE = 1e-6  # logits divided by less leave the numbers that llama.cpp can sort
HIGHEST_BIAS = 1e6
MIROSTAT_CANDIDATES = 100  # llama.cpp's own choice
_TOUCH_FEW = frozenset({"penalties", "dry"})


def check_options(options: SamplingOptions, vocab: SamplerVocabulary) -> None:
    """Check what only the model or llama.cpp can say of sampling options.

    Raises:
        UsageError: if a token is not in the vocabulary, or llama.cpp could not work with a value.
    """
    for token, _ in options.logit_bias:
        if token >= vocab.n_vocab:
            raise UsageError(f"logit_bias has token {token}; give tokens from 0 to {vocab.n_vocab - 1}")
    if 0 < options.temperature < LEAST_TEMPERATURE:
        raise UsageError(f"temperature is {options.temperature}; give 0 or a number from {LEAST_TEMPERATURE} up")
    for text in options.dry_sequence_breakers:
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise UsageError(f"dry_sequence_breakers has {text!r}; give texts without NUL and unpaired surrogates")


class ChainPlan(NamedTuple):
    """What a chain is made of, and what it must be shown.

    Attributes:
        names: the samplers between the biases and the choice, in order.
        n_best: how many of the best tokens that none of them touches are enough; 0 for the whole vocabulary.
        touches: whether there are penalties, for which every token in their windows must be shown, too.
    """

    names: tuple[str, ...]
    n_best: int
    touches: bool

    @property
    def is_falling(self) -> bool:
        """Whether it takes the best token after biases and penalties, whatever the others are."""
        return self.n_best == 1 and set(self.names) <= _TOUCH_FEW


def plan_chain(options: SamplingOptions) -> ChainPlan:
    """Return the chain for these options, without samplers that would change nothing."""
    names = _active(options)
    touching = tuple(name for name in names if name in _TOUCH_FEW)
    comes_first = touching == names[: len(touching)]
    if options.mirostat or not comes_first:
        return ChainPlan(names, 0, bool(touching))
    if not options.draws and "typ_p" not in names:  # all other filters keep the best token, and it is taken
        return ChainPlan(touching, 1, bool(touching))
    cuts = names[len(touching) : len(touching) + 1] == ("top_k",) and options.top_k <= MOST_BEST
    return ChainPlan(names, options.top_k if cuts else 0, bool(touching))


def _active(options: SamplingOptions) -> tuple[str, ...]:
    """Return the named samplers that do anything under these options, in order."""
    penalised = options.repeat_penalty != 1 or options.presence_penalty != 0 or options.frequency_penalty != 0
    does = {
        "penalties": penalised and options.repeat_last_n != 0,
        "dry": options.dry_multiplier > 0 and options.dry_penalty_last_n != 0,
        "top_n_sigma": options.top_n_sigma > 0,
        "top_k": options.top_k > 0,
        "typ_p": options.typical_p < 1,
        "top_p": options.top_p < 1,
        "min_p": options.min_p > 0,
        "xtc": options.xtc_probability > 0 and options.xtc_threshold <= 0.5,
        "temperature": True,
    }
    names = [name for name in options.samplers if does[name]]
    return tuple(name for name in names if name in _TOUCH_FEW or not options.mirostat)


class ChainSampler(Sampler):
    """A sampler chain: biases, then what the options name in their order, then the choice.

    Attributes:
        plan: what it is made of.
        candidates: what it chooses from.
    """

    def __init__(self, options: SamplingOptions, vocab: SamplerVocabulary, prompt: Sequence[int]) -> None:
        """Build the chain and let it accept the tail of the prompt, as far back as any of its samplers looks.

        Raises:
            UsageError: if llama.cpp could not work with a value.
        """
        check_options(options, vocab)
        self._c = load_library().c
        self._options = options
        self._vocab = vocab
        self.plan = plan_chain(options)
        self._biases = _merged_biases(options, vocab)
        self._forbidden = np.array([token for token, bias in self._biases.items() if bias == -np.inf], np.int32)
        self._pruner = Pruner()
        self.candidates = Candidates(vocab.n_vocab)
        self._chain = self._c.llama_sampler_chain_init(self._c.llama_sampler_chain_default_params())
        self._build()
        n = self._longest_window()
        tail = list(prompt[-n:]) if n else []
        for token in tail:
            self._c.llama_sampler_accept(self._chain, token)
        self.candidates.list_always([*self._biases, *tail])

    def _longest_window(self) -> int:
        options, n_ctx = self._options, self._vocab.n_ctx
        penalties = _window(options.repeat_last_n, n_ctx) if "penalties" in self.plan.names else 0
        return max(penalties, _window(options.dry_penalty_last_n, n_ctx) if "dry" in self.plan.names else 0)

    def _build(self) -> None:
        c, options = self._c, self._options
        seed = secrets.randbelow(2**32 - 1) if options.seed is None else options.seed
        if self._biases:
            biases = (c.llama_logit_bias * len(self._biases))(*self._biases.items())
            self._add(c.llama_sampler_init_logit_bias(self._vocab.n_vocab, len(biases), biases))
        for name in self.plan.names:
            self._add(self._make(name, seed))
        if options.mirostat:
            self._add(c.llama_sampler_init_temp(options.temperature))
            self._add(self._mirostat(seed))
        elif options.draws:
            self._add(c.llama_sampler_init_dist(seed))
        else:
            self._add(c.llama_sampler_init_greedy())

    def _add(self, sampler: object) -> None:
        self._c.llama_sampler_chain_add(self._chain, sampler)

    def _make(self, name: str, seed: int) -> object:
        c, options, vocab = self._c, self._options, self._vocab
        match name:
            case "penalties":
                window = _window(options.repeat_last_n, vocab.n_ctx)
                strengths = options.repeat_penalty, options.frequency_penalty, options.presence_penalty
                return c.llama_sampler_init_penalties(vocab.n_vocab, window, *strengths)
            case "dry":
                return self._dry()
            case "top_n_sigma":
                return c.llama_sampler_init_top_n_sigma(options.top_n_sigma)
            case "top_k":
                return c.llama_sampler_init_top_k(options.top_k)
            case "typ_p":
                return c.llama_sampler_init_typical(options.typical_p, 0)
            case "top_p":
                return c.llama_sampler_init_top_p(options.top_p, 0)
            case "min_p":
                return c.llama_sampler_init_min_p(options.min_p, 0)
            case "xtc":
                return c.llama_sampler_init_xtc(options.xtc_probability, options.xtc_threshold, 0, seed)
        dynamic = options.dynatemp_range, options.dynatemp_exponent
        return c.llama_sampler_init_temp_ext(options.temperature, *dynamic)

    def _dry(self) -> object:
        options = self._options
        breakers = [text.encode() for text in options.dry_sequence_breakers]
        return self._c.llama_sampler_init_dry(
            self._vocab.handle,
            options.dry_multiplier,
            options.dry_base,
            options.dry_allowed_length,
            _window(options.dry_penalty_last_n, self._vocab.n_ctx),
            (ctypes.c_char_p * len(breakers))(*breakers),
            len(breakers),
        )

    def _mirostat(self, seed: int) -> object:
        options = self._options
        target = options.mirostat_tau, options.mirostat_eta
        if options.mirostat == 2:
            return self._c.llama_sampler_init_mirostat_v2(seed, *target)
        return self._c.llama_sampler_init_mirostat(self._vocab.n_vocab, seed, *target, MIROSTAT_CANDIDATES)

    def sample(self, logits: FloatArray, best: int) -> int:
        """Return the chain's choice from float32[n_vocab] logits, and let the chain accept it."""
        token = self.choose(logits)
        if token != NOTHING:
            self.accept(token)
        return token

    def choose(self, logits: FloatArray) -> int:
        """Return the chain's choice; nothing is accepted, but its random numbers go on."""
        if self.plan.n_best:
            self.candidates.fill_best(logits, self.plan.n_best)
        else:
            self.candidates.fill(logits)
        return self.choose_listed()

    def choose_listed(self) -> int:
        """Return the chain's choice among the candidates as they are listed now."""
        self._c.llama_sampler_apply(self._chain, ctypes.byref(self.candidates.array))
        return self.candidates.chosen()

    def falling(self, logits: FloatArray, k: int) -> tuple[IntArray, int]:
        """Return tokens in falling order of their logits after biases and penalties, of a chain that `is_falling`.

        Returns:
            int32[n], tokens that may be chosen; how many of them no unlisted token can precede, at least k if there
            are as many.
        """
        candidates = self.candidates
        candidates.fill_best(logits, k)
        others = candidates.values[~candidates.always[candidates.tokens]]
        is_whole = len(candidates.tokens) == len(logits)
        floor = -np.inf if is_whole or not len(others) else others.min()
        self.choose_listed()
        values = candidates.values
        order = np.argsort(-values, kind="stable")
        order = order[values[order] > -np.inf]
        return candidates.tokens[order], int(np.count_nonzero(values[order] >= floor))

    def accept(self, token: int) -> None:
        """Take note of a token that is emitted."""
        self._c.llama_sampler_accept(self._chain, token)
        if self.plan.n_best and self.plan.touches:
            self.candidates.list_always([token])

    def prune(self, tree: DraftTree) -> DraftTree:
        """Return the tree without tokens that a bias forbids."""
        if not len(self._forbidden) or tree.width == 1:
            return tree
        is_out = np.isin(tree.tokens, self._forbidden)
        is_out[0] = False
        return self._pruner.without(tree, is_out)

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
        if self._chain:
            self._c.llama_sampler_free(self._chain)
            self._chain = None

    def __del__(self) -> None:
        """Free the chain of a run that was abandoned."""
        if hasattr(self, "_chain"):
            self.close()


def _window(n: int, n_ctx: int) -> int:
    """Return how many tokens to look back on: no more than the context holds, since llama.cpp makes room for all."""
    return n_ctx if n < 0 else min(n, n_ctx)


def _merged_biases(options: SamplingOptions, vocab: SamplerVocabulary) -> dict[int, float]:
    """Return one bias per token: llama.cpp adds up those of one token only where it sees the whole vocabulary.

    A sum is cut to what one bias may be: llama.cpp's sort loses logits that are much higher.
    """
    biases: dict[int, float] = {}
    for token, bias in options.logit_bias:
        total = biases.get(token, 0.0) + bias
        biases[token] = total if total == -np.inf else min(max(total, -HIGHEST_BIAS), HIGHEST_BIAS)
    forbidden = (*vocab.suppressed, *(vocab.eog if options.ignore_eos else ()))
    return {**biases, **dict.fromkeys(forbidden, -np.inf)}
