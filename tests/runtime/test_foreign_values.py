"""Whatever stands in a field of a record, a complaint is one short line."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from recycle_cpp import ChatOptions, GenerateOptions, Grammar, LoadOptions, SamplingOptions, Tool, UsageError


class Unwritable:
    """Neither to be written nor to be compared."""

    __hash__ = None

    def __repr__(self) -> str:
        raise ValueError("no repr")

    def __eq__(self, other: object) -> bool:
        raise ValueError("no comparison")


NEVER = {
    "a number of 5,000 digits": 10**5000,
    "what cannot be written": Unwritable(),
    "an array": np.array([1.0, 2.0]),
    "a large array": np.zeros((2000, 3)),
    "bytes": b"x",
    "a long text": "y\n" * 100_000,
    "a complex number": 1j,
}
RECORDS = [GenerateOptions, ChatOptions, SamplingOptions, LoadOptions, Grammar]
TEXTS = {(Grammar, "text"), (Grammar, "root")}


@pytest.mark.parametrize("what", NEVER)
@pytest.mark.parametrize(("record", "name"), [(record, field.name) for record in RECORDS for field in fields(record)])
def test_a_field_refuses_what_it_cannot_be_in_one_short_line(record: type, name: str, what: str) -> None:
    if (record, name) in TEXTS and what == "a long text":
        return
    others = {"text": 'root ::= "a"'} if record is Grammar and name != "text" else {}
    with pytest.raises(UsageError, match=name) as caught:
        record(**others, **{name: NEVER[what]})
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["raw", "context_shift", "continue_last"])
def test_no_in_words_is_not_taken_for_yes(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is 'no'; give True or False"):
        ChatOptions(**{name: "no"})


@pytest.mark.parametrize(
    ("tool", "complaint"),
    [
        (Tool(5), "name is 5"),  # type: ignore[arg-type]
        (Tool(""), "name is ''"),
        (Tool("a", None), "description is None"),  # type: ignore[arg-type]
        (Tool("a", "", [1]), r"parameters is \[1\]"),  # type: ignore[arg-type]
    ],
)
def test_a_tools_fields_are_checked(tool: Tool, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        ChatOptions(tools=(tool,))
