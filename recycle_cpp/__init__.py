"""recycle_cpp: run one GGUF model as fast as your machine can, losslessly.

Token Recycling (Luo et al., ACL 2025, arXiv 2408.08696) on llama.cpp.

    from recycle_cpp import Runtime

    with Runtime.load("smollm2-135m") as runtime:
        print(runtime.generate("Explain tides to a child.").text)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from recycle_cpp.errors import (
    BackendError,
    BusyError,
    CancelledError,
    DigestError,
    DownloadError,
    InstallError,
    ModelError,
    ModelFileError,
    ModelNotFoundError,
    PromptTooLongError,
    RecycleError,
    UsageError,
)
from recycle_cpp.types import (
    ChatChunk,
    ChatCompletion,
    ChatOptions,
    Chunk,
    Completion,
    GenerateOptions,
    Grammar,
    LoadOptions,
    Message,
    SamplingOptions,
    Timings,
    TokenLogprobs,
    Tool,
    ToolCall,
    Usage,
)
from recycle_cpp.version import __version__

if TYPE_CHECKING:
    from recycle_cpp.drop_in import Llama
    from recycle_cpp.runtime import (
        AsyncRuntime,
        Runtime,
        json_grammar,
        messages_from,
        schema_grammar,
        tools_from,
    )

__all__ = [
    "AsyncRuntime",
    "BackendError",
    "BusyError",
    "CancelledError",
    "ChatChunk",
    "ChatCompletion",
    "ChatOptions",
    "Chunk",
    "Completion",
    "DigestError",
    "DownloadError",
    "GenerateOptions",
    "Grammar",
    "InstallError",
    "Llama",
    "LoadOptions",
    "Message",
    "ModelError",
    "ModelFileError",
    "ModelNotFoundError",
    "PromptTooLongError",
    "RecycleError",
    "Runtime",
    "SamplingOptions",
    "Timings",
    "TokenLogprobs",
    "Tool",
    "ToolCall",
    "Usage",
    "UsageError",
    "__version__",
    "json_grammar",
    "messages_from",
    "schema_grammar",
    "tools_from",
]

# What needs numba or llama.cpp is loaded when it is first asked for: the records alone cost nothing.
_LATE = {
    "AsyncRuntime": "recycle_cpp.runtime",
    "Llama": "recycle_cpp.drop_in",
    "Runtime": "recycle_cpp.runtime",
    "json_grammar": "recycle_cpp.runtime",
    "messages_from": "recycle_cpp.runtime",
    "schema_grammar": "recycle_cpp.runtime",
    "tools_from": "recycle_cpp.runtime",
}


def __getattr__(name: str) -> object:
    """Load a public name that is not loaded yet."""
    if name not in _LATE:
        raise AttributeError(f"module 'recycle_cpp' has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    """List the public names, those that are not loaded yet, too."""
    return __all__
