"""Grammars for JSON, schemas and tool calls, as llama.cpp reads them with a real vocabulary."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys

import pytest
from gbnf import LlamaGrammar
from hypothesis import given, settings
from hypothesis import strategies as st

from recycle_cpp.errors import UsageError
from recycle_cpp.text import families
from recycle_cpp.text.answers.parts import AnswerParts
from recycle_cpp.text.families import Family
from recycle_cpp.text.grammars import json_grammar, schema_grammar, tool_grammar
from recycle_cpp.text.grammars.patterns import pattern_rule
from recycle_cpp.types import Tool

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ['a"b\\', "é\n", 3, None]}, "maxItems": 2},
        "born": {"type": "string", "format": "date"},
    },
    "required": ["name", "age"],
}
TREE = {
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "v": {"type": "number"}}}},
    "type": "array",
    "items": {"$ref": "#/$defs/Node"},
    "minItems": 1,
}
WEATHER = Tool(
    "get_weather",
    "Tell the weather.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"$ref": "#/$defs/N"}},
        "required": ["city"],
        "$defs": {"N": {"type": "integer"}},
    },
)
TIME = Tool(
    "get_time", "", {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"enum": ["UTC"]}}}
)
PLAIN = Tool("ping")
THINKING = families.HERMES._replace(reasoning=families.THINK)


@pytest.fixture(scope="module")
def read(open_vocabulary):
    """Return llama.cpp's own reading of a grammar."""
    vocabulary = open_vocabulary("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")
    opened = []

    def read_text(text: str) -> LlamaGrammar:
        opened.append(LlamaGrammar(vocabulary, text))
        return opened[-1]

    yield read_text
    for grammar in opened:
        grammar.close()


def complaint(schema: object) -> str:
    with pytest.raises(UsageError) as error:
        schema_grammar(schema)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_json_mode_takes_every_object_and_nothing_else(read) -> None:
    grammar = read(json_grammar().text)
    whole = ["{}", '{ "a": [1, -2.5e-3, true, null, {"é": "\\u00e9 \\" 🦙 عربي 中"}], "b": {} }', '{"x":""}']
    assert [text for text in whole if not grammar.takes(text)] == []
    broken = ["[]", '"x"', "{", '{"a": 1,}', '{"a": "\n"}', "{'a': 1}", '{"a": 01}', "{} {}", '{"a": NaN}', "x{}"]
    assert [text for text in broken if grammar.takes(text)] == []


