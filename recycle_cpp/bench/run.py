"""Runs the arms of a benchmark over prompts, interleaved, on one loaded model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from recycle_cpp.errors import PromptTooLongError
from recycle_cpp.types import Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recycle_cpp.bench.prompts import BenchPrompt
    from recycle_cpp.runtime import Runtime
    from recycle_cpp.types import Completion, GenerateOptions

PLAIN = "plain"
RECYCLED = "recycled"
WARM_UP_TOKENS = 8


@dataclass(frozen=True, slots=True)
class TurnResult:
    """One turn, decoded by every arm.

    Attributes:
        prompt: the conversation that the turn belongs to.
        turn: number of the turn, from 0.
        repeat: number of the repeat, from 0.
        completions: each arm's answer.
    """

    prompt: BenchPrompt
    turn: int
    repeat: int
    completions: dict[str, Completion]


def arms_of(options: GenerateOptions) -> dict[str, GenerateOptions]:
    """Return plain decoding and what was asked for, with the same sampling.

    Without a seed a fixed one is taken: arms that draw differently cannot be compared.
    """
    sampling = options.sampling
    if sampling.temperature > 0 and sampling.seed is None:
        options = replace(options, sampling=replace(sampling, seed=0))
    return {PLAIN: replace(options, draft="off", exact=False), RECYCLED: options}


def run_arms(
    runtime: Runtime, prompts: Sequence[BenchPrompt], arms: dict[str, GenerateOptions], repeats: int = 1
) -> Iterator[TurnResult]:
    """Decode every turn of every prompt with every arm, and yield results as they come.

    The arms take turns at going first, so that neither always meets the machine warmer than the other. Later turns
    follow plain decoding's answers in every arm, so that all arms decode the same prompts. What drafting learns is
    kept from prompt to prompt. A conversation ends early where it no longer fits the context.
    """
    for options in arms.values():  # compile, measure and touch the memory outside the measured runs
        runtime.generate(prompts[0].turns[0][:64], replace(options, max_tokens=WARM_UP_TOKENS))
    runtime.forget()
    for repeat in range(repeats):
        for index, prompt in enumerate(prompts):
            names = list(arms) if (index + repeat) % 2 == 0 else list(reversed(arms))
            messages: list[Message] = []
            for turn, text in enumerate(prompt.turns):
                messages.append(Message("user", text))
                request = messages if runtime.is_chat else _plain_text(messages)
                try:
                    completions = {name: runtime.generate(request, arms[name]) for name in names}
                except PromptTooLongError:
                    break
                yield TurnResult(prompt, turn, repeat, completions)
                messages.append(Message("assistant", completions[PLAIN].text))


def _plain_text(messages: Sequence[Message]) -> str:
    """Return a conversation as text, for base models that know no chat format."""
    return "\n\n".join(message.content for message in messages)
