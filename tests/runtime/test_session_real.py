"""Real SmolLM2: a session goes on in another model, and in another process, as if there had been no break."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from real_prompts import SMOLLM
from real_runs import RealRuns

from recycle_cpp.errors import BackendError, UsageError
from recycle_cpp.runtime.session_file import SessionIdentity, read_session_file, save_session_file
from recycle_cpp.types import Message

FIRST = "<|im_start|>user\nName three animals that live in the sea.<|im_end|>\n<|im_start|>assistant\n"
SECOND = "<|im_end|>\n<|im_start|>user\nWhich of them is the largest?<|im_end|>\n<|im_start|>assistant\n"
MESSAGES = (Message("user", "Name three animals that live in the sea."),)
OTHER_PROCESS = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from real_runs import RealRuns
from recycle_cpp.runtime import Runtime
from recycle_cpp.runtime.session_file import SessionIdentity, read_session_file
from recycle_cpp.types import LoadOptions

options = LoadOptions(n_ctx=512, n_threads=1, flash_attention="on", learned=False)
with Runtime.load(sys.argv[1], options) as runtime:
    runs = RealRuns(runtime)
    identity = SessionIdentity.of(runtime._loaded)
    state, _ = read_session_file(Path(sys.argv[2]), identity, n_ctx=512, n_vocab=runtime.n_vocab)
    runs.engine.restore(state)
    run = runs.run(json.loads(sys.argv[3]), "plain")
    print(json.dumps([run.evaluated, run.tokens]))
"""


def save(runs: RealRuns, path: Path) -> None:
    save_session_file(path, SessionIdentity.of(runs.loaded), runs.engine.snapshot(), MESSAGES)


def restore(runs: RealRuns, path: Path) -> tuple[Message, ...]:
    backend = runs.loaded.backend
    identity = SessionIdentity.of(runs.loaded)
    state, messages = read_session_file(path, identity, n_ctx=backend.n_ctx, n_vocab=backend.n_vocab)
    runs.engine.restore(state)
    return messages


@pytest.mark.parametrize("kind", ["plain", "tree"])
@pytest.mark.parametrize("settings", [{}, {"type_k": "q8_0", "type_v": "q8_0"}, {"flash_attention": "off"}])
def test_a_session_goes_on_in_another_model_with_the_new_tokens_only(load, tmp_path: Path, kind, settings) -> None:
    one, other = RealRuns(load(**settings)), RealRuns(load(**settings))
    prompt = one.tokens(FIRST)
    turn = [*prompt, *one.run(prompt, kind).tokens, *one.tokens(SECOND)]
    save(one, tmp_path / "chat")
    on = one.run(turn, "plain")
    other.run(other.tokens("Something else before."), "tree", max_tokens=5)
    assert restore(other, tmp_path / "chat") == MESSAGES
    run = other.run(turn, "plain")
    assert (run.tokens, run.evaluated) == (on.tokens, on.evaluated)
    assert run.logprobs == on.logprobs
    if kind == "plain":
        assert run.evaluated == len(turn) - 1 - (len(prompt) + 24 - 1)
    other.engine.keep(0)
    restore(other, tmp_path / "chat")
    assert other.engine.prepare(turn, reuse="all") == len(turn) - 1 - (len(prompt) + 24 - 1)
    fresh = RealRuns(load(**settings))
    assert other.run(turn, "plain", exact=True).logprobs == fresh.run(turn, "plain", exact=True).logprobs


def test_a_session_goes_on_in_another_process(smollm, tmp_path: Path, model_file) -> None:
    runs = RealRuns(smollm)
    prompt = runs.tokens(FIRST)
    turn = [*prompt, *runs.run(prompt, "plain").tokens, *runs.tokens(SECOND)]
    save(runs, tmp_path / "chat")
    on = runs.run(turn, "plain")
    command = [sys.executable, "-c", OTHER_PROCESS, str(model_file(SMOLLM)), str(tmp_path / "chat"), json.dumps(turn)]
    done = subprocess.run([*command, str(Path(__file__).parent)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [on.evaluated, on.tokens]


def test_a_session_that_does_not_fit_is_refused_in_one_line_and_the_cache_stays(load, tmp_path: Path) -> None:
    runs = RealRuns(load())
    prompt = runs.tokens(FIRST)
    said = runs.run(prompt, "plain")
    save(runs, tmp_path / "chat")
    for settings, complaint in (
        ({"n_ctx": 30}, "tokens, the context 30: raise --ctx-size"),
        ({"flash_attention": "off"}, "was saved with --flash-attn on"),
        ({"type_k": "q8_0"}, "was saved with --cache-type-k f16"),
    ):
        other = RealRuns(load(**settings))
        before = other.run(prompt[:20], "plain", max_tokens=3)
        with pytest.raises(UsageError, match=complaint):
            restore(other, tmp_path / "chat")
        assert other.run(prompt[:20], "plain", max_tokens=3)._replace(steps=[]) == before._replace(
            steps=[], evaluated=0
        )
    state = runs.engine.snapshot()
    for wrong in (state._replace(data=state.data[:-100]), state._replace(data=b""), state._replace(data=bytes(10_000))):
        with pytest.raises(BackendError, match="cannot restore a cache of"):
            runs.engine.restore(wrong)
        again = runs.run(prompt, "plain")
        assert (again.tokens, again.evaluated) == (said.tokens, len(prompt) - 1)
