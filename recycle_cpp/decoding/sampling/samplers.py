"""How a token is chosen from a logits row: the argmax, llama.cpp's own sampler chain, or that within a grammar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recycle_cpp.decoding.sampling.chain import ChainSampler
from recycle_cpp.decoding.sampling.grammar import GrammarSampler
from recycle_cpp.decoding.sampling.hooks import HookedSampler
from recycle_cpp.decoding.sampling.protocol import NOTHING, Sampler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recycle_cpp.backend.model import SamplerVocabulary
    from recycle_cpp.types import FloatArray, GenerateOptions

__all__ = ["NOTHING", "GreedySampler", "Sampler", "make_sampler"]


class GreedySampler(Sampler):
    """Takes the argmax, which the update of the adjacency matrix has found already."""

    def sample(self, logits: FloatArray, best: int) -> int:
        """Return `best`."""
        return best


def make_sampler(options: GenerateOptions, vocab: SamplerVocabulary, prompt: Sequence[int]) -> Sampler:
    """Return a fresh sampler for one request.

    Args:
        options: what the request asks for.
        vocab: the model's vocabulary.
        prompt: the tokens that the answer follows.

    Raises:
        UsageError: if llama.cpp cannot do what is asked for, such as a grammar that it cannot read.
    """
    sampler = _inner(options, vocab, prompt if options.sampling.penalize_prompt else ())
    if options.logits_processors or options.stop_tests:
        return HookedSampler(sampler, options.logits_processors, options.stop_tests, prompt)
    return sampler


def _inner(options: GenerateOptions, vocab: SamplerVocabulary, prompt: Sequence[int]) -> Sampler:
    if options.grammar is not None:
        return GrammarSampler(options.grammar, options.sampling, vocab, prompt)
    if options.sampling.is_argmax and not vocab.suppressed:
        return GreedySampler()
    return ChainSampler(options.sampling, vocab, prompt)
