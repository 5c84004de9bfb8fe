"""What a caller asks for: of a model as it is loaded, and of one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from recycle_cpp.types.chat import Tool
from recycle_cpp.types.checks import is_name, is_whole, require, require_flags
from recycle_cpp.types.sampling import Grammar, SamplingOptions

if TYPE_CHECKING:
    from recycle_cpp.types.arrays import FloatArray, IntArray

DraftMode = Literal["auto", "tree", "chain", "off"]
FlashAttention = Literal["auto", "on", "off"]
CacheType = Literal["f32", "f16", "q8_0", "q4_0"]
LogitsProcessor = Callable[["IntArray", "FloatArray"], "FloatArray"]
StopTest = Callable[["IntArray", "FloatArray"], bool]
MOST_LOGPROBS = 128


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """What one request asks for.

    Attributes:
        max_tokens: emit at most this many; None goes on to the end of the context.
        sampling: how tokens are chosen.
        stop: strings that end the text; none of their bytes is delivered.
        grammar: what the text may be; None is anything.
        logprobs: report the log probability of every token, and of this many of the likeliest at its place; None
            reports none.
        context_shift: where the context is full, drop the older half of it and go on, instead of ending there.
        n_keep: tokens at the prompt's beginning that a shift never drops.
        logits_processors: called before sampling, in order, with int32[n] tokens so far and float32[n_vocab] logits;
            each returns the logits to go on with.
        stop_tests: called where a token is about to be emitted, with the same two; True ends the answer before it.
        draft: "auto" drafts at each step the tree, of whatever size, that promises most tokens per second by what was
            measured here; "tree" is the paper's static tree, "chain" a short chain, "off" plain decoding.
        exact: draft only what leaves the output byte-identical to plain decoding of this prompt in an empty cache. None
            does so where a seed is given for draws, which would not repeat otherwise: wider evaluations round.
        raw: pass the prompt as it is, without the model's chat template.
    """

    max_tokens: int | None = None
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    stop: tuple[str, ...] = ()
    grammar: Grammar | None = None
    logprobs: int | None = None
    context_shift: bool = False
    n_keep: int = 0
    logits_processors: tuple[LogitsProcessor, ...] = ()
    stop_tests: tuple[StopTest, ...] = ()
    draft: DraftMode = "auto"
    exact: bool | None = None
    raw: bool = False

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UsageError: if a value is out of its range.
        """
        whole = self.max_tokens is None or is_whole(self.max_tokens, 1)
        require(whole, self, "max_tokens", "a whole number from 1 up")
        strings = isinstance(self.stop, tuple) and all(isinstance(stop, str) and stop for stop in self.stop)
        require(strings, self, "stop", "a tuple of strings that are not empty")
        require(isinstance(self.sampling, SamplingOptions), self, "sampling", "SamplingOptions")
        require(self.grammar is None or isinstance(self.grammar, Grammar), self, "grammar", "a Grammar")
        wanted = self.logprobs is None or (is_whole(self.logprobs, 0) and self.logprobs <= MOST_LOGPROBS)
        require(wanted, self, "logprobs", f"a whole number from 0 to {MOST_LOGPROBS}")
        require(is_whole(self.n_keep, 0), self, "n_keep", "a whole number from 0 up")
        for name in ("logits_processors", "stop_tests"):
            functions = getattr(self, name)
            callables = isinstance(functions, tuple) and all(callable(function) for function in functions)
            require(callables, self, name, "a tuple of functions")
        modes = get_args(DraftMode)
        require(is_name(self.draft, modes), self, "draft", f"one of {', '.join(modes)}")
        require(self.exact is None or isinstance(self.exact, bool), self, "exact", "True, False or None")
        require_flags(self, "context_shift", "raw")

    @property
    def is_exact(self) -> bool:
        """Whether the answer is to depend on prompt and settings alone: as asked for, or so that a seed repeats it."""
        if self.exact is not None:
            return self.exact
        return self.sampling.draws and self.sampling.seed is not None


