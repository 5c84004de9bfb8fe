"""Ask fifty questions under JSON schemas, with drafting on, and parse every answer.

    python benchmarks/json_answers.py [-m MODEL]... [--limit N] [--max-tokens N] > json-answers.json

Five schemas in turn, with bounds on texts and lists: a small model may fill an unbounded text for ever, and an answer
that is cut off is no JSON. Drawn at temperature 0.8 every second time. Ends with status 1 if an answer does not parse
or is not what its schema describes.
"""

import argparse
import json
import sys
from itertools import cycle

from recycle_cpp import GenerateOptions, LoadOptions, Runtime, SamplingOptions, schema_grammar

THINGS = (
    *("a cat", "the moon", "a loaf of bread", "Paris", "a violin", "rain", "a lighthouse", "football", "a tax form"),
    *("an octopus", "the number pi", "a bicycle", "winter", "a chess game", "coffee", "a library", "the Nile", "gold"),
    *("a grandmother", "a database", "a volcano", "Esperanto", "a train ticket", "the colour blue", "a dream", "salt"),
    *("a hospital", "a paper plane", "Mozart", "an umbrella", "a beehive", "democracy", "a keyboard", "the Alps"),
    *("a sandwich", "a robot", "a wedding", "the year 1969", "a mirror", "a snowflake", "a market", "a compiler"),
    *("a garden", "Tokyo", "an apple", "a poem", "a bridge", "a secret", "a clock", "a fox"),
)
TEXT = {"type": "string", "maxLength": 60}
SCHEMAS: tuple[dict[str, object], ...] = (
    {
        "type": "object",
        "properties": {"name": TEXT, "weight": {"type": "number"}, "alive": {"type": "boolean"}},
        "required": ["name", "weight", "alive"],
    },
    {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 4},
    {
        "type": "object",
        "properties": {"kind": {"enum": ["animal", "thing", "place", "idea"]}, "why": TEXT},
        "required": ["kind", "why"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {
            "title": TEXT,
            "parts": {
                "type": "array",
                "maxItems": 3,
                "items": {
                    "type": "object",
                    "properties": {"part": TEXT, "count": {"type": "integer"}},
                    "required": ["part"],
                },
            },
        },
        "required": ["title", "parts"],
    },
    {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"answer": TEXT}, "required": ["answer"]}]},
)


def fits(value: object, schema: dict[str, object]) -> bool:
    """Tell whether a value is what these schemas describe, as far as they go."""
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema["type"]
    if kind == "object":
        members = schema["properties"]
        whole = isinstance(value, dict) and set(schema["required"]) <= value.keys() <= members.keys()
        return whole and all(fits(value[name], members[name]) for name in value)
    if kind == "array":
        sized = isinstance(value, list) and schema.get("minItems", 0) <= len(value) <= schema["maxItems"]
        return sized and all(fits(item, schema["items"]) for item in value)
    if kind == "string":
        return isinstance(value, str) and len(value) <= schema["maxLength"]
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "null":
        return value is None
    return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)


def ask(runtime: Runtime, limit: int, max_tokens: int) -> dict[str, object]:
    grammars = [schema_grammar(schema) for schema in SCHEMAS]
    wrong: list[dict[str, str]] = []
    accepted = drafted = emitted = 0
    for number, (thing, (schema, grammar)) in enumerate(
        zip(THINGS[:limit], cycle(zip(SCHEMAS, grammars, strict=True)), strict=False)
    ):
        sampling = SamplingOptions(temperature=0.8 if number % 2 else 0.0, seed=number)
        options = GenerateOptions(max_tokens=max_tokens, grammar=grammar, sampling=sampling, exact=False)
        answer = runtime.generate(f"Describe {thing} as JSON.", options)
        accepted += answer.timings.draft_n_accepted
        drafted += answer.timings.draft_n
        emitted += answer.timings.predicted_n
        try:
            value = json.loads(answer.text)
        except ValueError as error:
            wrong.append({"thing": thing, "text": answer.text, "why": str(error), "reason": answer.finish_reason})
        else:
            if not fits(value, schema):
                wrong.append({"thing": thing, "text": answer.text, "why": "not what the schema describes"})
    asked = len(THINGS[:limit])
    counts = {"asked": asked, "right": asked - len(wrong), "tokens": emitted, "drafted": drafted, "accepted": accepted}
    return {**counts, "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", action="append")
    parser.add_argument("--limit", type=int, default=len(THINGS))
    parser.add_argument("--max-tokens", type=int, default=400)
    arguments = parser.parse_args()
    found = {}
    for model in arguments.model or ["smollm2-135m"]:
        with Runtime.load(model, LoadOptions(n_ctx=1024, learned=False)) as runtime:
            found[model] = ask(runtime, arguments.limit, arguments.max_tokens)
            print(
                model, {name: found[model][name] for name in ("asked", "right", "tokens", "accepted")}, file=sys.stderr
            )
    json.dump(found, sys.stdout, indent=1)
    print()
    sys.exit(any(result["wrong"] for result in found.values()))


if __name__ == "__main__":
    main()
