"""Grammars for JSON, for what a JSON schema describes, and for tool calls."""

from recycle_cpp.text.grammars.json_schema import json_grammar, schema_grammar
from recycle_cpp.text.grammars.tool_calls import tool_grammar

__all__ = ["json_grammar", "schema_grammar", "tool_grammar"]
