"""Real SmolLM2: log probabilities of drafted tokens are plain decoding's, greedy and drawn."""

from __future__ import annotations

import numpy as np
import pytest
from real_prompts import PROMPTS
from real_runs import RealRuns, Run, SeededDraw

from recycle_cpp.runtime import Runtime

CLOSE = 1e-2
# A wide evaluation rounds activations to 8 bits otherwise than a narrow one: at most 0.16 was seen in 60 tokens.
ROUNDING = 0.6


def distances(one: Run, other: Run) -> list[float]:
    """Return how far the records are apart, token by token, up to the first token that differs."""
    found = []
    for a, b in zip(one.logprobs, other.logprobs, strict=True):
        if a.token != b.token:
            break
        found.append(abs(a.logprob - b.logprob))
    return found


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_exact_drafting_reports_plain_decodings_log_probabilities_to_the_bit(smollm: Runtime, temperature) -> None:
    runs, accepted = RealRuns(smollm), 0
    for prompt in (smollm.tokenize(PROMPTS[9]), smollm.tokenize(PROMPTS[1])):
        plain, drafted = (
            runs.run(prompt, kind, exact=True, sampler=SeededDraw(3, temperature) if temperature else None)
            for kind in ("plain", "chain")
        )
        assert drafted.tokens == plain.tokens
        assert drafted.logprobs == plain.logprobs
        accepted += drafted.n_accepted
        assert [record.token for record in plain.logprobs] == plain.tokens
        for record in plain.logprobs:
            values = [value for _, value in record.top]
            assert values == sorted(values, reverse=True)
            assert -30 < record.logprob <= values[0] <= 0
            assert sum(np.exp(values)) <= 1
    assert accepted > 0 or smollm._loaded.exact_widths().width == 1


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_tree_drafting_reports_them_within_rounding(smollm: Runtime, temperature) -> None:
    runs, apart = RealRuns(smollm), []
    accepted = 0
    for text in (PROMPTS[9], PROMPTS[1], PROMPTS[4]):
        prompt = smollm.tokenize(text)
        sampler = (lambda: SeededDraw(3, temperature)) if temperature else (lambda: None)
        runs.run(prompt, "tree", sampler=sampler())
        plain = runs.run(prompt, "plain", sampler=sampler(), exact=True)
        drafted = runs.run(prompt, "tree", sampler=sampler())
        accepted += drafted.n_accepted
        apart += distances(plain, drafted)
    assert accepted > 5
    assert len(apart) > 20
    assert np.median(apart) < CLOSE
    assert max(apart) < ROUNDING
