"""Writes answers to standard output as they come: accepted tokens in colour, nothing that can drive a terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from recycle_cpp.cli.sections import UNNAMED, Section
from recycle_cpp.cli.show import defused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COLOR_MODES = ("auto", "always", "never")
# A teal of middling brightness: contrast of more than 4 to 1 on white and on black.
TEAL, CYAN, DEFAULT_COLOR = "\x1b[38;5;30m", "\x1b[36m", "\x1b[39m"
DIM, NOT_DIM = "\x1b[2m", "\x1b[22m"


def color_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that says whether accepted tokens are shown in colour."""
    return Section(UNNAMED).option(
        "auto",
        "--color",
        type=click.Choice(COLOR_MODES),
        text="Show accepted draft tokens in colour; auto does on a terminal, unless NO_COLOR is set.",
    )(command)


class AnswerWriter:
    """Writes answers to standard output.

    On a terminal, control characters in an answer are shown as escapes, but for newlines and tabs. Elsewhere the text
    comes out as it is.

    Attributes:
        colored: whether accepted tokens are shown in colour.
    """

    def __init__(self, color: str | None = None) -> None:
        """Decide what to show how.

        Args:
            color: one of COLOR_MODES; None is auto.
        """
        terminal = sys.stdout.isatty()
        styled = terminal and os.environ.get("TERM") != "dumb"
        self.colored = color == "always" or (color != "never" and styled and not os.environ.get("NO_COLOR"))
        rich = "256" in os.environ.get("TERM", "") or bool(os.environ.get("COLORTERM"))
        self._shade = TEAL if rich else CYAN
        self._dims = styled or color == "always"
        self._escapes = terminal or color == "always"
        self._last = ""
        self._thought = False

    def write(self, text: str, pieces: Sequence[str] = (), n_accepted: int = 0) -> None:
        """Write a piece of the answer.

        Args:
            text: the piece.
            pieces: what each token released of it.
            n_accepted: how many of the tokens, counted from the first, were drafted and accepted.
        """
        if not text:
            return
        if self._thought:  # what is said begins on a line of its own
            self._thought = False
            self._put("" if self._last == "\n" else "\n")
        accepted = "".join(pieces[:n_accepted])
        if self.colored and accepted and text.startswith(accepted):
            shaded = f"{self._shade}{self._shown(accepted)}{DEFAULT_COLOR}"
            self._put(shaded + self._shown(text[len(accepted) :]))
        else:
            self._put(self._shown(text))
        self._last = text[-1]

    def think(self, text: str) -> None:
        """Write a piece of what the model thinks before it answers: dim, and on a terminal only."""
        if text and self._escapes:
            self._put(f"{DIM}{self._shown(text)}{NOT_DIM}" if self._dims else self._shown(text))
            self._last, self._thought = text[-1], True

    def end(self, *, always: bool = True) -> None:
        """End the answer's last line; an answer without any text gets a line, too, if `always`."""
        if self._last != "\n" and (always or self._last):
            self._put("\n")
        self._last, self._thought = "", False

    def _shown(self, text: str) -> str:
        return defused(text) if self._escapes else text

    def _put(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
