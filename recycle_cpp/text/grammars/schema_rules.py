"""JSON schemas to grammar rules, by the library's converter, with what it gets wrong put right.

This file imports llama_cpp as it is loaded; import it where it is needed.
"""

from __future__ import annotations

import json
from typing import Any

from llama_cpp.llama_grammar import PRIMITIVE_RULES, SchemaConverter

from recycle_cpp.errors import UsageError
from recycle_cpp.text.grammars.patterns import MOST_TIMES, pattern_rule

# The library's own lets raw line feeds into strings, which no JSON parser takes.
_CHAR = r'[^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])'


class SchemaRules(SchemaConverter):  # type: ignore[misc]  # the library has no types
    """Collects the rules of one grammar, of any number of schemas.

    Changed of the library's converter: characters of strings are what JSON allows, constants and names of properties
    are escaped, counts become llama.cpp's `{m,n}` instead of brackets within brackets, patterns are translated by
    `pattern_rule`. White space is its own: one space at most, at each place where some may be, so that no model can
    go on with line feeds for ever.
    """

    def __init__(self) -> None:
        super().__init__(prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False)

    def add(self, schema: dict[str, Any], refs: dict[str, dict[str, Any]], name: str) -> str:
        """Add the rules of a schema that SchemaReader has read; return the name of its first one."""
        self._refs.update(refs)
        return str(self.visit(schema, name))

    def rule(self, name: str, text: str) -> str:
        """Add a rule; return its name, which has a number where it was taken."""
        return str(self._add_rule(name, text))

    def literal(self, text: str) -> str:
        """Return a text as rules write it."""
        for raw, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
            text = text.replace(raw, escaped)
        return f'"{text}"'

    def text(self) -> str:
        """Return all rules as GBNF."""
        return str(self.format_grammar())

    def visit(self, schema: dict[str, Any], name: str) -> str:
        """Add the rules of a schema; return the name of its first one."""
        kind = schema.get("type")
        if kind == "string" and "pattern" in schema:
            return self.rule(self._free(name), f'"\\"" {pattern_rule(schema["pattern"])} "\\"" space')
        if kind == "string" and ("minLength" in schema or "maxLength" in schema):
            times = self._times(schema.get("minLength", 0), schema.get("maxLength"))
            return self.rule(self._free(name), f'"\\"" {self._primitive("char")}{times} "\\"" space')
        if kind == "array" and ("minItems" in schema or "maxItems" in schema) and "prefixItems" not in schema:
            return self._visit_counted(schema, name)
        return str(super().visit(schema, name))

    def _visit_counted(self, schema: dict[str, Any], name: str) -> str:
        items = schema.get("items")
        item = self._primitive("value") if items is None else self.visit(items, f"{name}-item" if name else "item")
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most == 0:
            return self.rule(self._free(name), '"[" space "]" space')
        rest = self._times(max(0, least - 1), None if most is None else most - 1)
        inside = f'{item} ("," space {item}){rest}'
        return self.rule(self._free(name), f'"[" space {inside if least else f"({inside})?"} "]" space')

    def _times(self, least: int, most: int | None) -> str:
        if least > MOST_TIMES:
            raise UsageError(f"the schema asks for at least {least} of something: llama.cpp counts to {MOST_TIMES}")
        if most is not None and most < least:
            raise UsageError(
                f"the schema asks for at least {least} and at most {most} of something: change one of them"
            )
        return f"{{{least},{'' if most is None or most > MOST_TIMES else most}}}"

    def _primitive(self, name: str) -> str:
        return str(self._add_primitive(name, PRIMITIVE_RULES[name]))

    def _free(self, name: str) -> str:
        """Return the name of a rule that is none of the library's own."""
        return f"{name}-" if name in PRIMITIVE_RULES else name or "root"

    def _add_rule(self, name: str, rule: str) -> str:
        return str(super()._add_rule(name, _CHAR if name == "char" else rule))

    def _format_literal(self, literal: str) -> str:
        """Return JSON that the library has made as rules write it: readable letters stay as they are."""
        return self.literal(json.dumps(json.loads(literal), ensure_ascii=False))
