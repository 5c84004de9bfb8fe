"""Options that several commands share, and the records made from them.

Each option's parameter is named like the field that it fills. No option has a default of its own: what is not
given is left out of the record, so that the record's default applies, and the help shows that one.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from recycle_cpp.cli.prompt import argument_text
from recycle_cpp.types import (
    CacheType,
    DraftMode,
    FlashAttention,
    GenerateOptions,
    LoadOptions,
    SamplingOptions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

Record = TypeVar("Record", LoadOptions, SamplingOptions, GenerateOptions)

SAMPLED_TEMPERATURE = 0.8  # llama.cpp's default
MODEL_HELP = "A name that `recycle-cpp models` lists, or the path of a GGUF file."
DEFAULT_MAX_TOKENS = 1024  # small models often repeat themselves to the end of the context
ASK_FOR_SAMPLING = ("top_k", "top_p", "min_p", "seed")


def model_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option of the model; read it with `model_from`."""
    return _options(
        _option("the one that `recycle-cpp models` marks", "-m", "--model", metavar="MODEL", text=MODEL_HELP)
    )(command)


def load_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a model is loaded; read them with `load_options_from`."""
    default = LoadOptions()
    cache_types = click.Choice(get_args(CacheType))
    return _options(
        _number("the model's own, at most 4096", "--ctx-size", "n_ctx", text="Tokens that the context holds."),
        _number(default.n_batch, "--batch-size", "n_batch", text="Rows of one evaluation at most."),
        _number("measured", "--threads", "n_threads", text="Threads for single tokens."),
        _number(
            "the same as --threads if that is given, else measured",
            "--threads-batch",
            "n_threads_batch",
            text="Threads for prompts and wider batches.",
        ),
        _number(default.n_gpu_layers, "--gpu-layers", "n_gpu_layers", text="Layers on the GPU; -1 is all."),
        _option(
            default.flash_attention,
            "--flash-attn",
            "flash_attention",
            type=click.Choice(get_args(FlashAttention)),
            text="Flash attention; auto measures which is faster here.",
        ),
        _option(default.type_k, "--cache-type-k", "type_k", type=cache_types, text="Type of the cache's keys."),
        _option(default.type_v, "--cache-type-v", "type_v", type=cache_types, text="Type of the cache's values."),
    )(command)


def sampling_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a token is chosen; read them with `sampling_from`."""
    default = SamplingOptions()
    asking = ", ".join(f"--{name.replace('_', '-')}" for name in ASK_FOR_SAMPLING)
    return _options(
        _option(
            f"{default.temperature:g}, or {SAMPLED_TEMPERATURE:g} with any of {asking}",
            "--temperature",
            type=float,
            metavar="T",
            text="Randomness; 0 is greedy and takes the likeliest token.",
        ),
        _number(default.top_k, "--top-k", text="Keep the K likeliest tokens; 0 keeps all.", metavar="K"),
        _option(default.top_p, "--top-p", type=float, metavar="P", text="Keep the likeliest up to this sum."),
        _option(default.min_p, "--min-p", type=float, metavar="P", text="Drop below this share of the likeliest."),
        _option(
            default.repeat_penalty,
            "--repeat-penalty",
            type=float,
            metavar="R",
            text="Penalty on the last 64 tokens, greedy or not; 1 is none.",
        ),
        _number("drawn afresh", "--seed", text="Seed of the random draws."),
    )(command)


def request_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of one request but for its sampling; read them all with `generate_options_from`."""
    default = GenerateOptions()
    return _options(
        _number(DEFAULT_MAX_TOKENS, "--max-tokens", text="Emit at most this many tokens."),
        click.option(
            "--stop",
            multiple=True,
            metavar="TEXT",
            callback=_stop_texts,
            help="End the text before this; may be repeated.",
        ),
        click.option("--raw", is_flag=True, default=None, help="Pass the prompt without the model's chat template."),
        _option(
            default.draft,
            "--draft",
            type=click.Choice(get_args(DraftMode)),
            text="auto: as much as pays here; tree: the paper's static tree; chain: a short one; off: plain decoding.",
        ),
        click.option("--exact", is_flag=True, default=None, help="Draft only what keeps the output byte-identical."),
    )(command)


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


def sampling_from(params: Mapping[str, Any]) -> SamplingOptions:
    """Return how to choose tokens: greedy, unless an option asks for sampling.

    Raises:
        UsageError: if a value is out of its range.
    """
    sampled = any(params[name] is not None for name in ASK_FOR_SAMPLING)
    if sampled and params["temperature"] is None:
        params = {**params, "temperature": SAMPLED_TEMPERATURE}
    return _record(SamplingOptions, params)


def generate_options_from(params: Mapping[str, Any]) -> GenerateOptions:
    """Return what one request asks for, its sampling included.

    Raises:
        UsageError: if a value is out of its range.
    """
    if params["max_tokens"] is None:
        params = {**params, "max_tokens": DEFAULT_MAX_TOKENS}
    return _record(GenerateOptions, {**params, "sampling": sampling_from(params)})


def _stop_texts(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Check the values of --stop as they are parsed, whatever the command."""
    return tuple(argument_text(text, "the text of --stop") for text in texts)


def _record(kind: type[Record], params: Mapping[str, Any]) -> Record:
    names = [field.name for field in fields(kind)]
    return kind(**{name: params[name] for name in names if params.get(name) is not None})


def _option(default: object, *declarations: str, text: str, **attributes: Any) -> Decorator:
    """Return an option that is None if not given, with the default of its record in its help."""
    return click.option(*declarations, default=None, help=f"{text}  [default: {default}]", **attributes)


def _number(default: object, *declarations: str, text: str, metavar: str = "N") -> Decorator:
    return _option(default, *declarations, text=text, type=int, metavar=metavar)


def _options(*decorators: Decorator) -> Decorator:
    """Return one decorator for several options, shown in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate
