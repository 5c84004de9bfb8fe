"""The arms of a benchmark: ways of decoding the same prompts, each behind the same few calls."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from recycle_cpp.errors import UsageError
from recycle_cpp.runtime import Runtime
from recycle_cpp.types import LoadOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from recycle_cpp.types import DraftMode, GenerateOptions, Message, Timings

PLAIN = "plain"
MODES: dict[str, DraftMode] = {PLAIN: "off", "auto": "auto", "tree": "tree", "chain": "chain", "stock": "off"}
FOREIGN = ("lookup", "binding")
ARMS = (*MODES, *FOREIGN)


class Question(NamedTuple):
    """What every arm is asked: a prompt, and the tokens that the model's template makes of it."""

    prompt: str | list[Message]
    tokens: list[int]


@dataclass(frozen=True, slots=True)
class Answer:
    """What an arm made of a question.

    Attributes:
        tokens: emitted, an end-of-generation token included.
        text: the same as text; empty from arms that deal in tokens only.
        timed_n: tokens that `seconds` were spent on.
        seconds: time of generation, the prompt's left out.
        first_seconds: from the request to the first token.
        timings: what our own decoding counts; None from foreign arms.
    """

    tokens: tuple[int, ...]
    text: str
    timed_n: int
    seconds: float
    first_seconds: float
    timings: Timings | None = None


class Arm(Protocol):
    """A way of decoding.

    Attributes:
        name: as in ARMS.
        settings: what sets it apart, for the report.
    """

    name: str
    settings: dict[str, object]

    def generate(self, question: Question, max_tokens: int) -> Answer:
        """Decode until an end-of-generation token, the budget or the end of the context."""

    def forget(self) -> None:
        """Drop all that was learned, and the cached prompt."""

    def forget_prompt(self) -> None:
        """Drop the cached prompt only."""


class NativeArm:
    """Our own decoding, with one way of drafting."""

    def __init__(self, name: str, runtime: Runtime, options: GenerateOptions) -> None:
        self.name = name
        self.settings = {"draft": options.draft, "exact": options.exact, **runtime.facts}
        self._runtime = runtime
        self._options = options

    def generate(self, question: Question, max_tokens: int) -> Answer:
        """Decode through the runtime, as any caller would."""
        start = time.perf_counter()
        stream = self._runtime.stream(question.prompt, replace(self._options, max_tokens=max_tokens))
        chunks = [next(stream)]
        first = time.perf_counter() - start
        chunks += stream
        timings = chunks[-1].timings
        assert timings is not None, "the last chunk has timings"
        tokens = tuple(token for chunk in chunks for token in chunk.tokens)
        text = "".join(chunk.text for chunk in chunks)
        return Answer(tokens, text, timings.predicted_n, timings.predicted_ms / 1000, first, timings)

    def forget(self) -> None:
        """Drop what drafting has learned, and the cached prompt."""
        self._runtime.forget()

    def forget_prompt(self) -> None:
        """Drop the cached prompt only."""
        self._runtime.forget_prompt()


class OpenArms(NamedTuple):
    """Arms that are ready to decode.

    Attributes:
        runtime: the one that decodes plainly; it tokenizes for all.
        arms: in the order asked for, plain decoding first.
    """

    runtime: Runtime
    arms: tuple[Arm, ...]


def parse_arms(names: str, request: GenerateOptions) -> tuple[str, ...]:
    """Return the arms that a list separated by commas names; plain decoding is always the first.

    Raises:
        UsageError: if there is no such arm, or it cannot do what the request asks for.
    """
    asked = tuple(dict.fromkeys((PLAIN, *(name.strip() for name in names.split(",")))))
    for name in asked:
        if name not in ARMS:
            raise UsageError(f"--arms has {name!r}: give some of {','.join(ARMS)}")
        shaped = request.stop or request.grammar is not None or request.context_shift
        if name in FOREIGN and (shaped or not request.sampling.is_argmax):
            raise UsageError(
                f"the arm {name} is greedy, without penalties, stop strings, grammars and context shifts: "
                "leave them or it out"
            )
    return asked


@contextlib.contextmanager
def open_arms(
    names: Sequence[str], model: str, loading: LoadOptions, request: GenerateOptions, say: Callable[[str], None]
) -> Iterator[OpenArms]:
    """Load what the arms need, and free it at the end.

    `plain` and `auto` share a runtime, and so the very same memory and cache: only drafting differs. Every other arm
    has a model and a context of its own, so that none learns from, or evicts, what another has decoded.

    Args:
        names: from `parse_arms`.
        model: a name or a path.
        loading: how to load it; `stock` and `binding` keep their own settings but for the context's size.
        request: what every arm is asked for; the draft mode is the arm's own.
        say: told of what takes a while.

    Raises:
        RecycleError: if a model or its context cannot be loaded.
    """
    with contextlib.ExitStack() as stack:

        def load(options: LoadOptions) -> Runtime:
            return stack.enter_context(_load(model, options, say))

        runtime = load(loading)
        arms: list[Arm] = []
        for name in names:
            if name in FOREIGN:
                from recycle_cpp.bench import foreign

                arms.append(stack.enter_context(foreign.open_arm(name, runtime, loading)))
            else:
                own = {PLAIN: runtime, "auto": runtime}.get(name) or load(
                    _stock(loading) if name == "stock" else loading
                )
                arms.append(NativeArm(name, own, _request_of(name, request)))
        yield OpenArms(runtime, tuple(arms))


def _load(model: str, options: LoadOptions, say: Callable[[str], None]) -> Runtime:
    """Load a runtime, which starts with nothing learned: the one place where the benchmark does."""
    return Runtime.load(model, replace(options, learned=False), say)


def _stock(loading: LoadOptions) -> LoadOptions:
    """Return llama-server's settings: flash attention (what its "auto" comes to on a CPU), all cores, f16 cache."""
    return LoadOptions(
        n_ctx=loading.n_ctx,
        n_batch=loading.n_batch,
        n_gpu_layers=loading.n_gpu_layers,
        flash_attention="on",
        verbose=loading.verbose,
    )


def _request_of(name: str, request: GenerateOptions) -> GenerateOptions:
    """Return an arm's request.

    Without a seed a fixed one is taken: arms that draw differently cannot be compared.
    """
    sampling = request.sampling
    if sampling.temperature > 0 and sampling.seed is None:
        sampling = replace(sampling, seed=0)
    mode = MODES[name]
    return replace(request, sampling=sampling, draft=mode, exact=bool(request.exact) and mode != "off")
