"""What was said in a chat so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recycle_cpp.types import Message

if TYPE_CHECKING:
    from collections.abc import Sequence


class Conversation:
    """The turns of a chat, and the system message that goes before them.

    Attributes:
        system: text of the system message; empty is none.
        turns: questions and answers in order.
    """

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        """Begin with messages; a system message among them may come first."""
        leads = bool(messages) and messages[0].role == "system"
        self.system = messages[0].content if leads else ""
        self.turns = list(messages[1:] if leads else messages)

    @property
    def messages(self) -> list[Message]:
        """All messages as the model gets them."""
        return self.with_system(self.turns)

    def with_system(self, turns: Sequence[Message]) -> list[Message]:
        """Return turns behind the system message."""
        return [*([Message("system", self.system)] if self.system else []), *turns]

    def up_to_last_question(self) -> list[Message]:
        """Return the turns up to the last question, that one included; empty if there is none."""
        questions = [number for number, turn in enumerate(self.turns) if turn.role == "user"]
        return self.turns[: questions[-1] + 1] if questions else []


def newer_half(turns: Sequence[Message]) -> list[Message]:
    """Return turns without the older half of the questions and their answers; the last question always stays."""
    questions = [number for number, turn in enumerate(turns) if turn.role == "user"]
    return list(turns[questions[len(questions) // 2] :]) if questions else list(turns)
