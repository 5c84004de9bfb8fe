"""One answer as it grows: tokens to text, stop strings, and what a stream may say already."""

from __future__ import annotations

import codecs
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from recycle_cpp.types import Chunk, TokenLogprobs


class Part(NamedTuple):
    """One token of the answer, and what it releases of the text.

    Attributes:
        token: the token.
        text: the characters that are complete with it.
        before: characters of the answer before them.
        start: byte at which they begin.
        end: byte at which the token ends.
        whole: whether no character is incomplete behind it.
        said: what the model said where the token was chosen.
    """

    token: int
    text: str
    before: int
    start: int
    end: int
    whole: bool
    said: TokenLogprobs | None


class Answer:
    """Text and tokens of one answer, in time that grows with its length alone.

    Bytes that are no UTF-8 are left out, as llama_cpp leaves them out; stop strings are looked for in the bytes.

    Attributes:
        parts: the tokens so far.
        reason: why the answer has ended, "stop" or "length"; None while it has not.
    """

    def __init__(
        self,
        opening: Sequence[int],
        stops: Sequence[str],
        max_tokens: int,
        piece: Callable[[int, Sequence[int]], bytes],
        is_eog: Callable[[int], bool],
    ) -> None:
        """Begin an answer.

        Args:
            opening: tokens that count as its first, and have no text.
            stops: strings that end it.
            max_tokens: tokens that it has at most, but for one behind the opening.
            piece: returns what a token adds to the text, given the answer's tokens before it.
            is_eog: tells whether a token ends a generation.
        """
        self._stops = [stop.encode() for stop in stops if stop]
        self._longest = max(map(len, self._stops), default=0)
        self._max_tokens = max_tokens
        self._piece = piece
        self._is_eog = is_eog
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._data = bytearray()
        self._cut: int | None = None
        self._characters = 0
        self._released = 0
        self.tokens: list[int] = []
        self.parts: list[Part] = []
        self.reason: str | None = None
        for token in opening:
            self._append(token, b"", None)
        self._spaced = bool(opening)

    @property
    def text(self) -> str:
        """The text so far, up to a stop string."""
        return self._data[: self._end].decode("utf-8", "ignore")

    @property
    def _end(self) -> int:
        return len(self._data) if self._cut is None else self._cut

    def take(self, chunk: Chunk, *, by_token: bool) -> list[Part]:
        """Take what a step has brought, up to the answer's end, and return what may be shown.

        Args:
            chunk: the step.
            by_token: as `release` takes it.
        """
        shown: list[Part] = []
        for token, said in zip_longest(chunk.tokens, chunk.logprobs):
            if self._is_eog(token):
                self.reason = "stop"
                return shown
            self._push(token, said)
            if self._cut is not None:
                self.reason = "stop"
                return shown
            shown += self.release(by_token=by_token)
            if len(self.tokens) >= self._max_tokens:
                self.reason = "length"
                return shown
        if chunk.finish_reason is not None:
            self.reason = "length" if chunk.finish_reason == "length" else "stop"
        return shown

    def take_all(self, chunks: Iterator[Chunk]) -> None:
        """Take steps up to the answer's end; nothing is to be shown before it."""
        for chunk in chunks:
            self.take(chunk, by_token=True)
            if self.reason is not None:
                return

    def _push(self, token: int, said: TokenLogprobs | None) -> None:
        piece = self._piece(token, self.tokens)
        if self._spaced and piece:
            piece = piece.removeprefix(b" ") if not self._data else piece
            self._spaced = False
        searched = max(0, len(self._data) - self._longest + 1)
        self._append(token, piece, said)
        found = [at for at in (self._data.find(stop, searched) for stop in self._stops) if at >= 0]
        self._cut = min(found, default=None)

    def _append(self, token: int, piece: bytes, said: TokenLogprobs | None) -> None:
        start = len(self._data) - len(self._decoder.getstate()[0])
        text = self._decoder.decode(piece)
        self._data += piece
        whole = not self._decoder.getstate()[0]
        self.tokens.append(token)
        self.parts.append(Part(token, text, self._characters, start, len(self._data), whole, said))
        self._characters += len(text)

    def release(self, *, by_token: bool) -> list[Part]:
        """Return what may be shown now: nothing that may turn out to be the beginning of a stop string.

        Args:
            by_token: return one part for each token; else tokens that share a character come as one part.
        """
        limit = len(self._data) - self._held()
        shown: list[Part] = []
        group = self._released
        for index in range(self._released, len(self.parts)):
            part = self.parts[index]
            if part.end > limit:
                break
            if by_token or part.whole:
                text = "".join(self.parts[i].text for i in range(group, index + 1))
                shown.append(part._replace(text=text))
                group = index + 1
        self._released = group
        return shown

    def rest(self) -> list[Part]:
        """Return what is left to show when the answer has ended, token by token; the last one is cut at the stop."""
        shown: list[Part] = []
        for part in self.parts[self._released :]:
            if part.end >= self._end:
                shown.append(part._replace(text=self._data[part.start : self._end].decode("utf-8", "ignore")))
                break
            shown.append(part)
        self._released = len(self.parts)
        return shown

    def _held(self) -> int:
        """Return how many of the last bytes are the beginning of a stop string."""
        shown = self.parts[self._released - 1].end if self._released else 0
        waiting = len(self._data) - shown
        for n in range(min(self._longest, waiting), 0, -1):
            if any(self._data.endswith(stop[:n]) for stop in self._stops):
                return n
        return 0
