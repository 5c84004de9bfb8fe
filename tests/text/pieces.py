from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class PieceVocabulary:
    """A vocabulary whose tokens are the given pieces, numbered from 0."""

    pieces: list[bytes] = field(default_factory=list)

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        raise NotImplementedError

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return self.pieces[token]
