"""What the class takes of llama_cpp.Llama's arguments, how it loads by them, and what it refuses."""

from __future__ import annotations

import inspect
from pathlib import Path

import llama_cpp
import pytest
from comparing import SETTINGS
from llama_cpp.llama_chat_format import Llava15ChatHandler

from recycle_cpp import Llama, RecycleError, UsageError
from recycle_cpp.drop_in import loading
from recycle_cpp.types import LoadOptions

OWN = {"draft", "exact"}


def parameters(function) -> dict[str, inspect.Parameter]:
    found = inspect.signature(function).parameters
    return {name: parameter for name, parameter in found.items() if name not in OWN}


@pytest.mark.parametrize("method", ["create_completion", "create_chat_completion", "from_pretrained", "__init__"])
def test_parameters_have_the_same_names_and_order_and_defaults(method: str) -> None:
    mine, other = (parameters(getattr(cls, method)) for cls in (Llama, llama_cpp.Llama))
    assert list(mine) == list(other)
    changed = {name for name in mine if mine[name].default != other[name].default}
    assert changed <= {"stop", "flash_attn"}  # None stands for an empty list, and for "measure it"


def test_every_public_name_is_there_but_what_shows_the_insides_of_llama_cpp() -> None:
    missing = {name for name in dir(llama_cpp.Llama) if not name.startswith("_") and not hasattr(Llama, name)}
    assert missing == {
        "ctx",
        "model",
        "eval_logits",
        "pooling_type",
        "logits_to_logprobs",
        "longest_token_prefix",
    }


class Asked(Exception):  # noqa: N818  # no error: it carries what a load was asked for
    pass


@pytest.fixture
def options(monkeypatch, tmp_path):
    """Return the options by which a call loads; nothing is loaded."""

    def load(_model: str, options: LoadOptions, _say: object) -> None:
        raise Asked(options)

    monkeypatch.setattr(loading.Runtime, "load", load)
    file = tmp_path / "model.gguf"
    file.touch()

    def ask(**arguments) -> LoadOptions:
        with pytest.raises(Asked) as caught:
            Llama(str(file), **arguments)
        return caught.value.args[0]

    return ask


def test_by_default_threads_and_attention_are_measured_on_the_cpu(options) -> None:
    assert options() == LoadOptions(n_ctx=512, n_batch=512, n_gpu_layers=0, verbose=True)


def test_arguments_become_options(options) -> None:
    found = options(
        n_ctx=0, n_batch=64, n_threads=2, n_threads_batch=3, n_gpu_layers=-1, flash_attn=True, type_k=8, type_v=2
    )
    assert found == LoadOptions(
        n_ctx=0,
        n_batch=64,
        n_threads=2,
        n_threads_batch=3,
        n_gpu_layers=-1,
        flash_attention="on",
        type_k="q8_0",
        type_v="q4_0",
        verbose=True,
    )
    assert options(flash_attn=False).flash_attention == "off"


def test_harmless_arguments_are_accepted(options) -> None:
    harmless = {"use_mmap": False, "use_mlock": True, "numa": True, "offload_kqv": False, "n_ubatch": 8}
    more = {"no_perf": True, "op_offload": True, "swa_full": True, "logits_all": True, "n_parts": -1, "f16_kv": True}
    assert options(**harmless, **more) == options()


@pytest.mark.parametrize(
    "argument",
    [
        {"embedding": True},
        {"vocab_only": True},
        {"lora_path": "adapter.gguf"},
        {"lora_base": "base.gguf"},
        {"kv_overrides": {"a": 1}},
        {"tensor_split": [0.5, 0.5]},
        {"main_gpu": 1},
        {"pooling_type": 1},
        {"rope_scaling_type": 2},
        {"yarn_orig_ctx": 4096},
        {"type_k": 13},
    ],
)
def test_what_only_llama_cpp_does_is_refused_in_one_line(tmp_path, argument: dict) -> None:
    with pytest.raises(UsageError, match=next(iter(argument))) as caught:
        Llama(str(tmp_path / "model.gguf"), **argument)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


