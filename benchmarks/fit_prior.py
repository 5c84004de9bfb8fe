"""Fit the prior of the calibration to traces: how often each kind of opinion is right, and how to weight the sources.

    recycle-cpp trace -m MODEL --prompts FILE -o NAME.npz        (for each model)
    python benchmarks/fit_prior.py NAME.npz ... > recycle_cpp/drafting/prior.json

Every trace is replayed with trees of 8 rows, in passes that start from the prior of the pass before. All traces count
the same. A prior must come from other prompts than those that drafting is measured on.
"""

import json
import sys
from pathlib import Path

import numpy as np

from recycle_cpp.bench.replay import AlwaysWidest, ReplayCosts, flat_curve, replay
from recycle_cpp.bench.trace import Trace
from recycle_cpp.drafting.kernels import candidates, mixing
from recycle_cpp.drafting.knowledge import Knowledge
from recycle_cpp.drafting.planned import PlannedDrafter

PASSES = 3
WIDTH = 8
UNKNOWN, UNKNOWN_TRIALS = 0.02, 4.0  # a kind that is hardly ever met
FIRST_WEIGHT = 0.3


def start_from(knowledge: Knowledge, prior: np.ndarray, weights: np.ndarray) -> None:
    belief = knowledge.calibration.belief
    belief.prior[:] = prior
    belief.odds[:] = [mixing.log_odds(float(p)) for p in prior]
    belief.weights[:] = weights


def run_trace(trace: Trace, prior: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return hits and trials of each kind, none forgotten, and the weights in the end."""
    knowledge = Knowledge(trace.n_vocab)
    start_from(knowledge, prior, weights)
    belief = knowledge.calibration.belief
    drafter = PlannedDrafter(knowledge, AlwaysWidest(WIDTH))
    hits, trials = np.zeros((2, candidates.N_KINDS))
    for turn in trace.turns:
        before = belief.hits.copy(), belief.trials.copy()
        belief.hits.fill(0)
        belief.trials.fill(0)
        replay(Trace(trace.model, trace.n_vocab, (turn,)), drafter, ReplayCosts(flat_curve()))
        hits += belief.hits
        trials += belief.trials
        belief.hits[:] += before[0]
        belief.trials[:] += before[1]
        share = np.minimum(1.0, mixing.FORGET_AT / np.maximum(belief.trials, 1.0))
        belief.hits[:] *= share
        belief.trials[:] *= share
    return hits, trials, belief.weights.copy()


def main() -> None:
    traces = [Trace.load(Path(name)) for name in sys.argv[1:]]
    if not traces:
        sys.exit("give one trace or more, made by `recycle-cpp trace`")
    prior = np.full(candidates.N_KINDS, 0.05)
    weights = np.full((candidates.N_SITUATIONS, candidates.N_SOURCES + 1), FIRST_WEIGHT)
    weights[:, -1] = 0.0
    for _ in range(PASSES):
        found = [run_trace(trace, prior, weights) for trace in traces]
        hits, trials = (sum(part[i] / part[1].sum() for part in found) for i in (0, 1))
        scale = sum(part[1].sum() for part in found)
        prior = (hits * scale + UNKNOWN * UNKNOWN_TRIALS) / (trials * scale + UNKNOWN_TRIALS)
        weights = np.mean([part[2] for part in found], axis=0, dtype=np.float64)
    kept = {"probabilities": np.round(prior, 4).tolist(), "weights": np.round(weights, 3).tolist()}
    print(json.dumps(kept))


if __name__ == "__main__":
    main()
