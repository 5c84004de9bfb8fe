r"""Regular expressions to grammar rules, for JSON strings.

The library's own translation lets `.` and `[^x]` match quotes and line feeds, which ends the string or breaks the JSON,
does not know `\d`, and never returns from a stray `]`. So Python's parser reads the pattern, and each character is
written as JSON writes it.
"""

from __future__ import annotations

import re
import warnings
from re import _constants as sre  # type: ignore[attr-defined]  # the parser behind re.compile has no public name
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from recycle_cpp.errors import UsageError

Ranges = list[tuple[int, int]]

_LAST = 0x10FFFF
_ESCAPES = {0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x5C: "\\"}
_WRITTEN_RAW: Ranges = [(0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E), (0x80, 0xD7FF), (0xE000, _LAST)]
_DIGITS: Ranges = [(0x30, 0x39)]
_WORDS: Ranges = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]
_SPACES: Ranges = [(0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x2028, 0x2029), (0xFEFF, 0xFEFF)]
MOST_TIMES = 2000  # llama.cpp's own bound; it takes a higher one at most for none


def pattern_rule(pattern: str) -> str:
    """Return the right side of a rule for the inside of a JSON string that a pattern is found in.

    Raises:
        UsageError: if the pattern is no regular expression, or has what rules cannot say.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what may mean something else in a later Python
            parsed = _parser.parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise _error(pattern, f"is no regular expression: {error}") from None
    if parsed.state.flags & ~re.UNICODE:
        raise _error(pattern, "has flags, which rules cannot have")
    anything = f"{_of_ranges(_all_but([(0x0A, 0x0A), (0x0D, 0x0D)]))}*"
    nodes = list(parsed)
    before = [] if _anchored(nodes, 0, sre.AT_BEGINNING, pattern) else [anything]
    behind = [] if _anchored(nodes, -1, sre.AT_END, pattern) else [anything]
    return " ".join([*before, _sequence(nodes, pattern), *behind])


def _anchored(nodes: list[Any], end: int, anchor: object, pattern: str) -> bool:
    """Tell whether a sequence holds on to one end of the string."""
    if not nodes:
        return False
    kind, value = nodes[end]
    if kind is sre.AT:
        return value is anchor
    if kind is sre.SUBPATTERN:
        return _anchored(list(value[3]), end, anchor, pattern)
    if kind is sre.BRANCH:
        ways = {_anchored(list(way), end, anchor, pattern) for way in value[1]}
        if len(ways) > 1:
            raise _error(pattern, "is anchored in some of its ways only")
        return ways.pop()
    return False


def _sequence(nodes: Any, pattern: str) -> str:
    nodes = list(nodes)
    parts = []
    for at, (kind, value) in enumerate(nodes):
        if kind is sre.AT:
            outermost = {sre.AT_BEGINNING: 0, sre.AT_END: len(nodes) - 1}.get(value)
            if at != outermost:
                raise _error(pattern, "has an anchor in its middle")
        else:
            parts.append(_node(kind, value, pattern))
    return " ".join(parts) or '""'


def _node(kind: Any, value: Any, pattern: str) -> str:
    if kind is sre.LITERAL:
        return _of_ranges([(value, value)])
    if kind is sre.NOT_LITERAL:
        return _of_ranges(_all_but([(value, value)]))
    if kind is sre.ANY:
        return _of_ranges(_all_but([(0x0A, 0x0A)]))
    if kind is sre.IN:
        return _of_ranges(_ranges(value, pattern))
    if kind is sre.BRANCH:
        return f"({' | '.join(_sequence(way, pattern) for way in value[1])})"
    if kind is sre.SUBPATTERN and not value[1] and not value[2]:
        return f"({_sequence(value[3], pattern)})"
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        least, most, inner = value
        return _repeated(least, most, inner, pattern)
    raise _error(pattern, f"has {str(kind).lower().replace('_', ' ')}, which rules cannot say")


def _repeated(least: Any, most: Any, inner: Any, pattern: str) -> str:
    if least > MOST_TIMES:
        raise _error(pattern, f"repeats more than {MOST_TIMES} times, which llama.cpp does not")
    bound = "" if most is sre.MAXREPEAT or most > MOST_TIMES else int(most)
    return f"({_sequence(inner, pattern)}){{{int(least)},{bound}}}"


def _ranges(items: list[tuple[Any, Any]], pattern: str) -> Ranges:
    """Return the characters of a class in brackets."""
    negated, found = False, []
    for kind, value in items:
        if kind is sre.NEGATE:
            negated = True
        elif kind is sre.LITERAL:
            found.append((value, value))
        elif kind is sre.RANGE:
            found.append(value)
        else:
            found += _category(value, pattern)
    return _all_but(found) if negated else found


def _category(category: Any, pattern: str) -> Ranges:
    known = {
        sre.CATEGORY_DIGIT: _DIGITS,
        sre.CATEGORY_WORD: _WORDS,
        sre.CATEGORY_SPACE: _SPACES,
        sre.CATEGORY_NOT_DIGIT: _all_but(_DIGITS),
        sre.CATEGORY_NOT_WORD: _all_but(_WORDS),
        sre.CATEGORY_NOT_SPACE: _all_but(_SPACES),
    }
    if category not in known:
        raise _error(pattern, f"has {category}, which rules cannot say")
    return known[category]


def _all_but(ranges: Ranges) -> Ranges:
    left, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            left.append((start, low - 1))
        start = max(start, high + 1)
    return [*left, (start, _LAST)] if start <= _LAST else left


def _of_ranges(ranges: Ranges) -> str:
    """Return an element that matches one character of these ranges, as JSON writes it."""
    raw = [
        (max(low, first), min(high, last))
        for low, high in ranges
        for first, last in _WRITTEN_RAW
        if max(low, first) <= min(high, last)
    ]
    escaped = [name for code, name in _ESCAPES.items() if any(low <= code <= high for low, high in ranges)]
    ways = []
    if raw:
        ways.append(f"[{''.join(_code(low) + ('-' + _code(high) if high > low else '') for low, high in sorted(raw))}]")
    if escaped:
        names = "".join("\\" + name if name in '"\\' else name for name in escaped)
        ways.append(f'"\\\\" [{names}]')
    if not ways:
        low = ranges[0][0] if ranges else 0
        ways.append(f'"\\\\u{low:04x}"')
    return ways[0] if len(ways) == 1 and raw else f"({' | '.join(ways)})"


def _code(point: int) -> str:
    """Return a character as a class in brackets may hold it."""
    if point < 0x80 and chr(point).isalnum():
        return chr(point)
    return f"\\x{point:02X}" if point < 0x100 else f"\\U{point:08X}"


def _error(pattern: str, what: str) -> UsageError:
    return UsageError(f"the pattern {pattern!r:.80} {' '.join(what.split())}: write it in another way")
