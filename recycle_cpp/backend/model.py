"""A GGUF model in memory: its vocabulary and what it says of itself."""

from __future__ import annotations

import ctypes
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from recycle_cpp.backend.library import load_library
from recycle_cpp.errors import ModelFileError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from recycle_cpp.types import LoadOptions

_PIECE_BYTES = 256


class SamplerVocabulary(NamedTuple):
    """What samplers must know of a model.

    Attributes:
        handle: llama.cpp's vocabulary; None where there is none (then nothing may ask for texts of tokens).
        n_vocab: length of a logits row.
        eog: all tokens that end a generation, in rising order.
        n_ctx: tokens of the context; no sampler looks back further.
        suppressed: tokens that the model itself never wants chosen.
    """

    handle: Any
    n_vocab: int
    eog: tuple[int, ...]
    n_ctx: int
    suppressed: tuple[int, ...] = ()


class _Pointer(ctypes.c_void_p):
    """A pointer into a model's memory, which lives as long as the pointer does."""

    weights: _Weights


class _Weights:
    """A model's memory. Threads may ask for tokens while another closes the model: who asks last frees it."""

    def __init__(self, c: Any, handle: int) -> None:
        """Take over llama.cpp's handle."""
        self._free = c.llama_model_free
        self._handle = handle
        self._vocab = c.llama_model_get_vocab(handle)

    def model(self) -> _Pointer:
        """Return llama.cpp's model."""
        return self._held(self._handle)

    def vocab(self) -> _Pointer:
        """Return llama.cpp's vocabulary."""
        return self._held(self._vocab)

    def _held(self, address: int) -> _Pointer:
        pointer = _Pointer(address)
        pointer.weights = self
        return pointer

    def __del__(self) -> None:
        """Free the memory."""
        self._free(self._handle)


