"""Real SmolLM2 in conversation: what is kept of it between turns, and what its answers depend on."""

from __future__ import annotations

from itertools import pairwise

import pytest

from recycle_cpp import ChatCompletion, ChatOptions, GenerateOptions, Message, Runtime, UsageError
from recycle_cpp.runtime import messages_from

QUESTIONS = (
    "Name a colour.",
    "Name an animal of that colour.",
    "Where does it live?",
    "What does it eat?",
    "Say in one sentence what we talked about.",
)
SHORT = GenerateOptions(max_tokens=16)


def talk(runtime: Runtime, options: GenerateOptions, questions=QUESTIONS) -> list[ChatCompletion]:
    """Return the answers of a conversation, each turn behind the answer before it."""
    messages, answers = [Message("system", "You answer in few words.")], []
    for question in questions:
        messages.append(Message("user", question))
        answers.append(runtime.chat(messages, options))
        messages.append(answers[-1].message)
    return answers


def conversation(answers: list[ChatCompletion]) -> list[Message]:
    """Return the messages that led to the last of these answers."""
    messages = [Message("system", "You answer in few words.")]
    for question, answer in zip(QUESTIONS, answers, strict=True):
        messages += [Message("user", question), answer.message]
    return messages[:-1]


@pytest.mark.parametrize("draft", ["off", "auto", "tree"])
def test_of_a_conversation_only_what_is_new_is_evaluated(smollm: Runtime, draft: str) -> None:
    smollm.forget_prompt()
    answers = talk(smollm, GenerateOptions(max_tokens=16, draft=draft))
    assert answers[0].usage.cached_tokens == 0
    for before, answer in pairwise(answers):
        held = before.usage.prompt_tokens + before.usage.completion_tokens - 1  # the last token is still pending
        assert answer.usage.cached_tokens == held
        assert answer.timings.prompt_n == answer.usage.prompt_tokens - held - 1


def test_an_exact_answer_depends_on_the_conversation_alone(smollm: Runtime, load) -> None:
    options = GenerateOptions(max_tokens=16, exact=True, logprobs=3)
    smollm.forget_prompt()
    answers = talk(smollm, options)
    smollm.forget_prompt()
    assert_same(smollm.chat(conversation(answers), options), answers[-1])
    assert_same(load().chat(conversation(answers), options), answers[-1])


def assert_same(one: ChatCompletion, other: ChatCompletion) -> None:
    for name in ("message", "tokens", "text", "finish_reason", "logprobs"):
        assert getattr(one, name) == getattr(other, name)


def test_an_edited_early_message_rewinds_to_the_edit_and_no_further(smollm: Runtime) -> None:
    answers = talk(smollm, SHORT, QUESTIONS[:3])
    messages = [Message("system", "You answer in few words."), Message("user", "Name a shape.")]
    edited = smollm.chat(messages, SHORT)
    old, new = smollm.tokenize([messages[0], Message("user", QUESTIONS[0])]), smollm.tokenize(messages)
    common = next(n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
    assert edited.usage.cached_tokens == common
    smollm.forget_prompt()
    assert smollm.chat(messages, GenerateOptions(max_tokens=16, exact=True)).text
    assert answers[0].message.content


def test_pieces_of_a_chat_join_to_the_whole_answer(smollm: Runtime) -> None:
    messages = [Message("user", "Name three animals.")]
    options = GenerateOptions(max_tokens=24, exact=True)
    chunks = list(smollm.stream_chat(messages, options))
    whole = smollm.chat(messages, options)
    assert "".join(chunk.content for chunk in chunks) == whole.message.content == whole.text
    assert all("".join(chunk.pieces) == chunk.content for chunk in chunks)
    assert [chunk.finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].finish_reason == whole.finish_reason


def test_the_last_message_can_be_gone_on_with(smollm: Runtime) -> None:
    messages = messages_from(
        [{"role": "user", "content": "Count to five."}, {"role": "assistant", "content": "One, two, three,"}]
    )
    answer = smollm.chat(messages, ChatOptions(max_tokens=8, continue_last=True, exact=True))
    assert "four" in answer.message.content.lower()


def test_what_is_no_chat_is_refused_in_one_line(smollm: Runtime) -> None:
    for wrong in ("text", [{"role": "user", "content": "a dict"}], [1, 2]):
        with pytest.raises(UsageError, match="list of Message"):
            smollm.chat(wrong)
    with pytest.raises(UsageError, match="without messages"):
        smollm.chat([])
    with pytest.raises(UsageError, match="raw is True"):
        smollm.chat([Message("user", "Hello")], GenerateOptions(raw=True))


def test_a_base_model_says_that_it_has_no_template(smollm: Runtime, monkeypatch) -> None:
    monkeypatch.setattr(type(smollm._loaded.model), "chat_template", None)
    monkeypatch.setattr(smollm, "_prompts", type(smollm._prompts)("base", smollm._loaded.model))
    with pytest.raises(UsageError, match="base is a base model without a chat template"):
        smollm.chat([Message("user", "Hello")])
