"""Grammars that make a model call tools as its family does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from recycle_cpp.errors import UsageError
from recycle_cpp.text.grammars.json_schema import add_schema, new_rules
from recycle_cpp.types import Grammar
from recycle_cpp.types.checks import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recycle_cpp.text.families import CallSyntax, Family
    from recycle_cpp.text.grammars.schema_rules import SchemaRules
    from recycle_cpp.text.grammars.schemas import Schema
    from recycle_cpp.types import Tool

_ID = {"type": "string", "pattern": "^[a-zA-Z0-9]{9}$"}


def tool_grammar(
    family: Family, tools: Sequence[Tool], tool_choice: str = "auto", *, in_reasoning: bool = False
) -> Grammar | None:
    """Return the grammar that makes a model call tools as its family does, each with its own arguments.

    With "required" or a tool's name it holds from the first token, behind thinking where the family thinks; with "auto"
    from the mark that opens a call, so that a call that begins ends as a valid one.

    Args:
        family: how the model writes calls.
        tools: what it may call.
        tool_choice: "auto", "required" or the name of a tool; "none" needs no grammar.
        in_reasoning: whether the prompt ends inside the model's thinking.

    Returns:
        The grammar; None where the answer is free.

    Raises:
        UsageError: if calls are required of a family whose calls nobody knows, or the arguments' schema is none.
    """
    if tool_choice == "none" or not tools:
        return None
    if not family.calls:
        if tool_choice == "auto":
            return None
        raise UsageError("this model's way to call tools is not known, so it cannot be made to: leave tool_choice auto")
    named = tool_choice not in ("auto", "required")
    wanted = [tool for tool in tools if not named or tool.name == tool_choice]
    if not wanted:
        raise UsageError(f"tool_choice is {shown(tool_choice)}, which is none of the tools: give the name of one")
    rules = new_rules()
    calls = _add_calls(rules, family, wanted, several=not named)
    if tool_choice == "auto":
        rules.rule("root", calls)
        return Grammar(rules.text(), triggers=_triggers(family.calls[0], wanted))
    rules.rule("root", f"{_thinking(rules, family, in_reasoning)} {calls}".strip())
    return Grammar(rules.text())


def _add_calls(rules: SchemaRules, family: Family, tools: list[Tool], *, several: bool) -> str:
    """Add the rules of calls; return the name of the one for all calls of an answer."""
    syntax = family.calls[0]
    each = " | ".join(_add_call(rules, family, tool, f"tool-{at}") for at, tool in enumerate(tools))
    call = rules.rule("call", each)
    opening, closing = (rules.literal(mark) if mark else "" for mark in (syntax.opening, syntax.closing))
    before, behind = (rules.literal(text) if text else "" for text in syntax.around)
    if syntax.around[0] == "[":
        more = f'("," space {call})*' if several else ""
        inside = f"{opening} space {before} space {call} {more} {behind} {closing}"
    else:
        one = rules.rule("one-call", f"{opening} {before} {call} {behind} {closing}")
        several = several and bool(syntax.opening)  # nothing would part one bare object from the next
        inside = f'{one} ("\\n"? {one})*' if several else one
    first, last = (rules.literal(mark) for mark in syntax.sections) if syntax.sections else ("", "")
    return rules.rule("calls", " ".join(f"{first} {inside} {last}".split()))


def _add_call(rules: SchemaRules, family: Family, tool: Tool, name: str) -> str:
    syntax = family.calls[0]
    schema: Schema = dict(tool.parameters) or {"type": "object", "properties": {}}
    arguments = add_schema(rules, schema, f"the parameters of tool {tool.name!r}", f"{name}-arguments")
    if syntax.heads:
        return rules.rule(name, f"{rules.literal(syntax.heads[0].format(name=tool.name, id=''))} {arguments}")

    def member(key: str, value: str) -> str:
        return f'{rules.literal(json.dumps(key))} ":" space {value}'

    named = rules.literal(json.dumps(tool.name, ensure_ascii=False))
    rule = f'"{{" space {member(syntax.name_key, named)} space "," space {member(syntax.arguments_key, arguments)}'
    if family.short_ids:
        rule += f' ("," space {member("id", add_schema(rules, _ID, "the id", "call-id"))})?'
    return rules.rule(name, rule + ' "}"')


def _triggers(syntax: CallSyntax, tools: list[Tool]) -> tuple[str, ...]:
    """Return the texts with which a call begins."""
    if syntax.sections:
        return (syntax.sections[0],)
    if syntax.opening:
        return (syntax.opening,)
    return tuple(f'{{"{syntax.name_key}": {json.dumps(tool.name, ensure_ascii=False)}' for tool in tools)


def _thinking(rules: SchemaRules, family: Family, in_reasoning: bool) -> str:
    """Return what may come before a call that is required: thinking, where the family thinks."""
    if family.reasoning is None:
        return ""
    thought = _add_text_up_to(rules, family.reasoning.closing)
    wrappers = " | ".join(rules.literal(mark) for mark in family.wrappers)
    behind = f'[ \\n]{{0,4}} ({wrappers} | "")' if wrappers else "[ \\n]{0,4}"
    if in_reasoning:
        return f"{thought} {behind}"
    return f"({rules.literal(family.reasoning.opening)} {thought} {behind})?"


def _add_text_up_to(rules: SchemaRules, mark: str) -> str:
    """Add rules of any text that ends with the first of a mark; return the name of the first.

    One rule for each number of the mark's characters that the text has just ended with.
    """
    for seen in range(len(mark)):
        nexts = {}
        for character in dict.fromkeys(mark):
            text = mark[:seen] + character
            nexts[character] = next(n for n in range(len(text), -1, -1) if text.endswith(mark[:n]))
        ways = [
            f"{rules.literal(character)} {f'thought-{n}' if n < len(mark) else ''}".strip()
            for character, n in nexts.items()
        ]
        others = "".join(f"\\x{ord(c):02X}" if ord(c) < 0x100 else f"\\U{ord(c):08X}" for c in dict.fromkeys(mark))
        rules.rule(f"thought-{seen}", " | ".join([f"[^{others}] thought-0", *ways]))
    return "thought-0"