@dataclass(frozen=True, slots=True)
class ChatOptions(GenerateOptions):
    """What one request of a chat asks for, beside all that any request may.

    Attributes:
        tools: functions that the model may ask to be called.
        tool_choice: "auto" lets it choose, "none" shows it no tools, "required" makes it call one; a tool's name makes
            it call that one.
        continue_last: go on with the last message, an assistant's, instead of answering it.
        template_values: what else the model's chat template is to see, such as `enable_thinking`.
    """

    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    continue_last: bool = False
    template_values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UsageError: if a value is out of its range.
        """
        GenerateOptions.__post_init__(self)  # super() does not work in a dataclass with slots
        tools = isinstance(self.tools, tuple) and all(isinstance(tool, Tool) for tool in self.tools)
        require(tools, self, "tools", "a tuple of Tool")
        for tool in self.tools:
            _check_tool(tool)
        names = [tool.name for tool in self.tools]
        known = is_name(self.tool_choice, ("auto", "none", "required", *names))
        require(known, self, "tool_choice", f"auto, none, required or one of {', '.join(names) or 'the tools (none)'}")
        callable_at_all = self.tool_choice != "required" or bool(self.tools)
        require(callable_at_all, self, "tool_choice", "tools, too")
        require(isinstance(self.template_values, Mapping), self, "template_values", "a dict of names and values")
        require_flags(self, "continue_last")


def _check_tool(tool: Tool) -> None:
    """Check a tool's fields, which a named tuple does not.

    Raises:
        UsageError: if a value cannot be used.
    """
    require(isinstance(tool.name, str) and bool(tool.name), tool, "name", "the tool's name, a text")
    require(isinstance(tool.description, str), tool, "description", "what the tool is for, a text")
    require(isinstance(tool.parameters, Mapping), tool, "parameters", "a JSON schema, an object")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model is loaded. None means: measured or taken from the model.

    Attributes:
        n_ctx: tokens that the context holds; 0 takes the trained length, None that, but at most 4096.
        n_batch: rows of one evaluation at most; prompts go through in chunks of this size.
        n_threads: threads for single rows; None measures how many are fastest here.
        n_gpu_layers: layers on the GPU; -1 all, 0 none.
        flash_attention: "auto" measures which is faster here and keeps the answer on disk.
        type_k: element type of the cache's keys.
        type_v: element type of the cache's values.
        n_threads_batch: threads for wider batches; None takes n_threads if that is given, else measures.
        verbose: let llama.cpp's own log through to standard error.
        learned: start from what drafting learned of this model in earlier runs, and keep what it learns now. The file
            holds tokens of prompts and answers; only the user can read it.
    """

    n_ctx: int | None = None
    n_batch: int = 512
    n_threads: int | None = None
    n_gpu_layers: int = -1
    flash_attention: FlashAttention = "auto"
    type_k: CacheType = "f16"
    type_v: CacheType = "f16"
    n_threads_batch: int | None = None
    verbose: bool = False
    learned: bool = True

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UsageError: if a value is out of its range.
        """
        require(self.n_ctx is None or is_whole(self.n_ctx, 0), self, "n_ctx", "a whole number from 0 up")
        require(is_whole(self.n_batch, 1), self, "n_batch", "a whole number from 1 up")
        for name in ("n_threads", "n_threads_batch"):
            threads = getattr(self, name)
            require(threads is None or is_whole(threads, 1), self, name, "a whole number from 1 up")
        require(is_whole(self.n_gpu_layers, -1), self, "n_gpu_layers", "-1 or a whole number from 0 up")
        require(is_name(self.flash_attention, ("auto", "on", "off")), self, "flash_attention", "auto, on or off")
        for name in ("type_k", "type_v"):
            types = get_args(CacheType)
            require(is_name(getattr(self, name), types), self, name, f"one of {', '.join(types)}")
        require_flags(self, "verbose", "learned")
