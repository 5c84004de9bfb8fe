from __future__ import annotations

from pathlib import Path

import pytest


class GgufVocabulary:
    """The vocabulary of a GGUF file, through llama.cpp, without its weights."""

    def __init__(self, path: Path) -> None:
        import llama_cpp

        self._library = llama_cpp
        self.llama = llama_cpp.Llama(str(path), vocab_only=True, n_ctx=8, verbose=False)
        self._vocabulary = llama_cpp.llama_model_get_vocab(self.llama.model)

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        return self.llama.tokenize(text.encode(), add_bos=add_special, special=parse_special)

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return self._bytes_of(token, special=special)

    def special_text(self, token: int) -> str:
        return self._bytes_of(token, special=True).decode() if token >= 0 else ""

    def _bytes_of(self, token: int, *, special: bool) -> bytes:
        import ctypes

        buffer = ctypes.create_string_buffer(256)
        size = self._library.llama_token_to_piece(self._vocabulary, token, buffer, 256, 0, special)
        assert size >= 0
        return buffer.raw[:size]


@pytest.fixture(scope="session")
def open_vocabulary():
    """Open a model's vocabulary by file name, once per session; skip where the file is not there."""
    import os

    folder = Path(os.environ.get("RECYCLE_CPP_MODELS") or Path.home() / ".cache/recycle-cpp/models")
    opened: dict[str, GgufVocabulary] = {}

    def open_by_name(name: str) -> GgufVocabulary:
        if name not in opened:
            if not (folder / name).is_file():
                pytest.skip(f"{name} is not in {folder}")
            opened[name] = GgufVocabulary(folder / name)
        return opened[name]

    yield open_by_name
    for vocabulary in opened.values():
        vocabulary.llama.close()
