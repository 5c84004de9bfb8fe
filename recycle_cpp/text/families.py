"""How families of chat models mark thinking and tool calls in what they write.

No light library knows them: llama-cpp-python parses two formats inside its own chat handlers, transformers and vLLM are
far heavier than this table. It follows llama.cpp's `common/chat.cpp` and `common/parsers/`.
"""

from __future__ import annotations

from typing import NamedTuple


class CallSyntax(NamedTuple):
    """One way in which a model writes a tool call.

    A call without a head is a JSON object of name and arguments, or an array of such objects. With a head, the name
    stands there and the arguments' JSON follows.

    Attributes:
        opening: the mark before it; empty where a bare JSON object at the answer's beginning is the call.
        closing: the mark after it; empty where the JSON's own end is the end.
        heads: what stands between opening and arguments, with `{name}` and perhaps `{id}`; a call is made to be written
            with the first. White space in it stands for any white space.
        name_key: under which the JSON object has the name.
        arguments_key: under which the JSON object has the arguments.
        around: what a call is written with inside its marks, before and behind the JSON; brackets where it is an array.
        sections: marks around all the calls of an answer.
        known_only: whether only the name of a tool that was offered makes it a call: such text may be mere JSON, too.
    """

    opening: str
    closing: str = ""
    heads: tuple[str, ...] = ()
    name_key: str = "name"
    arguments_key: str = "arguments"
    around: tuple[str, str] = ("", "")
    sections: tuple[str, ...] = ()
    known_only: bool = False


class Reasoning(NamedTuple):
    """The marks around a model's thinking."""

    opening: str
    closing: str


class Family(NamedTuple):
    """What the answers of one family of models are made of.

    Attributes:
        reasoning: marks around its thinking, if it marks that.
        calls: how it writes tool calls; the first is how it is made to write them.
        wrappers: marks around plain content, which say nothing by themselves.
        control: further texts that stand inside marks and may be control tokens.
        short_ids: whether a call's id must be nine letters and digits.
        thinking_key: under which the template takes an assistant's thinking.
    """

    reasoning: Reasoning | None = None
    calls: tuple[CallSyntax, ...] = ()
    wrappers: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    short_ids: bool = False
    thinking_key: str = "reasoning_content"

    @property
    def marks(self) -> tuple[str, ...]:
        """Every text that may hold a control token, once; see `shown_pieces`."""
        marks = [*(self.reasoning or ()), *self.wrappers, *self.control]
        for call in self.calls:
            marks += [call.opening, call.closing, *call.sections]
        return tuple(dict.fromkeys(mark for mark in marks if mark))


