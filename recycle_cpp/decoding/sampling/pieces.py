"""The bytes of tokens as llama.cpp's grammars see them, and tokens by bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recycle_cpp.backend.model import text_tokens, token_piece
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from recycle_cpp.backend.model import SamplerVocabulary

_LEADS = ("", "\n", "a")  # text before a part that is to be tokenized as it stands in the middle of a text


class Pieces:
    """The bytes of tokens, names of control tokens included, as llama.cpp's grammars see them.

    Attributes:
        n_vocab: tokens of the vocabulary.
    """

    def __init__(self, vocab: SamplerVocabulary) -> None:
        self._handle = vocab.handle
        self.n_vocab = vocab.n_vocab

    def of(self, token: int) -> bytes:
        """Return the bytes of a token."""
        return token_piece(self._handle, token, special=True)

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
        return text_tokens(self._handle, data, add_special=False, parse_special=True)


def encoded(text: str, what: str) -> bytes:
    """Return a text as UTF-8.

    Raises:
        UsageError: if it holds half of a surrogate pair; `what` says what it is.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} has an unpaired surrogate at character {error.start}: remove it") from None
