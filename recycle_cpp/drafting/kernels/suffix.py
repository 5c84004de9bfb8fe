"""Numba loops of the suffix index: what followed earlier occurrences of the same last tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    from recycle_cpp.types import IntArray

LONGEST = 16  # tokens of context that are compared
OCCURRENCES = 12  # occurrences of the last two tokens that are looked at, newest first
CANDIDATES = 4  # different continuations that are kept


@njit(cache=True, nogil=True)
def _slot(before: int, last: int, n_slots: int) -> int:
    """Return the hash slot of two tokens; n_slots is a power of two."""
    before, last = int(before), int(last)  # run by Python, int32 would overflow
    return ((before * 2654435761) ^ (last * 40503) ^ (last >> 5)) & (n_slots - 1)


@njit(cache=True, nogil=True)
def append(tokens: IntArray, count: int, history: IntArray, older: IntArray, newest: IntArray) -> int:
    """Append tokens to the history; -1 is a border that no match crosses.

    Args:
        tokens: int32[n].
        count: tokens appended so far.
        history: int32[N], updated: token at position p is history[p % N].
        older: int32[N], updated: position of an earlier occurrence of the same two tokens, -1 for none.
        newest: int32[2**m], updated: newest position of two tokens by hash, -1 for none.

    Returns:
        The new count.
    """
    size = len(history)
    for token in tokens:
        at = count % size
        before = history[(count - 1) % size] if count > 0 else -1
        history[at] = token
        older[at] = -1
        if token >= 0 and before >= 0:
            slot = _slot(before, token, len(newest))
            older[at] = newest[slot]
            newest[slot] = count
        count += 1
    return count


@njit(cache=True, nogil=True)
def _match_length(position: int, oldest: int, context: IntArray, n_context: int, history: IntArray) -> int:
    """Return how many tokens that end at a position equal the context, read backwards; at most LONGEST."""
    length = 0
    while (
        length < min(n_context, LONGEST)
        and position - length >= oldest
        and history[(position - length) % len(history)] == context[length]
    ):
        length += 1
    return length


@njit(cache=True, nogil=True)
def find_continuations(
    context: IntArray,
    n_context: int,
    count: int,
    history: IntArray,
    older: IntArray,
    newest: IntArray,
    tokens: IntArray,
    lengths: IntArray,
    counts: IntArray,
) -> int:
    """Find what followed the newest occurrences of the context's last two tokens.

    Args:
        context: int32[>=n_context], newest token first.
        n_context: tokens of it; at least 2 are needed.
        count: tokens in the history.
        history: int32[N], as of `append`.
        older: int32[N].
        newest: int32[2**m].
        tokens: int32[CANDIDATES], overwritten: continuations, longest match first, then most frequent, then newest.
        lengths: int32[CANDIDATES], overwritten: longest match before each, at least 2.
        counts: int32[CANDIDATES], overwritten: occurrences of each.

    Returns:
        How many continuations there are.
    """
    if n_context < 2:
        return 0
    size = len(history)
    oldest = max(0, count - size)
    position = newest[_slot(context[1], context[0], len(newest))]
    n = 0
    for _ in range(OCCURRENCES):
        if position <= oldest:
            break
        follower = history[(position + 1) % size] if position + 1 < count else -1
        length = _match_length(position, oldest, context, n_context, history)
        if length >= 2 and follower >= 0:
            n = _count_continuation(follower, length, n, tokens, lengths, counts)
        earlier = older[position % size]
        if earlier >= position:
            break
        position = earlier
    _sort_continuations(n, tokens, lengths, counts)
    return n


@njit(cache=True, nogil=True)
def _count_continuation(token: int, length: int, n: int, tokens: IntArray, lengths: IntArray, counts: IntArray) -> int:
    for j in range(n):
        if tokens[j] == token:
            counts[j] += 1
            lengths[j] = max(lengths[j], length)
            return n
    if n < CANDIDATES:
        tokens[n] = token
        lengths[n] = length
        counts[n] = 1
        return n + 1
    return n


@njit(cache=True, nogil=True)
def _sort_continuations(n: int, tokens: IntArray, lengths: IntArray, counts: IntArray) -> None:
    """Sort by match length, then count, falling; insertion keeps the newest first among equals."""
    for i in range(1, n):
        j = i
        while j > 0 and (lengths[j] > lengths[j - 1] or (lengths[j] == lengths[j - 1] and counts[j] > counts[j - 1])):
            tokens[j], tokens[j - 1] = tokens[j - 1], tokens[j]
            lengths[j], lengths[j - 1] = lengths[j - 1], lengths[j]
            counts[j], counts[j - 1] = counts[j - 1], counts[j]
            j -= 1
