"""Benchmark prompts in Spec-Bench's format: one JSON object a line, with question_id, category and turns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recycle_cpp.bench import generated
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recycle_cpp.types import Message

# Spec-Bench counts the eight categories of MT-Bench, of two turns each, as one.
MT_BENCH = frozenset(
    ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"),
)
EVERYDAY = "everyday"
FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """One conversation to decode: the user's turns, each asked after the answer to the one before."""

    question_id: str
    category: str
    turns: tuple[str, ...]


def read_prompts(path: Path) -> list[BenchPrompt]:
    """Return the prompts of a file.

    Raises:
        UsageError: if the file cannot be read or a line is not such a prompt.
    """
    try:
        lines = path.read_text("utf-8").split("\n")  # not splitlines: JSON may hold other line separators as they are
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): give a file of prompts") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 at byte {error.start}: give a file of JSON lines") from error
    prompts = [_prompt(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise UsageError(f"{path} has no prompts: give a file with one JSON object a line")
    return prompts


def take(prompts: Sequence[BenchPrompt], limit: int | None) -> list[BenchPrompt]:
    """Return so many prompts, spread evenly over a set; None takes all."""
    if limit is None or limit >= len(prompts):
        return list(prompts)
    return [prompts[i * len(prompts) // limit] for i in range(limit)]


def conversation(messages: Sequence[Message], *, as_chat: bool) -> str | list[Message]:
    """Return a conversation as a request: its messages, or one text for base models and for raw prompts."""
    return list(messages) if as_chat else "\n\n".join(message.content for message in messages)


def _prompt(line: str, where: str) -> BenchPrompt:
    try:
        fields: Any = json.loads(line)
        turns = fields["turns"]
        category = str(fields["category"])
        if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) and turn for turn in turns):
            raise TypeError
        "".join([category, *turns]).encode()  # JSON can spell lone surrogates, which no vocabulary knows
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(f'{where} is not a prompt: give {{"question_id", "category", "turns": [texts]}}') from None
    category = "multi-turn" if category in MT_BENCH and len(turns) > 1 else category
    return BenchPrompt(str(fields.get("question_id", where)), category, tuple(turns))


def _generated(category: str, texts: Sequence[str]) -> list[BenchPrompt]:
    return [BenchPrompt(f"{category} {number}", category, (text,)) for number, text in enumerate(texts, 1)]


SETS: dict[str, Callable[[], list[BenchPrompt]]] = {
    EVERYDAY: lambda: read_prompts(FOLDER / "prompts.jsonl"),
    "copy": lambda: read_prompts(FOLDER / "copy.jsonl"),
    "long": lambda: _generated("long", generated.long_texts()),
    "random": lambda: _generated("random", generated.random_texts()),
}
