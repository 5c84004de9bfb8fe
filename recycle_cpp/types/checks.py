"""Checks of a record's fields, with one line of complaint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 80  # characters of a value that a complaint shows


def is_whole(value: object, low: int) -> bool:
    """Tell whether a value is a whole number from `low` up that 32 bits hold."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < 2**31


def is_number(value: object, low: float, high: float) -> bool:
    """Tell whether a value is a number from `low` to `high`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def is_name(value: object, names: Iterable[str]) -> bool:
    """Tell whether a value is one of some names; what is no text is not even compared, arrays answer in arrays."""
    return isinstance(value, str) and value in names


def shown(value: object) -> str:
    """Return a value as a complaint shows it: on one line, cut short, by its type where it cannot be written."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # foreign code; and Python writes no number of 5,000 digits
        return f"of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def require(holds: bool, record: object, name: str, wanted: str) -> None:
    """Complain of a record's field unless the condition holds.

    Raises:
        UsageError: names the field, its value and what is wanted.
    """
    if not holds:
        raise UsageError(f"{name} is {shown(getattr(record, name))}; give {wanted}")


def require_flags(record: object, *names: str) -> None:
    """Complain of the first of a record's fields that is neither True nor False: "no" would count as yes.

    Raises:
        UsageError: names the field and its value.
    """
    for name in names:
        require(isinstance(getattr(record, name), bool), record, name, "True or False")
