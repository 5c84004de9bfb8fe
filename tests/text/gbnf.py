"""Grammars as llama.cpp itself reads and follows them."""

from __future__ import annotations

import ctypes

import numpy as np


class LlamaGrammar:
    """A grammar over a real vocabulary; the root is `root`."""

    def __init__(self, vocabulary, text: str) -> None:
        import llama_cpp

        self._c = llama_cpp
        self._vocabulary = vocabulary
        handle = llama_cpp.llama_model_get_vocab(vocabulary.llama.model)
        self._eog = llama_cpp.llama_vocab_eos(handle)
        self._sampler = llama_cpp.llama_sampler_init_grammar(handle, text.encode(), b"root")
        assert self._sampler, f"llama.cpp cannot read:\n{text}"

    def takes(self, text: str) -> bool:
        """Tell whether a text is whole by the grammar."""
        tokens = self._vocabulary.tokenize(text, add_special=False, parse_special=True)
        sampler = self._c.llama_sampler_clone(self._sampler)
        try:
            for token in [*tokens, self._eog]:
                if not self._allows(sampler, token):
                    return False
                if token != self._eog:
                    self._c.llama_sampler_accept(sampler, token)
            return True
        finally:
            self._c.llama_sampler_free(sampler)

    def walk(self, rng, most: int) -> str | None:
        """Return a random text by the grammar that ends where it may; None if it has not after so many tokens."""
        n = self._vocabulary.llama.n_vocab()
        data = (self._c.llama_token_data * n)()
        view = np.frombuffer(data, dtype=[("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        sampler, pieces = self._c.llama_sampler_clone(self._sampler), []
        try:
            for _ in range(most):
                view["id"], view["logit"] = np.arange(n), 0.0
                array = self._c.llama_token_data_array(data, n, -1, False)
                self._c.llama_sampler_apply(sampler, ctypes.byref(array))
                allowed = view["id"][view["logit"] == 0.0]
                if self._eog in allowed:
                    return b"".join(pieces).decode("utf-8", "replace")
                pieces.append(self._vocabulary.piece(token := int(rng.choice(allowed)), special=True))
                self._c.llama_sampler_accept(sampler, token)
            return None
        finally:
            self._c.llama_sampler_free(sampler)

    def _allows(self, sampler, token: int) -> bool:
        data = (self._c.llama_token_data * 1)(self._c.llama_token_data(token, 0.0, 0.0))
        array = self._c.llama_token_data_array(data, 1, -1, False)
        self._c.llama_sampler_apply(sampler, ctypes.byref(array))
        return data[0].logit == 0.0

    def close(self) -> None:
        self._c.llama_sampler_free(self._sampler)
