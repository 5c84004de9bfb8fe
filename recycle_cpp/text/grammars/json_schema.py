"""Grammars of JSON, and of what a JSON schema describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from recycle_cpp.errors import RecycleError, UsageError
from recycle_cpp.text.grammars.schemas import SchemaReader
from recycle_cpp.types import Grammar

if TYPE_CHECKING:
    from recycle_cpp.text.grammars.schema_rules import SchemaRules


def json_grammar() -> Grammar:
    """Return the grammar of any JSON object, as OpenAI's JSON mode has it."""
    return schema_grammar({"type": "object"})


def schema_grammar(schema: str | Mapping[str, Any]) -> Grammar:
    """Return the grammar of what a JSON schema describes.

    Properties come in the schema's own order. What rules cannot say (`minimum`, `uniqueItems`, formats other than
    dates, times and uuid, ...) is left to whoever checks the answer.

    Args:
        schema: JSON text, or the object that it stands for.

    Raises:
        UsageError: if it is no schema, or asks for what rules cannot say.
    """
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the JSON schema is not JSON: {error}") from None
    rules = new_rules()
    add_schema(rules, schema, "the JSON schema", "")
    return Grammar(rules.text())


def new_rules() -> SchemaRules:
    """Return the rules of a grammar that has none yet."""
    from recycle_cpp.text.grammars.schema_rules import SchemaRules  # loads llama_cpp

    return SchemaRules()


def add_schema(rules: SchemaRules, schema: object, place: str, name: str) -> str:
    """Add the rules of a schema.

    Args:
        rules: takes them.
        schema: what was given for one.
        place: what complaints call it.
        name: of its first rule, and what those of its parts begin with; empty for the root's.

    Returns:
        The name of its first rule, which has a number where it was taken.

    Raises:
        UsageError: if it is no schema, or the converter stumbles over it.
    """
    reader = SchemaReader(schema, place, name or "root")
    read = reader.read()
    try:
        return rules.add(read, reader.refs, name)
    except RecycleError:
        raise
    except Exception as error:  # it asserts, and stumbles over what it does not expect
        what = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{place} cannot be made a grammar: {what:.160}; make it simpler") from error
