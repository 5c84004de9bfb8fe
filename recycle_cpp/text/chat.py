"""Chat messages to prompt text, by the template that a GGUF carries."""

from __future__ import annotations

import copy
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from recycle_cpp.errors import UsageError
from recycle_cpp.text.answers.parts import AnswerParts
from recycle_cpp.text.families import family_of
from recycle_cpp.text.openai_messages import message_dict, tool_dict
from recycle_cpp.text.template_traits import TemplateTraits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recycle_cpp.types import Message, Tool, ToolCall

# What the template's environment or this class sets itself.
_OWN_VALUES = frozenset(
    {"messages", "tools", "xml_tools", "tool_choice", "functions", "function_call", "bos_token", "eos_token"}
    | {"add_generation_prompt", "raise_exception", "strftime_now"}
)
_END_OF_CONTENT = "EndOfWhatIsContinued"


class ChatTemplate:
    """Renders messages in llama-cpp-python's own jinja sandbox, so the prompt is the one that it would build.

    Tokenize the result with `parse_special=True` and `add_special=template.wants_special(text)`.

    Where templates differ, it does as llama.cpp's server does: a system message that the template has no place for is
    put before the next message's text, with a line feed between them; the role "developer" is "system" to all but
    gpt-oss; arguments of tool calls are objects for templates that take them so, and JSON text for the others.

    Control tokens in content: the template writes them as text, so a content that holds such text
    (`<|im_end|>`) becomes that control token too and can end its turn early or open another. llama.cpp's
    server and llama-cpp-python do the same, and this class keeps it, because the prompt must equal theirs.
    It changes what the model reads, nothing else; who passes on content of strangers has to filter it first.

    Attributes:
        family: how the model marks what it writes.
    """

    def __init__(self, source: str, *, bos_token: str, eos_token: str) -> None:
        """Compile a template.

        Args:
            source: the GGUF's `tokenizer.chat_template`.
            bos_token: text of the begin-of-sequence token; empty if the model has none.
            eos_token: text of the end-of-sequence token; empty if the model has none.

        Raises:
            UsageError: if there is no template or it is not valid jinja.
        """
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        if not source.strip():
            raise UsageError("this model has no chat template; pass its prompt raw (--raw)")
        self._bos_token = bos_token
        self.family = family_of(source)
        try:
            self._formatter = Jinja2ChatFormatter(source, eos_token=eos_token, bos_token=bos_token)
        except Exception as error:  # a template is foreign code, and jinja is not ours to import
            raise UsageError(
                f"this model's chat template is not valid jinja: {_one_line(error)}; pass its prompt raw (--raw)"
            ) from error

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        tool_choice: str = "auto",
        continue_last: bool = False,
        template_values: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """Return the prompt text of a chat.

        Args:
            messages: the turns in order; at least one.
            tools: what the model may call.
            tool_choice: as in ChatOptions; "none" shows no tools.
            continue_last: end with the text of the last message, an assistant's, or with its thinking if it has no
                text, instead of opening an answer to it.
            template_values: what else the template is to see.
            add_generation_prompt: end with the opening of the assistant's turn.

        Raises:
            UsageError: if there are no messages, or the template refuses them or has no place for them.
        """
        if not messages:
            raise UsageError("a chat without messages cannot be answered; give at least one")
        values = dict(template_values or {})
        self._check_values(values)
        shown_tools = [] if tool_choice == "none" else [tool_dict(tool) for tool in tools]
        if shown_tools:
            if self._traits.tools_key is None:
                raise UsageError(
                    "this model's chat template has no place for tools: leave them out or use another model"
                )
            values[self._traits.tools_key] = shown_tools
            values["tool_choice"] = _choice_dict(tool_choice)
        end_mark = ""
        if continue_last:
            end_mark = _unused_mark(messages)
            messages = [*messages[:-1], _with_end(messages[-1], end_mark)]
            add_generation_prompt = False
        prompt = self._render_checked(messages, values, add_generation_prompt)
        if not end_mark:
            return prompt
        if end_mark not in prompt:
            raise UsageError("this model's chat template does not show the last message, so it cannot be continued")
        return prompt[: prompt.rindex(end_mark)]

    def wants_special(self, rendered: str) -> bool:
        """Tell whether to tokenize with `add_special`: not if the template has written the BOS token."""
        return not (self._bos_token and rendered.startswith(self._bos_token))

    def answer_parts(
        self, prompt: str, messages: Sequence[Message], *, tools: Sequence[Tool] = (), continue_last: bool = False
    ) -> AnswerParts:
        """Return what tells the parts of the answer to a rendered prompt apart.

        Args:
            prompt: what `render` returned.
            messages: what it was given.
            tools: those that the prompt shows; without any, nothing is taken for a call.
            continue_last: what it was given.
        """
        reasoning = self.family.reasoning
        last = messages[-1]
        written = prompt.rstrip()
        if reasoning is None:
            return AnswerParts(self.family, tools=tools, continued=continue_last and bool(last.content))
        if not continue_last:
            return AnswerParts(self.family, tools=tools, in_reasoning=written.endswith(reasoning.opening))
        inside = bool(last.reasoning) and not last.content
        inside = inside or last.content.rfind(reasoning.opening) > last.content.rfind(reasoning.closing)
        return AnswerParts(self.family, tools=tools, in_reasoning=inside, continued=inside or bool(last.content))

    @cached_property
    def _traits(self) -> TemplateTraits:
        return TemplateTraits(self._render)

    def _check_values(self, values: Mapping[str, Any]) -> None:
        own = sorted(_OWN_VALUES.intersection(values))
        if own:
            raise UsageError(f"template_values has {own[0]!r}, which is set for every chat; leave it out")
        odd = [name for name in values if not isinstance(name, str)]
        if odd:
            raise UsageError(f"template_values has the name {odd[0]!r}; names are texts")

    def _render_checked(self, messages: Sequence[Message], values: dict[str, Any], add_generation_prompt: bool) -> str:
        """Render, with one line of complaint for all that a template may do."""
        shown = self._placed(messages)
        for message in shown:
            if message.role not in ("system", "user", "assistant") and not self._traits.shows_role(message.role):
                raise UsageError(f"this model's chat template has no place for messages of role {message.role!r}")
        dicts = [self._dict_of(message) for message in shown]
        try:
            return self._render(dicts, values, add_generation_prompt)
        except Exception as error:  # raise_exception, an undefined value, a type error inside the template
            roles = ", ".join(dict.fromkeys(message.role for message in messages))
            raise UsageError(
                f"this model's chat template refuses these messages (roles: {roles}): {_one_line(error)}; "
                "change them or pass the prompt raw (--raw)"
            ) from error

    def _render(self, messages: list[dict[str, Any]], values: Mapping[str, Any], add_generation_prompt: bool) -> str:
        formatter = copy.copy(self._formatter)  # it takes the flag as an attribute only; threads may share ours
        formatter.add_generation_prompt = add_generation_prompt
        return str(formatter(messages=messages, **values).prompt)

    def _placed(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages with a system text where the template has a place for it."""
        placed = list(messages)
        if self.family.thinking_key != "thinking":  # gpt-oss alone tells developers from the system
            placed = [turn._replace(role="system") if turn.role == "developer" else turn for turn in placed]
        if placed[0].role == "system" and len(placed) > 1 and not self._traits.shows_role("system"):
            first, second, *rest = placed
            placed = [second._replace(content=f"{first.content}\n{second.content}"), *rest]
        return placed

    def _dict_of(self, message: Message) -> dict[str, Any]:
        """Return a message as templates read it."""
        if message.tool_calls and not self._traits.shows_calls:
            content = [message.content, self._written(message.tool_calls)]
            message = message._replace(content="\n".join(filter(None, content)), tool_calls=())
        shown = message_dict(message)
        if message.reasoning:
            shown[self.family.thinking_key] = shown.pop("reasoning_content")
        if message.tool_calls:
            shown["content"] = message.content or self._traits.content_beside_calls
            if self._traits.arguments_as_object:
                for call in shown["tool_calls"]:
                    call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        return shown

    def _written(self, calls: Sequence[ToolCall]) -> str:
        """Return tool calls as the model itself writes them, for a template that cannot."""
        syntax = self.family.calls[0] if self.family.calls else None
        if syntax is None or syntax.heads or not syntax.opening:
            raise UsageError("this model's chat template has no place for tool calls: leave them out")
        before, behind = syntax.around
        objects = [
            f'{{"{syntax.name_key}": {json.dumps(call.name, ensure_ascii=False)}, '
            f'"{syntax.arguments_key}": {call.arguments}}}'
            for call in calls
        ]
        if before == "[":
            return f"{syntax.opening}[{', '.join(objects)}]{syntax.closing}"
        return "\n".join(f"{syntax.opening}{before}{one}{behind}{syntax.closing}" for one in objects)


def _choice_dict(tool_choice: str) -> object:
    """Return a tool choice as OpenAI's API writes it."""
    if tool_choice in ("auto", "required"):
        return tool_choice
    return {"type": "function", "function": {"name": tool_choice}}


def _with_end(last: Message, end_mark: str) -> Message:
    """Return the last message with a mark where it is to be continued."""
    if last.role != "assistant":
        raise UsageError(f"the last message is of role {last.role!r}: only an assistant's can be continued")
    if last.tool_calls:
        raise UsageError("the last message ends with tool calls: answer them, they cannot be continued")
    if last.reasoning and not last.content:
        return last._replace(reasoning=last.reasoning + end_mark)
    return last._replace(content=last.content + end_mark)


def _unused_mark(messages: Sequence[Message]) -> str:
    """Return a word that no message holds. As a part of the text it keeps templates from trimming what ends there."""
    mark = _END_OF_CONTENT
    while any(mark in message.content or mark in message.reasoning for message in messages):
        mark += "X"
    return mark


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
