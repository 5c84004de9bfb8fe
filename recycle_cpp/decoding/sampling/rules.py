"""llama.cpp's grammar: read once, then asked which tokens may follow, and told which do."""

from __future__ import annotations

import ctypes
import os
import re
from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.backend.library import load_library
from recycle_cpp.decoding.sampling.candidates import Candidates
from recycle_cpp.decoding.sampling.complaints import captured_complaints
from recycle_cpp.decoding.sampling.gbnf import check_gbnf
from recycle_cpp.decoding.sampling.pieces import Pieces, encoded
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recycle_cpp.backend.model import SamplerVocabulary

_LONGEST_COMPLAINT = 160
_PARSERS_OWN = b"parse: error parsing grammar: "


class Rules:
    """A grammar as far as the text has come: its state moves with every token that it accepts.

    It must never accept what it does not allow: llama.cpp would end the process.
    """

    def __init__(
        self, handle: int, vocab: SamplerVocabulary, buffer: Candidates, risky: dict[int, list[list[int]]]
    ) -> None:
        """Take over llama.cpp's handle.

        Args:
            handle: llama.cpp's.
            vocab: the model's vocabulary.
            buffer: shared by all rules, for questions.
            risky: tokens that the rules name, and the tokens of each of their characters.
        """
        self._risky = risky
        self._c = load_library().c
        self._handle: int | None = handle
        self._vocab = vocab
        self._buffer = buffer
        self._ends = frozenset(vocab.eog)

    @classmethod
    def read(cls, text: str, root: str, vocab: SamplerVocabulary, buffer: Candidates) -> Rules:
        """Read GBNF.

        Raises:
            UsageError: if llama.cpp cannot, with its own complaint.
        """
        data, name = _without_nul(text, "text"), _without_nul(root, "root")
        if not data.strip():  # llama.cpp takes that for no grammar at all
            raise UsageError("the grammar has no text: give GBNF rules")
        names = check_gbnf(text)
        library = load_library()
        library.log.forget()
        with captured_complaints() as captured:
            handle = library.c.llama_sampler_init_grammar(vocab.handle, data, name)
        complaint, others = _split(captured.text, data)
        if others:
            os.write(2, others)
        library.log.raise_interrupt()
        if not handle:
            raise UsageError(f"the grammar cannot be read: {complaint or library.log.why()}")
        return cls(handle, vocab, buffer, _risky(names, Pieces(vocab)) if names else {})

    def allowed(self, tokens: Sequence[int] | NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return bool[n], which of int32[n] tokens may come next; they share the work."""
        self._buffer.fill_with(np.asarray(tokens, np.int32))
        self.apply(self._buffer)
        return np.equal(self._buffer.values, 0)

    def apply(self, candidates: Candidates) -> None:
        """Give -inf to all candidates, in whatever order, that may not come next."""
        self._c.llama_sampler_apply(self._handle, ctypes.byref(candidates.array))
        if self._risky:
            self._forbid_halves(candidates)

    def _forbid_halves(self, candidates: Candidates) -> None:
        """Forbid tokens that the rules name where these would read a part of one as text, and the rest by its name.

        llama.cpp allows that, and ends the process when the token comes.
        """
        tokens, values = candidates.tokens, candidates.values
        for token in self._risky.keys() & set(tokens.tolist()):
            at = np.flatnonzero(tokens == token)
            if values[at[0]] > -np.inf and not self._is_read_whole(self._risky[token]):
                values[at] = -np.inf

    def _is_read_whole(self, characters: list[list[int]]) -> bool:
        """Return whether a named token's text is read to its end, or not at all: then the rules want its name."""
        copy = Rules(self._c.llama_sampler_clone(self._handle), self._vocab, Candidates(self._vocab.n_vocab), {})
        for i, parts in enumerate(characters):
            for token in parts:
                if not copy.allowed([token])[0]:
                    return i == 0
                copy.accept(token)
        return True

    def accept(self, token: int) -> None:
        """Move on by an allowed token; behind an end-of-generation token nothing comes."""
        if token not in self._ends:
            self._c.llama_sampler_accept(self._handle, token)

    def copy(self) -> Rules:
        """Return the same rules in the same state, to go on apart."""
        return Rules(self._c.llama_sampler_clone(self._handle), self._vocab, self._buffer, self._risky)

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
        if self._handle:
            self._c.llama_sampler_free(self._handle)
            self._handle = None

    def __del__(self) -> None:
        """Free the rules of a run that was abandoned."""
        if hasattr(self, "_handle"):
            self.close()


def _risky(names: set[str], pieces: Pieces) -> dict[int, list[list[int]]]:
    """Return the tokens named that are longer than one character, and the tokens of each of their characters."""
    risky = {}
    for name in names:
        numbered = re.fullmatch(r"<\[(\d{1,9})\]>", name)
        tokens = [int(numbered[1])] if numbered else pieces.tokenize(name.encode())
        if len(tokens) == 1 and tokens[0] < pieces.n_vocab:
            text = pieces.of(tokens[0]).decode("utf-8", "replace")
            if len(text) > 1:
                risky[tokens[0]] = [pieces.tokens_of(character.encode()) or [] for character in text]
    return risky


def _without_nul(text: str, what: str) -> bytes:
    data = encoded(text, f"the grammar's {what}")
    if b"\0" in data:
        raise UsageError(f"the grammar's {what} has a NUL at character {text.index(chr(0))}: remove it")
    return data


def _split(said: bytes, source: bytes) -> tuple[str, bytes]:
    """Return the parser's complaint on one short line, and what was not said by it."""
    start = said.find(_PARSERS_OWN)
    if start < 0:
        return "", said
    end = said.find(b"\n\n" + source, start)
    stop = len(said) if end < 0 else end + 2 + len(source) + 1
    line = " ".join(said[start + len(_PARSERS_OWN) : end if end >= 0 else None].decode("utf-8", "replace").split())
    line = line if len(line) <= _LONGEST_COMPLAINT else line[:_LONGEST_COMPLAINT] + "..."
    return line, said[:start] + said[stop:]
