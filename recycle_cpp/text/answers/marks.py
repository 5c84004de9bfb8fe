"""Fixed strings in streamed text: where one stands, and where one may be beginning."""

from __future__ import annotations


class Marks:
    """Finds the earliest of some strings in a text that is still growing."""

    def __init__(self, marks: tuple[str, ...]) -> None:
        # Shortest first: of several that start at one place it is complete first, whatever the pieces.
        self._marks = tuple(sorted(marks, key=len))

    def __bool__(self) -> bool:
        return bool(self._marks)

    def find_whole(self, text: str) -> tuple[int, str | None]:
        """Return the earliest place of a whole mark and that mark, or the text's end and None."""
        best: tuple[int, str | None] = (len(text), None)
        for mark in self._marks:
            at = text.find(mark)
            if 0 <= at < best[0]:
                best = (at, mark)
        return best

    def find_partial(self, text: str) -> int:
        """Return the earliest place from which the text is the beginning of a mark, or its end."""
        longest = len(self._marks[-1]) if self._marks else 0
        for at in range(max(0, len(text) - longest + 1), len(text)):
            tail = text[at:]
            if any(mark.startswith(tail) for mark in self._marks):
                return at
        return len(text)
