"""The bytes of tokens as llama.cpp's grammars see them, and tokens by bytes."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from recycle_cpp.backend.library import load_library

if TYPE_CHECKING:
    from recycle_cpp.backend.model import SamplerVocabulary

_LEADS = ("", "\n", "a")  # text before a part that is to be tokenized as it stands in the middle of a text


class Pieces:
    """The bytes of tokens, names of control tokens included, as llama.cpp's grammars see them.

    Attributes:
        n_vocab: tokens of the vocabulary.
    """

    def __init__(self, vocab: SamplerVocabulary) -> None:
        self._c = load_library().c
        self._handle = vocab.handle
        self.n_vocab = vocab.n_vocab
        self._buffer = ctypes.create_string_buffer(256)

    def of(self, token: int) -> bytes:
        """Return the bytes of a token."""
        arguments = token, self._buffer, len(self._buffer), 0, True
        n = self._c.llama_token_to_piece(self._handle, *arguments)
        if n < 0:
            self._buffer = ctypes.create_string_buffer(-n)
            return self.of(token)
        return self._buffer.raw[:n]

    def tokens_of(self, data: bytes) -> list[int] | None:
        """Return tokens whose bytes are these and no others; None if none are found."""
        for lead in _LEADS:
            tokens = self.tokenize(lead.encode() + data)
            for i in range(len(tokens)):
                if b"".join(self.of(token) for token in tokens[i:]) == data:
                    return tokens[i:]
        return None

    def tokenize(self, data: bytes) -> list[int]:
        """Return the tokens of a text; names of control tokens stand for these."""
        size = len(data) + 8
        tokens = (ctypes.c_int32 * size)()
        n = self._c.llama_tokenize(self._handle, data, len(data), tokens, size, False, True)
        return list(tokens[: max(0, n)])