def test_random_texts_by_a_grammar_are_json(open_vocabulary) -> None:
    """Whatever a model prefers: strings of odd characters, escapes, halves of characters in single tokens."""
    properties = {
        "short": {"type": "string", "minLength": 2, "maxLength": 6},
        "odd": {"type": "string", "pattern": "^[^a-zA-Z0-9]{1,4}\\W.$"},
        "number": {"type": "number"},
        "choice": {"enum": ['"', "\\", "\n", "é", None]},
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    grammar = LlamaGrammar(open_vocabulary("smollm2-135m-instruct-q4_1.gguf"), schema_grammar(schema).text)
    rng = random.Random(0)
    for _ in range(6):
        text = grammar.walk(rng, 90)
        assert text is not None
        found = json.loads(text)
        assert list(found) == list(properties)
        assert 2 <= len(found["short"]) <= 6
        assert found["choice"] in properties["choice"]["enum"]
        assert re.search("^[^a-zA-Z0-9]{1,4}[^a-zA-Z0-9_].$", found["odd"], re.DOTALL)
    grammar.close()


def test_no_white_space_can_go_on_for_ever(read) -> None:
    grammar = read(json_grammar().text)
    assert grammar.takes('{ "a": 1 }')
    assert not any(grammar.takes(text) for text in ("{  }", "{\n\n}", '{"a":   1}', "\n{}", '{"a": "\t"}'))


def test_a_schema_takes_what_it_describes(read) -> None:
    grammar = read(schema_grammar(PERSON).text)
    assert grammar.takes('{"name": "Åsa 🦙", "age": 30}')
    assert grammar.takes('{"name": "A", "age": -3, "tags": ["a\\"b\\\\", "é\\n"], "born": "2026-02-28"}')
    for wrong in ('{"name": "A"}', '{"age": 3, "name": "A"}', '{"name": "", "age": 3}', '{"name": "A", "age": 3.5}'):
        assert not grammar.takes(wrong), wrong
    for wrong in ('"tags": [3, 3, 3]', '"tags": ["x"]', '"born": "2026-13-01"', '"more": 1'):
        assert not grammar.takes(f'{{"name": "A", "age": 3, {wrong}}}'), wrong
    assert not grammar.takes('{"name": "123456789abcd", "age": 3}')


def test_a_schema_may_be_json_text(read) -> None:
    assert schema_grammar(json.dumps(PERSON)) == schema_grammar(PERSON)


def test_a_recursive_schema_that_may_end_is_taken(read) -> None:
    grammar = read(schema_grammar(TREE).text)
    assert grammar.takes('[{"next": {"next": {"v": 1.5}}}, {}]')
    assert not grammar.takes("[]")


def test_a_schema_that_refers_to_its_own_root_is_taken(read) -> None:
    grammar = read(schema_grammar({"type": "object", "properties": {"in": {"$ref": "#"}}}).text)
    assert grammar.takes('{"in": {"in": {}}}')


def test_references_with_the_same_last_word_stay_apart(read) -> None:
    schema = {
        "type": "object",
        "properties": {"N": {"type": "object", "properties": {"x": {"$ref": "#/a/N"}}}, "y": {"$ref": "#/b/N"}},
        "a": {"N": {"type": "boolean"}},
        "b": {"N": {"type": "null"}},
        "required": ["N", "y"],
    }
    grammar = read(schema_grammar(schema).text)
    assert grammar.takes('{"N": {"x": true}, "y": null}')
    assert not grammar.takes('{"N": {"x": null}, "y": null}')
    assert not grammar.takes('{"N": {"x": true}, "y": true}')


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({}, "{}", "1"),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, '{"a": [1]}', '{"a": }'),
        ({"type": ["string", "null"], "maxLength": 2}, '"ab"', '"abc"'),
        ({"type": ["string", "null"], "enum": ["a", None]}, "null", '"b"'),
        ({"anyOf": [{"type": "integer"}, {"const": "x"}]}, '"x"', '"y"'),
        ({"allOf": [{"$ref": "#/$defs/E"}], "$defs": {"E": {"enum": ["x"]}}}, '"x"', "{}"),
        ({"properties": {"a": {"type": "null"}}}, '{"a": null}', "null"),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3}, "[1, 2, 3]", "[1, 2, 3, 4]"),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, "[1, 2]", "[1]"),
        ({"type": "array", "maxItems": 0}, "[]", "[1]"),
        ({"prefixItems": [{"type": "integer"}, {"type": "string"}]}, '[1, "x"]', "[1]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, '{"x": 1, "y": 2}', '{"x": "1"}'),
        ({"type": "object", "additionalProperties": True, "properties": {}}, '{"x": [1]}', "[1]"),
        ({"type": "string", "maxLength": 150}, json.dumps("x" * 150), json.dumps("x" * 151)),
        ({"type": "string", "maxLength": 100_000}, json.dumps("x" * 3000), "1"),
        ({"type": "string", "pattern": "^[a-z]{2}\\d+$"}, '"ab12"', '"ab"'),
    ],
)
def test_each_part_of_a_schema_counts(read, schema, right: str, wrong: str) -> None:
    grammar = read(schema_grammar(schema).text)
    assert grammar.takes(right)
    assert not grammar.takes(wrong)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("{not json", "the JSON schema is not JSON"),
        ("[" * 100_000, "the JSON schema is not JSON"),
        ([], "the JSON schema is []"),
        ("false", "the JSON schema is False"),
        ({"type": "thing"}, "the JSON schema.type is 'thing'"),
        ({"type": 3}, "the JSON schema.type is 3"),
        ({"type": ["string", 3]}, "the JSON schema.type is"),
        ({"type": []}, "the JSON schema.type is []"),
        ({"$ref": "#/$defs/No"}, "there is nothing at that place"),
        ({"$ref": "https://example.com/schema.json"}, "only references into the schema itself"),
        ({"$ref": 3}, "only references into the schema itself"),
        ({"properties": []}, "the JSON schema.properties is []"),
        ({"properties": {"a": 3}}, "the JSON schema.properties.a is 3"),
        ({"properties": {"a": False}}, "the JSON schema.properties.a is False"),
        ({"anyOf": []}, "the JSON schema.anyOf is []"),
        ({"enum": []}, "the JSON schema.enum is []"),
        ({"enum": [{1, 2}]}, "the JSON schema cannot be made a grammar"),
        ({"required": "a"}, "the JSON schema.required is 'a'"),
        ({"type": "string", "maxLength": -1}, "the JSON schema.maxLength is -1"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "at least 3 and at most 2"),
        ({"type": "string", "minLength": 3000}, "at least 3000"),
        ({"type": "string", "pattern": "("}, "is no regular expression"),
        ({"type": "string", "pattern": "^(?=a)$"}, "has assert"),
        ({"type": "string", "pattern": "^(a)\\1$"}, "has groupref"),
        ({"type": "string", "pattern": "(?i)a"}, "has flags"),
        ({"type": "string", "pattern": "a^b"}, "has an anchor in its middle"),
        ({"type": "string", "pattern": "^a|b"}, "anchored in some of its ways"),
        ({"type": "string", "pattern": 3}, "the JSON schema.pattern is 3"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "has no properties"),
        ({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "describes values without end"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}, "without end"),
        ({"$ref": "#"}, "without end"),
        ({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, "stands for itself"),
    ],
)
def test_a_schema_that_cannot_be_used_gives_one_line(schema: object, told: str) -> None:
    assert told in complaint(schema)


