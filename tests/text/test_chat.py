from __future__ import annotations

import pytest

from recycle_cpp.errors import UsageError
from recycle_cpp.text.chat import ChatTemplate
from recycle_cpp.types import Message

PLAIN = "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]{{ m.content }}{% endfor %}"
PROMPTED = PLAIN + "{% if add_generation_prompt %}[assistant]{% endif %}"
REFUSING = "{% if messages[0].role == 'system' %}{{ raise_exception('System role\nnot supported.') }}{% endif %}"
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
        template(REFUSING).render([Message("system", "x"), Message("user", "y")])
    assert message_of(error).startswith(
        "this model's chat template refuses these messages (roles: system, user): System role not supported;"
    )


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
