"""The model as llama_cpp's own code asks for it, under the names that it uses."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from recycle_cpp.drop_in.refusals import BadArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from recycle_cpp.runtime import Runtime


class ModelFace:
    """Stands where a `llama_cpp.Llama` keeps its `_model`: tokenizers and chat handlers of llama_cpp ask it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def _gguf(self) -> Any:
        return self._runtime.model

    def tokenize(self, text: bytes, add_bos: bool, special: bool) -> list[int]:
        """Return the tokens of UTF-8 text.

        Raises:
            BadArgumentError: if it is no text.
        """
        if not isinstance(text, str | bytes | bytearray | memoryview):
            raise BadArgumentError(f"the text is a {type(text).__name__}: give its UTF-8 as bytes")
        data = text if isinstance(text, str) else bytes(text)
        tokens: list[int] = self._gguf.tokenize(data, add_special=add_bos, parse_special=special)
        return tokens

    def detokenize(self, tokens: Sequence[int], special: bool = False) -> bytes:
        """Return the bytes of tokens, without the space that some models put behind the token that begins a text."""
        tokens = list(tokens)
        data = b"".join(self.piece(token, special=special) for token in tokens)
        begins = len(tokens) > 0 and tokens[0] == self.token_bos()
        return data[1:] if begins and data.startswith(b" ") else data

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Return what one token adds to a text.

        Raises:
            BadArgumentError: if the vocabulary has no such token.
        """
        self.require_tokens([token])
        data: bytes = self._gguf.piece(int(token), special=special)
        return data

    def require_tokens(self, tokens: Iterable[int]) -> None:
        """Check tokens that a caller gives: llama.cpp ends the process at one that there is not.

        Raises:
            BadArgumentError: if the vocabulary has no such token.
        """
        most = self.n_vocab()
        for token in tokens:
            try:
                known = 0 <= index(token) < most
            except TypeError:
                known = False
            if not known:
                raise BadArgumentError(f"the model has no token {token!r}: give tokens from 0 to {most - 1}")

    def token_get_text(self, token: int) -> str:
        """Return a token as the vocabulary spells it."""
        return str(self._gguf.text(token))

    def is_eog(self, token: int) -> bool:
        """Return whether a token ends the generation."""
        return bool(self._gguf.is_eog(token))

    def metadata(self) -> dict[str, str]:
        """Return what the GGUF's header says."""
        return dict(self._gguf.all_metadata())

    def n_vocab(self) -> int:
        """Return the size of the vocabulary."""
        return int(self._gguf.n_vocab)

    def n_embd(self) -> int:
        """Return the size of an embedding."""
        return int(self._gguf.n_embd)

    def n_ctx_train(self) -> int:
        """Return the context that the model was trained with."""
        return int(self._gguf.n_ctx_train)

    def token_bos(self) -> int:
        """Return the token that begins a text; -1 for none."""
        return int(self._gguf.bos)

    def token_cls(self) -> int:
        """Return the token that begins a text; -1 for none."""
        return self.token_bos()

    def token_eos(self) -> int:
        """Return the token that ends a text; -1 for none."""
        return int(self._gguf.eos)

    def token_nl(self) -> int:
        """Return the token of a line's end; -1 for none."""
        return int(self._gguf.newline)

    def token_sep(self) -> int:
        """Return the token between two sentences; -1 for none."""
        return int(self._gguf.sep)

    def token_prefix(self) -> int:
        """Return the token before the prefix of a text to fill in; -1 for none."""
        return int(self._gguf.infill[0])

    def token_suffix(self) -> int:
        """Return the token before the suffix of a text to fill in; -1 for none."""
        return int(self._gguf.infill[1])

    def token_middle(self) -> int:
        """Return the token before the middle of a text to fill in; -1 for none."""
        return int(self._gguf.infill[2])

    def add_bos_token(self) -> bool:
        """Return whether prompts begin with the token that begins a text."""
        return bool(self._gguf.adds_bos)

    def add_eos_token(self) -> bool:
        """Return whether prompts end with the token that ends a text."""
        return bool(self._gguf.adds_eos)
