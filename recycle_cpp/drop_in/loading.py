"""From the arguments of llama_cpp.Llama to how the runtime loads a model; what it cannot do is refused."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from recycle_cpp.drop_in.refusals import BadArgumentError, BadModelError, NoContextError, NoSuchModelError
from recycle_cpp.errors import BackendError, ModelError
from recycle_cpp.runtime import Runtime
from recycle_cpp.types import LoadOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recycle_cpp.types import CacheType, FlashAttention

_CACHE_TYPES: dict[int, CacheType] = {0: "f32", 1: "f16", 8: "q8_0", 2: "q4_0"}  # enum ggml_type
_ROPE = ("rope_freq_base", "rope_freq_scale")
# What has another value than these cannot be served. -1 is llama.cpp's "unspecified".
_ONLY: dict[str, tuple[Any, ...]] = {
    "vocab_only": (False,),
    "embedding": (False,),
    "kv_overrides": (None, {}),
    "lora_path": (None, ""),
    "lora_base": (None, ""),
    "split_mode": (1, 0),
    "main_gpu": (0,),
    "tensor_split": (None, []),
    "rope_scaling_type": (-1, None),
    "pooling_type": (-1,),
    "attention_type": (-1,),
    "yarn_ext_factor": (-1.0,),
    "yarn_attn_factor": (1.0, -1.0),
    "yarn_beta_fast": (32.0, -1.0),
    "yarn_beta_slow": (1.0, -1.0),
    "yarn_orig_ctx": (0,),
}


def load(asked: Mapping[str, Any]) -> Runtime:
    """Load a model as llama_cpp.Llama's arguments say; threads and attention that nobody chose are measured.

    Raises:
        BadArgumentError: if an argument asks for what only llama_cpp itself does.
        NoSuchModelError: if there is no file at `model_path`.
        BadModelError: if it cannot be loaded.
        NoContextError: if llama.cpp cannot make the context.
        UsageError: if options contradict each other.
        InstallError: if llama.cpp itself cannot be loaded.
    """
    for name, allowed in _ONLY.items():
        if asked[name] not in allowed:
            raise BadArgumentError(
                f"{name} is {asked[name]!r}, which only llama_cpp.Llama does: leave it out, or use that"
            )
    options = _options(asked)
    path = os.fspath(asked["model_path"])
    if not os.path.exists(path):  # noqa: PTH110  # a text that is no path at all is no file either
        raise NoSuchModelError(f"Model path does not exist: {path}; give the path of a .gguf file")

    def say(line: str) -> None:
        if asked["verbose"]:
            print(line, file=sys.stderr)

    try:
        runtime = Runtime.load(os.path.abspath(path), options, say)  # noqa: PTH100  # never a model's name
    except ModelError as error:
        raise BadModelError(f"Failed to load model from file: {error}") from error
    except BackendError as error:
        raise NoContextError(f"Failed to create llama_context: {error}") from error
    try:
        _require_rope(asked, runtime.model.all_metadata())
    except BadArgumentError:
        runtime.close()
        raise
    return runtime


def _options(asked: Mapping[str, Any]) -> LoadOptions:
    attention: FlashAttention = "auto"
    if asked["flash_attn"] is not None:
        attention = "on" if asked["flash_attn"] else "off"
    return LoadOptions(
        n_ctx=asked["n_ctx"],
        n_batch=asked["n_batch"],
        n_threads=asked["n_threads"] or None,
        n_threads_batch=asked["n_threads_batch"] or None,
        n_gpu_layers=max(-1, asked["n_gpu_layers"] or 0),
        flash_attention=attention,
        type_k=_cache_type("type_k", asked["type_k"]),
        type_v=_cache_type("type_v", asked["type_v"]),
        verbose=asked["verbose"],
    )


def _cache_type(name: str, number: int | None) -> CacheType:
    if number is None:
        return "f16"
    if number not in _CACHE_TYPES:
        known = ", ".join(f"{number} ({text})" for number, text in _CACHE_TYPES.items())
        raise BadArgumentError(f"{name} is {number!r}: give one of {known}")
    return _CACHE_TYPES[number]


def _require_rope(asked: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Check that a rope is none other than the model's; wrappers of llama_cpp like to pass one."""
    architecture = metadata.get("general.architecture", "")
    own = {
        "rope_freq_base": float(metadata.get(f"{architecture}.rope.freq_base", 10000.0)),
        "rope_freq_scale": 1 / float(metadata.get(f"{architecture}.rope.scaling.factor", 1.0)),
    }
    for name in _ROPE:
        if asked[name] not in (0, own[name]):
            raise BadArgumentError(f"{name} is {asked[name]}, the model's own is {own[name]}: leave it out, or give 0")
