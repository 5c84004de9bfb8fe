"""Numba loops of the best-first draft tree: always expand the likeliest node, as long as wider can still pay."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numba import njit

from recycle_cpp.drafting.kernels.candidates import Scratch, Sources, find_candidates
from recycle_cpp.drafting.kernels.mixing import Belief, learn, probabilities
from recycle_cpp.drafting.kernels.plan import Plan, can_still_pay
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


class Text(NamedTuple):
    """The sequence that a tree grows from.

    Attributes:
        tail: int32[>=n_tail], its last tokens, oldest first.
        n_tail: tokens in the tail.
        n_history: tokens in the history.
    """

    tail: IntArray
    n_tail: int
    n_history: int


class Bounds(NamedTuple):
    """How far a tree may grow.

    Attributes:
        width: nodes at most, the root included.
        depth: depth of a node at most.
        floor: path probability below which a node is not worth a row.
        is_chain: whether every node has one child at most.
    """

    width: int
    depth: int
    floor: float
    is_chain: bool


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
    bounds: Bounds,
    text: Text,
    sources: Sources,
    belief: Belief,
    plan: Plan,
    at_root: Scratch,
    scratch: Scratch,
    queue: Queue,
    nodes: Nodes,
) -> int:
    """Grow a tree below the root, the likeliest node first (as Sequoia and OPT-Tree choose theirs).

    Args:
        root: the pending token.
        bounds: how far it may grow.
        text: the sequence before the root.
        sources: what is known.
        belief: how far it is to be trusted.
        plan: what widths cost: growth ends where none of those that are left can be the best.
        at_root: overwritten: the candidates for the root's children, which `learn_path` asks for again.
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
    n, waiting, entries = 1, 0, 0
    at_root.result[0] = -1
    while n < bounds.width:
        if nodes.depths[n - 1] < bounds.depth:
            found = at_root if n == 1 else scratch
            waiting, entries = _expand(n - 1, waiting, entries, bounds, text, sources, belief, found, queue, nodes)
        if waiting == 0 or not can_still_pay(n, queue.probabilities[queue.heap[0]], nodes.probabilities, plan):
            break
        entry = queue.heap[0]
        waiting = _pop(queue, waiting)
        nodes.tokens[n] = queue.tokens[entry]
        nodes.parents[n] = queue.parents[entry]
        nodes.depths[n] = nodes.depths[queue.parents[entry]] + 1
        nodes.probabilities[n] = queue.probabilities[entry]
        n += 1
    return n


@njit(cache=True, nogil=True)
def _expand(
    node: int,
    waiting: int,
    entries: int,
    bounds: Bounds,
    text: Text,
    sources: Sources,
    belief: Belief,
    scratch: Scratch,
    queue: Queue,
    nodes: Nodes,
) -> tuple[int, int]:
    """Put the candidates for children of a node into the queue; return how many wait, and entries made, then."""
    n_context = fill_context(node, nodes.tokens, nodes.parents, text.tail, text.n_tail, scratch.context)
    find_candidates(sources, text.n_history, n_context, scratch)
    found = scratch.result[0]
    probabilities(found, scratch.result[1], scratch, belief, scratch.probabilities)
    first, last = 0, found
    if bounds.is_chain and found > 0:
        for j in range(1, found):
            first = j if scratch.probabilities[j] > scratch.probabilities[first] else first
        last = first + 1
    for j in range(first, last):
        probability = nodes.probabilities[node] * scratch.probabilities[j]
        if probability >= bounds.floor and entries < len(queue.heap):
            queue.tokens[entries] = scratch.tokens[j]
            queue.parents[entries] = node
            queue.probabilities[entries] = probability
            waiting = _push(queue, waiting, entries)
            entries += 1
    return waiting, entries


@njit(cache=True, nogil=True)
def learn_path(
    truths: IntArray, text: Text, sources: Sources, belief: Belief, at_root: Scratch, scratch: Scratch
) -> None:
    """Learn what every source had to say at each position of a verified path, drafted or not.

    Args:
        truths: int32[n], the emitted tokens.
        text: the sequence up to the root, which is the last token of the tail.
        sources: what was known when the tree was drafted.
        belief: updated.
        at_root: what `draft_best` found for this very root; its result is -1 if it found nothing out.
        scratch: overwritten.
    """
    for i in range(len(truths)):
        known = at_root if i == 0 else scratch
        if i > 0 or at_root.result[0] < 0:
            n_context = _fill_behind(truths, i, text, known.context)
            find_candidates(sources, text.n_history, n_context, known)
        learn(truths[i], known.result[0], known.result[1], known, belief)


@njit(cache=True, nogil=True)
def _fill_behind(truths: IntArray, n_truths: int, text: Text, context: IntArray) -> int:
    """Write the last tokens of the tail and the first truths, newest first; return how many."""
    n = 0
    for back in range(min(n_truths, LONGEST)):
        context[n] = truths[n_truths - 1 - back]
        n += 1
    for back in range(min(text.n_tail, LONGEST - n)):
        context[n] = text.tail[text.n_tail - 1 - back]
        n += 1
    return n
