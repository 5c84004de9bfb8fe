"""Options that say what an answer may look like, and the grammar made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recycle_cpp.cli.sections import Section, together
from recycle_cpp.cli.text_input import argument_text, file_text
from recycle_cpp.errors import UsageError
from recycle_cpp.types import Grammar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECTION = Section("Form of the answer, one of these at most")
OPTIONS = {
    "grammar": "--grammar",
    "grammar_file": "--grammar-file",
    "json_schema": "--json-schema",
    "json_schema_file": "--json-schema-file",
    "json_object": "--json-object",
}


def grammar_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of an answer's form; read them with `grammar_from`."""
    return together(
        SECTION.option(None, "--grammar", metavar="TEXT", text="What the answer may be, as GBNF rules."),
        SECTION.option(None, "--grammar-file", metavar="FILE", text="Read the rules from a file."),
        SECTION.option(None, "-j", "--json-schema", metavar="TEXT", text="JSON that follows this JSON schema."),
        SECTION.option(None, "--json-schema-file", metavar="FILE", text="Read the schema from a file."),
        SECTION.flag("--json-object", text="Any JSON object."),
    )(command)


def grammar_from(params: Mapping[str, Any]) -> Grammar | None:
    """Return what the answer may be, or None for anything.

    Raises:
        UsageError: if two options say it, a file cannot be read, or a schema cannot be used.
    """
    given = [option for name, option in OPTIONS.items() if params.get(name) not in (None, False)]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} both say what the answer may be: give one of them")
    if not given:
        return None
    if params["grammar"] is not None:
        return Grammar(argument_text(params["grammar"], "the text of --grammar"))
    if params["grammar_file"] is not None:
        return Grammar(file_text(params["grammar_file"], "grammar file", "--grammar-file"))
    from recycle_cpp.runtime import json_grammar, schema_grammar

    if params["json_object"]:
        return json_grammar()
    source, text = _schema(params)
    try:
        return schema_grammar(text)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from error


def _schema(params: Mapping[str, Any]) -> tuple[str, str]:
    """Return where the schema comes from, and its text."""
    file = params["json_schema_file"]
    if file is not None:
        return file, file_text(file, "schema file", "--json-schema-file")
    return "--json-schema", argument_text(params["json_schema"], "the text of --json-schema")
