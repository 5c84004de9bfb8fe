"""Tools, tool calls, thinking and continued messages in templates that take them in different ways."""

from __future__ import annotations

import json

import pytest

from recycle_cpp.errors import UsageError
from recycle_cpp.text.chat import ChatTemplate
from recycle_cpp.types import Message, Tool, ToolCall

TOOL = Tool("get_weather", "Tell the weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
ASKING = Message("assistant", "", tool_calls=(ToolCall("get_weather", '{"city": "Oslo"}', "aB3dE6gH9"),))
ANSWERED = Message("tool", "12°", tool_call_id="aB3dE6gH9", name="get_weather")
ROUND = [Message("user", "Oslo?"), ASKING, ANSWERED]

PLAIN = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}|{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
SHOWN_TOOLS = "{% if tools %}{{ tools | tojson }}{% endif %}"
# How templates write a call's arguments: Qwen2.5, Llama 3.1 and Hermes as JSON, DeepSeek-R1 joined as text.
CALLS = (
    "{% for m in messages %}[{{ m.role }}]{% if m.tool_calls %}"
    "{% for c in m.tool_calls %}<tool_call>{{ c.function.name }}{%- ARGUMENTS %}</tool_call>{{ c.id }}{% endfor %}"
    "{% else %}{{ m.content }}{% endif %}|{% endfor %}"
)
AS_JSON = CALLS.replace("{%- ARGUMENTS %}", "{{ c.function.arguments | tojson }}")
JOINED = CALLS.replace("{%- ARGUMENTS %}", "{{ '' + c.function.arguments }}")
AS_IS = CALLS.replace("{%- ARGUMENTS %}", "{{ c.function.arguments }}")
EACH = CALLS.replace("{%- ARGUMENTS %}", "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}")
THINKING = (
    "{% for m in messages %}[{{ m.role }}]"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}|{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% if enable_thinking %}{{ '<think>\n' }}{% endif %}{% endif %}"
)


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>")


def complaint(source: str, messages: list[Message], **given) -> str:
    with pytest.raises(UsageError) as error:
        template(source).render(messages, **given)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_tools_are_shown_in_openais_form() -> None:
    rendered = template(SHOWN_TOOLS + PLAIN).render([Message("user", "Oslo?")], tools=[TOOL])
    shown, rest = rendered.split("[user]")
    assert json.loads(shown) == [
        {
            "type": "function",
            "function": {"name": TOOL.name, "description": TOOL.description, "parameters": TOOL.parameters},
        }
    ]
    assert rest == "Oslo?|[assistant]"


def test_tools_go_under_the_name_that_the_template_reads() -> None:
    source = "{% if xml_tools %}{{ xml_tools | tojson }}{% endif %}" + PLAIN
    assert '"get_weather"' in template(source).render([Message("user", "Oslo?")], tools=[TOOL])


def test_no_tools_are_shown_where_none_may_be_called() -> None:
    rendered = template(SHOWN_TOOLS + PLAIN).render([Message("user", "Oslo?")], tools=[TOOL], tool_choice="none")
    assert rendered == "[user]Oslo?|[assistant]"
    assert template(PLAIN).render([Message("user", "x")], tools=[TOOL], tool_choice="none") == "[user]x|[assistant]"


def test_a_template_without_a_place_for_tools_says_so() -> None:
    assert "no place for tools" in complaint(PLAIN, [Message("user", "x")], tools=[TOOL])


@pytest.mark.parametrize(
    ("source", "shown"),
    [(AS_JSON, '{"city": "Oslo"}'), (JOINED, '{"city": "Oslo"}'), (AS_IS, '{"city": "Oslo"}'), (EACH, "city=Oslo")],
)
def test_arguments_are_given_in_the_form_that_the_template_writes_well(source: str, shown: str) -> None:
    rendered = template(source).render(ROUND)
    assert rendered == f"[user]Oslo?|[assistant]<tool_call>get_weather{shown}</tool_call>aB3dE6gH9|[tool]12°|"


def test_a_template_that_wants_no_content_beside_calls_gets_none() -> None:
    source = AS_JSON.replace("if m.tool_calls", "if m.content is none")
    assert "get_weather" in template(source).render(ROUND)


def test_calls_that_the_template_cannot_show_are_written_as_the_model_writes_them() -> None:
    rendered = template("{# <tool_call> #}" + PLAIN).render([ROUND[0], ASKING._replace(content="I look."), ANSWERED])
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    assert rendered == f"[user]Oslo?|[assistant]I look.\n{call}|[tool]12°|[assistant]"
    assert "no place for tool calls" in complaint(PLAIN, ROUND)