def test_a_schema_nested_too_deeply_gives_one_line() -> None:
    schema: dict = {"type": "null"}
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    assert "nested too deeply" in complaint(schema) or "cannot be made" in complaint(schema)


def test_nothing_is_fetched() -> None:
    code = """
import socket, sys
socket.socket.connect = lambda *_: sys.exit("the network was asked")
from recycle_cpp.errors import UsageError
from recycle_cpp.text.grammars import schema_grammar
try:
    schema_grammar({"$ref": "https://json.schemastore.org/package.json"})
except UsageError:
    sys.exit(0)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


PATTERNS = [
    ("^a+b*c?$", ["aab", "ac", "abbc"], ["b", "abcc"]),
    ("^(cat|dog)s$", ["cats", "dogs"], ["cat", "catdogs"]),
    ("^[A-Z]{2,3}-\\d{4}$", ["AB-1234", "ABC-0000"], ["A-1234", "AB-123"]),
    ("^\\w+@\\w+\\.(com|org)$", ["me_1@x.com"], ["me@x.net", "@x.com"]),
    ("^[^x]$", ["é", '"', "\\", "\n", "🦙"], ["x", ""]),
    ("^.*$", ["", 'say "no"', "C:\\x", "🦙 中"], ["a\nb"]),
    ("b", ["abc", "b"], ["ac"]),
    ("^a|^b", ["a", "bx"], ["xa"]),
    ("^a]}$", ["a]}"], ["a"]),
    ("^\\S+ \\D\\W$", ["a x-"], ["a 1-", "a xy"]),
    ('^"\\\\\\t$', ['"\\\t'], ['"']),
    ("^(?:ab)??x+?$", ["abxx", "x"], ["ab"]),
    ("^$", [""], ["a"]),
]


@pytest.mark.parametrize(("pattern", "right", "wrong"), PATTERNS)
def test_a_pattern_takes_the_strings_that_match_it_as_json(
    read, pattern: str, right: list[str], wrong: list[str]
) -> None:
    grammar = read(schema_grammar({"type": "string", "pattern": pattern}).text)
    for text in [*right, *wrong]:
        assert bool(re.search(pattern, text)) == (text in right), "the test itself is wrong"
        assert grammar.takes(json.dumps(text, ensure_ascii=False)) == (text in right), text


@given(st.text(alphabet="ab[](){}|.*+?^$\\d-x\"'/ 1,<>:=!", max_size=12))
@settings(max_examples=300)
def test_every_pattern_is_translated_or_refused(read, pattern: str) -> None:
    try:
        rule = pattern_rule(pattern)
    except UsageError as error:
        assert "\n" not in str(error)
        return
    read(f"root ::= {rule}")


LEAVES = [
    *({}, True, {"type": "string"}, {"type": "integer"}, {"const": '\\"\n'}, {"enum": [1, "x", None]}, {"$ref": "#"}),
    *({"type": "string", "minLength": 2}, {"type": ["null", "number"]}, {"$ref": "#/properties/a"}),
]
schemas = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.builds(lambda a, n: {"type": "array", "items": a, "minItems": n}, inner, st.integers(0, 3)),
        st.builds(lambda a, b, r: {"properties": {"a": a, "b-é": b}, "required": r}, inner, inner, st.just(["a"])),
        st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
        st.builds(lambda a: {"type": "object", "additionalProperties": a}, inner),
    ),
    max_leaves=8,
)


@given(schemas)
@settings(max_examples=200)
def test_llama_cpp_reads_the_grammar_of_every_schema_that_is_not_refused(read, schema: object) -> None:
    try:
        grammar = schema_grammar(schema)
    except UsageError as error:
        assert "\n" not in str(error)
        return
    read(grammar.text)


# How each family writes one call, and two.
ONE = '{"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}}'
TWO = '{"name": "get_time", "arguments": {"n": "UTC"}}'
FIRST, SECOND = '{"city": "Oslo", "days": 3}', '{"n": "UTC"}'
HERMES_ONE, HERMES_TWO = (f"<tool_call>\n{call}\n</tool_call>" for call in (ONE, TWO))
NAMED_ONE, NAMED_TWO = f"[TOOL_CALLS]get_weather[ARGS]{FIRST}", f"[TOOL_CALLS]get_time[ARGS]{SECOND}"
TAGGED_ONE, TAGGED_TWO = f"<function=get_weather>{FIRST}</function>", f"<function=get_time>{SECOND}</function>"
ACTION = ONE.replace('"name"', '"tool_name"').replace("arguments", "parameters")
DEEPSEEK = f"<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{FIRST}<｜tool▁call▁end｜>"
R1 = f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{FIRST}\n```<｜tool▁call▁end｜>"
COMMENTARY = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
WRITTEN = [
    (families.HERMES, HERMES_ONE, f"{HERMES_ONE}\n{HERMES_TWO}"),
    (families.MISTRAL, f"[TOOL_CALLS][{ONE}]", f"[TOOL_CALLS] [{ONE}, {TWO}]"),
    (families.MISTRAL, f'[TOOL_CALLS][{ONE[:-1]}, "id": "aB3dE6gH9"}}]', None),
    (families.MISTRAL_NAMED, NAMED_ONE, NAMED_ONE + NAMED_TWO),
    (families.LLAMA_3, ONE.replace("arguments", "parameters"), None),
    (families.FUNCTIONARY, TAGGED_ONE, TAGGED_ONE + TAGGED_TWO),
    (families.NEMOTRON, f"<TOOLCALL>[{ONE}]</TOOLCALL>", f"<TOOLCALL>[{ONE}, {TWO}]</TOOLCALL>"),
    (families.GRANITE_3, f"<|tool_call|>[{ONE}]", f"<|tool_call|>[{ONE}, {TWO}]"),
    (families.PHI_4, f"<|tool_call|>[{ONE}]<|/tool_call|>", f"<|tool_call|>[{ONE}, {TWO}]<|/tool_call|>"),
    (families.COMMAND_R7B, f"<|START_ACTION|>[{ACTION}]<|END_ACTION|>", None),
    (families.DEEPSEEK_V3_1, f"<｜tool▁calls▁begin｜>{DEEPSEEK}<｜tool▁calls▁end｜>", None),
    (families.DEEPSEEK_R1, f"<｜tool▁calls▁begin｜>{R1}<｜tool▁calls▁end｜>", None),
    (families.GPT_OSS, COMMENTARY + FIRST, None),
]


@pytest.mark.parametrize(("family", "one", "two"), WRITTEN)
def test_calls_are_written_in_the_familys_own_way_and_read_back(
    read, family: Family, one: str, two: str | None
) -> None:
    tools = (WEATHER, TIME, PLAIN)
    for choice in ("required", "auto"):
        grammar = read(tool_grammar(family, tools, choice).text)
        for text in filter(None, (one, two)):
            assert grammar.takes(text), text
            answer = AnswerParts(family, tools=tools)
            parts = [answer.push(text), answer.flush()]
            calls = [call for part in parts for call in part.tool_calls]
            assert "".join(part.content for part in parts) == ""
            assert [call.name for call in calls] == ["get_weather", "get_time"][: len(calls)]
            assert len(calls) == (1 if text == one else 2)
            assert json.loads(calls[0].arguments) == {"city": "Oslo", "days": 3}
        assert not grammar.takes(one.replace("get_weather", "get_whether"))
        assert not grammar.takes(one.replace('"city"', '"town"'))
        assert not grammar.takes("It is warm.")


@pytest.mark.parametrize(("family", "one", "two"), WRITTEN)
def test_a_named_tool_is_called_once_and_no_other_is(read, family: Family, one: str, two: str | None) -> None:
    grammar = read(tool_grammar(family, (WEATHER, TIME), "get_weather").text)
    assert grammar.takes(one)
    assert two is None or not grammar.takes(two)
    assert not read(tool_grammar(family, (WEATHER, TIME), "get_time").text).takes(one)


@pytest.mark.parametrize(("family", "one", "two"), WRITTEN)
def test_calls_of_free_choice_are_triggered_by_what_they_begin_with(family: Family, one: str, two) -> None:
    grammar = tool_grammar(family, (WEATHER, TIME), "auto")
    assert any(one.startswith(trigger) for trigger in grammar.triggers)
    assert not tool_grammar(family, (WEATHER, TIME), "required").is_lazy


def test_thinking_may_come_before_a_call_that_is_required(read) -> None:
    call = f"<tool_call>\n{ONE}\n</tool_call>"
    grammar = read(tool_grammar(THINKING, (WEATHER,), "required").text)
    assert grammar.takes(call)
    assert grammar.takes(f"<think>\nIs 1 < 2? </thin </ </think>\n\n{call}")
    assert not grammar.takes(f"<think>a</think>b</think>{call}")
    assert not grammar.takes(f"<think>{call}")
    inside = read(tool_grammar(THINKING, (WEATHER,), "required", in_reasoning=True).text)
    assert inside.takes(f"Hm, 🦙.\n</think>\n\n{call}")
    assert not inside.takes(call)


def test_where_nothing_is_to_be_forced_there_is_no_grammar() -> None:
    assert tool_grammar(families.HERMES, (), "auto") is None
    assert tool_grammar(families.HERMES, (WEATHER,), "none") is None
    assert tool_grammar(Family(), (WEATHER,), "auto") is None


def test_calls_that_cannot_be_forced_give_one_line() -> None:
    for family, choice, told in (
        (Family(), "required", "way to call tools is not known"),
        (families.HERMES, "other", "tool_choice is 'other'"),
    ):
        with pytest.raises(UsageError, match=told):
            tool_grammar(family, (WEATHER,), choice)
    with pytest.raises(UsageError, match=r"the parameters of tool 'f'\.type is 'thing'"):
        tool_grammar(families.HERMES, (Tool("f", "", {"type": "thing"}),), "auto")
