"""llama.cpp's samplers as its own programs combine them, over the whole vocabulary: slow and readable."""

from __future__ import annotations

import ctypes
import re

import numpy as np

from recycle_cpp.backend.library import load_library
from recycle_cpp.backend.model import SamplerVocabulary
from recycle_cpp.types import Grammar, SamplingOptions


class WholeChain:
    """llama.cpp's chain as its common_sampler_init builds it, over every token: slow and plain."""

    def __init__(self, options: SamplingOptions, vocab: SamplerVocabulary, prompt: list[int]) -> None:
        self.c = c = load_library().c
        self.chain = c.llama_sampler_chain_init(c.llama_sampler_chain_default_params())
        o, n_vocab, n_ctx, seed = options, vocab.n_vocab, vocab.n_ctx, options.seed or 0
        back = {"penalties": o.repeat_last_n, "dry": o.dry_penalty_last_n}
        back = {name: n_ctx if n == -1 else min(n, n_ctx) for name, n in back.items()}
        biases = dict(o.logit_bias) | (dict.fromkeys(vocab.eog, -np.inf) if o.ignore_eos else {})
        if biases:
            pairs = (c.llama_logit_bias * len(biases))(*biases.items())
            self.add(c.llama_sampler_init_logit_bias(n_vocab, len(biases), pairs))
        breakers = (ctypes.c_char_p * len(o.dry_sequence_breakers))(
            *[text.encode() for text in o.dry_sequence_breakers]
        )
        makers = {
            "penalties": lambda: c.llama_sampler_init_penalties(
                n_vocab, back["penalties"], o.repeat_penalty, o.frequency_penalty, o.presence_penalty
            ),
            "dry": lambda: c.llama_sampler_init_dry(
                vocab.handle, o.dry_multiplier, o.dry_base, o.dry_allowed_length, back["dry"], breakers, len(breakers)
            ),
            "top_n_sigma": lambda: c.llama_sampler_init_top_n_sigma(o.top_n_sigma),
            "top_k": lambda: c.llama_sampler_init_top_k(o.top_k),
            "typ_p": lambda: c.llama_sampler_init_typical(o.typical_p, 0),
            "top_p": lambda: c.llama_sampler_init_top_p(o.top_p, 0),
            "min_p": lambda: c.llama_sampler_init_min_p(o.min_p, 0),
            "xtc": lambda: c.llama_sampler_init_xtc(o.xtc_probability, o.xtc_threshold, 0, seed),
            "temperature": lambda: c.llama_sampler_init_temp_ext(o.temperature, o.dynatemp_range, o.dynatemp_exponent),
        }
        for name in o.samplers:
            if not o.mirostat or name in ("penalties", "dry"):
                self.add(makers[name]())
        if o.mirostat:
            self.add(c.llama_sampler_init_temp(o.temperature))
        if o.mirostat == 1:
            self.add(c.llama_sampler_init_mirostat(n_vocab, seed, o.mirostat_tau, o.mirostat_eta, 100))
        elif o.mirostat == 2:
            self.add(c.llama_sampler_init_mirostat_v2(seed, o.mirostat_tau, o.mirostat_eta))
        else:
            self.add(c.llama_sampler_init_dist(seed))
        for token in prompt:
            c.llama_sampler_accept(self.chain, token)

    def add(self, sampler) -> None:
        self.c.llama_sampler_chain_add(self.chain, sampler)

    def choose(self, logits: np.ndarray, grammar=None) -> int:
        data = np.zeros(len(logits), [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        data["id"], data["logit"] = np.arange(len(logits)), logits
        array = self.c.llama_token_data_array(
            ctypes.cast(data.ctypes.data, self.c.llama_token_data_p), len(logits), -1, False
        )
        if grammar is not None:
            self.c.llama_sampler_apply(grammar, ctypes.byref(array))
        self.c.llama_sampler_apply(self.chain, ctypes.byref(array))
        chosen = array.data[array.selected]
        return -1 if chosen.logit == -np.inf else chosen.id

    def sample(self, logits: np.ndarray) -> int:
        token = self.choose(logits)
        self.c.llama_sampler_accept(self.chain, token)
        return token

    def close(self) -> None:
        self.c.llama_sampler_free(self.chain)


class WholeGrammar:
    """llama.cpp's common_sampler_sample with a grammar, each second choice over every token: slow and plain."""

    def __init__(self, grammar: Grammar, options: SamplingOptions, vocab: SamplerVocabulary, prompt: list[int]) -> None:
        self.chain = WholeChain(options, vocab, prompt)
        self.c, self.vocab = self.chain.c, vocab
        arguments = vocab.handle, grammar.text.encode(), grammar.root.encode()
        if grammar.is_lazy:
            patterns = (ctypes.c_char_p * len(grammar.triggers))(*[re.escape(t).encode() for t in grammar.triggers])
            tokens = (ctypes.c_int32 * len(grammar.trigger_tokens))(*grammar.trigger_tokens)
            lists = patterns, len(patterns), tokens, len(tokens)
            self.grammar = self.c.llama_sampler_init_grammar_lazy_patterns(*arguments, *lists)
        else:
            self.grammar = self.c.llama_sampler_init_grammar(*arguments)

    def sample(self, logits: np.ndarray) -> int:
        token = self.chain.choose(logits)
        one = self.c.llama_token_data(token, 1.0, 0.0)
        array = self.c.llama_token_data_array(ctypes.pointer(one), 1, -1, False)
        self.c.llama_sampler_apply(self.grammar, ctypes.byref(array))
        if one.logit == -np.inf:
            token = self.chain.choose(logits, self.grammar)
        if token >= 0 and token not in self.vocab.eog:
            self.c.llama_sampler_accept(self.grammar, token)
            self.c.llama_sampler_accept(self.chain.chain, token)
        return token

    def close(self) -> None:
        self.chain.close()
        self.c.llama_sampler_free(self.grammar)