def test_a_path_that_leads_nowhere_is_a_value_error(tmp_path) -> None:
    for path in (tmp_path / "none.gguf", "smollm2-135m"):  # a known model's name is no path
        with pytest.raises(ValueError, match="Model path does not exist") as caught:
            Llama(path)
        assert isinstance(caught.value, RecycleError)


def test_a_file_that_is_no_model_is_a_value_error(tmp_path, smollm_file) -> None:
    torn = tmp_path / "torn.gguf"
    torn.write_bytes(Path(smollm_file).read_bytes()[:5000])
    (tmp_path / "text.gguf").write_text("no model")
    for path in (torn, tmp_path / "text.gguf", tmp_path):
        with pytest.raises(ValueError, match="Failed to load model from file") as caught:
            Llama(path, verbose=False)
        assert isinstance(caught.value, RecycleError)


def test_a_rope_is_accepted_if_it_is_the_models_own(smollm_file, cache_home) -> None:
    with Llama(smollm_file, **SETTINGS, rope_freq_base=100000.0, rope_freq_scale=1.0) as llama:
        assert llama.n_ctx() == 512
    with pytest.raises(ValueError, match=r"rope_freq_base is 10000\.0, the model's own is 100000\.0: leave it out"):
        Llama(smollm_file, **SETTINGS, rope_freq_base=10000.0)


def test_a_prompt_that_does_not_fit_is_a_value_error_in_llama_cpps_words(llama, theirs) -> None:
    for stream in (False, True):
        for model in (llama, theirs.llama):
            with pytest.raises(ValueError, match=r"Requested tokens \(600\) exceed context window of 512"):
                list(model([100] * 600, stream=stream))
    with pytest.raises(UsageError, match="raise n_ctx"):
        llama([100] * 512)


def test_a_doubled_first_token_is_warned_of(llama) -> None:
    with pytest.warns(RuntimeWarning, match="duplicate leading"):
        llama("<|im_start|><|im_start|>user", max_tokens=1)


def test_an_empty_prompt_without_a_first_token_is_refused(llama) -> None:
    with pytest.raises(UsageError, match="prompt is empty"):
        llama("")


def test_embeddings_are_refused_in_one_line(llama) -> None:
    for use in (llama.embed, llama.create_embedding):
        with pytest.raises(UsageError, match=r"use llama_cpp.Llama with embedding=True"):
            use("a text")


def test_a_handler_for_images_is_refused_and_the_model_closed(smollm_file, cache_home) -> None:
    handler = Llava15ChatHandler.__new__(Llava15ChatHandler)
    handler._exit_stack = None
    with pytest.raises(UsageError, match="Llava15ChatHandler reads images"):
        Llama(smollm_file, **SETTINGS, chat_handler=handler)


def test_a_closed_model_says_so(smollm_file, cache_home) -> None:
    llama = Llama(smollm_file, **SETTINGS)
    stream = llama("1, 2, 3,", stream=True, max_tokens=30)
    next(stream)
    llama.close()
    llama.close()
    for use in (lambda: llama("a"), lambda: llama.tokenize(b"a"), llama.n_embd, lambda: list(stream)):
        with pytest.raises(UsageError, match="closed"):
            use()


def test_a_tokenizer_of_ones_own_is_used_both_ways(smollm_file, cache_home) -> None:
    class Shouting:
        def tokenize(self, text: bytes, add_bos: bool = True, special: bool = True) -> list[int]:
            return inner.tokenize(text.lower(), add_bos, special)

        def detokenize(self, tokens, prev_tokens=None, special: bool = False) -> bytes:
            return inner.detokenize(list(tokens), special=special).upper()

    with Llama(smollm_file, **SETTINGS, tokenizer=Shouting()) as llama:
        inner = llama.tokenizer()
        assert llama("THE CAPITAL OF FRANCE IS", max_tokens=1, temperature=0.0)["choices"][0]["text"].strip() == "PARIS"
