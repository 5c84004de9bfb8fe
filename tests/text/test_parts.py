"""Answers as real models write them, told apart at every cut."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recycle_cpp.text import families
from recycle_cpp.text.answers.parts import AnswerParts, Parts
from recycle_cpp.text.families import Family, family_of
from recycle_cpp.types import Tool, ToolCall

TOOLS = (Tool("get_weather"), Tool("get_time"))
OSLO = '{"city": "Oslo"}'
HERMES_CALL = f'<tool_call>\n{{"name": "get_weather", "arguments": {OSLO}}}\n</tool_call>'
QWEN3 = families.HERMES._replace(reasoning=families.THINK)
MAGISTRAL = families.MISTRAL_NAMED._replace(reasoning=families.Reasoning("[THINK]", "[/THINK]"))
GRANITE = families.GRANITE_3._replace(reasoning=families.THINK)
DEEPSEEK_CALL = f"<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{OSLO}<｜tool▁call▁end｜>"
R1_CALL = f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{OSLO}\n```<｜tool▁call▁end｜>"

# family, answer, content, thinking, (name, arguments) of each call
ANSWERS = [
    (Family(), "plain <think> text </think> <tool_call>", "plain <think> text </think> <tool_call>", "", []),
    (QWEN3, "<think>\nHm, Oslo.\n</think>\n\nIt is 12°.", "It is 12°.", "Hm, Oslo.", []),
    (QWEN3, "<think>\n\n</think>\n\n🦙", "🦙", "", []),
    (QWEN3, "\n<think>endless", "", "endless", []),
    (QWEN3, "The mark <think> opens, </think> closes.", "The mark <think> opens, </think> closes.", "", []),
    (QWEN3, f"<think>\nLook.\n</think>\n\n{HERMES_CALL}", "", "Look.", [("get_weather", OSLO)]),
    (QWEN3, f"  Let me look.\n\n{HERMES_CALL}\n", "  Let me look.", "", [("get_weather", OSLO)]),
    (families.HERMES, f"{HERMES_CALL}\n{HERMES_CALL}", "", "", [("get_weather", OSLO)] * 2),
    (
        families.HERMES,
        '<tool_call>{"arguments": {"city": "</tool_call> \\" {"}, "name": "get_weather"}</tool_call> done',
        "done",
        "",
        [("get_weather", '{"city": "</tool_call> \\" {"}')],
    ),
    (families.HERMES, '<tool_call>\n{"name": "get_time"}\n</tool_call>', "", "", [("get_time", "{}")]),
    (families.HERMES, '<tool_call>\n{"name": "unheard_of", "arguments": {}}', "", "", [("unheard_of", "{}")]),
    (
        families.HERMES,
        '<tool_call>{"type": "function", "function": {"name": "get_time", "arguments": "{\\"zone\\": 1}"}}</tool_call>',
        "",
        "",
        [("get_time", '{"zone": 1}')],
    ),
    (families.HERMES, '<tool_call>{"name": "f", "arguments": {"a": 1}}}</tool_call>', "}", "", [("f", '{"a": 1}')]),
    # As Qwen2.5-Coder 0.5B writes it, and what else small models make of the marks.
    (families.HERMES, f'{{"name": "get_weather", "arguments": {OSLO}}}', "", "", [("get_weather", OSLO)]),
    (families.HERMES, f'Sure:\n```json\n{{"name": "get_weather", "arguments": {OSLO}}}\n```\nOk?', "Sure:\nOk?", "",
     [("get_weather", OSLO)]),
    (families.HERMES, f'<tools>\n{{"name": "get_weather", "arguments": {OSLO}}}\n</tools>', "", "",
     [("get_weather", OSLO)]),
    (families.MISTRAL, '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Oslo"}, "id": "aB3dE6gH9"}]',
     "", "", [("get_weather", OSLO)]),
    (families.MISTRAL, '[TOOL_CALLS][{"name": "a", "arguments": {}}, {"name": "b", "arguments": {"x": [1, 2]}}]',
     "", "", [("a", "{}"), ("b", '{"x": [1, 2]}')]),
    (families.MISTRAL_NAMED, f"[TOOL_CALLS]get_weather[ARGS]{OSLO}", "", "", [("get_weather", OSLO)]),
    (families.MISTRAL_NAMED, f"Yes.[TOOL_CALLS]a[CALL_ID]bbbbbbbbb[ARGS]{OSLO}[TOOL_CALLS]c{{}}", "Yes.", "",
     [("a", OSLO), ("c", "{}")]),
    (MAGISTRAL, f"[THINK]Hm.[/THINK][TOOL_CALLS]get_weather[ARGS]{OSLO}", "", "Hm.", [("get_weather", OSLO)]),
    (families.LLAMA_3, f'{{"name": "get_weather", "parameters": {OSLO}}}', "", "", [("get_weather", OSLO)]),
    (families.LLAMA_3, f'\n{{"type": "function", "function": "get_weather", "parameters": {OSLO}}}', "", "",
     [("get_weather", OSLO)]),
    (families.LLAMA_3, f'<|python_tag|>{{"name": "get_weather", "parameters": {OSLO}}}', "", "",
     [("get_weather", OSLO)]),
    (families.LLAMA_3, '{"name": "Bob", "parameters": {}}', '{"name": "Bob", "parameters": {}}', "", []),
    (families.LLAMA_3, '{"name": "get_time"}', '{"name": "get_time"}', "", []),
    (families.LLAMA_3, f'So: {{"name": "get_weather", "parameters": {OSLO}}}',
     f'So: {{"name": "get_weather", "parameters": {OSLO}}}', "", []),
    (families.FUNCTIONARY, f"<function=get_weather>{OSLO}</function>", "", "", [("get_weather", OSLO)]),
    (families.NEMOTRON, f'<TOOLCALL>[{{"name": "a", "arguments": {OSLO}}}]</TOOLCALL>', "", "", [("a", OSLO)]),
    (GRANITE, "<think>Hm.</think><response>Yes.</response>", "Yes.", "Hm.", []),
    (GRANITE, f'<|tool_call|>[{{"name": "a", "arguments": {OSLO}}}]', "", "", [("a", OSLO)]),
    (families.DEEPSEEK_V3_1, f"</think>Ok<｜tool▁calls▁begin｜>{DEEPSEEK_CALL}{DEEPSEEK_CALL}<｜tool▁calls▁end｜>",
     "</think>Ok", "", [("get_weather", OSLO)] * 2),
    (families.DEEPSEEK_R1, f"<think>\nHm.\n</think>\n\n<｜tool▁calls▁begin｜>{R1_CALL}\n{R1_CALL}<｜tool▁calls▁end｜>",
     "", "Hm.", [("get_weather", OSLO)] * 2),
    (families.COMMAND_R7B,
     '<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "a", '
     '"parameters": {"x": 1}}\n]<|END_ACTION|>', "", "Hm.", [("a", '{"x": 1}')]),
    (families.COMMAND_R7B, "<|START_RESPONSE|>Yes.<|END_RESPONSE|>", "Yes.", "", []),
    (families.GPT_OSS, "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
     "Yes.", "Hm.", []),
    (families.GPT_OSS, "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
     f"to=functions.get_weather <|constrain|>json<|message|>{OSLO}", "", "Hm.", [("get_weather", OSLO)]),
    (families.GPT_OSS, f"<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.get_time"
     f"<|channel|>commentary json<|message|>{OSLO}", "I look.", "", [("get_time", OSLO)]),
]  # fmt: skip

# What begins like a call and is none comes back as it was.
NO_CALLS = [
    (families.HERMES, '<tool_call>\n{"name": "f", "arguments": {"a": 1}\n</tool_call> sorry'),
    (families.HERMES, "Use <tool_call>, then </tool_call>."),
    (families.HERMES, "<tool_call>[1, 2]</tool_call>"),
    (families.HERMES, '<tool_call>{"name": "f", "arguments": 3}</tool_call>'),
    (families.HERMES, '<tool_call>{"name": 7, "arguments": {}}</tool_call>'),
    (families.HERMES, '<tool_call>{"nom": "f"}</tool_call> and'),
    (families.HERMES, "<tool_call>{bad: 1}</tool_call>"),
    (families.HERMES, '<tool_call>\n{"name": "f", "argu'),
    (families.HERMES, "a < b <tool <tool_cal"),
    (families.HERMES, "<tool_call>"),
    (families.HERMES, "<tool_call>" + '{"name": ' * 3 + "[" * 100_000),
    (families.HERMES, '```json\n{"name": "Bob", "arguments": {}}\n``` and ```py\nx = 1\n```'),
    (families.HERMES, '{"name": "get_time"} ```json\n{"name": "get_time"}\n``` <tools>[]</tools>'),
    (families.MISTRAL, "[TOOL_CALLS] the mark"),
    (families.MISTRAL_NAMED, "[TOOL_CALLS]" + "no name at all " * 20),
    (families.LLAMA_3, '{"name": "get_weather", "parameters": {"city": "Os'),
    (families.LLAMA_3, "{not json}"),
    (families.FUNCTIONARY, "<function=get weather>{}</function>"),
    (families.GPT_OSS, "mail to=functions.x or so"),
]


def told_apart(answer: AnswerParts, pieces: list[str]) -> Parts:
    parts = [answer.push(piece) for piece in pieces] + [answer.flush()]
    assert answer.flush() == Parts()
    calls = tuple(call for part in parts for call in part.tool_calls)
    return Parts("".join(part.content for part in parts), "".join(part.reasoning for part in parts), calls)


def begin(family: Family, **given) -> AnswerParts:
    return AnswerParts(family, tools=TOOLS, make_id=lambda written: written, **given)


def some_cuts(text: str) -> list[list[str]]:
    """Return the text whole, in characters, and cut at every place, or every two where that is not too much."""
    cuts = [[text], list(text), *([text[:at], text[at:]] for at in range(1, len(text)))]
    if len(text) < 60:
        cuts += [[text[a:b] for a, b in pairwise([0, *at, len(text)])] for at in combinations(range(1, len(text)), 2)]
    return cuts


@pytest.mark.parametrize(("family", "text", "content", "reasoning", "calls"), ANSWERS)
def test_the_parts_of_a_real_answer_are_told_apart_at_every_cut(family, text, content, reasoning, calls) -> None:
    for pieces in some_cuts(text):
        found = told_apart(begin(family), pieces)
        assert (found.content, found.reasoning) == (content, reasoning), pieces
        assert [(call.name, call.arguments) for call in found.tool_calls] == calls, pieces


@pytest.mark.parametrize(("family", "text"), NO_CALLS)
def test_what_turns_out_to_be_no_call_is_content_to_the_last_character(family: Family, text: str) -> None:
    for pieces in some_cuts(text) if len(text) < 1000 else [[text], list(text)]:
        assert told_apart(begin(family), pieces) == Parts(text), pieces


@pytest.mark.parametrize(("family", "text", "content", "reasoning", "calls"), ANSWERS)
def test_without_tools_nothing_is_a_call(family: Family, text: str, content, reasoning, calls) -> None:
    found = told_apart(AnswerParts(family), list(text))
    assert found.tool_calls == ()
    assert found.reasoning == reasoning
    if calls:
        assert json_of(text) in found.content


def json_of(text: str) -> str:
    return text[text.index("{") : text.rindex("}") + 1]


def test_thinking_that_the_prompt_has_opened_goes_on_until_its_closing_mark() -> None:
    for pieces in some_cuts("\nHm.\n</think>\n\nYes."):
        assert told_apart(begin(QWEN3, in_reasoning=True), pieces) == Parts("Yes.", "Hm.")


def test_a_text_that_goes_on_keeps_its_white_space_and_begins_neither_thinking_nor_a_bare_call() -> None:
    call = f'{{"name": "get_weather", "parameters": {OSLO}}}'
    assert told_apart(begin(families.LLAMA_3, continued=True), [" ", call]) == Parts(" " + call)
    assert told_apart(begin(QWEN3, continued=True), [" <think>x"]) == Parts(" <think>x")
    assert told_apart(begin(QWEN3, continued=True, in_reasoning=True), [" more</think> y"]) == Parts("y", " more")


def test_what_follows_a_call_is_parted_from_the_text_that_the_answer_went_on_with() -> None:
    call = f'<tool_call>{{"name": "get_weather", "arguments": {OSLO}}}</tool_call>'
    assert told_apart(begin(families.HERMES, continued=True), [call, "\n\nDone."]).content == "\n\nDone."
    assert told_apart(begin(families.HERMES), [call, "\n\nDone."]).content == "Done."


def test_text_is_held_back_only_while_it_may_be_a_mark() -> None:
    answer = begin(families.HERMES)
    shown = [
        answer.push(piece).content for piece in ("Hello", " ", "you ", "<to", "o", "l", "ed> ", "<tool_call", "ed")
    ]
    assert shown == ["Hello", "", " you", "", "", "", " <tooled>", "", " <tool_called"]


def test_braces_that_can_be_no_json_any_more_are_shown_at_once() -> None:
    answer = begin(families.LLAMA_3)
    assert [answer.push(piece).content for piece in ("{", "5, ", "so", " on")] == ["", "", "{5, so", " on"]


def test_a_call_is_handed_out_as_soon_as_its_mark_is_closed() -> None:
    answer = begin(families.HERMES)
    assert answer.push(HERMES_CALL[:-1]) == Parts()
    assert answer.push(HERMES_CALL[-1:]).tool_calls == (ToolCall("get_weather", OSLO, ""),)


def test_calls_get_ids_like_openais_and_short_ones_where_the_template_wants_these() -> None:
    calls = told_apart(AnswerParts(families.HERMES, tools=TOOLS), [HERMES_CALL, HERMES_CALL]).tool_calls
    assert all(re.fullmatch(r"call_[0-9a-f]{24}", call.id) for call in calls)
    assert calls[0].id != calls[1].id
    named = "[TOOL_CALLS]a[CALL_ID]{}[ARGS]{{}}"
    for written, kept in (("aB3dE6gH9", True), ("x1", False)):
        [call] = told_apart(AnswerParts(families.MISTRAL_NAMED, tools=TOOLS), [named.format(written)]).tool_calls
        assert re.fullmatch("[0-9A-Za-z]{9}", call.id)
        assert (call.id == written) == kept


ALL_FAMILIES = {name: value for name, value in vars(families).items() if isinstance(value, Family)}
fragments = st.sampled_from(
    [" ", "\n", "a", "中🦙", "{", "}", "[", "]", '"', "\\", OSLO, '{"name": "get_time", "arguments": {}}', "</", "<"]
    + [mark for family in [*ALL_FAMILIES.values(), QWEN3, MAGISTRAL] for mark in family.marks]
)


@given(
    st.sampled_from([*ALL_FAMILIES.values(), QWEN3, MAGISTRAL, GRANITE]), st.lists(fragments, max_size=12), st.data()
)
def test_any_text_at_any_cut_gives_the_same_parts(family: Family, words: list[str], data: st.DataObject) -> None:
    text = "".join(words)
    thinking = data.draw(st.booleans())
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[a:b] for a, b in pairwise([0, *places, len(text)])]
    whole = told_apart(begin(family, in_reasoning=thinking), [text])
    assert told_apart(begin(family, in_reasoning=thinking), pieces) == whole
    assert told_apart(begin(family, in_reasoning=thinking), list(text)) == whole


def test_no_mark_of_a_family_begins_with_another_one() -> None:
    for family in ALL_FAMILIES.values():
        passed_over = {*family.control, *(call.closing for call in family.calls if call.known_only)}
        for mark, other in combinations(set(family.marks) - passed_over, 2):
            assert not mark.startswith(other)
            assert not other.startswith(mark)


@pytest.mark.parametrize(
    ("template", "family"),
    [
        ("no marks", Family()),
        ("{{ '<tool_call>' }}", families.HERMES),
        ("<tool_call> <think>", QWEN3),
        ("<tool_call><function=a><parameter=b>", Family()),
        ("[TOOL_CALLS][", families.MISTRAL),
        ("[TOOL_CALLS] [ARGS] [THINK]", MAGISTRAL),
        ('Respond in the format {"name": function name, "parameters": dictionary', families.LLAMA_3),
        ("content.split('</think>')", Family(families.THINK)),
    ],
)
def test_the_family_is_told_by_the_template(template: str, family: Family) -> None:
    assert family_of(template) == family
