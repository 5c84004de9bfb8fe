"""Options that several commands share, and the records made from them.

Each option's parameter is named like the field that it fills. No option has a default of its own: what is not
given is left out of the record, so that the record's default applies, and the help shows that one.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from recycle_cpp.cli.grammar_options import grammar_from, grammar_options
from recycle_cpp.cli.sampling_options import sampling_from, sampling_options
from recycle_cpp.cli.sections import UNNAMED, Section, SectionedOption, together
from recycle_cpp.cli.text_input import argument_text
from recycle_cpp.types import CacheType, ChatOptions, DraftMode, FlashAttention, GenerateOptions, LoadOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Record = TypeVar("Record", LoadOptions, GenerateOptions, ChatOptions)

MODEL_HELP = "A name that `recycle-cpp models` lists, or the path of a GGUF file."
DEFAULT_MAX_TOKENS = 1024  # small models often repeat themselves to the end of the context
ANSWER = Section("Answer")
LOADING = Section("Loading")


def model_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option of the model; read it with `model_from`."""
    shown = "the one that `recycle-cpp models` marks"
    return Section(UNNAMED).option(shown, "-m", "--model", metavar="MODEL", text=MODEL_HELP)(command)


def load_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a model is loaded; read them with `load_options_from`."""
    default = LoadOptions()
    cache_types = click.Choice(get_args(CacheType))
    return together(
        LOADING.number(
            "the model's own, at most 4096",
            "--ctx-size",
            "n_ctx",
            text="Tokens that the context holds; 0 for all that the model knows.",
        ),
        LOADING.number(default.n_batch, "--batch-size", "n_batch", text="Rows of one evaluation at most."),
        LOADING.number("measured", "--threads", "n_threads", text="Threads for single tokens."),
        LOADING.number(
            "the same as --threads if that is given, else measured",
            "--threads-batch",
            "n_threads_batch",
            text="Threads for prompts and wider batches.",
        ),
        LOADING.number(default.n_gpu_layers, "--gpu-layers", "n_gpu_layers", text="Layers on the GPU; -1 is all."),
        LOADING.option(
            default.flash_attention,
            "--flash-attn",
            "flash_attention",
            type=click.Choice(get_args(FlashAttention)),
            text="Flash attention; auto measures which is faster here.",
        ),
        LOADING.option(default.type_k, "--cache-type-k", "type_k", type=cache_types, text="Type of the cache's keys."),
        LOADING.option(
            default.type_v, "--cache-type-v", "type_v", type=cache_types, text="Type of the cache's values."
        ),
    )(command)


def learned_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that keeps drafting from using and writing what it learned; see `load_options_from`."""
    return click.option(
        "--no-learned",
        "learned",
        cls=SectionedOption,
        section="Loading",
        flag_value=False,
        default=None,
        help="Neither use nor keep on disk what drafting learns; `recycle-cpp forget` removes what is kept.",
    )(command)


def request_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of one request; read them with `generate_options_from` or `chat_options_from`."""
    default = GenerateOptions()
    return together(
        ANSWER.number(DEFAULT_MAX_TOKENS, "--max-tokens", text="Emit at most this many tokens."),
        ANSWER.texts(None, "--stop", text="End the text before this"),
        ANSWER.flag(
            "--context-shift", text="Where the context is full, drop its older half and go on, instead of ending there."
        ),
        ANSWER.number(default.n_keep, "--keep", "n_keep", text="Tokens at the beginning that a shift never drops."),
        ANSWER.option(
            default.draft,
            "--draft",
            type=click.Choice(get_args(DraftMode)),
            text="auto: as much as pays here; tree: the paper's static tree; chain: a short one; off: plain decoding.",
        ),
        ANSWER.flag(
            "--exact/--no-exact",
            text="Draft only what keeps the output byte-identical; the default where a --seed is to repeat draws.",
        ),
        grammar_options,
        sampling_options,
    )(command)


def raw_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that leaves the chat template out; `generate_options_from` reads it."""
    return ANSWER.flag("--raw", text="Pass the prompt without the model's chat template.")(command)


def model_from(params: Mapping[str, Any]) -> str:
    """Return the model asked for, or the default of models.toml.

    Raises:
        ModelError: if models.toml is needed and cannot be used.
    """
    if params["model"] is not None:
        return str(params["model"])
    from recycle_cpp.models.registry import Registry

    return Registry.load().default


def load_options_from(params: Mapping[str, Any]) -> LoadOptions:
    """Return how to load the model; `verbose` is taken along if the command has it.

    A command without `learned` among its parameters, as one that measures, neither uses nor keeps what was learned.

    Raises:
        UsageError: if a value is out of its range.
    """
    return _record(LoadOptions, {"learned": False, **params})


def generate_options_from(params: Mapping[str, Any]) -> GenerateOptions:
    """Return what one request asks for, its sampling and grammar included.

    Raises:
        UsageError: if a value cannot be used.
    """
    return _request(GenerateOptions, params)


def chat_options_from(params: Mapping[str, Any]) -> ChatOptions:
    """Return what one request of a chat asks for, its sampling and grammar included.

    Raises:
        UsageError: if a value cannot be used.
    """
    return _request(ChatOptions, params)


def _request(kind: type[Record], params: Mapping[str, Any]) -> Record:
    given: dict[str, Any] = {**params, "sampling": sampling_from(params), "grammar": grammar_from(params)}
    if given["max_tokens"] is None:
        given["max_tokens"] = DEFAULT_MAX_TOKENS
    given["stop"] = tuple(argument_text(text, "the text of --stop") for text in given["stop"])
    return _record(kind, given)


def _record(kind: type[Record], params: Mapping[str, Any]) -> Record:
    names = [field.name for field in fields(kind)]
    return kind(**{name: params[name] for name in names if params.get(name) is not None})
