"""Text in, chunks out: what the command line, the server and the benchmarks call."""

from recycle_cpp.runtime.asynchronous import AsyncRuntime
from recycle_cpp.runtime.model import Runtime
from recycle_cpp.text.grammars import json_grammar, schema_grammar
from recycle_cpp.text.openai_messages import messages_from, tools_from

__all__ = [
    "AsyncRuntime",
    "Runtime",
    "json_grammar",
    "messages_from",
    "schema_grammar",
    "tools_from",
]
