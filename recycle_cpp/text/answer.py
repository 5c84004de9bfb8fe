"""The text of one answer, from tokens to what the caller may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recycle_cpp.text.detokenizer import Detokenizer
from recycle_cpp.text.stops import StopMachine

if TYPE_CHECKING:
    from recycle_cpp.types import Vocabulary


class AnswerText:
    """Owns a request's text state: incomplete characters and possible stop strings.

    Push tokens one at a time, in order, and look at `stopped` after each: the token at which it turns true
    is the last one of the answer, and the model's cache is to be rewound to just after it. Then call `flush`
    once, also after a stop.
    """

    def __init__(self, vocabulary: Vocabulary, stops: tuple[str, ...] = ()) -> None:
        self._detokenizer = Detokenizer(vocabulary)
        self._machine = StopMachine(stops)

    @property
    def stopped(self) -> bool:
        """Whether a stop string has ended the text."""
        return self._machine.matched is not None

    @property
    def matched(self) -> str | None:
        """The stop string that ended the text, or None."""
        return self._machine.matched

    def push(self, token: int) -> str:
        """Return the text that may be delivered after this token; empty once stopped."""
        if self.stopped:
            return ""
        return self._machine.push(self._detokenizer.push(token))

    def flush(self) -> str:
        """Return the rest of the text at the end of the generation.

        A stop string that is complete only now (see `StopMachine`) sets `stopped` here.
        """
        return self._machine.push(self._detokenizer.flush()) + self._machine.flush()
