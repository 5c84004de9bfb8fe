"""Prompts that are made instead of kept: random words, and long texts from templates. The same on every machine."""

from __future__ import annotations

import string
from random import Random
from typing import TYPE_CHECKING

from recycle_cpp.bench import templates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 20240808
LONG_TOKENS = 1300  # estimated; 1,000 to 1,800 in real vocabularies, so that an answer fits a context of 2,048
N_RANDOM = 8
N_RANDOM_WORDS = 120
_VALUES = {name: values.split("|") for name, values in templates.VALUES.items()}


def random_texts(seed: int = SEED) -> list[str]:
    """Return prompts without any sense: nothing in them can be guessed from what stands before it.

    Half of them are made-up words, half strings of letters and digits.
    """
    rng = Random(seed)
    makers = (_random_word, _random_code)
    return [" ".join(makers[i % 2](rng) for _ in range(N_RANDOM_WORDS // (1 + i % 2))) for i in range(N_RANDOM)]


def _random_word(rng: Random) -> str:
    return "".join(rng.choice("bcdfghklmnprstvwz") + rng.choice("aeiouy") for _ in range(rng.randint(1, 4)))


def _random_code(rng: Random) -> str:
    return "".join(rng.choice(string.ascii_letters + string.digits + "+/=-_") for _ in range(rng.randint(3, 9)))


def long_texts(seed: int = SEED) -> list[str]:
    """Return prompts of at least 1,000 tokens: one task each, on a text whose lines are all different."""
    tasks: tuple[tuple[str, Callable[[Random], Iterator[str]]], ...] = (
        ("Summarise this diary in one paragraph, then name the three people who appear most often.", _diary),
        ("List every ERROR line of this log with its time, then say what probably went wrong.", _log),
        ("Return a JSON array of all orders above 900 euros, each with id, name, town and total.", _orders),
        ("Write the minutes of this meeting: first the decisions, then the tasks with names.", _meeting),
        ("What do buyers like, and what do they not like? Answer in two lists with short quotes.", _reviews),
        ("Using only these entries, write a travel plan for three days and say why you chose each town.", _gazetteer),
        ("Add a one-line docstring to every function and class of this module. Return the whole module.", _module),
        ("Translate the first twenty days of this diary into German.", _diary),
    )
    return [f"{task}\n\n{_filled(lines(Random(seed + number)))}" for number, (task, lines) in enumerate(tasks)]


def _filled(lines: Iterator[str]) -> str:
    """Return lines, each once, until they are long enough."""
    seen: dict[str, None] = {}
    for line in lines:
        seen[line] = None
        if sum(map(_estimated_tokens, seen)) >= LONG_TOKENS:
            break
    return "\n".join(seen)


def _estimated_tokens(line: str) -> float:
    """Return about how many tokens a line has: one for every four letters, every digit and every mark."""
    letters, spaces = sum(map(str.isalpha, line)), line.count(" ")
    return letters / 4 + (len(line) - letters - spaces) + 1


def _fill(rng: Random, template: str) -> str:
    """Return a template with its places taken by random words and numbers."""
    words = {name: rng.choice(values) for name, values in _VALUES.items()}
    other = rng.choice([town for town in _VALUES["town"] if town != words["town"]])
    return template.format(
        **words, other=other, n=rng.randint(101, 997), two=rng.randint(11, 97), one=rng.randint(2, 9)
    )


def _sentences(rng: Random, pool: tuple[str, ...], n: int) -> str:
    """Return n different templates of a pool, each filled in by itself."""
    return " ".join(_fill(rng, template) for template in rng.sample(pool, n))


def _diary(rng: Random) -> Iterator[str]:
    day = 0
    while True:
        day += rng.randint(1, 3)
        yield f"Day {day}: {_sentences(rng, templates.DIARY, rng.randint(2, 4))}"


def _log(rng: Random) -> Iterator[str]:
    seconds = 8 * 3600
    while True:
        seconds += rng.randint(1, 90)
        time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        yield f"{time} {_sentences(rng, templates.LOG, 1)}"


def _orders(rng: Random) -> Iterator[str]:
    yield "id,date,name,town,article,pieces,total"
    number = 48_000
    while True:
        number += rng.randint(1, 40)
        date = f"2024-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        yield f"{number},{date},{_fill(rng, '{name},{town},{colour} {thing},{one},{n}.{two}')}"


def _meeting(rng: Random) -> Iterator[str]:
    while True:
        yield f"{rng.choice(_VALUES['name'])}: {_sentences(rng, templates.SPEECH, rng.randint(1, 3))}"


def _reviews(rng: Random) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"{number}. {_sentences(rng, templates.REVIEWS, rng.randint(2, 4))}"


def _gazetteer(rng: Random) -> Iterator[str]:
    for town in _VALUES["town"]:
        yield f"{town.upper()}. {_sentences(rng, templates.GAZETTEER, 5)}"


def _module(rng: Random) -> Iterator[str]:
    while True:
        yield f"{_sentences(rng, templates.MODULE, 1)}\n"
