from __future__ import annotations

import re

import pytest

from recycle_cpp.errors import UsageError
from recycle_cpp.text.openai_messages import checked_messages, message_dict, messages_from, tool_dict, tools_from
from recycle_cpp.types import Message, Tool, ToolCall

CALL = {"id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": '{"zone": 1}'}}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What time is it? 🦙"},
    {"role": "assistant", "content": "", "reasoning_content": "Look.", "tool_calls": [CALL]},
    {"role": "tool", "content": "12:00", "tool_call_id": "call_1", "name": "get_time"},
]
MESSAGES = (
    Message("system", "Be brief."),
    Message("user", "What time is it? 🦙"),
    Message("assistant", "", "Look.", (ToolCall("get_time", '{"zone": 1}', "call_1"),)),
    Message("tool", "12:00", tool_call_id="call_1", name="get_time"),
)
SCHEMA = {"type": "object", "properties": {"zone": {"type": "integer"}}}


def test_messages_come_and_go_as_openai_writes_them() -> None:
    assert messages_from(CHAT) == MESSAGES
    assert [message_dict(message) for message in MESSAGES] == CHAT


def test_a_content_in_text_parts_is_joined_by_line_feeds_and_no_content_is_empty() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert messages_from([{"role": "user", "content": parts}]) == (Message("user", "a\nb"),)
    assert messages_from([{"role": "user", "content": []}, {"role": "assistant", "content": None}]) == (
        Message("user", ""),
        Message("assistant", ""),
    )


def test_arguments_given_as_an_object_become_text_and_missing_ones_an_empty_object() -> None:
    calls = [{"function": {"name": "f", "arguments": {"x": "é"}}}, {"function": {"name": "g"}}]
    [message] = messages_from([{"role": "assistant", "tool_calls": calls}])
    assert message.tool_calls == (ToolCall("f", '{"x": "é"}'), ToolCall("g", "{}"))


def test_tools_come_and_go_as_openai_writes_them() -> None:
    given = {"type": "function", "function": {"name": "get_time", "description": "Tell.", "parameters": SCHEMA}}
    [tool] = tools_from([given])
    assert tool == Tool("get_time", "Tell.", SCHEMA)
    assert tool_dict(tool) == given
    [plain] = tools_from([{"type": "function", "function": {"name": "get_time"}}])
    assert plain == Tool("get_time")
    assert tool_dict(plain)["function"]["parameters"] == {"type": "object", "properties": {}}


IMAGE = {"type": "image_url", "image_url": {"url": "data:"}}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("hello", "messages is of type str"),
        (None, "messages is missing"),
        ({"role": "user"}, "messages is of type dict"),
        (["hello"], "messages[0] is of type str"),
        ([{"content": "x"}], "messages[0].role is missing"),
        ([{"role": 1, "content": "x"}], "messages[0].role is of type int"),
        ([{"role": "critic", "content": "x"}], "messages[0].role is 'critic'"),
        ([CHAT[0], {"role": "user"}], "messages[1].content is missing"),
        ([CHAT[0], CHAT[1], {"role": "user", "content": 3}], "messages[2].content is of type int"),
        ([{"role": "user", "content": b"x"}], "messages[0].content is of type bytes"),
        ([{"role": "user", "content": ["x"]}], "messages[0].content[0] is of type str"),
        ([{"role": "user", "content": [IMAGE]}], "messages[0].content[0] is of type 'image_url'"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text is missing"),
        ([{"role": "user", "content": [{"type": "input_audio"}]}], "messages[0].content[0] is of type 'input_audio'"),
        ([{"role": "user", "content": "x", "tool_calls": [CALL]}], "messages[0].tool_calls is of type list"),
        ([{"role": "assistant", "tool_calls": "x"}], "messages[0].tool_calls is of type str"),
        ([{"role": "assistant", "tool_calls": [{}]}], "messages[0].tool_calls[0].function is missing"),
        ([{"role": "assistant", "tool_calls": [{"type": "code"}]}], "messages[0].tool_calls[0].type is 'code'"),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[]"}}]}],
            "messages[0].tool_calls[0].function.arguments is no JSON object",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[" * 100_000}}]}],
            "messages[0].tool_calls[0].function.arguments is no JSON object",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}],
            "messages[0].tool_calls[0].function.name is missing",
        ),
        ([{"role": "tool", "content": "x", "tool_call_id": 7}], "messages[0].tool_call_id is of type int"),
    ],
)
def test_what_cannot_be_used_gives_one_line_that_names_the_place(given, complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        messages_from(given)
    assert str(error.value).startswith(complaint)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("x", "tools is of type str"),
        ([3], "tools[0] is of type int"),
        ([{"function": {}}], "tools[0].type is missing"),
        ([{"type": "web"}], "tools[0].type is 'web'"),
        ([{"type": "function"}], "tools[0].function is missing"),
        ([{"type": "function", "function": {}}], "tools[0].function.name is missing"),
        ([{"type": "function", "function": {"name": ""}}], "tools[0].function.name is empty"),
        (
            [{"type": "function", "function": {"name": "f", "parameters": 1}}],
            "tools[0].function.parameters is of type int",
        ),
    ],
)
def test_a_tool_that_cannot_be_used_gives_one_line_that_names_the_place(given, complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        tools_from(given)
    assert str(error.value).startswith(complaint)


@pytest.mark.parametrize(
    ("chat", "complaint"),
    [
        (None, "a chat is a list of Message"),
        (5, "a chat is a list of Message"),
        ((Message("user", "x") for _ in range(2)), "a chat is a list of Message"),
        ([{"role": "user"}], "a chat is a list of Message"),
        (Message("user", "x"), "a chat is a list of Message"),
        ([Message(5, "x")], "messages[0].role is of type int"),
        ([Message(["user"], "x")], "messages[0].role is of type list"),
        ([Message("user", "x"), Message("user", None)], "messages[1].content is missing"),
        ([Message("user", b"x")], "messages[0].content is of type bytes"),
        ([Message("assistant", "x", reasoning=5)], "messages[0].reasoning is of type int"),
        ([Message("tool", "x", name=5)], "messages[0].name is of type int"),
        ([Message("assistant", "x", tool_calls=5)], "messages[0].tool_calls is 5"),
        ([Message("assistant", "x", tool_calls=("a",))], "messages[0].tool_calls is ('a',)"),
        ([Message("assistant", "x", tool_calls=(ToolCall("a", None),))], "messages[0].tool_calls[0].arguments is miss"),
    ],
)
def test_messages_whose_fields_are_no_texts_are_refused(chat: object, complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        checked_messages(chat)


def test_a_role_of_any_length_is_complained_of_in_a_short_line() -> None:
    with pytest.raises(UsageError) as caught:
        messages_from([{"role": "critic\n" * 10_000, "content": "x"}])
    assert len(str(caught.value)) < 250
