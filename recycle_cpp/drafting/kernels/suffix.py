"""Numba loops of the suffix index: what followed earlier occurrences of the same last tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numba import njit

if TYPE_CHECKING:
    from recycle_cpp.types import IntArray

LONGEST = 32  # tokens of context that are compared
OCCURRENCES = 12  # occurrences of the last two tokens that are looked at, newest first
CONTINUATIONS = 4  # different tokens after them that are kept
SINGLE_OCCURRENCES = 4  # occurrences of the last token alone that are looked at
FOLLOWERS = 2  # different tokens after them that are kept


class History(NamedTuple):
    """The texts so far, and links between equal places; the owner is SuffixIndex.

    Attributes:
        tokens: int32[N], token at position p stands at p % N; -1 is a border that no match crosses.
        older_pair: int32[N], position of an earlier occurrence of the same two tokens, -1 for none.
        newest_pair: int32[2**m], newest position of two tokens by their hash, -1 for none.
        older_single: int32[N], position of an earlier occurrence of the same token, -1 for none.
        newest_single: int32[2**m], newest position of a token by its hash, -1 for none.
    """

    tokens: IntArray
    older_pair: IntArray
    newest_pair: IntArray
    older_single: IntArray
    newest_single: IntArray


@njit(cache=True, nogil=True)
def _pair_slot(before: int, last: int, n_slots: int) -> int:
    """Return the hash slot of two tokens; n_slots is a power of two."""
    before, last = int(before), int(last)  # run by Python, int32 would overflow
    return ((before * 2654435761) ^ (last * 40503) ^ (last >> 5)) & (n_slots - 1)


@njit(cache=True, nogil=True)
def append(tokens: IntArray, count: int, history: History) -> int:
    """Append tokens to the history, which is updated; return the new count of tokens.

    Args:
        tokens: int32[n].
        count: tokens appended so far.
        history: updated.
    """
    size = len(history.tokens)
    for token in tokens:
        at = count % size
        before = history.tokens[(count - 1) % size] if count > 0 else -1
        history.tokens[at] = token
        history.older_pair[at] = -1
        history.older_single[at] = -1
        if token >= 0:
            slot = token & (len(history.newest_single) - 1)
            history.older_single[at] = history.newest_single[slot]
            history.newest_single[slot] = count
            if before >= 0:
                slot = _pair_slot(before, token, len(history.newest_pair))
                history.older_pair[at] = history.newest_pair[slot]
                history.newest_pair[slot] = count
        count += 1
    return count


@njit(cache=True, nogil=True)
def _match_length(position: int, oldest: int, context: IntArray, n_context: int, tokens: IntArray) -> int:
    """Return how many tokens that end at a position equal the context, read backwards; at most LONGEST."""
    length = 0
    while (
        length < min(n_context, LONGEST)
        and position - length >= oldest
        and tokens[(position - length) % len(tokens)] == context[length]
    ):
        length += 1
    return length


@njit(cache=True, nogil=True)
def find_continuations(
    context: IntArray,
    n_context: int,
    count: int,
    history: History,
    tokens: IntArray,
    lengths: IntArray,
    counts: IntArray,
) -> int:
    """Find what followed the newest occurrences of the context's last two tokens.

    Args:
        context: int32[>=n_context], newest token first.
        n_context: tokens of it; at least 2 are needed.
        count: tokens in the history.
        history: the texts so far.
        tokens: int32[>=CONTINUATIONS], overwritten: longest match first, then most frequent, then newest.
        lengths: int32[>=CONTINUATIONS], overwritten: longest match before each, at least 2.
        counts: int32[>=CONTINUATIONS], overwritten: occurrences of each.

    Returns:
        How many continuations there are.
    """
    if n_context < 2:
        return 0
    size = len(history.tokens)
    oldest = max(0, count - size)
    position = history.newest_pair[_pair_slot(context[1], context[0], len(history.newest_pair))]
    n = 0
    for _ in range(OCCURRENCES):
        if position <= oldest:
            break
        follower = history.tokens[(position + 1) % size] if position + 1 < count else -1
        length = _match_length(position, oldest, context, n_context, history.tokens)
        if length >= 2 and follower >= 0:
            n = _count(follower, length, n, CONTINUATIONS, tokens, lengths, counts)
        earlier = history.older_pair[position % size]
        if earlier >= position:
            break
        position = earlier
    _sort_continuations(n, tokens, lengths, counts)
    return n


@njit(cache=True, nogil=True)
def find_followers(
    last: int, count: int, history: History, tokens: IntArray, lengths: IntArray, counts: IntArray
) -> int:
    """Find what followed the newest occurrences of one token: the edges of the text, its prompt's included.

    Args:
        last: the token.
        count: tokens in the history.
        history: the texts so far.
        tokens: int32[>=FOLLOWERS], overwritten: newest first.
        lengths: int32[>=FOLLOWERS], overwritten.
        counts: int32[>=FOLLOWERS], overwritten: occurrences of each.

    Returns:
        How many followers there are.
    """
    size = len(history.tokens)
    oldest = max(0, count - size)
    position = history.newest_single[last & (len(history.newest_single) - 1)]
    n = 0
    for _ in range(SINGLE_OCCURRENCES):
        if position < oldest or position < 0:
            break
        if history.tokens[position % size] == last and position + 1 < count:
            follower = history.tokens[(position + 1) % size]
            if follower >= 0:
                n = _count(follower, 1, n, FOLLOWERS, tokens, lengths, counts)
        earlier = history.older_single[position % size]
        if earlier >= position:
            break
        position = earlier
    return n


@njit(cache=True, nogil=True)
def _count(token: int, length: int, n: int, most: int, tokens: IntArray, lengths: IntArray, counts: IntArray) -> int:
    """Count an occurrence of a token among n found ones; return how many there are then, at most `most`."""
    for j in range(n):
        if tokens[j] == token:
            counts[j] += 1
            lengths[j] = max(lengths[j], length)
            return n
    if n < most:
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
