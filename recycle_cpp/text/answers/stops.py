"""Stop strings in streamed text."""

from __future__ import annotations

from recycle_cpp.text.answers.marks import Marks


class StopMachine:
    """Passes text on up to the first stop string, however the text is cut into pieces.

    The text is cut at the earliest place where any stop string starts. After each piece the text's end is in
    one of three states: it holds a whole stop string (full: cut), it is the beginning of one (partial: hold
    it back), or neither (none: deliver). A whole stop string inside a longer one that started earlier and may
    still come true waits for that one: with the stops "abcd" and "bc", "abc" is held until the next character
    (or `flush`) tells where to cut. So the result depends on the text alone, never on how it was cut.

    At most one character less than the longest stop string is held back.

    Attributes:
        matched: the stop string at which the text was cut (the shortest, if several start there), or None.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = Marks(stops)
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> str:
        """Return what may be delivered after this piece of text; empty once a stop string has matched."""
        if self.matched is not None:
            return ""
        text = self._held + text
        partial = self._stops.find_partial(text)
        whole, stop = self._stops.find_whole(text)
        if stop is not None and whole <= partial:
            return self._cut(text, whole, stop)
        self._held = text[partial:]
        return text[:partial]

    def flush(self) -> str:
        """Return the text held back, cut at a stop string if it holds one, when the generation has ended."""
        whole, stop = self._stops.find_whole(self._held)
        if stop is not None:
            return self._cut(self._held, whole, stop)
        text, self._held = self._held, ""
        return text

    def _cut(self, text: str, at: int, stop: str) -> str:
        self.matched = stop
        self._held = ""
        return text[:at]
