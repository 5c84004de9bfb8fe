"""Characters from token pieces that may cut a character anywhere."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recycle_cpp.types import Vocabulary


class Detokenizer:
    """Joins the bytes of tokens into text, holding back a character until its last byte is there.

    However the bytes are split into tokens, all `push` results and the `flush` result together equal
    `whole.decode("utf-8", "replace")`.
    """

    def __init__(self, vocabulary: Vocabulary, shown: Mapping[int, bytes] | None = None) -> None:
        """Begin a text; `shown` has the bytes of tokens that add others than the vocabulary says."""
        self._vocabulary = vocabulary
        self._shown = shown or {}
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """Return the text that has become certain with this token; empty while a character is incomplete."""
        shown = self._shown.get(token)
        return self._decoder.decode(self._vocabulary.piece(token) if shown is None else shown)

    def flush(self) -> str:
        """Return what is left at the end: U+FFFD for an incomplete character, else nothing."""
        return self._decoder.decode(b"", final=True)