THINK = Reasoning("<think>", "</think>")
# Small models, Qwen2.5-Coder above all, leave the marks away or take others; llama.cpp has read these, too.
HERMES = Family(
    calls=(
        CallSyntax("<tool_call>", "</tool_call>", around=("\n", "\n")),
        CallSyntax("", known_only=True),
        CallSyntax("<tools>", "</tools>", known_only=True),
        CallSyntax("```json", "```", known_only=True),
    )
)
MISTRAL = Family(
    calls=(CallSyntax("[TOOL_CALLS]", around=("[", "]")),),
    short_ids=True,
)
MISTRAL_NAMED = Family(
    calls=(CallSyntax("[TOOL_CALLS]", heads=("{name}[ARGS]", "{name}[CALL_ID]{id}[ARGS]", "{name}")),),
    control=("[ARGS]", "[CALL_ID]"),
    short_ids=True,
)
LLAMA_3 = Family(
    calls=(
        CallSyntax("", arguments_key="parameters", known_only=True),
        CallSyntax("<|python_tag|>", arguments_key="parameters"),
    )
)
FUNCTIONARY = Family(calls=(CallSyntax("<function=", "</function>", heads=("{name}>",)),))
NEMOTRON = Family(calls=(CallSyntax("<TOOLCALL>", "</TOOLCALL>", around=("[", "]")),))
GRANITE_3 = Family(calls=(CallSyntax("<|tool_call|>", around=("[", "]")),), wrappers=("<response>", "</response>"))
PHI_4 = Family(calls=(CallSyntax("<|tool_call|>", "<|/tool_call|>", around=("[", "]")),))
COMMAND_R7B = Family(
    Reasoning("<|START_THINKING|>", "<|END_THINKING|>"),
    (
        CallSyntax(
            "<|START_ACTION|>",
            "<|END_ACTION|>",
            name_key="tool_name",
            arguments_key="parameters",
            around=("[", "]"),
        ),
    ),
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
)
_DEEPSEEK_SECTIONS = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
DEEPSEEK_R1 = Family(
    THINK,
    (
        CallSyntax(
            "<｜tool▁call▁begin｜>",
            "```<｜tool▁call▁end｜>",
            ("function<｜tool▁sep｜>{name}\n```json\n",),
            around=("", "\n"),
            sections=_DEEPSEEK_SECTIONS,
        ),
    ),
    control=("<｜tool▁sep｜>",),
)
DEEPSEEK_V3_1 = Family(
    THINK,
    (
        CallSyntax(
            "<｜tool▁call▁begin｜>",
            "<｜tool▁call▁end｜>",
            ("{name}<｜tool▁sep｜>",),
            sections=_DEEPSEEK_SECTIONS,
        ),
    ),
    control=("<｜tool▁sep｜>",),
)
GPT_OSS = Family(
    Reasoning("<|channel|>analysis<|message|>", "<|end|>"),
    (
        CallSyntax(
            "<|channel|>commentary to=functions.",
            heads=("{name} <|constrain|>json<|message|>", "{name} json<|message|>", "{name}<|message|>"),
        ),
        CallSyntax(
            "to=functions.",
            heads=(
                "{name}<|channel|>commentary <|constrain|>json<|message|>",
                "{name}<|channel|>commentary json<|message|>",
                "{name}<|channel|>commentary<|message|>",
            ),
        ),
    ),
    (
        "<|start|>assistant",
        "<|channel|>final<|message|>",
        "<|channel|>final <|constrain|>json<|message|>",
        "<|channel|>commentary<|message|>",
        "<|end|>",
    ),
    control=("<|constrain|>",),
    thinking_key="thinking",
)

# What a template must hold, and what it must not, for each family; the first that fits is taken.
_KNOWN: tuple[tuple[tuple[str, ...], tuple[str, ...], Family], ...] = (
    (("<|channel|>", "<|message|>"), (), GPT_OSS),
    (("<|START_ACTION|>", "<|START_RESPONSE|>"), (), COMMAND_R7B),
    (("<｜tool▁calls▁begin｜>", "```json"), (), DEEPSEEK_R1),
    (("<｜tool▁calls▁begin｜>",), (), DEEPSEEK_V3_1),
    (("[TOOL_CALLS]", "[ARGS]"), (), MISTRAL_NAMED),
    (("[TOOL_CALLS]",), (), MISTRAL),
    (("<TOOLCALL>",), (), NEMOTRON),
    (("<|/tool_call|>",), (), PHI_4),
    (("<|tool_call|>", "JSON list"), (), GRANITE_3),
    # Tags with one element per argument are another syntax (Qwen3-Coder, GLM), which is not read back.
    (("<tool_call>",), ("<parameter=", "<arg_key>", "<param name=", "<invoke name="), HERMES),
    (("<function=",), ("<parameter=",), FUNCTIONARY),
    (('{"name": function name, "parameters":',), (), LLAMA_3),
)


def family_of(template: str) -> Family:
    """Tell from a chat template how the model's answers are marked.

    Thinking is looked for by itself: the same tool call syntax serves models that think and models that do not.
    """
    family = Family()
    for present, absent, known in _KNOWN:
        if all(text in template for text in present) and not any(text in template for text in absent):
            family = known
            break
    if family.reasoning is None:
        if "[THINK]" in template:
            return family._replace(reasoning=Reasoning("[THINK]", "[/THINK]"))
        if THINK.opening in template or THINK.closing in template:
            return family._replace(reasoning=THINK)
    return family