@pytest.mark.parametrize("role", ["tool", "critic"])
def test_a_role_that_the_template_passes_over_says_so(role: str) -> None:
    source = "{% for m in messages if m.role in ('user', 'assistant') %}{{ m.content }}{{ m.tool_calls }}{% endfor %}"
    assert f"no place for messages of role '{role}'" in complaint(source, [Message("user", "x"), Message(role, "y")])


def test_further_values_reach_the_template_and_cannot_stand_for_its_own() -> None:
    said = [Message("user", "x")]
    assert template(THINKING).render(said, template_values={"enable_thinking": True}) == "[user]x|[assistant]<think>\n"
    assert template(THINKING).render(said) == "[user]x|[assistant]"
    for name in ("messages", "tools", "bos_token", "add_generation_prompt", "raise_exception"):
        assert f"template_values has {name!r}" in complaint(PLAIN, said, template_values={name: 1})
    assert "names are texts" in complaint(PLAIN, said, template_values={1: 1})


def test_thinking_goes_under_the_name_that_the_template_reads() -> None:
    thought = [Message("user", "x"), Message("assistant", "y", reasoning="Hm."), Message("user", "z")]
    assert template(THINKING).render(thought) == "[user]x|[assistant]<think>Hm.</think>y|[user]z|[assistant]"
    channels = "{# <|channel|> <|message|> #}{% for m in messages %}{{ m.thinking }}{{ m.content }}{% endfor %}"
    assert template(channels).render(thought) == "xHm.yz"


@pytest.mark.parametrize("source", [PLAIN, PLAIN.replace("m.content", "m.content | trim")])
@pytest.mark.parametrize("begun", ["Sure, ", "Sure", "", "user\n\n", "x|", "🦙 "])
def test_a_continued_prompt_ends_with_the_content_begun(source: str, begun: str) -> None:
    messages = [Message("user", "x|"), Message("assistant", begun)]
    assert template(source).render(messages, continue_last=True) == f"[user]x||[assistant]{begun}"


def test_thinking_without_content_is_continued_inside_its_marks() -> None:
    messages = [Message("user", "x"), Message("assistant", "", reasoning="Hm, ")]
    assert template(THINKING).render(messages, continue_last=True) == "[user]x|[assistant]<think>Hm, "


def test_the_word_that_marks_the_end_of_what_is_continued_may_stand_in_a_message() -> None:
    messages = [Message("user", "EndOfWhatIsContinued"), Message("assistant", "EndOfWhatIsContinuedX")]
    rendered = template(PLAIN).render(messages, continue_last=True)
    assert rendered == "[user]EndOfWhatIsContinued|[assistant]EndOfWhatIsContinuedX"


def test_only_an_assistants_text_can_be_continued() -> None:
    assert "role 'user'" in complaint(PLAIN, [Message("user", "x")], continue_last=True)
    assert "tool calls" in complaint(AS_JSON, ROUND[:2], continue_last=True)
    hiding = "{% for m in messages[:-1] %}{{ m.content }}{% endfor %}"
    for text in ("x", "EndOfWhatIsContinued"):
        told = complaint(hiding, [Message("user", text), Message("assistant", "y")], continue_last=True)
        assert "does not show the last message" in told


def test_the_answers_parts_know_what_the_prompt_has_opened() -> None:
    chat = template(THINKING)
    said = [Message("user", "What is <think>")]

    def read(text: str, messages: list[Message], **given) -> tuple[str, str]:
        prompt = chat.render(messages, **given)
        answer = chat.answer_parts(prompt, messages, continue_last=given.get("continue_last", False))
        parts = [answer.push(text), answer.flush()]
        return "".join(part.content for part in parts), "".join(part.reasoning for part in parts)

    assert read("Hm.</think>\nYes.", said, template_values={"enable_thinking": True}) == ("Yes.", "Hm.")
    assert read("Yes.", said) == ("Yes.", "")
    begun = [*said, Message("assistant", "", reasoning="Hm, ")]
    assert read(" and</think>Yes.", begun, continue_last=True) == ("Yes.", " and")
    begun = [*said, Message("assistant", "Ye")]
    assert read("s <think>", begun, continue_last=True) == ("s <think>", "")
    begun = [*said, Message("assistant", "<think>Hm, ")]
    assert read("so</think>Yes.", begun, continue_last=True) == ("Yes.", "so")


def test_a_choice_of_tool_reaches_the_template_as_openai_writes_it() -> None:
    source = SHOWN_TOOLS + "{{ tool_choice | tojson }}"
    said = [Message("user", "x")]
    assert template(source).render(said, tools=[TOOL], tool_choice="required").endswith('"required"')
    named = template(source).render(said, tools=[TOOL], tool_choice="get_weather")
    assert named.endswith('{"type": "function", "function": {"name": "get_weather"}}')
