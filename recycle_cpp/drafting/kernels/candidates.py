"""Numba loops that merge what all sources know of a context, and learn how often each kind of candidate is right.

A candidate's kind is its bucket: for a continuation of the suffix index the match length, its place among the
continuations, how the occurrences agree and whether the adjacency row has it too; for a candidate of the adjacency row
its rank, its logit's distance from the best and whether the suffix index knew better. Each bucket has decayed counts of
trials and hits, which give the probability that a candidate of this kind is the model's choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numba import njit

from recycle_cpp.drafting.kernels.suffix import CANDIDATES, find_continuations

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recycle_cpp.types import FloatArray, IntArray

    RowArray = NDArray[np.int16]
    GapArray = NDArray[np.uint8]

N_LENGTHS, N_PLACES, N_AGREEMENTS, N_SHARED = 7, 3, 4, 3
N_RANKS, N_GAPS, N_STATES = 8, 6, 4
N_SUFFIX = N_LENGTHS * N_PLACES * N_AGREEMENTS * N_SHARED
N_BUCKETS = N_SUFFIX + N_RANKS * N_GAPS * N_STATES
MOST = CANDIDATES + N_RANKS  # candidates of one context
FORGET_AT = 512.0  # trials at which a bucket's counts are halved
PRIOR_TRIALS = 4.0


class Sources(NamedTuple):
    """Everything that knows successors, as arrays; the owners are AdjacencyMatrix and SuffixIndex.

    Attributes:
        row_of: int16[n_vocab], row of each token, -1 for none.
        rows: int32[R, 8], candidates.
        gaps: uint8[R, 8], distance of each candidate's logit from the best one's, in sixteenths.
        history: int32[N], tokens seen.
        older: int32[N], links to earlier occurrences.
        newest: int32[2**m], heads of the links.
    """

    row_of: RowArray
    rows: IntArray
    gaps: GapArray
    history: IntArray
    older: IntArray
    newest: IntArray


class Scratch(NamedTuple):
    """Buffers of one lookup.

    Attributes:
        context: int32[>=16], newest token first.
        tokens: int32[MOST], candidates.
        buckets: int32[MOST], kind of each.
        lengths: int32[MOST].
        counts: int32[MOST].
    """

    context: IntArray
    tokens: IntArray
    buckets: IntArray
    lengths: IntArray
    counts: IntArray


class Counts(NamedTuple):
    """What is known of each bucket.

    Attributes:
        hits: float32[N_BUCKETS], decayed.
        trials: float32[N_BUCKETS], decayed.
        prior: float32[N_BUCKETS], probability before anything is known.
        probability: float32[N_BUCKETS], what follows from the three.
    """

    hits: FloatArray
    trials: FloatArray
    prior: FloatArray
    probability: FloatArray


@njit(cache=True, nogil=True)
def length_class(length: int) -> int:
    """Return the class of a match length: 2, 3, 4, 5-6, 7-9, 10-14, 15 and more."""
    if length <= 4:
        return max(length - 2, 0)
    if length <= 6:
        return 3
    if length <= 9:
        return 4
    return 5 if length <= 14 else 6


@njit(cache=True, nogil=True)
def gap_class(gap: int) -> int:
    """Return the class of a logit distance in sixteenths: below 0.5, 1, 2, 3.5, 6, and the rest."""
    if gap < 32:
        return 0 if gap < 8 else (1 if gap < 16 else 2)
    if gap < 56:
        return 3
    return 4 if gap < 96 else 5


@njit(cache=True, nogil=True)
def suffix_bucket(length: int, place: int, count: int, total: int, shared: int) -> int:
    """Return the bucket of a continuation."""
    agreement = 0
    if total > 1:
        agreement = 1 if count == total else (2 if 2 * count >= total else 3)
    return ((length_class(length) * N_PLACES + min(place, 2)) * N_AGREEMENTS + agreement) * N_SHARED + shared


@njit(cache=True, nogil=True)
def row_bucket(rank: int, gap: int, longest: int) -> int:
    """Return the bucket of an adjacency row's candidate; `longest` is the suffix index's best match, 0 for none."""
    state = 0 if longest == 0 else (1 if longest == 2 else (2 if longest < 6 else 3))
    return N_SUFFIX + (rank * N_GAPS + gap_class(gap)) * N_STATES + state


@njit(cache=True, nogil=True)
def find_candidates(sources: Sources, count: int, n_context: int, scratch: Scratch) -> int:
    """Merge the candidates of all sources for the context in the scratch.

    Args:
        sources: what is known.
        count: tokens in the history.
        n_context: tokens in scratch.context, at least 1.
        scratch: tokens and buckets are overwritten; continuations come first.

    Returns:
        How many candidates there are; each token stands once.
    """
    tokens, buckets = scratch.tokens, scratch.buckets
    n_found = find_continuations(
        scratch.context,
        n_context,
        count,
        sources.history,
        sources.older,
        sources.newest,
        tokens,
        scratch.lengths,
        scratch.counts,
    )
    total = 0
    for j in range(n_found):
        total += scratch.counts[j]
    row = sources.row_of[scratch.context[0]]
    for j in range(n_found):
        shared = 2
        if row >= 0:
            for rank in range(N_RANKS):
                if sources.rows[row, rank] == tokens[j]:
                    shared = min(rank, 1)
                    break
        buckets[j] = suffix_bucket(scratch.lengths[j], j, scratch.counts[j], total, shared)
    if row < 0:
        return n_found
    return _add_row(sources, row, n_found, scratch)


@njit(cache=True, nogil=True)
def _add_row(sources: Sources, row: int, n_found: int, scratch: Scratch) -> int:
    """Add the row's candidates that are not there yet; return how many there are then."""
    longest = scratch.lengths[0] if n_found > 0 else 0
    n = n_found
    for rank in range(N_RANKS):
        token = sources.rows[row, rank]
        if token < 0:
            break
        known = False
        for j in range(n_found):
            known = known or scratch.tokens[j] == token
        if not known:
            scratch.tokens[n] = token
            # The best candidate has no distance of its own: how far it leads says as much.
            scratch.buckets[n] = row_bucket(rank, sources.gaps[row, max(rank, 1)], longest)
            n += 1
    return n


@njit(cache=True, nogil=True)
def learn(truth: int, n: int, scratch: Scratch, counts: Counts) -> None:
    """Count for each of n candidates whether it was the model's choice."""
    for j in range(n):
        bucket = scratch.buckets[j]
        counts.trials[bucket] += 1
        if scratch.tokens[j] == truth:
            counts.hits[bucket] += 1
        if counts.trials[bucket] > FORGET_AT:
            counts.trials[bucket] *= 0.5
            counts.hits[bucket] *= 0.5
        hits = counts.hits[bucket] + PRIOR_TRIALS * counts.prior[bucket]
        counts.probability[bucket] = hits / (counts.trials[bucket] + PRIOR_TRIALS)
