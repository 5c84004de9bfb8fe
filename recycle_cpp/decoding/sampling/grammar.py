"""Sampling within a grammar: the chain chooses, and chooses again among what is allowed where its choice is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.decoding.sampling.candidates import Candidates
from recycle_cpp.decoding.sampling.chain import ChainSampler
from recycle_cpp.decoding.sampling.protocol import NOTHING, Sampler
from recycle_cpp.decoding.sampling.pruning import Pruner
from recycle_cpp.decoding.sampling.rules import Rules
from recycle_cpp.decoding.sampling.triggers import Trigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recycle_cpp.backend.model import SamplerVocabulary
    from recycle_cpp.types import DraftTree, FloatArray, Grammar, SamplingOptions

BLOCKS = (8, 128)  # best tokens that a greedy choice asks the grammar for, before it asks for all
FEW = 4  # of these, how many first
DEEPEST = 3  # how far down the likeliest path of a draft nodes are checked: each step costs a copy of the grammar


class GrammarSampler(Sampler):
    """A sampler chain within a grammar, as llama.cpp's common_sampler_sample combines them.

    The grammar is asked about the chain's choice alone; only if it forbids that, it is asked about all tokens, and the
    chain chooses again, with its next random numbers. A greedy chain needs no second choice: its candidates are shown
    to the grammar in falling order until it allows one.
    """

    def __init__(
        self, grammar: Grammar, options: SamplingOptions, vocab: SamplerVocabulary, prompt: Sequence[int]
    ) -> None:
        """Read the grammar and build the chain.

        Raises:
            UsageError: if llama.cpp cannot read the grammar or work with the options.
        """
        rules = Rules.read(grammar.text, grammar.root, vocab, Candidates(vocab.n_vocab))
        self._trigger = Trigger(grammar, rules, vocab) if grammar.is_lazy else None
        self._rules: Rules | None = None if grammar.is_lazy else rules
        self._chain = ChainSampler(options, vocab, prompt)
        self._ends = frozenset(vocab.eog)
        self._pruner = Pruner()

    def sample(self, logits: FloatArray, best: int) -> int:
        """Return the token chosen; chain and grammar each accept it once."""
        token = self._choose_freely(logits) if self._rules is None else self._choose(logits, self._rules)
        if token != NOTHING:
            self._chain.accept(token)
            self._accept(token)
        return token

    def _accept(self, token: int) -> None:
        if self._rules is not None:
            self._rules.accept(token)
        elif self._trigger is not None:
            self._rules = self._trigger.accept(token)

    def _choose(self, logits: FloatArray, rules: Rules) -> int:
        if self._chain.plan.is_falling:
            return self._best_allowed(logits, rules)
        token = self._chain.choose(logits)
        return token if token == NOTHING or rules.allowed([token])[0] else self._choose_again(logits, rules)

    def _choose_again(self, logits: FloatArray, rules: Rules) -> int:
        """Return the chain's choice among all tokens that the grammar allows."""
        candidates = self._chain.candidates
        candidates.fill(logits)
        rules.apply(candidates)
        return self._chain.choose_listed()

    def _choose_freely(self, logits: FloatArray) -> int:
        """Return the choice before the trigger: only tokens that complete it against the grammar are forbidden."""
        assert self._trigger is not None
        token = self._chain.choose(logits)
        while token != NOTHING and not self._trigger.allows(token):
            logits = logits.copy()
            logits[token] = -np.inf
            token = self._chain.choose(logits)
        return token

    def _best_allowed(self, logits: FloatArray, rules: Rules) -> int:
        """Return the first token in falling order, biases and penalties applied, that the grammar allows."""
        asked = 0
        for k in BLOCKS:
            tokens, n_certain = self._chain.falling(logits, k)
            start = asked
            for stop in (min(FEW, n_certain), n_certain):
                if stop > start:
                    allowed = np.flatnonzero(rules.allowed(tokens[start:stop]))
                    if len(allowed):
                        return int(tokens[start + allowed[0]])
                    start = stop
            asked = start
        return self._choose_again(logits, rules)

    def prune(self, tree: DraftTree) -> DraftTree:
        """Return the tree without nodes that the grammar or a bias forbids, as far as DEEPEST of the first path."""
        tree = self._chain.prune(tree)
        if self._rules is None or tree.width == 1:
            return tree
        is_out = np.zeros(tree.width, np.bool_)
        node, rules = 0, self._rules
        for depth in range(DEEPEST + 1):
            children = np.flatnonzero(tree.parents == node)
            if not len(children):
                break
            allowed = rules.allowed(tree.tokens[children])
            is_out[children[~allowed]] = True
            if depth == DEEPEST or not allowed[0] or tree.tokens[children[0]] in self._ends:
                break
            node = int(children[0])
            rules = rules.copy()
            rules.accept(int(tree.tokens[node]))
        return self._pruner.without(tree, is_out)

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
        self._chain.close()
        if self._rules is not None:
            self._rules.close()
