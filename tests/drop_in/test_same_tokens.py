"""Text to tokens and back, as llama_cpp does it."""

from __future__ import annotations

import pytest
from llama_cpp.llama_tokenizer import LlamaTokenizer

from recycle_cpp.errors import UsageError

TEXTS = {
    "nothing": b"",
    "words": b"Hello, world",
    "spaces": b"  two  spaces \n\n\t",
    "control tokens": b"<|im_start|>user\nhi<|im_end|>",
    "emoji": "😀👩‍👩‍👧‍👦🏳️‍🌈".encode(),
    "scripts": "你好 مرحبا שלום नमस्ते ไทย".encode(),
    "combining": "é ﷽ Å".encode(),
    "the replacement character": "a�b".encode(),
    "a NUL": b"a\0b",
    "no UTF-8": b"\xff\xfe a \xe4\xbd",
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("add_bos", [False, True])
def test_texts_have_the_same_tokens_and_these_the_same_text(llama, theirs, name, add_bos, special) -> None:
    tokens = llama.tokenize(TEXTS[name], add_bos, special)
    assert tokens == theirs.tokenize(TEXTS[name], add_bos, special)
    assert llama.detokenize(tokens, special=special) == theirs.detokenize(tokens, special=special)
    assert llama.detokenize(tokens, [1, 2]) == theirs.detokenize(tokens, [1, 2])


def test_the_space_behind_the_first_token_of_all_is_left_out_alike(llama, theirs) -> None:
    tokens = [llama.token_bos(), *theirs.tokenize(b" a")]
    assert llama.detokenize(tokens) == theirs.detokenize(tokens) == b"a"


def test_numbers_and_metadata_are_the_same(llama, theirs) -> None:
    other = theirs.llama
    for name in ("n_ctx", "n_vocab", "n_embd", "token_bos", "token_eos", "token_nl"):
        assert getattr(llama, name)() == getattr(other, name)()
    for name in ("metadata", "model_path", "last_n_tokens_size", "n_batch", "verbose", "spm_infill"):
        assert getattr(llama, name) == getattr(other, name)
    assert llama.chat_format == "chat_template.default"
    assert list(llama._chat_handlers) == list(other._chat_handlers)


def test_what_llama_cpps_own_code_asks_of_a_model_is_the_same(llama, theirs) -> None:
    other = theirs.llama._model
    names = [name for name in dir(llama._model) if name.startswith(("token_", "add_", "n_"))]
    assert len(names) > 12
    for name in set(names) - {"token_get_text"}:
        assert getattr(llama._model, name)() == getattr(other, name)()
    for token in (0, 1, 2, 198, 30000):
        assert llama._model.token_get_text(token) == other.token_get_text(token)


def test_llama_cpps_tokenizer_works_on_it(llama) -> None:
    tokenizer = llama.tokenizer()
    assert isinstance(tokenizer, LlamaTokenizer)
    assert tokenizer.decode(tokenizer.encode("Hello, world")) == "Hello, world"


@pytest.mark.parametrize("token", [-1, 49152, 2**31])
def test_a_token_that_there_is_not_is_refused_in_one_line(llama, token: int) -> None:
    for use in (lambda: llama.detokenize([token]), lambda: llama([1, token]), lambda: llama.eval([token])):
        with pytest.raises(UsageError, match="no token"):
            use()
