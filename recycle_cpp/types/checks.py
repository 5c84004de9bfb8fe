"""Checks of a record's fields, with one line of complaint."""

from __future__ import annotations

from recycle_cpp.errors import UsageError


def is_whole(value: object, low: int) -> bool:
    """Tell whether a value is a whole number from `low` up that 32 bits hold."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < 2**31


def is_number(value: object, low: float, high: float) -> bool:
    """Tell whether a value is a number from `low` to `high`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def require(holds: bool, record: object, name: str, wanted: str) -> None:
    """Complain of a record's field unless the condition holds.

    Raises:
        UsageError: names the field, its value and what is wanted.
    """
    if not holds:
        raise UsageError(f"{name} is {getattr(record, name)!r}; give {wanted}")
