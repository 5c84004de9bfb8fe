"""What people and scripts get to see: the statistics line, notes, JSON and tables."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any
from unicodedata import category

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from recycle_cpp.types import Chunk, Completion, DraftMode, Timings, TokenLogprobs

CUT = {"length": " (the limit)", "cancelled": " (stopped)"}  # what ended a text before its end


def statistics(model: str, end: Completion | Chunk, draft: DraftMode) -> None:
    """Write the one line about an answer, or its last chunk, to standard error."""
    dim(statistics_line(model, end, draft))


def statistics_line(model: str, end: Completion | Chunk, draft: DraftMode) -> str:
    """Return the one line about an answer, or its last chunk."""
    timings, usage = end.timings, end.usage
    assert timings is not None and usage is not None, "the last chunk has counts and timings"
    cached = f" (and {usage.cached_tokens} cached)" if usage.cached_tokens else ""
    share = timings.draft_n_accepted / timings.predicted_n if timings.predicted_n else 0
    cut = CUT.get(end.finish_reason or "", "")
    recycled = f" ({share:.0%} recycled)" if timings.draft_n_accepted else ""
    return " · ".join(
        (
            model,
            f"{timings.predicted_n} {_tokens(timings.predicted_n)}{cut}",
            f"{timings.predicted_per_second:.1f} tok/s",
            f"prompt {timings.prompt_n} {_tokens(timings.prompt_n)}{cached} {timings.prompt_ms / 1000:.2f} s",
            f"{timings.mean_accepted_tokens:.2f} tokens per step{recycled}",
            f"width {timings.mean_width:.1f}",
            f"draft {draft}",
        )
    )


def notes(lines: Iterable[str]) -> None:
    """Write the runtime's notes to standard error."""
    for line in lines:
        dim(f"note: {line}")


def error(message: str) -> None:
    """Write an error to standard error as one line, whatever is in its message."""
    with contextlib.suppress(OSError):  # nobody reads it: an exit status still tells
        print(f"error: {printable(' '.join(message.splitlines()))}", file=sys.stderr, flush=True)


def dim(line: str) -> None:
    """Write a line to standard error, dim on a terminal."""
    line = printable(line)
    if not sys.stderr.isatty():
        with contextlib.suppress(OSError):  # nobody reads it: no reason to fail
            print(line, file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True).print(Text(line, style="dim"), soft_wrap=True)


def told(text: str) -> None:
    """Write a text of several lines to standard error; it can do nothing to a terminal."""
    with contextlib.suppress(OSError):
        print(defused(text), file=sys.stderr, flush=True)


def completion_json(completion: Completion, token_text: Callable[[int], str]) -> None:
    """Write a whole answer to standard output as one JSON object.

    Args:
        completion: the answer.
        token_text: text of a token, for the log probabilities.
    """
    usage = completion.usage
    fields = {
        "text": completion.text,
        "tokens": completion.tokens,
        "finish_reason": completion.finish_reason,
        "usage": {**asdict(usage), "total_tokens": usage.total_tokens},
        "timings": timings_fields(completion.timings),
    }
    if completion.logprobs:
        fields["logprobs"] = [_logprobs_fields(record, token_text) for record in completion.logprobs]
    json_object(fields)


def _logprobs_fields(record: TokenLogprobs, token_text: Callable[[int], str]) -> dict[str, Any]:
    def of(token: int, logprob: float) -> dict[str, Any]:
        # JSON knows no infinity.
        return {"token": token, "text": token_text(token), "logprob": logprob if isfinite(logprob) else None}

    return {**of(record.token, record.logprob), "top": [of(*pair) for pair in record.top]}


def timings_fields(timings: Timings) -> dict[str, float]:
    """Return timings as JSON has them: what was measured and what follows from it."""
    return {
        **asdict(timings),
        "predicted_per_second": timings.predicted_per_second,
        "mean_accepted_tokens": timings.mean_accepted_tokens,
    }


def json_object(value: dict[str, Any]) -> None:
    """Write one JSON object and a newline to standard output."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write rows to standard output: a table on a terminal, else tab-separated lines without a head."""
    rows = [[printable(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*heads, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        drawn.add_row(*(Text(cell, overflow="fold") for cell in row))
    Console().print(drawn)


def printable(text: str) -> str:
    """Return a text as one line that can do nothing to a terminal: other characters are shown as escapes."""
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def defused(text: str) -> str:
    """Return a text whose control characters, but for newlines and tabs, are shown as escapes."""
    return "".join(_escape(c) if category(c) == "Cc" and c not in "\n\t" else c for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _tokens(count: int) -> str:
    return "token" if count == 1 else "tokens"
