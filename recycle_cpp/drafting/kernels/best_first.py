"""Numba loops of the best-first draft tree: always expand the likeliest node."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numba import njit

from recycle_cpp.drafting.kernels.candidates import Counts, Scratch, Sources, find_candidates, learn
from recycle_cpp.drafting.kernels.suffix import LONGEST

if TYPE_CHECKING:
    from recycle_cpp.types import FloatArray, IntArray


class Nodes(NamedTuple):
    """A tree as it grows, in falling path probability.

    Attributes:
        tokens: int32[>=W].
        parents: int32[>=W].
        depths: int32[>=W].
        probabilities: float32[>=W], product of the edges from the root.
    """

    tokens: IntArray
    parents: IntArray
    depths: IntArray
    probabilities: FloatArray


class Queue(NamedTuple):
    """Candidates that wait for their turn: a binary heap of indices by falling probability.

    Attributes:
        heap: int32[Q].
        tokens: int32[Q].
        parents: int32[Q].
        probabilities: float32[Q].
    """

    heap: IntArray
    tokens: IntArray
    parents: IntArray
    probabilities: FloatArray


@njit(cache=True, nogil=True)
def _push(queue: Queue, n: int, entry: int) -> int:
    """Put an entry into a heap of n; return n + 1."""
    heap, probabilities = queue.heap, queue.probabilities
    j = n
    while j > 0:
        above = (j - 1) >> 1
        if probabilities[heap[above]] >= probabilities[entry]:
            break
        heap[j] = heap[above]
        j = above
    heap[j] = entry
    return n + 1


@njit(cache=True, nogil=True)
def _pop(queue: Queue, n: int) -> int:
    """Take the first entry off a heap of n by putting the last in its place; return n - 1."""
    heap, probabilities = queue.heap, queue.probabilities
    n -= 1
    entry = heap[n]
    j = 0
    while 2 * j + 1 < n:
        below = 2 * j + 1
        if below + 1 < n and probabilities[heap[below + 1]] > probabilities[heap[below]]:
            below += 1
        if probabilities[heap[below]] <= probabilities[entry]:
            break
        heap[j] = heap[below]
        j = below
    heap[j] = entry
    return n


@njit(cache=True, nogil=True)
def fill_context(node: int, tokens: IntArray, parents: IntArray, tail: IntArray, n_tail: int, context: IntArray) -> int:
    """Write the last tokens before and at a node, newest first; return how many.

    Args:
        node: the node, whose token comes first.
        tokens: int32[>=W].
        parents: int32[>=W].
        tail: int32[>=n_tail], the sequence before the root, oldest first.
        n_tail: tokens of it.
        context: int32[>=LONGEST], overwritten.
    """
    n = 0
    while node >= 0 and n < LONGEST:
        context[n] = tokens[node]
        node = parents[node]
        n += 1
    while n < LONGEST and n_tail > 0:
        n_tail -= 1
        context[n] = tail[n_tail]
        n += 1
    return n


@njit(cache=True, nogil=True)
def draft_best(
    root: int,
    width: int,
    depth: int,
    floor: float,
    tail: IntArray,
    n_tail: int,
    count: int,
    sources: Sources,
    counts: Counts,
    scratch: Scratch,
    queue: Queue,
    nodes: Nodes,
) -> int:
    """Grow a tree below the root, the likeliest node first (as Sequoia and OPT-Tree choose theirs).

    Args:
        root: the pending token.
        width: nodes at most, the root included.
        depth: depth of a node at most.
        floor: path probability below which a node is not worth a row.
        tail: int32[>=n_tail], the sequence before the root, oldest first.
        n_tail: tokens of it.
        count: tokens in the history.
        sources: what is known.
        counts: how far it is to be trusted.
        scratch: overwritten.
        queue: overwritten; candidates that find no room in it are dropped.
        nodes: overwritten, in falling path probability, parents before children.

    Returns:
        How many nodes there are.
    """
    nodes.tokens[0] = root
    nodes.parents[0] = -1
    nodes.depths[0] = 0
    nodes.probabilities[0] = 1.0
    n, waiting, entries, node = 1, 0, 0, 0
    while n < width:
        if nodes.depths[node] < depth:
            n_context = fill_context(node, nodes.tokens, nodes.parents, tail, n_tail, scratch.context)
            found = find_candidates(sources, count, n_context, scratch)
            for j in range(found):
                probability = nodes.probabilities[node] * counts.probability[scratch.buckets[j]]
                if probability >= floor and entries < len(queue.heap):
                    queue.tokens[entries] = scratch.tokens[j]
                    queue.parents[entries] = node
                    queue.probabilities[entries] = probability
                    waiting = _push(queue, waiting, entries)
                    entries += 1
        if waiting == 0:
            break
        entry = queue.heap[0]
        waiting = _pop(queue, waiting)
        node = n
        nodes.tokens[n] = queue.tokens[entry]
        nodes.parents[n] = queue.parents[entry]
        nodes.depths[n] = nodes.depths[queue.parents[entry]] + 1
        nodes.probabilities[n] = queue.probabilities[entry]
        n += 1
    return n


@njit(cache=True, nogil=True)
def learn_path(
    tail: IntArray,
    n_tail: int,
    truths: IntArray,
    count: int,
    sources: Sources,
    counts: Counts,
    scratch: Scratch,
) -> None:
    """Count what every source had to say at each position of a verified path, drafted or not.

    Args:
        tail: int32[>=n_tail], the sequence up to the root, oldest first.
        n_tail: tokens of it, the root's included.
        truths: int32[n], the emitted tokens.
        count: tokens in the history, up to the root.
        sources: what was known when the tree was drafted.
        counts: updated.
        scratch: overwritten.
    """
    for i in range(len(truths)):
        n = 0
        for back in range(min(i, LONGEST)):
            scratch.context[n] = truths[i - 1 - back]
            n += 1
        for back in range(min(n_tail, LONGEST - n)):
            scratch.context[n] = tail[n_tail - 1 - back]
            n += 1
        found = find_candidates(sources, count, n, scratch)
        learn(truths[i], found, scratch, counts)
