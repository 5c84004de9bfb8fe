"""Prompts as tokens, and tokens as text: the model's tokenizer and its chat template."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex, TypeAlias, cast

from recycle_cpp.errors import UsageError
from recycle_cpp.text.answers.answer_text import shown_pieces
from recycle_cpp.text.chat import ChatTemplate
from recycle_cpp.text.grammars import tool_grammar
from recycle_cpp.text.openai_messages import checked_messages
from recycle_cpp.types import Message
from recycle_cpp.types.checks import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from recycle_cpp.backend.model import LlamaModel
    from recycle_cpp.text.answers.parts import AnswerParts
    from recycle_cpp.types import ChatOptions, Grammar

_WANTED = "is no text and no list of Message or of tokens: give one of them"

_NO_TOKENS = "is no token, or no list of them: give whole numbers"

Prompt: TypeAlias = str | Sequence[int] | Sequence[Message]


class OpenChat(NamedTuple):
    """A chat that is ready to be answered.

    Attributes:
        tokens: its prompt.
        parts: tells the parts of its answer apart.
        grammar: what the answer may be: as asked for, or what makes calls of tools whole.
        shown: bytes of control tokens that mark parts, which are no text otherwise.
    """

    tokens: list[int]
    parts: AnswerParts
    grammar: Grammar | None
    shown: dict[int, bytes]


class Prompts:
    """Turns what a caller gives into the tokens that the model sees."""

    def __init__(self, name: str, model: LlamaModel) -> None:
        self._name = name
        self._model = model

    @property
    def is_chat(self) -> bool:
        """Whether the model has a chat template."""
        return self._model.chat_template is not None

    def tokens(self, prompt: Prompt, *, raw: bool = False) -> list[int]:
        """Return a prompt's tokens: a text as one user message, unless it is raw or the model has no template.

        Raises:
            UsageError: if the prompt is none, or the template refuses it.
        """
        if isinstance(prompt, str):
            if raw or not self.is_chat:
                return self._model.tokenize(prompt, add_special=True, parse_special=True)
            prompt = [Message("user", prompt)]
        if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray):
            raise UsageError(f"the prompt {_WANTED}")
        if not prompt or not all(isinstance(item, Message) for item in prompt):
            return self._checked(prompt, f"the prompt {_WANTED}")
        return self.chat_tokens(self.template.render(checked_messages(prompt)))

    def _checked(self, given: Iterable[object], complaint: str) -> list[int]:
        """Return tokens that the vocabulary has; llama.cpp looks others up out of bounds."""
        try:
            tokens = [_index(token) for token in given]
        except Exception as error:  # how foreign numbers and lists fail is theirs
            raise UsageError(complaint) from error
        n_vocab = self._model.n_vocab
        for token in tokens:
            if not 0 <= token < n_vocab:
                raise UsageError(f"the vocabulary has no token {shown(token)}: give tokens from 0 to {n_vocab - 1}")
        return tokens

    def open_chat(self, messages: Sequence[Message], options: ChatOptions) -> OpenChat:
        """Return a chat's tokens, and what its answer is to be read with.

        Raises:
            UsageError: if they are no messages, or the template refuses them or the tools.
        """
        messages = checked_messages(messages)
        template = self.template
        tools = () if options.tool_choice == "none" else options.tools
        rendered = template.render(
            messages,
            tools=tools,
            tool_choice=options.tool_choice,
            continue_last=options.continue_last,
            template_values=options.template_values,
        )
        parts = template.answer_parts(rendered, messages, tools=tools, continue_last=options.continue_last)
        if options.grammar is not None and tools and options.tool_choice != "auto":
            raise UsageError(f"tool_choice is {options.tool_choice!r} and there is a grammar: leave one of them out")
        grammar = options.grammar or tool_grammar(
            template.family, tools, options.tool_choice, in_reasoning=parts.in_reasoning
        )
        return OpenChat(self.chat_tokens(rendered), parts, grammar, self._shown)

    def chat_tokens(self, rendered: str) -> list[int]:
        """Return the tokens of a prompt that the chat template has rendered."""
        add_special = self.template.wants_special(rendered)
        return self._model.tokenize(rendered, add_special=add_special, parse_special=True)

    @cached_property
    def template(self) -> ChatTemplate:
        """The chat template, made when it is first needed: raw prompts work with a broken one, too.

        Raises:
            UsageError: if the model has none, or it is not valid jinja.
        """
        model = self._model
        if model.chat_template is None:
            raise UsageError(f"{self._name} is a base model without a chat template: give a text, not messages")
        bos, eos = self._text_of(model.bos), self._text_of(model.eos)
        return ChatTemplate(model.chat_template, bos_token=bos, eos_token=eos)

    @cached_property
    def _shown(self) -> dict[int, bytes]:
        """The control tokens that mark parts of an answer: the same for all chats of a model."""
        return shown_pieces(self._model, self.template.family.marks)

    def _text_of(self, token: int) -> str:
        return "" if token < 0 else self._model.piece(token, special=True).decode("utf-8", "replace")

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Return the bytes that a token adds to the text; control tokens add none unless `special`.

        Raises:
            UsageError: if the vocabulary has no such token.
        """
        return self._model.piece(self._checked([token], f"the token {_NO_TOKENS}")[0], special=special)

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Return the text of tokens, U+FFFD where they are no whole characters.

        Raises:
            UsageError: if the vocabulary has no such token.
        """
        checked = self._checked(tokens, f"what is to be a text {_NO_TOKENS}")
        pieces = (self._model.piece(token, special=special) for token in checked)
        return b"".join(pieces).decode("utf-8", "replace")


def _index(token: object) -> int:
    if isinstance(token, bool):
        raise TypeError("True is no token")
    return index(cast("SupportsIndex", token))