class LlamaModel:
    """Weights and vocabulary of one GGUF file; several contexts may share it."""

    def __init__(self, path: Path, options: LoadOptions) -> None:
        """Load the file.

        Raises:
            ModelFileError: if llama.cpp cannot load it; the message has its first complaint.
            InstallError: if llama.cpp itself cannot be loaded.
        """
        library = load_library()
        self._c = c = library.c
        library.log.verbose = options.verbose
        library.log.forget()
        params = c.llama_model_default_params()
        params.n_gpu_layers = options.n_gpu_layers
        handle = c.llama_model_load_from_file(os.fsencode(path), params)
        self._weights = _Weights(c, handle) if handle else None
        library.log.raise_interrupt()
        if not handle:
            raise ModelFileError(f"{path} cannot be loaded: {library.log.why()}; fetch the file again or try another")
        if self.n_vocab <= 0:
            self.close()
            raise ModelFileError(f"{path} has no tokenizer, so it cannot take text; use a text model")

    @property
    def handle(self) -> ctypes.c_void_p:
        """llama.cpp's model; what is called with it, or keeps it, keeps the memory.

        Raises:
            UsageError: if the model is closed.
        """
        return self._open.model()

    @property
    def _vocab(self) -> ctypes.c_void_p:
        return self._open.vocab()

    @property
    def _open(self) -> _Weights:
        weights = self._weights
        if weights is None:
            raise UsageError("the model is closed: load it again")
        return weights

    @property
    def n_vocab(self) -> int:
        """Length of a logits row."""
        return int(self._c.llama_vocab_n_tokens(self._vocab))

    @property
    def n_ctx_train(self) -> int:
        """Tokens of context that the model was trained with."""
        return int(self._c.llama_model_n_ctx_train(self.handle))

    @property
    def n_layer(self) -> int:
        """Layers."""
        return int(self._c.llama_model_n_layer(self.handle))

    @property
    def n_embd_k(self) -> int:
        """Elements of one token's keys in one layer."""
        return self._head_size("key_length") * self._n_head_kv

    @property
    def n_embd_v(self) -> int:
        """Elements of one token's values in one layer."""
        return self._head_size("value_length") * self._n_head_kv

    @property
    def bos(self) -> int:
        """Beginning-of-text token; -1 for none."""
        return int(self._c.llama_vocab_bos(self._vocab))

    @property
    def eos(self) -> int:
        """End-of-text token; -1 for none."""
        return int(self._c.llama_vocab_eos(self._vocab))

    @property
    def newline(self) -> int:
        """Token of a line's end; -1 for none."""
        return int(self._c.llama_vocab_nl(self._vocab))

    @property
    def sep(self) -> int:
        """Token between two sentences; -1 for none."""
        return int(self._c.llama_vocab_sep(self._vocab))

    @property
    def infill(self) -> tuple[int, int, int]:
        """Tokens before the prefix, the suffix and the middle of a text to fill in; -1 for none."""
        c = self._c
        prefix, suffix, middle = c.llama_vocab_fim_pre, c.llama_vocab_fim_suf, c.llama_vocab_fim_mid
        return int(prefix(self._vocab)), int(suffix(self._vocab)), int(middle(self._vocab))

    @property
    def adds_bos(self) -> bool:
        """Whether a prompt is to begin with the beginning-of-text token."""
        return bool(self._c.llama_vocab_get_add_bos(self._vocab))

    @property
    def adds_eos(self) -> bool:
        """Whether a prompt is to end with the end-of-text token."""
        return bool(self._c.llama_vocab_get_add_eos(self._vocab))

    @property
    def n_embd(self) -> int:
        """Elements of one token's embedding."""
        return int(self._c.llama_model_n_embd(self.handle))

    @property
    def can_branch(self) -> bool:
        """Whether the cache can hold a tree: not so for recurrent and hybrid models."""
        return not (self._c.llama_model_is_recurrent(self.handle) or self._c.llama_model_is_hybrid(self.handle))

    @property
    def chat_template(self) -> str | None:
        """The GGUF's chat template (jinja), if it has one."""
        template = self._c.llama_model_chat_template(self.handle, None)
        return template.decode("utf-8", "replace") if template else None

    @property
    def _n_head_kv(self) -> int:
        return max(1, int(self._c.llama_model_n_head_kv(self.handle)))

    def _head_size(self, name: str) -> int:
        """Return the width of a head: as the file says, else the embedding shared out among the heads."""
        said = self.metadata(f"{self.metadata('general.architecture')}.attention.{name}")
        if said is not None and said.isdecimal():
            return int(said)
        heads = max(1, int(self._c.llama_model_n_head(self.handle)))
        return int(self._c.llama_model_n_embd(self.handle)) // heads

    def metadata(self, key: str) -> str | None:
        """Return a value of the GGUF's header as text, if it has the key."""
        buffer = ctypes.create_string_buffer(_PIECE_BYTES)
        n = self._c.llama_model_meta_val_str(self.handle, key.encode(), buffer, len(buffer))
        return None if n < 0 else buffer.value.decode("utf-8", "replace")

    def all_metadata(self) -> dict[str, str]:
        """Return what the GGUF's header says, as text, by its keys; lists are left out, as llama.cpp does."""
        c, handle = self._c, self.handle

        def read(function: Any, index: int) -> str:
            buffer = ctypes.create_string_buffer(max(0, function(handle, index, None, 0)) + 1)
            function(handle, index, buffer, len(buffer))
            return buffer.value.decode("utf-8", "replace")

        key, value = c.llama_model_meta_key_by_index, c.llama_model_meta_val_str_by_index
        return {read(key, i): read(value, i) for i in range(c.llama_model_meta_count(handle))}

    def text(self, token: int) -> str:
        """Return a token as the vocabulary spells it; control tokens by their names."""
        return bytes(self._c.llama_vocab_get_text(self._vocab, token)).decode("utf-8", "replace")

    def is_eog(self, token: int) -> bool:
        """Return whether a token ends the generation."""
        return bool(self._c.llama_vocab_is_eog(self._vocab, token))

    def sampler_vocabulary(self, n_ctx: int) -> SamplerVocabulary:
        """Return what samplers must know; the first call looks at every token."""
        return SamplerVocabulary(self._vocab.value, self.n_vocab, self._eog, n_ctx, self._suppressed)

    @cached_property
    def _eog(self) -> tuple[int, ...]:
        return tuple(token for token in range(self.n_vocab) if self.is_eog(token))

    @cached_property
    def _suppressed(self) -> tuple[int, ...]:
        n = ctypes.c_int32(0)
        tokens = self._c.llama_vocab_get_suppress_tokens(self._vocab, ctypes.byref(n))
        return tuple(sorted(tokens[: n.value])) if tokens else ()

    def tokenize(self, text: str | bytes, *, add_special: bool, parse_special: bool) -> list[int]:
        """Return the token ids of a text.

        Args:
            text: any text, or UTF-8, in which llama.cpp replaces what is none; NUL characters are text too.
            add_special: add the beginning-of-text token if the model wants one.
            parse_special: read the names of control tokens as those tokens.

        Raises:
            UsageError: if the text holds half of a surrogate pair, which no encoding can carry.
        """
        try:
            data = text if isinstance(text, bytes) else text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"the prompt has an unpaired surrogate at character {error.start}: remove it") from None
        return text_tokens(self._vocab, data, add_special=add_special, parse_special=parse_special)

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Return the bytes that a token adds to the text; control tokens add none unless `special`."""
        return token_piece(self._vocab, token, special=special)

    def close(self) -> None:
        """Free the memory, when what other threads still ask of the model is answered. Safe to call twice."""
        self._weights = None


def text_tokens(vocab: Any, data: bytes, *, add_special: bool, parse_special: bool) -> list[int]:
    """Return the tokens of UTF-8 by llama.cpp's vocabulary, see `LlamaModel.tokenize`."""
    c = load_library().c
    size = len(data) + 8  # a token stands for at least one byte, but for the few special ones
    while True:
        tokens = (ctypes.c_int32 * size)()
        n = c.llama_tokenize(vocab, data, len(data), tokens, size, add_special, parse_special)
        if n >= 0:
            return list(tokens[:n])
        size = -n


def token_piece(vocab: Any, token: int, *, special: bool) -> bytes:
    """Return the bytes of a token by llama.cpp's vocabulary, see `LlamaModel.piece`."""
    c = load_library().c
    size = _PIECE_BYTES
    while True:
        buffer = ctypes.create_string_buffer(size)  # of this call's own: another thread may ask, too
        n = c.llama_token_to_piece(vocab, token, buffer, size, 0, special)
        if n >= 0:
            return buffer.raw[:n]
        size = -n
