"""An interrupt may come at any line: what is left in the cache must serve the next request as an empty one would."""

from __future__ import annotations

import copy
import sys
from collections import Counter

import pytest
from fakes import ToyModel, fake_backend

from recycle_cpp.backend import tree
from recycle_cpp.decoding import engine as engine_file
from recycle_cpp.decoding import prefix
from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting.drafter import TemplateDrafter
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.template import published

MODEL = ToyModel(1, eog=-50)
FILES = {engine_file.__file__, tree.__file__, prefix.__file__}
PROMPT = [1 + i % 39 for i in range(28)]
NEXT = [*PROMPT[:20], 7, 8]


class Interrupt(BaseException):
    """Comes at a line of the engine's files."""


class Lines:
    """Counts how often each line of the engine's files is come to, and interrupts at one of these times."""

    def __init__(self, at: tuple[str, int, int] | None = None) -> None:
        self.at = at
        self.seen: Counter[tuple[str, int]] = Counter()

    def run(self, work) -> None:
        before = sys.gettrace()
        sys.settrace(lambda frame, *_: self._line if frame.f_code.co_filename in FILES else None)
        try:
            work()
        finally:
            sys.settrace(before)

    def _line(self, frame, event, _argument):
        if event == "line":
            place = (frame.f_code.co_filename, frame.f_lineno)
            self.seen[place] += 1
            if (*place, self.seen[place]) == self.at:
                raise Interrupt
        return self._line


def learned_matrix() -> AdjacencyMatrix:
    """Return one with which drafts hit."""
    matrix = AdjacencyMatrix(MODEL.n_vocab)
    engine = Engine(fake_backend(MODEL, n_ctx=160)[0])
    engine.prepare(PROMPT)
    list(engine.steps(Request(TemplateDrafter(matrix, published()), GreedySampler(), 100)))
    return matrix


@pytest.mark.parametrize("shift_keep", [None, 3])
def test_after_an_interrupt_at_any_line_the_next_request_has_plain_decodings_text(shift_keep: int | None) -> None:
    matrix = learned_matrix()
    plain = MODEL.plain_text(NEXT, GreedySampler(), n_ctx=32, max_tokens=8, shift_keep=shift_keep)

    def fresh():
        backend, context = fake_backend(MODEL, n_ctx=32)
        engine, drafter = Engine(backend), TemplateDrafter(copy.deepcopy(matrix), published())

        def ask(prompt, n):
            engine.prepare(prompt)
            steps = list(engine.steps(Request(drafter, GreedySampler(), n, shift_keep=shift_keep)))
            return [token for step in steps for token in step.tokens], steps[-1].finish_reason

        return backend, context, engine, ask

    counted, (*_, ask) = Lines(), fresh()
    counted.run(lambda: ask(PROMPT, 24))
    places = [(*place, time) for place, n in counted.seen.items() for time in {1, n}]
    assert len(places) > 150
    for place in places:
        backend, context, engine, ask = fresh()
        with pytest.raises(Interrupt):
            Lines(place).run(lambda ask=ask: ask(PROMPT, 24))
        state = engine.snapshot()
        assert len(state.tokens) == backend.n_past == len(context.cells())
        assert ask(NEXT, 8) == plain
