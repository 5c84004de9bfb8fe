"""Grammars that a trigger puts in force: the text before it is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recycle_cpp.decoding.sampling.pieces import Pieces, encoded
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from recycle_cpp.backend.model import SamplerVocabulary
    from recycle_cpp.decoding.sampling.rules import Rules
    from recycle_cpp.types import Grammar


class Trigger:
    """Waits for a trigger, then says where the grammar stands.

    llama.cpp's own lazy grammars end the process where the text from the trigger on is not what the rules allow, and
    search all of the text again at every token. So the waiting is done here, and the rules are llama.cpp's.
    """

    def __init__(self, grammar: Grammar, rules: Rules, vocab: SamplerVocabulary) -> None:
        """Take the rules in their first state.

        Raises:
            UsageError: if the rules do not allow one of their triggers.
        """
        self._rules = rules
        self._pieces = Pieces(vocab)
        self._texts = [encoded(text, "a trigger of the grammar") for text in grammar.triggers]
        self._tokens = frozenset(grammar.trigger_tokens)
        self._longest = max((len(text) for text in self._texts), default=1)
        self._text = bytearray()
        self._ends: list[tuple[int, int]] = []  # tokens so far, and where each ends in the text
        self._check(vocab)

    def _check(self, vocab: SamplerVocabulary) -> None:
        for token in self._tokens:
            if token >= vocab.n_vocab:
                raise UsageError(f"the grammar has trigger token {token}; give tokens from 0 to {vocab.n_vocab - 1}")
            if self._walk([token]) is None:
                raise UsageError(f"the grammar does not begin with its trigger token {token}: let its root do so")
        for text in self._texts:
            if self._walk_bytes(text) is None:
                raise UsageError(f"the grammar does not begin with its trigger {text.decode()!r}: let its root do so")

    def allows(self, token: int) -> bool:
        """Return whether a token may come next: one that completes a trigger must follow the rules from there on."""
        start = self._start(token)
        return start is None or self._from(start, token) is not None

    def accept(self, token: int) -> Rules | None:
        """Take note of an allowed token; return the rules from the token on that puts them in force."""
        start = self._start(token)
        if start is not None:
            return self._from(start, token)
        self._text += self._pieces.of(token)
        self._ends.append((token, len(self._text)))
        return None

    def _start(self, token: int) -> int | None:
        """Return where in the text the grammar's part begins if a token comes next; None if it is still free."""
        n = len(self._text)
        if token in self._tokens:
            return n
        tail = bytes(self._text[max(0, n - self._longest + 1) :])
        before = n - len(tail)
        tail += self._pieces.of(token)
        for text in self._texts:  # the first one that is there counts, as in llama.cpp
            found = tail.find(text)
            if found >= 0:
                return before + found
        return None

    def _from(self, start: int, token: int) -> Rules | None:
        """Return the rules behind the text from its start on and a token; None if they do not allow it."""
        known = [*self._ends, (token, len(self._text) + len(self._pieces.of(token)))]
        first = next((i for i, (_, end) in enumerate(known) if end > start), len(known) - 1)
        begin = known[first - 1][1] if first else 0
        rules: Rules | None = None
        if begin < start:
            part = (bytes(self._text) + self._pieces.of(token))[start : known[first][1]]
            rules = self._walk_bytes(part)
            first += 1
            if rules is None:
                return None
        return self._walk([token for token, _ in known[first:]], rules)

    def _walk_bytes(self, data: bytes) -> Rules | None:
        tokens = self._pieces.tokens_of(data)
        return None if tokens is None else self._walk(tokens)

    def _walk(self, tokens: list[int], rules: Rules | None = None) -> Rules | None:
        """Return rules that have accepted tokens; None if they do not allow one."""
        rules = rules or self._rules.copy()
        for token in tokens:
            if not rules.allowed([token])[0]:
                return None
            rules.accept(token)
        return rules
