"""What the text room asks of a tokenizer."""

from __future__ import annotations

from typing import Protocol


class Vocabulary(Protocol):
    """What the text room asks of a tokenizer."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Return the token ids of a text."""

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Return the bytes that a token adds to the text; control tokens add none unless `special`."""
