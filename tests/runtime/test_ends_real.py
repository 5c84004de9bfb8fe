"""Real SmolLM2 with tree drafts: where an answer ends, text, counts and cache end."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import write_rows
from real_prompts import PROMPTS
from real_runs import RealRuns

from recycle_cpp.runtime import Runtime
from recycle_cpp.types import GenerateOptions

ASKED = "<|im_start|>user\nRepeat this sentence: {}<|im_end|>\n<|im_start|>assistant\n"
SENTENCES = (
    "The cat sat on the mat.",
    "A cold wind blows from the north.",
    "Birds sing.",
    "We met them on a hot day in May.",
)
NEXT = "\n<|im_start|>user\nAnd now say no.<|im_end|>\n<|im_start|>assistant\n"
LONG = PROMPTS[1]


def known(runs: RealRuns, said: list[int]):
    """Return a tree drafter that knows what follows each token of a text, and a list of what it drafts."""
    places = [place for place, token in enumerate(said[:-1]) if token not in said[:place]]
    write_rows(runs.matrix, [said[place] for place in places], np.repeat([[said[p + 1]] for p in places], 8, axis=1))
    drafter, drafts = runs.drafter("tree"), []
    draft = drafter.draft
    drafter.draft = lambda root, limits: drafts.append(draft(root, limits)) or drafts[-1]
    return drafter, drafts


def test_an_end_of_generation_token_inside_a_drafted_path_ends_text_and_cache_there_and_turn_2_reuses_all(load) -> None:
    n_inside = 0
    for sentence in SENTENCES:
        runs = RealRuns(load())
        is_eog = runs.loaded.backend.is_eog
        prompt = runs.tokens(ASKED.format(sentence))
        plain = runs.run(prompt, "plain", max_tokens=60)
        assert is_eog(plain.tokens[-1]), "the answer has no end, so the test says nothing"
        drafter, drafts = known(runs, [prompt[-1], *plain.tokens, *runs.tokens(NEXT)])
        runs.drafter = lambda _kind, drafter=drafter: drafter
        run = runs.run(prompt, "tree", max_tokens=60)
        last = drafts[-1]
        ends = [row for row, token in enumerate(last.tokens.tolist()) if is_eog(token)]
        n_inside += run.steps[-1].n_accepted > 0 and any(row in last.parents.tolist() for row in ends)
        assert run.steps[-1].finish_reason == "stop"
        assert [token for token in run.tokens if is_eog(token)] == run.tokens[-1:]
        assert runs.loaded.backend.n_past == len(prompt) + len(run.tokens) - 1
        assert runs.engine.tokens == (*prompt, *run.tokens)
        turn = [*prompt, *run.tokens, *runs.tokens(NEXT)]
        assert runs.run(turn, "tree", max_tokens=8).evaluated == len(runs.tokens(NEXT))
    assert n_inside > 0, "no end was inside a drafted path, so the test says nothing"


@pytest.mark.parametrize("max_tokens", range(1, 13))
@pytest.mark.parametrize("draft", ["tree", "auto"])
def test_what_is_delivered_and_what_is_counted_is_what_was_asked_for(smollm: Runtime, draft: str, max_tokens) -> None:
    options = GenerateOptions(max_tokens=max_tokens, draft=draft)
    chunks = list(smollm.stream(LONG, options))
    last = chunks[-1]
    delivered = [token for chunk in chunks for token in chunk.tokens]
    assert len(delivered) == last.usage.completion_tokens == last.timings.predicted_n == max_tokens
    assert last.finish_reason == "length"
    runs = RealRuns(smollm)
    assert runs.engine.tokens == (*smollm.tokenize(LONG), *delivered)
    assert runs.loaded.backend.n_past == len(smollm.tokenize(LONG)) + max_tokens - 1


def test_budgets_are_met_inside_accepted_paths_so_that_the_test_above_means_something(smollm: Runtime) -> None:
    options = GenerateOptions(max_tokens=12, draft="tree")
    smollm.generate(LONG, GenerateOptions(max_tokens=40, draft="tree"))
    assert max(len(chunk.tokens) for chunk in smollm.stream(LONG, options)) > 2
