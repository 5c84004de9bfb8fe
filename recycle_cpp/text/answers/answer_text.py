"""The text of one answer, from tokens to what the caller may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recycle_cpp.text.answers.detokenizer import Detokenizer
from recycle_cpp.text.answers.stops import StopMachine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from recycle_cpp.types import Vocabulary


def shown_pieces(vocabulary: Vocabulary, marks: Iterable[str]) -> dict[int, bytes]:
    """Return the control tokens among a family's marks and their bytes, for an AnswerText whose parts matter.

    Control tokens add nothing to a text, so without this a mark that is one could not be seen.
    """
    shown = {}
    for mark in marks:
        for token in vocabulary.tokenize(mark, add_special=False, parse_special=True):
            if not vocabulary.piece(token):
                shown[token] = vocabulary.piece(token, special=True)
    return shown


class AnswerText:
    """Owns a request's text state: incomplete characters and possible stop strings.

    Push tokens one at a time, in order, and look at `stopped` after each: the token at which it turns true
    is the last one of the answer, and the model's cache is to be rewound to just after it. Then call `flush`
    once, also after a stop.
    """

    def __init__(
        self, vocabulary: Vocabulary, stops: tuple[str, ...] = (), shown: Mapping[int, bytes] | None = None
    ) -> None:
        """Begin a text.

        Args:
            vocabulary: knows what each token adds; end-of-generation tokens are not to be pushed.
            stops: texts that end it.
            shown: bytes of control tokens that are to be text all the same, as `shown_pieces` finds them.
        """
        self._detokenizer = Detokenizer(vocabulary, shown)
        self._machine = StopMachine(stops)

    @property
    def stopped(self) -> bool:
        """Whether a stop string has ended the text."""
        return self._machine.matched is not None

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
