"""Numba loops that gather what all sources say of one context.

A source is something that knows successors: the continuations and followers of the suffix index, the adjacency row of
the last token, the adjacency row of the token before it (a runner-up of the last position often comes one later,
LogitSpec, arXiv 2507.01449), and the most frequent tokens. Each candidate stands once, and each source has an opinion
of it, whether it proposed it or not: its kind. A kind says how the source knows the candidate - a continuation after a
match of so many tokens, the second of a row whose leader is far ahead, not at all - and is a number, so that the
calibration can count how often candidates of a kind turned out to be the model's choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numba import njit

from recycle_cpp.drafting.kernels.suffix import CONTINUATIONS, FOLLOWERS, History, find_continuations, find_followers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recycle_cpp.types import FloatArray, IntArray

    RowArray = NDArray[np.int16]
    GapArray = NDArray[np.uint8]

SUFFIX, FOLLOWER, ROW, PREVIOUS, FREQUENT = range(5)
N_SOURCES = 5
N_LENGTHS, N_PLACES, N_AGREEMENTS = 10, 3, 4
N_RANKS, N_LEADS, N_DISTANCES = 8, 7, 3
N_FREQUENT = 16  # tokens in the list of frequent ones
PROPOSED_PREVIOUS = 4  # candidates of the row before that are candidates by themselves
PROPOSED_FREQUENT = 8  # the same of the frequent tokens, where the last token has no row
MOST = CONTINUATIONS + FOLLOWERS + N_RANKS + PROPOSED_PREVIOUS + PROPOSED_FREQUENT

# The kinds of each source stand side by side; the last ones of each are those of candidates that it does not know.
SUFFIX_SILENT = N_LENGTHS * N_PLACES * N_AGREEMENTS
FOLLOWER_KINDS = SUFFIX_SILENT + N_LENGTHS + 1
FOLLOWER_SILENT = FOLLOWER_KINDS + 6
ROW_KINDS = FOLLOWER_SILENT + 2
ROW_SILENT = ROW_KINDS + N_RANKS * N_LEADS
PREVIOUS_KINDS = ROW_SILENT + N_LEADS + 1
PREVIOUS_SILENT = PREVIOUS_KINDS + N_RANKS * N_DISTANCES
FREQUENT_KINDS = PREVIOUS_SILENT + 2
FREQUENT_SILENT = FREQUENT_KINDS + 2 * N_FREQUENT
N_KINDS = FREQUENT_SILENT + 1
N_SITUATIONS = (N_LENGTHS + 1) * 3


class Sources(NamedTuple):
    """Everything that knows successors, as arrays; the owners are AdjacencyMatrix, SuffixIndex and FrequentTokens.

    Attributes:
        row_of: int16[n_vocab], row of each token, -1 for none.
        rows: int32[R, 8], candidates.
        gaps: uint8[R, 8], distance of each candidate's logit from the best one's, in sixteenths.
        history: the texts so far.
        frequent: int32[16], the most frequent tokens, most frequent first, -1 for none.
        in_use: uint8[N_SOURCES], 0 for a source that is not asked.
    """

    row_of: RowArray
    rows: IntArray
    gaps: GapArray
    history: History
    frequent: IntArray
    in_use: GapArray


class Scratch(NamedTuple):
    """Buffers of one lookup.

    Attributes:
        context: int32[>=LONGEST], newest token first.
        tokens: int32[MOST], candidates.
        kinds: int32[MOST, N_SOURCES], what each source says of each.
        silent: int32[N_SOURCES], what each says of a token that it does not know.
        found: int32[3, CONTINUATIONS], tokens, match lengths and occurrences of one source.
        result: int32[2], how many candidates there are, -1 before the first lookup, and the situation.
        probabilities: float32[MOST], of each candidate.
    """

    context: IntArray
    tokens: IntArray
    kinds: IntArray
    silent: IntArray
    found: IntArray
    result: IntArray
    probabilities: FloatArray


@njit(cache=True, nogil=True)
def length_class(length: int) -> int:
    """Return the class of a match length: 1 to 4, 5-6, 7-9, 10-13, 14-19, 20-31, all that are compared."""
    if length <= 4:
        return max(length - 1, 0)
    if length <= 6:
        return 4
    if length <= 9:
        return 5
    if length <= 13:
        return 6
    return 7 if length <= 19 else (8 if length <= 31 else 9)


@njit(cache=True, nogil=True)
def lead_class(gap: int) -> int:
    """Return the class of a logit distance in sixteenths: below 0.25, 0.6, 1.1, 2, 3.5, 6, and the rest."""
    if gap < 18:
        return 0 if gap < 4 else (1 if gap < 10 else 2)
    if gap < 56:
        return 3 if gap < 32 else 4
    return 5 if gap < 96 else 6


@njit(cache=True, nogil=True)
def suffix_kind(length: int, place: int, count: int, total: int) -> int:
    """Return the kind of a continuation: match length, place among them, and how the occurrences agree."""
    agreement = 0
    if total > 1:
        agreement = 1 if count == total else (2 if 2 * count >= total else 3)
    return (length_class(length) * N_PLACES + min(place, 2)) * N_AGREEMENTS + agreement


@njit(cache=True, nogil=True)
def row_kind(rank: int, gap: int) -> int:
    """Return the kind of an adjacency row's candidate; the best has no gap of its own: its lead says as much."""
    return ROW_KINDS + rank * N_LEADS + lead_class(gap)


