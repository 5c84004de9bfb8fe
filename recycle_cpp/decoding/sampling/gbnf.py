"""Reads GBNF rules as far as is needed to keep from llama.cpp's parser what would end or hang the process.

What merely makes no sense is left to llama.cpp, which says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

DEEPEST = 100  # brackets within brackets: each takes some of the C stack
LONGEST_CALLS = 1000  # rules that begin with rules: the same
MOST_CALLS = 10_000_000  # ways down through these: llama.cpp walks every one
MOST_RULES = 20_000
MOST_ELEMENTS = 4_000_000  # of 8 bytes
MOST_TIMES = 2000  # llama.cpp's own bound; more than that at most is taken for no bound
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_BLANK = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_NAME = re.compile(r"[a-zA-Z0-9-]+")
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_CLASS = re.compile(r"\[((?:[^\]\\]|\\.)*)\]", re.DOTALL)
_TOKEN = re.compile(r"!?<[^>]*>")
_TIMES = re.compile(r"\{\s*(\d+)\s*(?:(,)\s*(\d*)\s*)?\}")


class Element(NamedTuple):
    """One element of a sequence.

    Attributes:
        rule: the rule it stands for; empty for text and tokens.
        reads: whether it reads something by itself.
        optional: whether it may be left out.
        again: whether it may come more than once.
        token: a token's name, as in `Reader.tokens`; empty for text and rules.
    """

    rule: str
    reads: bool
    optional: bool = False
    again: bool = False
    token: str = ""


class Unreadable(Exception):  # noqa: N818 - no error of ours: llama.cpp is to say what is wrong
    """The rules are no GBNF."""


class Reader:
    """Reads rules; groups in brackets become rules of their own, as in llama.cpp.

    Attributes:
        rules: alternatives of each rule; each is a sequence of elements.
        tokens: names of tokens, in their brackets; behind "!" where any other token is meant.
    """

    def __init__(self, text: str) -> None:
        self.rules: dict[str, list[list[Element]]] = {}
        self.tokens: set[str] = set()
        self._text = text
        self._at = 0
        self._n_elements = 0

    def read(self) -> None:
        """Read all rules.

        Raises:
            UsageError: if llama.cpp should not read them.
            Unreadable: if they are no GBNF.
        """
        self._skip(_SPACE)
        while self._at < len(self._text):
            name = self._take(_NAME).group()
            self._skip(_BLANK)
            if not self._text.startswith("::=", self._at):
                raise Unreadable
            self._at += 3
            self._skip(_SPACE)
            self._read_alternatives(name, 0)
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                raise Unreadable
            self._skip(_SPACE)

    def _skip(self, space: re.Pattern[str]) -> None:
        match = space.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise Unreadable
        self._at = match.end()
        return match

    def _read_alternatives(self, name: str, depth: int) -> None:
        if depth > DEEPEST:
            raise UsageError(f"the grammar has brackets {DEEPEST} deep: give parts of it names of their own")
        self.rules[name] = alternatives = [self._read_sequence(name, depth)]
        if len(self.rules) > MOST_RULES:
            raise UsageError(f"the grammar has more than {MOST_RULES} rules: make it smaller")
        while self._text.startswith("|", self._at):
            self._at += 1
            self._skip(_SPACE)
            alternatives.append(self._read_sequence(name, depth))

    def _read_sequence(self, name: str, depth: int) -> list[Element]:
        sequence: list[Element] = []
        size, times = 0, 1
        while self._at < len(self._text):
            kind = self._text[self._at]
            if kind in "*+?{":
                if not sequence:
                    raise Unreadable
                low, high = self._read_times(kind)
                times *= max(1, low, 1 if high is None else high)
                self._count(size * times)
                last = sequence[-1]
                again = last.again or high is None or high > 1
                sequence[-1] = last._replace(optional=last.optional or low == 0, again=again)
            else:
                element, size = self._read_element(kind, name, depth)
                if element is None:
                    return sequence
                times = 1
                self._count(size)
                sequence.append(element)
            self._skip(_SPACE if depth else _BLANK)
        return sequence

    def _read_element(self, kind: str, name: str, depth: int) -> tuple[Element | None, int]:
        """Return the next element and how much room it takes; None if the sequence ends here."""
        if kind in '"[':
            text = self._take(_LITERAL if kind == '"' else _CLASS).group(1)
            is_empty = text == "" or (kind == "[" and text == "^")
            return Element("", reads=not is_empty, optional=is_empty), len(text)
        if kind in "<!":
            token = self._take(_TOKEN).group()
            self.tokens.add(token)
            return Element("", reads=True, token=token), 1
        if kind == ".":
            self._at += 1
            return Element("", reads=True), 1
        if kind == "(":
            group = f"{name}({self._at}"  # no rule can have such a name
            self._at += 1
            self._skip(_SPACE)
            self._read_alternatives(group, depth + 1)
            if not self._text.startswith(")", self._at):
                raise Unreadable
            self._at += 1
            return Element(group, reads=False), 1
        name_here = _NAME.match(self._text, self._at)
        if name_here:
            self._at = name_here.end()
            return Element(name_here.group(), reads=False), 1
        return None, 0

    def _read_times(self, kind: str) -> tuple[int, int | None]:
        """Return how often the element before comes, at least and at most."""
        if kind != "{":
            self._at += 1
            return (1 if kind == "+" else 0), (1 if kind == "?" else None)
        found = self._take(_TIMES)
        if len(found[1]) > 9 or len(found[3] or "") > 9:
            raise UsageError(f"the grammar repeats a part {found[0]} times: {MOST_TIMES} are the most")
        low = int(found[1])
        high = low if found[2] is None else int(found[3]) if found[3] else None
        if high is not None and high < low:  # llama.cpp counts down to there from below
            raise UsageError(f"the grammar repeats a part {found[0]} times: give the smaller number first")
        return low, None if high is not None and high > MOST_TIMES else high

    def _count(self, n: int) -> None:
        self._n_elements += n
        if self._n_elements > MOST_ELEMENTS:
            raise UsageError("the grammar is too large, its repetitions written out: repeat less, or shorter parts")


def check_gbnf(text: str) -> set[str]:
    """Check that llama.cpp can read rules without harm.

    Returns:
        The names of tokens in them, in their brackets, that may stand behind text.

    Raises:
        UsageError: if it could not.
    """
    reader = Reader(text)
    try:
        reader.read()
    except Unreadable:
        return set()  # llama.cpp stops at the same place, and says why
    check_recursion(reader.rules)
    if not any(token.startswith("!") for token in reader.tokens):
        return reader.tokens
    check_tokens(reader.rules)
    return set()


def check_recursion(rules: dict[str, list[list[Element]]]) -> None:
    """Check that each rule can be matched, and that none calls itself before it has read anything.

    llama.cpp looks for the latter, too, but sees only rules that are empty by themselves, not through others.

    Raises:
        UsageError: if one cannot, or does.
    """
    if any(element.rule not in rules for rule in rules.values() for s in rule for element in s if element.rule):
        return  # llama.cpp says which one is missing
    empty = _empty_rules(rules)
    starts = _closure(rules, lambda sequence, starts: _may_start(sequence, empty, starts))
    for name in rules:
        if name not in empty and name not in starts:
            raise UsageError(f"the grammar's rule {_shown(name)} can match no text, not even an empty one")
    _check_left_calls({name: _left_calls(rule, empty) for name, rule in rules.items()})


def _shown(name: str) -> str:
    return name.split("(", maxsplit=1)[0]


def _may_be_empty(element: Element, empty: set[str]) -> bool:
    return element.optional or element.rule in empty


def _may_start(sequence: list[Element], empty: set[str], starts: set[str]) -> bool:
    """Return whether a sequence can read something."""
    for element in sequence:
        if element.reads or element.rule in starts:
            return True
        if not _may_be_empty(element, empty):
            return False
    return False


def _closure(rules: dict[str, list[list[Element]]], holds: Callable[[list[Element], set[str]], bool]) -> set[str]:
    """Return the rules of which an alternative holds, given those of which one does."""
    found: set[str] = set()
    users: dict[str, set[str]] = {}
    for name, rule in rules.items():
        for element in (element for sequence in rule for element in sequence if element.rule):
            users.setdefault(element.rule, set()).add(name)
    todo = list(rules)
    while todo:
        name = todo.pop()
        if name not in found and any(holds(sequence, found) for sequence in rules[name]):
            found.add(name)
            todo += users.get(name, ())
    return found


def _left_calls(rule: list[list[Element]], empty: set[str]) -> list[tuple[str, bool]]:
    """Return the rules that a rule may call before it reads anything, and whether something comes after each."""
    calls = []
    for sequence in rule:
        for i, element in enumerate(sequence):
            if element.rule:
                calls.append((element.rule, element.again or i + 1 < len(sequence)))
            if not _may_be_empty(element, empty):
                break
    return calls


def _check_left_calls(calls: dict[str, list[tuple[str, bool]]]) -> None:
    """Check that calls before anything is read come to an end, soon enough.

    Raises:
        UsageError: if they do not.
    """
    callers: dict[str, list[str]] = {name: [] for name in calls}
    for name, below in calls.items():
        for callee, _ in below:
            callers[callee].append(name)
    open_calls = {name: len(below) for name, below in calls.items()}
    done = [name for name, n in open_calls.items() if n == 0]
    depth, ways = dict.fromkeys(calls, 1), dict.fromkeys(calls, 1)
    for name in done:  # grows while it is walked: a rule is done when all that it calls are
        if depth[name] > LONGEST_CALLS or ways[name] > MOST_CALLS:
            raise UsageError(
                f"the grammar's rule {_shown(name)} begins with too many rules within rules: make it plainer"
            )
        for caller in callers[name]:
            depth[caller] = max(depth[caller], depth[name] + 1)
            ways[caller] += ways[name]
            open_calls[caller] -= 1
            if open_calls[caller] == 0:
                done.append(caller)
    endless = {name for name, n in open_calls.items() if n > 0}
    for name in sorted(endless):
        if any(grows and callee in endless for callee, grows in calls[name]):
            raise UsageError(
                f"the grammar's rule {_shown(name)} may call itself before it has read anything (left recursion): "
                "let it begin with text"
            )


def _empty_rules(rules: dict[str, list[list[Element]]]) -> set[str]:
    return _closure(rules, lambda sequence, empty: all(_may_be_empty(element, empty) for element in sequence))


def check_tokens(rules: dict[str, list[list[Element]]]) -> None:
    """Check that no token stands right behind text, in rules in which some stand for any token but one.

    There llama.cpp allows tokens of which a part belongs to the text, and ends the process when one comes.

    Raises:
        UsageError: if one does.
    """
    empty = _empty_rules(rules)

    def begins(element: Element, found: set[str]) -> bool:
        return bool(element.token) or element.rule in found

    def ends(element: Element, found: set[str]) -> bool:
        return element.rule in found if element.rule else element.reads and not element.token

    tokens = _closure(rules, lambda sequence, found: _first_is(begins, sequence, empty, found))
    textual = _closure(rules, lambda sequence, found: _first_is(ends, sequence[::-1], empty, found))
    for name, rule in rules.items():
        for sequence in rule:
            for i, element in enumerate(sequence):
                again = element.again and _first_is(begins, [element], empty, tokens)
                behind = again or _first_is(begins, sequence[i + 1 :], empty, tokens)
                if behind and ends(element, textual):
                    raise UsageError(
                        f"the grammar's rule {_shown(name)} has a token right behind text, beside tokens "
                        "that are not to come (!<...>): let a token stand before it"
                    )


def _first_is(
    holds: Callable[[Element, set[str]], bool], sequence: list[Element], empty: set[str], found: set[str]
) -> bool:
    """Return whether something holds for an element that nothing need come before."""
    for element in sequence:
        if holds(element, found):
            return True
        if not _may_be_empty(element, empty):
            return False
    return False
