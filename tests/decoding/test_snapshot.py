"""A cache that is saved and restored goes on where it was, and is trusted for no more than it was."""

from __future__ import annotations

import pytest
from fakes import ToyModel, fake_backend

from recycle_cpp.backend.measure import PLAIN_ONLY
from recycle_cpp.decoding.engine import CacheState, Engine, Request
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting.drafter import PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.template import published
from recycle_cpp.errors import BackendError, UsageError

MODEL = ToyModel(1, eog=-50)
PROMPT = list(range(1, 20))


def run(engine: Engine, prompt: list[int], *, drafted: bool, **request) -> tuple[int, list[int]]:
    drafter = TemplateDrafter(AdjacencyMatrix(MODEL.n_vocab), published()) if drafted else PlainDrafter()
    evaluated = engine.prepare(prompt, reuse="all" if drafted else "plain")
    asked = Request(drafter, GreedySampler(), 25, None if drafted else PLAIN_ONLY, **request)
    return evaluated, [token for step in engine.steps(asked) for token in step.tokens]


def used(drafted: bool, n_ctx: int = 160, **request) -> tuple[Engine, list[int]]:
    """Return an engine after one run, and all tokens of it."""
    engine = Engine(fake_backend(MODEL, n_ctx=n_ctx)[0])
    return engine, [*PROMPT, *run(engine, PROMPT, drafted=drafted, **request)[1]]


@pytest.mark.parametrize("drafted", [False, True])
def test_a_restored_cache_goes_on_as_if_there_had_been_no_break(drafted: bool) -> None:
    one, tokens = used(drafted)
    state = one.snapshot()
    assert state.tokens == tokens[:-1]
    backend, context = fake_backend(MODEL, n_ctx=160)
    other = Engine(backend)
    run(other, list(range(30, 2, -1)), drafted=drafted)
    other.restore(state)
    assert context.cells() == list(enumerate(tokens[:-1]))
    more = [*tokens, 7, 8, 9]
    assert run(other, more, drafted=drafted) == run(one, more, drafted=drafted)
    assert run(other, more, drafted=drafted)[0] == 0


def test_what_was_drafted_is_no_plain_decodings_after_the_break_either() -> None:
    for drafted in (False, True):
        one, tokens = used(drafted)
        other = Engine(fake_backend(MODEL, n_ctx=160)[0])
        other.restore(one.snapshot())
        more = [*tokens, 7]
        assert other.prepare(more, reuse="plain") == one.prepare(more, reuse="plain")
    assert one.prepare(more, reuse="all") == 0


def test_nothing_restored_passes_for_a_fresh_evaluation() -> None:
    one, _ = used(drafted=False)
    other = Engine(fake_backend(MODEL, n_ctx=160, n_batch=4)[0])
    other.restore(one.snapshot())
    assert other.prepare(PROMPT, reuse="fresh") == len(PROMPT) - 1


def test_what_a_shift_has_moved_is_not_saved() -> None:
    one, _ = used(drafted=False, n_ctx=32, shift_keep=5)
    assert one.snapshot().tokens == PROMPT[:5]
    other = Engine(fake_backend(MODEL, n_ctx=32)[0])
    other.restore(one.snapshot())
    assert run(other, PROMPT, drafted=False) == run(one, PROMPT, drafted=False)


def test_an_empty_cache_can_be_saved_and_restored() -> None:
    state = Engine(fake_backend(MODEL)[0]).snapshot()
    other, _ = used(drafted=True)
    other.restore(CacheState(state.tokens, state.data, state.n_plain))
    assert other.tokens == ()
    assert run(other, PROMPT, drafted=False)[0] == len(PROMPT) - 1


def test_a_cache_that_cannot_be_used_is_refused_before_anything_is_lost() -> None:
    one, _ = used(drafted=False)
    state = one.snapshot()
    small = Engine(fake_backend(MODEL, n_ctx=20)[0])
    small.prepare(PROMPT)
    with pytest.raises(UsageError, match=r"the session has 43 tokens, the context 20: raise --ctx-size"):
        small.restore(state)
    for token in (-1, MODEL.n_vocab):
        with pytest.raises(UsageError, match="not in this model's vocabulary"):
            small.restore(CacheState([1, token], b"", 0))
    assert small.prepare(PROMPT) == 0


def test_a_cache_that_llama_cpp_refuses_leaves_an_empty_one_that_works() -> None:
    one, tokens = used(drafted=False)
    state = one.snapshot()
    for wrong in (state._replace(tokens=state.tokens[:-1]), state._replace(data=b"nonsense")):
        with pytest.raises(BackendError, match="cannot restore a cache of"):
            one.restore(wrong)
        assert one.tokens == ()
        assert run(one, PROMPT, drafted=False) == (len(PROMPT) - 1, tokens[len(PROMPT) :])