@njit(cache=True, nogil=True)
def _place_of(token: int, n: int, scratch: Scratch) -> int:
    """Return where a token stands among n candidates, or -1."""
    for j in range(n):
        if scratch.tokens[j] == token:
            return j
    return -1


@njit(cache=True, nogil=True)
def _propose(token: int, source: int, kind: int, n: int, scratch: Scratch) -> int:
    """Note a source's opinion of a token, which becomes a candidate if it is none; return how many there are."""
    j = _place_of(token, n, scratch)
    if j < 0:
        j = n
        n += 1
        scratch.tokens[j] = token
        scratch.kinds[j] = scratch.silent
    scratch.kinds[j, source] = kind
    return n


@njit(cache=True, nogil=True)
def find_candidates(sources: Sources, count: int, n_context: int, scratch: Scratch) -> None:
    """Gather the candidates of all sources for the context in the scratch.

    Args:
        sources: what is known.
        count: tokens in the history.
        n_context: tokens in scratch.context, at least 1.
        scratch: tokens, each once, and kinds are overwritten, and the result: how many there are, and the situation, a
            number below N_SITUATIONS for how much the longest match and the row promise, by which the sources'
            opinions are weighted.
    """
    context, silent = scratch.context, scratch.silent
    row = sources.row_of[context[0]] if sources.in_use[ROW] else -1
    previous = sources.row_of[context[1]] if sources.in_use[PREVIOUS] and n_context > 1 else -1
    silent[FOLLOWER] = FOLLOWER_SILENT
    silent[ROW] = ROW_SILENT + (lead_class(sources.gaps[row, 1]) if row >= 0 else N_LEADS)
    silent[PREVIOUS] = PREVIOUS_SILENT + (0 if previous >= 0 else 1)
    silent[FREQUENT] = FREQUENT_SILENT
    longest, n = _add_continuations(sources, count, n_context, scratch)
    n = _add_followers(sources, count, n, scratch)
    if row >= 0:
        for rank in range(N_RANKS):
            token = sources.rows[row, rank]
            if token < 0:
                break
            n = _propose(token, ROW, row_kind(rank, sources.gaps[row, max(rank, 1)]), n, scratch)
    if previous >= 0:
        n = _add_previous(sources, previous, n, scratch)
    if sources.in_use[FREQUENT]:
        n = _add_frequent(sources, row >= 0, n, scratch)
    certainty = 0 if row < 0 else (1 if sources.gaps[row, 1] < 24 else 2)
    scratch.result[0], scratch.result[1] = n, longest * 3 + certainty


@njit(cache=True, nogil=True)
def _add_continuations(sources: Sources, count: int, n_context: int, scratch: Scratch) -> tuple[int, int]:
    """Begin the candidates with the suffix index's; return the longest match's class from 1, 0 for none, and n."""
    tokens, lengths, counts = scratch.found[0], scratch.found[1], scratch.found[2]
    n = 0
    if sources.in_use[SUFFIX]:
        n = find_continuations(scratch.context, n_context, count, sources.history, tokens, lengths, counts)
    longest = 1 + length_class(lengths[0]) if n > 0 else 0
    scratch.silent[SUFFIX] = SUFFIX_SILENT + longest
    total = 0
    for j in range(n):
        total += counts[j]
    for j in range(n):
        _propose(tokens[j], SUFFIX, suffix_kind(lengths[j], j, counts[j], total), j, scratch)
    return longest, n


@njit(cache=True, nogil=True)
def _add_followers(sources: Sources, count: int, n: int, scratch: Scratch) -> int:
    """Add what followed the last token in the texts; return how many candidates there are then."""
    tokens, lengths, counts = scratch.found[0], scratch.found[1], scratch.found[2]
    found = 0
    if sources.in_use[FOLLOWER]:
        found = find_followers(scratch.context[0], count, sources.history, tokens, lengths, counts)
    if found == 0:
        scratch.silent[FOLLOWER] = FOLLOWER_SILENT + 1
        for j in range(n):
            scratch.kinds[j, FOLLOWER] = FOLLOWER_SILENT + 1
    for place in range(found):
        kind = FOLLOWER_KINDS + 3 * place + min(counts[place] - 1, 2)
        n = _propose(tokens[place], FOLLOWER, kind, n, scratch)
    return n


@njit(cache=True, nogil=True)
def _add_previous(sources: Sources, previous: int, n: int, scratch: Scratch) -> int:
    """Add the runners-up of the position before; return how many candidates there are then."""
    for rank in range(N_RANKS):
        token = sources.rows[previous, rank]
        if token < 0:
            break
        if token == scratch.context[0]:
            continue
        gap = sources.gaps[previous, rank]
        kind = PREVIOUS_KINDS + rank * N_DISTANCES + (0 if gap < 24 else (1 if gap < 64 else 2))
        if rank < PROPOSED_PREVIOUS or _place_of(token, n, scratch) >= 0:
            n = _propose(token, PREVIOUS, kind, n, scratch)
    return n


@njit(cache=True, nogil=True)
def _add_frequent(sources: Sources, has_row: bool, n: int, scratch: Scratch) -> int:
    """Add the most frequent tokens where the last one has no row; return how many candidates there are then."""
    for place in range(N_FREQUENT):
        token = sources.frequent[place]
        if token < 0:
            break
        if (not has_row and place < PROPOSED_FREQUENT) or _place_of(token, n, scratch) >= 0:
            n = _propose(token, FREQUENT, FREQUENT_KINDS + 2 * place + has_row, n, scratch)
    return n
