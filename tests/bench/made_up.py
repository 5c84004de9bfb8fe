"""Arms and results without a model: what is asked of them is written down, what they answer is made up."""

from __future__ import annotations

from recycle_cpp.bench.arms import Answer, OpenArms, Question
from recycle_cpp.bench.prompts import BenchPrompt
from recycle_cpp.bench.run import TurnResult
from recycle_cpp.types import Timings


def answer(
    tokens: tuple[int, ...] = (1, 2), *, ms: float = 100, steps: int = 2, promised: float = 0.0, first_ms: float = 10
) -> Answer:
    """Return an answer of our own decoding."""
    timings = Timings(0, 0.0, len(tokens), ms, 4, 0, steps, {1: steps - 1, 3: 1}, 1.0 * steps, promised)
    return Answer(tokens, "x", len(tokens), ms / 1000, first_ms / 1000, timings)


def foreign(tokens: tuple[int, ...] = (1, 2), *, ms: float = 100) -> Answer:
    """Return an answer of a foreign arm, whose first token is not timed."""
    return Answer(tokens, "", len(tokens) - 1, ms / 1000, 0.01)


def result(category: str, repeat: int = 0, question: str = "1", **answers: Answer) -> TurnResult:
    """Return one turn's result."""
    return TurnResult(BenchPrompt(question, category, ("hello",)), 0, repeat, 7, answers)


class ScriptedRuntime:
    """Tokenizes every text into its characters, and every chat into as many tokens as it has messages."""

    is_chat = True
    n_ctx = 100

    def __init__(self, too_long_from: int = 99) -> None:
        self._too_long_from = too_long_from

    def tokenize(self, prompt, *, raw: bool = False) -> list[int]:
        if isinstance(prompt, str):
            return [1] * len(prompt)
        return [1] * (self.n_ctx + 1 if len(prompt) >= self._too_long_from else len(prompt))


class ScriptedArm:
    """Answers with its name, and writes every call down in a list that arms share."""

    def __init__(self, name: str, calls: list[tuple[object, ...]]) -> None:
        self.name = name
        self.settings: dict[str, object] = {}
        self._calls = calls

    def generate(self, question: Question, max_tokens: int) -> Answer:
        prompt = question.prompt if isinstance(question.prompt, str) else tuple(question.prompt)
        self._calls.append((self.name, prompt, max_tokens))
        return Answer((1, 2), f"answer of {self.name}", 2, 0.1, 0.01)

    def forget(self) -> None:
        self._calls.append((self.name, "forget"))

    def forget_prompt(self) -> None:
        self._calls.append((self.name, "forget the prompt"))


def scripted(*names: str, too_long_from: int = 99) -> tuple[OpenArms, list[tuple[object, ...]]]:
    """Return arms and the list of what they will have been asked."""
    calls: list[tuple[object, ...]] = []
    return OpenArms(ScriptedRuntime(too_long_from), tuple(ScriptedArm(name, calls) for name in names)), calls
