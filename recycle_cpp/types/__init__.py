"""Frozen records that several rooms share. Terms as in docs/structure.md."""

from typing import TYPE_CHECKING

from recycle_cpp.types.answers import Chunk, Completion, FinishReason, Timings, TokenLogprobs, Usage
from recycle_cpp.types.chat import ChatChunk, ChatCompletion, Message, Tool, ToolCall
from recycle_cpp.types.options import (
    CacheType,
    ChatOptions,
    DraftMode,
    FlashAttention,
    GenerateOptions,
    LoadOptions,
    LogitsProcessor,
    StopTest,
)
from recycle_cpp.types.sampling import SAMPLERS, Grammar, SamplerName, SamplingOptions
from recycle_cpp.types.steps import DraftTree, PhaseTimes, Step
from recycle_cpp.types.vocabulary import Vocabulary

if TYPE_CHECKING:
    from recycle_cpp.types.arrays import FloatArray, IntArray

__all__ = [
    "SAMPLERS",
    "CacheType",
    "ChatChunk",
    "ChatCompletion",
    "ChatOptions",
    "Chunk",
    "Completion",
    "DraftMode",
    "DraftTree",
    "FinishReason",
    "FlashAttention",
    "FloatArray",
    "GenerateOptions",
    "Grammar",
    "IntArray",
    "LoadOptions",
    "LogitsProcessor",
    "Message",
    "PhaseTimes",
    "SamplerName",
    "SamplingOptions",
    "Step",
    "StopTest",
    "Timings",
    "TokenLogprobs",
    "Tool",
    "ToolCall",
    "Usage",
    "Vocabulary",
]
