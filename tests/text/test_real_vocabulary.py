"""Real tokenizers: characters cut over tokens, and the models' own chat templates."""

from __future__ import annotations

import pytest
from pieces import PieceVocabulary

from recycle_cpp.errors import UsageError
from recycle_cpp.text.answers.answer_text import AnswerText, shown_pieces
from recycle_cpp.text.answers.detokenizer import Detokenizer
from recycle_cpp.text.chat import ChatTemplate
from recycle_cpp.types import Message, Tool

MODELS = [
    "smollm2-135m-instruct-q4_1.gguf",
    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    "gemma-3-270m-q4_k_m.gguf",
]
TEXTS = {
    "emoji family": "x 👩‍👩‍👧‍👦 and 🏳️‍🌈 🦙🧑🏽‍🚀!",
    "CJK": "你好，世界。日本語の文章と한국어 𠮷野家",
    "Arabic": "السَّلامُ عليكم، كيف الحال؟",
    "combining marks": "Z͑ͫ̓a̴l̵g̶o e\u0301\u0323 नमस्ते ก็ ạ̈",
    "mixed": "naïve\r\n\tcafé 🦙\x00 −½ \u2028 end",
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", TEXTS)
def test_tokens_join_to_the_whole_text_at_every_split(open_vocabulary, model: str, name: str) -> None:
    vocabulary = open_vocabulary(model)
    tokens = vocabulary.tokenize(TEXTS[name], add_special=False, parse_special=False)
    pieces = [vocabulary.piece(token) for token in tokens]
    whole = b"".join(pieces).decode()
    assert whole.lstrip(" ") == TEXTS[name]
    assert any(_is_cut(piece) for piece in pieces) or name in ("Arabic", "CJK") or "gemma" in model
    for count in range(len(pieces) + 1):
        detokenizer = Detokenizer(vocabulary)
        first = "".join(detokenizer.push(token) for token in tokens[:count])
        assert whole.startswith(first)
        rest = "".join(detokenizer.push(token) for token in tokens[count:]) + detokenizer.flush()
        assert first + rest == whole
        merged = Detokenizer(PieceVocabulary([b"".join(pieces[:count]), b"".join(pieces[count:])]))
        assert merged.push(0) + merged.push(1) + merged.flush() == whole


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", TEXTS)
def test_every_stop_string_inside_a_real_text_ends_it_exactly(open_vocabulary, model: str, name: str) -> None:
    vocabulary = open_vocabulary(model)
    tokens = vocabulary.tokenize(TEXTS[name], add_special=False, parse_special=False)
    whole = b"".join(vocabulary.piece(token) for token in tokens).decode()
    for start in range(1, len(whole) - 3):
        stop = whole[start : start + 3]
        answer = AnswerText(vocabulary, (stop,))
        text, used = "", 0
        while not answer.stopped:
            text += answer.push(tokens[used])
            used += 1
        before = b"".join(vocabulary.piece(token) for token in tokens[: used - 1])
        assert text == whole[: whole.find(stop)]
        assert stop not in before.decode("utf-8", "ignore")


@pytest.mark.parametrize("model", MODELS[:2])
@pytest.mark.parametrize("add_generation_prompt", [True, False])
def test_a_models_template_renders_as_llama_cpp_pythons_own_formatter(
    open_vocabulary, model: str, add_generation_prompt: bool
) -> None:
    from llama_cpp.llama_chat_format import Jinja2ChatFormatter

    vocabulary = open_vocabulary(model)
    source = vocabulary.llama.metadata["tokenizer.chat_template"]
    bos = vocabulary.special_text(vocabulary.llama.token_bos())
    eos = vocabulary.special_text(vocabulary.llama.token_eos())
    chat = ChatTemplate(source, bos_token=bos, eos_token=eos)
    theirs = Jinja2ChatFormatter(source, eos, bos, add_generation_prompt=add_generation_prompt)
    for messages in (
        [Message("user", "Wer bist du? 🦙")],
        [
            Message("system", "Be brief."),
            Message("user", "a"),
            Message("assistant", "b"),
            Message("user", "c"),
        ],
    ):
        expected = theirs(messages=[message._asdict() for message in messages]).prompt
        rendered = chat.render(messages, add_generation_prompt=add_generation_prompt)
        assert rendered == expected
        special = chat.wants_special(rendered)
        ours = vocabulary.tokenize(rendered, add_special=special, parse_special=True)
        assert ours == vocabulary.tokenize(rendered, add_special=False, parse_special=True)


def test_smollm2_gets_its_default_system_message_and_control_tokens(open_vocabulary) -> None:
    vocabulary = open_vocabulary(MODELS[0])
    source = vocabulary.llama.metadata["tokenizer.chat_template"]
    chat = ChatTemplate(source, bos_token="<|im_start|>", eos_token="<|im_end|>")
    rendered = chat.render([Message("user", "hi")])
    assert rendered.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    assert not chat.wants_special(rendered)
    tokens = vocabulary.tokenize(rendered, add_special=False, parse_special=True)
    assert tokens.count(vocabulary.llama.token_bos()) == rendered.count("<|im_start|>") == 3
    assert vocabulary.piece(tokens[0]) == b""


WEATHER = Tool(
    "get_weather",
    "Get the current weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
# What Qwen2.5-Coder 0.5B wrote when it was asked for the weather in Oslo, and what larger ones of the family write.
QWEN_CALLS = [
    '{"name": "get_weather", "arguments": {"city": "Oslo"}}',
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
]


@pytest.mark.parametrize("written", QWEN_CALLS)
def test_a_round_of_tool_calls_goes_through_qwens_own_template_and_back(open_vocabulary, written: str) -> None:
    vocabulary = open_vocabulary(MODELS[1])
    chat = ChatTemplate(
        vocabulary.llama.metadata["tokenizer.chat_template"],
        bos_token="",
        eos_token=vocabulary.special_text(vocabulary.llama.token_eos()),
    )
    messages = [Message("user", "What is the weather in Oslo?")]
    prompt = chat.render(messages, tools=[WEATHER])
    assert '<tools>\n{"type": "function", "function": {"name": "get_weather"' in prompt
    shown = shown_pieces(vocabulary, chat.family.marks)
    text = AnswerText(vocabulary, shown=shown)
    parts = chat.answer_parts(prompt, messages, tools=[WEATHER])
    told = [
        parts.push(text.push(token)) for token in vocabulary.tokenize(written, add_special=False, parse_special=True)
    ]
    told += [parts.push(text.flush()), parts.flush()]
    [call] = [call for part in told for call in part.tool_calls]
    assert (call.name, call.arguments) == ("get_weather", '{"city": "Oslo"}')
    assert "".join(part.content for part in told) == ""
    messages += [Message("assistant", "", tool_calls=(call,)), Message("tool", "12°", tool_call_id=call.id)]
    assert chat.render(messages, tools=[WEATHER]) == (
        f"{prompt}{QWEN_CALLS[1]}<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n12°\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_smollm2_has_no_place_for_tools_and_says_so(open_vocabulary) -> None:
    source = open_vocabulary(MODELS[0]).llama.metadata["tokenizer.chat_template"]
    with pytest.raises(UsageError, match="no place for tools"):
        ChatTemplate(source, bos_token="", eos_token="").render([Message("user", "hi")], tools=[WEATHER])


@pytest.mark.parametrize("model", MODELS[:2])
def test_a_last_message_is_continued_in_a_models_own_template(open_vocabulary, model: str) -> None:
    source = open_vocabulary(model).llama.metadata["tokenizer.chat_template"]
    chat = ChatTemplate(source, bos_token="", eos_token="")
    asked = [Message("user", "Count.")]
    continued = chat.render([*asked, Message("assistant", "1, 2, ")], continue_last=True)
    assert continued == chat.render(asked) + "1, 2, "


def _is_cut(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return True
    return False
