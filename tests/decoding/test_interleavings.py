"""Requests of all kinds in any order on one engine: each has plain decoding's text, whatever came before it."""

from __future__ import annotations

import pytest
from fakes import EOG, HashSampler, ToyModel, fake_backend
from hypothesis import given, settings
from hypothesis import strategies as st

from recycle_cpp.backend.cost import LADDER, CostCurve, Curve
from recycle_cpp.backend.measure import PLAIN_ONLY, ExactWidths
from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.drafting import template
from recycle_cpp.drafting.drafter import PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.knowledge import Knowledge
from recycle_cpp.drafting.planned import PlannedDrafter
from recycle_cpp.drafting.recording import RecordingDrafter

MODELS = [ToyModel(seed, eog=eog, n_vocab=n_vocab) for seed, eog, n_vocab in ((0, -50, 48), (1, 1, 48), (2, -50, 41))]
EXACT = ExactWidths(4, 40)
FLAT = Curve(LADDER, tuple(1.0 + 0.01 * width for width in LADDER), (0.0,) * len(LADDER), 0.0)
KINDS = ("auto", "tree", "chain", "plain", "record")
REQUESTS = st.tuples(
    st.sampled_from(KINDS),
    st.booleans(),  # exact
    st.sampled_from(("new", "go on", "again")),
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.sampled_from((1, 2, 3, 9, None)),
    st.sampled_from((0, 1, 3, None)),  # steps after which the request is left
    st.integers(0, 3),  # tokens that a stop string takes back
    st.booleans(),  # forget everything before it
)


class Session:
    """One engine, one knowledge, and request after request."""

    def __init__(self, model: ToyModel, n_ctx: int, n_batch: int) -> None:
        self._model, self._n_ctx = model, n_ctx
        backend, _ = fake_backend(model, n_ctx=n_ctx, n_batch=n_batch, exact=EXACT)
        self._engine = Engine(backend)
        self._knowledge = Knowledge(model.n_vocab)
        matrix = self._knowledge.matrix
        self._drafters = {
            "auto": PlannedDrafter(self._knowledge, CostCurve(FLAT)),
            "tree": TemplateDrafter(matrix, template.published()),
            "chain": TemplateDrafter(matrix, template.chain(4)),
            "plain": PlainDrafter(),
        }
        self._tokens: list[int] = []

    def ask(self, kind, exact, start, tokens, max_tokens, steps, taken_back, forget) -> None:
        """Decode a request, compare it with plain decoding if it is exact, and leave it as a consumer might."""
        if forget:
            self._knowledge.reset()
            self._engine.keep(0)
        prompt = {"new": tokens, "go on": self._tokens + tokens, "again": self._tokens or tokens}[start][: self._n_ctx]
        widths = EXACT if exact and kind != "plain" else None
        if kind in ("plain", "record"):
            widths = PLAIN_ONLY
        drafter = self._drafters.get(kind) or RecordingDrafter()
        if kind == "tree" and exact:
            drafter = self._drafters["chain"]
        self._engine.prepare(prompt, reuse="all" if widths is None else "plain")
        run = self._engine.steps(Request(drafter, HashSampler(3), max_tokens, widths))
        emitted: list[int] = []
        for n_steps, step in enumerate(run):
            emitted += step.tokens
            if n_steps == steps:
                break
        run.close()
        if widths is not None:
            plain, _ = self._model.plain_text(prompt, HashSampler(3), n_ctx=self._n_ctx, max_tokens=max_tokens)
            assert emitted == plain[: len(emitted)]
            assert steps is not None or emitted == plain
        assert EOG not in emitted[:-1]
        self._tokens = (prompt + emitted)[: max(1, len(prompt + emitted) - taken_back)]
        if taken_back:
            self._engine.keep(len(self._tokens))
        self._knowledge.check_integrity()


@pytest.mark.parametrize("n_batch", [1, 2, 8, 96])
@given(
    model=st.sampled_from(MODELS),
    n_ctx=st.sampled_from((96, 41, 8, 2, 1)),
    asked=st.lists(REQUESTS, min_size=4, max_size=10),
)
@settings(max_examples=40, deadline=None)
def test_an_exact_request_has_plain_decodings_text_whatever_came_before(model, n_ctx, n_batch, asked) -> None:
    session = Session(model, n_ctx, n_batch)
    for request in asked:
        session.ask(*request)
