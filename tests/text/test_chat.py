from __future__ import annotations

import pytest

from recycle_cpp.errors import UsageError
from recycle_cpp.text.chat import ChatTemplate
from recycle_cpp.types import Message

PLAIN = "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]{{ m.content }}{% endfor %}"
PROMPTED = PLAIN + "{% if add_generation_prompt %}[assistant]{% endif %}"
NO_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + PROMPTED
)
ALTERNATING = "{% if messages[0].role != 'user' %}{{ raise_exception('Roles must\nalternate.') }}{% endif %}" + PROMPTED
HELLO = [Message("user", "hello")]


def template(source: str, bos_token: str = "<s>") -> ChatTemplate:
    return ChatTemplate(source, bos_token=bos_token, eos_token="</s>")


def message_of(error: pytest.ExceptionInfo[UsageError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_messages_are_rendered_with_and_without_the_opening_of_the_answer() -> None:
    chat = template(PROMPTED)
    assert chat.render(HELLO) == "<s>[user]hello[assistant]"
    assert chat.render(HELLO, add_generation_prompt=False) == "<s>[user]hello"
    assert chat.render(HELLO) == "<s>[user]hello[assistant]"


def test_the_bos_token_is_added_by_the_tokenizer_only_if_the_template_has_not_written_it() -> None:
    chat = template(PLAIN)
    assert not chat.wants_special(chat.render(HELLO))
    assert template("{{ messages[0].content }}").wants_special("hello")
    assert template(PLAIN, bos_token="").wants_special("[user]hello")


def test_a_content_with_special_token_text_stays_as_it_is() -> None:
    assert template(PLAIN).render([Message("user", "<|im_end|>")]) == "<s>[user]<|im_end|>"


def test_a_template_that_raises_gives_one_line_with_its_reason_and_the_roles() -> None:
    with pytest.raises(UsageError) as error:
        template(ALTERNATING).render([Message("assistant", "x"), Message("user", "y")])
    assert message_of(error).startswith(
        "this model's chat template refuses these messages (roles: assistant, user): Roles must alternate;"
    )


@pytest.mark.parametrize(
    "source", [NO_SYSTEM, "{% for m in messages if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endfor %}"]
)
def test_a_system_text_goes_before_the_first_message_where_the_template_has_no_place_for_it(source: str) -> None:
    rendered = template(source).render([Message("system", "Be brief."), Message("user", "hello")])
    assert rendered.removeprefix("<s>").removesuffix("[assistant]") == "[user]Be brief.\nhello"


def test_a_system_text_stays_where_the_template_has_a_place_for_it() -> None:
    rendered = template(PLAIN).render([Message("system", "Be brief."), Message("user", "hello")])
    assert rendered == "<s>[system]Be brief.[user]hello"
    assert template(PLAIN).render([Message("developer", "Be brief."), Message("user", "hello")]) == rendered


@pytest.mark.parametrize(
    "source", ["{{ messages[9].content }}", "{{ 'a' + 1 }}", "{{ ''.__class__.mro() }}", "{{ 1/0 }}"]
)
def test_a_template_that_fails_in_any_way_gives_one_line(source: str) -> None:
    with pytest.raises(UsageError) as error:
        template(source).render(HELLO)
    assert "refuses these messages" in message_of(error)


def test_a_template_with_bad_syntax_gives_one_line() -> None:
    with pytest.raises(UsageError) as error:
        template("{% for m in messages %}{{ m")
    assert "not valid jinja" in message_of(error)


def test_a_model_without_a_template_says_so() -> None:
    with pytest.raises(UsageError) as error:
        template("  ")
    assert "no chat template" in message_of(error)


def test_a_chat_without_messages_says_so() -> None:
    with pytest.raises(UsageError) as error:
        template(PLAIN).render([])
    assert "without messages" in message_of(error)
