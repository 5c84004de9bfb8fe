"""JSON schemas, made ready for the library's converter.

The converter answers a bad schema with any kind of exception, takes two `$ref`s with the same last word for one, and
loses what stands beside a list of types, beside `enum`, and in an `allOf` of one. So schemas are read here first:
every `$ref` gets a name of its own, and what it would lose is written in a way that it keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from recycle_cpp.errors import UsageError

Schema = dict[str, Any]

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_ANYTHING = ("object", "array", "string", "number", "boolean", "null")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
# What tells the type of values where a schema does not say it.
_TYPE_OF = {
    "object": ("properties", "additionalProperties", "required"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("pattern", "minLength", "maxLength", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}


class SchemaReader:
    """Reads one schema.

    Attributes:
        refs: what each `$ref` stands for, by the name that it got.
    """

    def __init__(self, root: object, place: str, prefix: str) -> None:
        """Take a schema, the name by which complaints call it, and what the names of its parts begin with."""
        self.refs: dict[str, Schema] = {}
        self._root = root
        self._place = place
        self._prefix = prefix
        self._names: dict[str, str] = {}

    def read(self) -> Schema:
        """Return the schema, ready to be converted.

        Raises:
            UsageError: names the part that cannot be used.
        """
        if self._root == {}:
            self._root = {"type": "object"}
        try:
            schema = self._read(self._root, self._place)
            if not self._ends(schema, frozenset()):
                raise self._error(
                    self._place, "describes values without end", "let the recursion be optional somewhere"
                )
            if any(self._loops({"$ref": name}, frozenset()) for name in self.refs):
                raise self._error(self._place, "has a reference that stands for itself", "take it out")
        except RecursionError:
            raise UsageError(f"{self._place} is nested too deeply: make it flatter") from None
        return schema

    def _read(self, given: object, place: str) -> Schema:
        if given is True:
            given = {}
        if not isinstance(given, Mapping):
            raise self._error(place, f"is {given!r:.40}", "give an object")
        if "$ref" in given:
            return {"$ref": self._named(given["$ref"], place)}
        schema = dict(given)
        self._check_values(schema, place)
        for key in _LISTS:
            if key in schema:
                schema[key] = self._read_all(schema[key], f"{place}.{key}")
        if "items" in schema:
            items = schema["items"]
            read = self._read_all if isinstance(items, list) else self._read
            schema["items"] = read(items, f"{place}.items")
        if "properties" in schema:
            schema["properties"] = self._read_properties(schema["properties"], f"{place}.properties")
        more = schema.get("additionalProperties")
        if isinstance(more, Mapping) or (more is True and "properties" in schema):
            schema["additionalProperties"] = self._read(more, f"{place}.additionalProperties")
        return self._with_type(schema, place)

    def _with_type(self, schema: Schema, place: str) -> Schema:
        """Return a schema whose type is said once, in a way that the converter sees."""
        if "anyOf" in schema or "oneOf" in schema:
            return schema
        if "const" in schema or "enum" in schema:
            return {key: schema[key] for key in ("const", "enum") if key in schema}
        if "allOf" in schema and "properties" not in schema:
            return self._joined(schema, place)
        kind = schema.get("type")
        if isinstance(kind, list):
            return {"anyOf": [{**schema, "type": one} for one in kind]}
        if kind is None:
            known = (one for one, keys in _TYPE_OF.items() if any(key in schema for key in keys))
            schema["type"] = next(known, None) or list(_ANYTHING)
        return schema

    def _joined(self, schema: Schema, place: str) -> Schema:
        parts = schema["allOf"]
        if len(parts) == 1:
            return dict(parts[0])
        for at, part in enumerate(parts):
            options = part.get("anyOf", [part])
            if not all("properties" in self.refs.get(option.get("$ref", ""), option) for option in options):
                raise self._error(f"{place}.allOf[{at}]", "has no properties", "allOf can join objects only")
        return {"allOf": parts}

    def _read_all(self, given: object, place: str) -> list[Schema]:
        if not isinstance(given, list) or not given:
            raise self._error(place, f"is {given!r:.40}", "give a list of schemas")
        return [self._read(one, f"{place}[{at}]") for at, one in enumerate(given)]

    def _read_properties(self, given: object, place: str) -> dict[str, Schema]:
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise self._error(place, f"is {given!r:.40}", "give an object of schemas")
        return {name: self._read(one, f"{place}.{name}") for name, one in given.items()}

    def _check_values(self, schema: Schema, place: str) -> None:
        """Check what the converter takes on trust."""
        kind = schema.get("type")
        kinds = kind if isinstance(kind, list) and kind else [kind]
        if kind is not None and not all(isinstance(one, str) and one in TYPES for one in kinds):
            raise self._error(f"{place}.type", f"is {kind!r:.40}", f"give one of {', '.join(TYPES)}")
        for key in _COUNTS:
            count = schema.get(key, 0)
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise self._error(f"{place}.{key}", f"is {count!r:.40}", "give a whole number from 0 up")
        if "enum" in schema and not (isinstance(schema["enum"], list) and schema["enum"]):
            raise self._error(f"{place}.enum", f"is {schema['enum']!r:.40}", "give a list of values")
        required = schema.get("required", [])
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            raise self._error(f"{place}.required", f"is {required!r:.40}", "give a list of names")
        for key in ("pattern", "format"):
            if not isinstance(schema.get(key, ""), str):
                raise self._error(f"{place}.{key}", f"is {schema[key]!r:.40}", "give a text")

    def _named(self, ref: object, place: str) -> str:
        """Return the name of what a reference stands for, which is read when it is first met."""
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
            raise self._error(f"{place}.$ref", f"is {ref!r:.80}", "only references into the schema itself are followed")
        if ref not in self._names:
            name = self._names[ref] = f"{self._prefix}-ref-{len(self._names)}"
            self.refs[name] = {}  # known from here on: it may refer to itself
            self.refs[name].update(self._read(self._find(ref, place), f"{self._place}{ref.removeprefix('#')}"))
        return self._names[ref]

    def _find(self, ref: str, place: str) -> object:
        found: Any = self._root
        for step in ref.split("/")[1:]:
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            else:
                raise self._error(f"{place}.$ref", f"is {ref!r:.80}", "there is nothing at that place in the schema")
        return found

    def _ends(self, schema: Schema, inside: frozenset[str]) -> bool:
        """Tell whether some value that the schema describes is finite."""
        if "$ref" in schema:
            ref = schema["$ref"]
            return ref not in inside and self._ends(self.refs[ref], inside | {ref})
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return any(self._ends(one, inside) for one in schema[key])
        parts = [*schema.get("allOf", []), *schema.get("prefixItems", [])]
        properties = schema.get("properties", {})
        parts += [one for name, one in properties.items() if name in schema.get("required", [])]
        items = schema.get("items", [])
        if isinstance(items, list):
            parts += items
        elif schema.get("minItems", 0) > 0:
            parts.append(items)
        return all(self._ends(part, inside) for part in parts)

    def _loops(self, schema: Schema, inside: frozenset[str]) -> bool:
        """Tell whether references lead back to where they began with nothing between, which no rules can follow."""
        if "$ref" in schema:
            ref = schema["$ref"]
            return ref in inside or self._loops(self.refs[ref], inside | {ref})
        ways = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
        return any(self._loops(way, inside) for way in ways)

    @staticmethod
    def _error(place: str, what: str, cure: str) -> UsageError:
        return UsageError(f"{place} {' '.join(what.split())}: {cure}")
