"""Runs the arms of a benchmark over prompts, interleaved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from recycle_cpp.bench.arms import PLAIN, Question
from recycle_cpp.bench.prompts import conversation
from recycle_cpp.types import Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recycle_cpp.bench.arms import Answer, Arm, OpenArms
    from recycle_cpp.bench.prompts import BenchPrompt

WARM_UP_TOKENS = 8
WARM_UP_CHARACTERS = 64


class Plan(NamedTuple):
    """How prompts are run.

    Attributes:
        max_tokens: emit at most this many a turn.
        repeats: times that all prompts are run.
        warm: keep what drafting has learned from one repeat to the next, instead of starting each anew.
        fresh_prompts: drop the cached prompt before every answer, so that times to the first token can be compared.
        raw: pass prompts without the model's chat template.
    """

    max_tokens: int
    repeats: int = 1
    warm: bool = False
    fresh_prompts: bool = False
    raw: bool = False


@dataclass(frozen=True, slots=True)
class TurnResult:
    """One turn, decoded by every arm.

    Attributes:
        prompt: the conversation that the turn belongs to.
        turn: number of the turn, from 0.
        repeat: number of the repeat, from 0.
        prompt_tokens: tokens of the turn's prompt, earlier turns included.
        answers: each arm's, in the order of the arms.
    """

    prompt: BenchPrompt
    turn: int
    repeat: int
    prompt_tokens: int
    answers: dict[str, Answer]


def run_arms(opened: OpenArms, prompts: Sequence[BenchPrompt], plan: Plan) -> Iterator[TurnResult]:
    """Decode every turn of every prompt with every arm, and yield results as they come.

    The order of the arms is rotated from prompt to prompt and from repeat to repeat, so that none always meets the
    machine warmer than another. Later turns follow plain decoding's answers in every arm, so that all arms decode the
    same prompts. What drafting learns is kept from prompt to prompt. A conversation ends early where it no longer fits
    the context.
    """
    text = prompts[0].turns[0][:WARM_UP_CHARACTERS]
    question = Question(text, opened.runtime.tokenize(text, raw=plan.raw))
    for arm in opened.arms:  # compile, measure and touch the memory outside the measured runs
        arm.generate(question, WARM_UP_TOKENS)
    for repeat in range(plan.repeats):
        if repeat == 0 or not plan.warm:
            for arm in opened.arms:
                arm.forget()
        for index, prompt in enumerate(prompts):
            first = (index + repeat) % len(opened.arms)
            order = (*opened.arms[first:], *opened.arms[:first])
            yield from _run_prompt(opened, prompt, repeat, order, plan)


def _run_prompt(
    opened: OpenArms, prompt: BenchPrompt, repeat: int, order: Sequence[Arm], plan: Plan
) -> Iterator[TurnResult]:
    messages: list[Message] = []
    for turn, text in enumerate(prompt.turns):
        messages.append(Message("user", text))
        request = conversation(messages, as_chat=opened.runtime.is_chat and not plan.raw)
        question = Question(request, opened.runtime.tokenize(request, raw=plan.raw))
        if len(question.tokens) > opened.runtime.n_ctx:
            return
        answers: dict[str, Answer] = {}
        for arm in order:
            if plan.fresh_prompts:
                arm.forget_prompt()
            answers[arm.name] = arm.generate(question, plan.max_tokens)
        ordered = {arm.name: answers[arm.name] for arm in opened.arms}
        yield TurnResult(prompt, turn, repeat, len(question.tokens), ordered)
        messages.append(Message("assistant", answers[PLAIN].text))
