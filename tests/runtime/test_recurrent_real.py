"""Real llama.cpp on a recurrent and a hybrid model: decoded plainly, said so, and right from request to request."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import tiny_models
from real_runs import RealRuns

from recycle_cpp.errors import CancelledError, UsageError
from recycle_cpp.runtime import Runtime
from recycle_cpp.runtime.session_file import SessionIdentity, read_session_file, save_session_file
from recycle_cpp.types import Completion, GenerateOptions, LoadOptions

WRITERS = {"mamba": tiny_models.write_mamba, "lfm2": tiny_models.write_lfm2}
NOTE = "drafting is off: this architecture's memory cannot hold a tree"
FIRST, SECOND = "Once upon a time ", "Once upon a time, and no other "


@pytest.fixture(scope="module", params=sorted(WRITERS))
def tiny(request, tmp_path_factory) -> Path:
    """Return a file of a tiny model of each kind."""
    path = tmp_path_factory.mktemp("models") / f"{request.param}.gguf"
    WRITERS[request.param](path)
    return path


@pytest.fixture
def opened(tiny: Path, own_cache):
    """Return a function that loads the tiny model; closed at the end."""
    loaded: list[Runtime] = []

    def load(**options) -> Runtime:
        loaded.append(
            Runtime.load(str(tiny), LoadOptions(**{"n_ctx": 256, "n_threads": 1, "learned": False, **options}))
        )
        return loaded[-1]

    yield load
    for runtime in loaded:
        runtime.close()


def ask(runtime: Runtime, prompt: str, **options) -> Completion:
    return runtime.generate(prompt, GenerateOptions(**{"max_tokens": 24, "raw": True, **options}))


@pytest.mark.parametrize("options", [{}, {"draft": "tree"}, {"exact": True}, {"draft": "off"}])
def test_every_request_has_the_text_of_a_fresh_load_and_drafting_is_off_with_a_reason(opened, options) -> None:
    used = opened()
    said = [ask(used, prompt, **options) for prompt in (FIRST, SECOND, FIRST, FIRST)]
    assert len({answer.tokens for answer in said}) == 2
    for prompt, answer in zip((FIRST, SECOND, FIRST, FIRST), said, strict=True):
        fresh = ask(opened(), prompt, **options)
        assert (answer.tokens, answer.text, answer.finish_reason) == (fresh.tokens, fresh.text, fresh.finish_reason)
        assert len(set(answer.tokens)) > 8, "the text is a loop, so the test says little"
        assert (answer.timings.draft_n, set(answer.timings.widths)) == (0, {1})
        assert answer.timings.prompt_n == answer.usage.prompt_tokens - 1, "a prefix cannot be kept in part"
    assert (NOTE in used.notes) == (options.get("draft") != "off")


def test_a_text_that_goes_on_exactly_where_the_cache_ends_is_not_evaluated_again(opened) -> None:
    runs = RealRuns(opened())
    prompt = runs.tokens(FIRST)
    first = runs.run(prompt, "plain")
    turn = [*prompt, *first.tokens, *runs.tokens(" and so")]
    assert runs.run(turn, "plain").evaluated == len(turn) - 1 - (len(prompt) + len(first.tokens) - 1)
    exact = runs.run(turn, "plain", exact=True)
    assert exact.evaluated == len(turn) - 1
    fresh = RealRuns(opened()).run(turn, "plain", exact=True)
    assert (exact.tokens, exact.logprobs) == (fresh.tokens, fresh.logprobs)


def test_a_stop_string_and_an_abandoned_stream_leave_it_ready(opened) -> None:
    used = opened()
    text = ask(used, FIRST).text
    stop = next(char for char in text[2:] if char.isprintable() and char != "\ufffd" and char not in text[:2])
    stopped = ask(used, FIRST, stop=(stop,))
    assert stopped.text == text[: text.index(stop)]
    assert stopped.finish_reason == "stop"
    stream = used.stream(SECOND, GenerateOptions(max_tokens=24, raw=True))
    next(stream)
    stream.close()
    assert ask(used, FIRST).text == text


class After(threading.Event):
    """Is set when it has been asked so many times."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.left = n

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("n", [0, 5, 60, 200])
def test_a_prompt_that_is_cancelled_anywhere_leaves_it_ready(opened, n: int) -> None:
    runs = RealRuns(opened(n_batch=16))
    prompt = runs.tokens(FIRST)
    said = runs.run(prompt, "plain", max_tokens=8)
    cancel = After(n)
    with pytest.raises(CancelledError):
        runs.engine.prepare(runs.tokens(SECOND * 6), cancel=cancel)
    assert cancel.left == -1, "it was asked again after it had said so"
    again = runs.run(prompt, "plain", max_tokens=8)
    assert (again.tokens, again.logprobs) == (said.tokens, said.logprobs)


def test_a_session_is_saved_and_restored_whole(opened, tmp_path: Path) -> None:
    one, other = RealRuns(opened()), RealRuns(opened())
    prompt = one.tokens(FIRST)
    turn = [*prompt, *one.run(prompt, "plain").tokens, *one.tokens(" and so")]
    identity = SessionIdentity.of(one.loaded)
    save_session_file(tmp_path / "session", identity, one.engine.snapshot())
    on = one.run(turn, "plain")
    other.run(other.tokens(SECOND), "plain", max_tokens=3)
    other.engine.restore(read_session_file(tmp_path / "session", identity, n_ctx=256, n_vocab=260)[0])
    run = other.run(turn, "plain")
    assert (run.tokens, run.logprobs, run.evaluated) == (on.tokens, on.logprobs, on.evaluated)


def test_a_shift_is_refused_in_one_line_and_a_full_context_ends_the_answer(opened) -> None:
    runs = RealRuns(opened(n_ctx=32))
    with pytest.raises(UsageError, match="the memory of this model cannot shift"):
        runs.engine.check(runs.tokens("ab"), shift_keep=0)
    run = runs.run(runs.tokens("ab"), "plain", max_tokens=60)
    assert run.steps[-1].finish_reason in ("length", "stop")
