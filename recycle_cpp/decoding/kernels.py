"""Numba loops of decoding: top-k and log-sum-exp of logits rows, lists of candidates, the walk down the draft tree.

Each has a slow, readable twin in tests/decoding/decoding_reference.py that it is compared with.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recycle_cpp.types import FloatArray, IntArray

LANES = 512


@njit(cache=True, nogil=True)
def _insert(value: float, token: int, ids: IntArray, values: FloatArray) -> None:
    """Put a candidate into its place among the best; equal values stand in the order of their ids."""
    j = len(values) - 1
    if not (value > values[j] or (value == values[j] and token < ids[j])):  # so NaN never gets in
        return
    while j > 0 and (values[j - 1] < value or (values[j - 1] == value and ids[j - 1] > token)):
        values[j] = values[j - 1]
        ids[j] = ids[j - 1]
        j -= 1
    values[j] = value
    ids[j] = token


@njit(cache=True, nogil=True)
def _floor_of_best(maxima: FloatArray, values: FloatArray) -> float:
    """Return the k-th largest lane maximum: no value below it can be among the k best. Overwrites values."""
    values[:] = -np.inf
    last = len(values) - 1
    for lane in range(len(maxima)):
        value = maxima[lane]
        if value > values[last]:
            j = last
            while j > 0 and values[j - 1] < value:
                values[j] = values[j - 1]
                j -= 1
            values[j] = value
    return float(values[last])


@njit(cache=True, nogil=True)
def _lane_maxima(row: FloatArray, maxima: FloatArray) -> int:
    """Overwrite maxima with each lane's largest value; lane l holds the tokens l, l + lanes, l + 2 lanes, ...

    Returns:
        How many tokens at the front of the row make whole chunks; the few behind are in no lane.
    """
    lanes = len(maxima)
    maxima[:] = -np.inf
    whole = len(row) - len(row) % lanes
    for start in range(0, whole, lanes):
        chunk = row[start : start + lanes]
        for lane in range(lanes):
            maxima[lane] = chunk[lane] if chunk[lane] > maxima[lane] else maxima[lane]
    return whole


@njit(cache=True, nogil=True)
def top_k(logits: FloatArray, ids: IntArray, values: FloatArray, maxima: FloatArray) -> None:
    """Find the k best tokens of each logits row, best first, the lower id first among equals.

    One vectorised pass takes the maximum of each of 512 interleaved lanes; only the lanes that can hold one of the k
    best are read again. That costs little more than reading the row once.

    Args:
        logits: float32[W, n_vocab].
        ids: int32[W, k], overwritten; -1 where a row has fewer than k numbers (NaN is none).
        values: float32[W, k], overwritten: their logits; -inf where there is none.
        maxima: float32[min(512, n_vocab)], overwritten.
    """
    lanes = len(maxima)
    for w in range(logits.shape[0]):
        row = logits[w]
        whole = _lane_maxima(row, maxima)
        best, best_values = ids[w], values[w]
        floor = _floor_of_best(maxima, best_values)
        best_values[:] = -np.inf
        best[:] = 2147483647
        for lane in range(lanes):
            if maxima[lane] >= floor:
                for token in range(lane, whole, lanes):
                    if row[token] >= floor:
                        _insert(row[token], token, best, best_values)
        for token in range(whole, len(row)):
            _insert(row[token], token, best, best_values)
        for j in range(len(best)):
            if best[j] == 2147483647:
                best[j] = -1


@njit(cache=True, nogil=True)
def log_sum_exp(row: FloatArray) -> float:
    """Return the logarithm of the sum of exp over float32[n_vocab], summed in float64; NaN counts as nothing.

    Where the largest value is infinite, so is the result.
    """
    most = -np.inf
    for value in row:
        most = value if value > most else most
    largest = float(most)
    if math.isinf(largest):
        return largest
    total = 0.0
    for value in row:
        if value == value:
            total += math.exp(float(value) - largest)
    return largest + math.log(total)


@njit(cache=True, nogil=True)
def find_child(node: int, token: int, tokens: IntArray, parents: IntArray) -> int:
    """Return the child of a node that holds a token, or -1.

    Args:
        node: row of the node.
        token: the token that the model chose there.
        tokens: int32[W], in preorder.
        parents: int32[W].
    """
    for i in range(node + 1, len(tokens)):
        if parents[i] < node:
            return -1
        if parents[i] == node and tokens[i] == token:
            return i
    return -1


@njit(cache=True, nogil=True)
def _list(place: int, token: int, row: FloatArray, ids: IntArray, values: FloatArray) -> None:
    """Write one of llama.cpp's candidates at a place; what is not a number becomes -inf."""
    ids[place, 0] = token
    values[place, 1] = row[token] if row[token] == row[token] else -np.inf
    values[place, 2] = 0.0


@njit(cache=True, nogil=True)
def list_all(row: FloatArray, ids: IntArray, values: FloatArray) -> None:
    """List every token of a logits row, as llama.cpp's samplers take them; what is not a number becomes -inf.

    Args:
        row: float32[n_vocab].
        ids: int32[n_vocab, 3], column 0 overwritten: the three fields of each of llama.cpp's candidates.
        values: float32[n_vocab, 3], the same memory, columns 1 and 2 overwritten.
    """
    for token in range(len(row)):
        _list(token, token, row, ids, values)


@njit(cache=True, nogil=True)
def _floor_without(row: FloatArray, k: int, listed: IntArray, maxima: FloatArray, best: FloatArray) -> float:
    """Return a value that at least k tokens outside a list reach; -inf if these lanes know none.

    A lane whose maximum reaches the value holds a token that does, and each listed one can spoil one lane at most. So
    k lanes and one more for each listed token that reaches the value are enough.
    """
    wanted = k
    while wanted <= len(maxima):
        floor = _floor_of_best(maxima, best[:wanted])
        reaching = 0
        for token in listed:
            reaching += row[token] >= floor
        if wanted >= k + reaching:
            return floor
        wanted = k + reaching
    return -np.inf


@njit(cache=True, nogil=True)
def list_best(
    row: FloatArray,
    k: int,
    listed: IntArray,
    is_listed: NDArray[np.bool_],
    maxima: FloatArray,
    best: FloatArray,
    found: IntArray,
    ids: IntArray,
    values: FloatArray,
) -> int:
    """List some tokens whatever their logits, and of all others at least the k best, in rising order of tokens.

    Args:
        row: float32[n_vocab].
        k: how many of the others.
        listed: int32[n], tokens to list, in rising order.
        is_listed: bool[n_vocab], where they are.
        maxima: float32[min(512, n_vocab)], overwritten.
        best: float32[min(512, n_vocab)], overwritten.
        found: int32[n_vocab], overwritten.
        ids: int32[n_vocab, 3], column 0 overwritten: the three fields of each of llama.cpp's candidates.
        values: float32[n_vocab, 3], the same memory, columns 1 and 2 overwritten.

    Returns:
        How many are listed.
    """
    lanes = len(maxima)
    whole = _lane_maxima(row, maxima)
    floor = _floor_without(row, k, listed, maxima, best)
    n_found = 0
    for lane in range(lanes):
        if maxima[lane] >= floor:
            for token in range(lane, whole, lanes):
                if row[token] >= floor and not is_listed[token]:
                    found[n_found] = token
                    n_found += 1
    for token in range(whole, len(row)):
        if row[token] >= floor and not is_listed[token]:
            found[n_found] = token
            n_found += 1
    found[:n_found].sort()
    i, j = 0, 0
    for n in range(n_found + len(listed)):
        if j == len(listed) or (i < n_found and found[i] < listed[j]):
            token = found[i]
            i += 1
        else:
            token = listed[j]
            j += 1
        _list(n, token, row, ids, values)
    return n_found + len(listed)


@njit(cache=True, nogil=True)
def keep_nodes(
    tree_tokens: IntArray,
    tree_parents: IntArray,
    tree_depths: IntArray,
    is_out: NDArray[np.bool_],
    place: IntArray,
    tokens: IntArray,
    parents: IntArray,
    depths: IntArray,
) -> int:
    """Copy the nodes of a tree but for some, and all that is below these.

    Args:
        tree_tokens: int32[W], in preorder.
        tree_parents: int32[W].
        tree_depths: int32[W].
        is_out: bool[W], nodes to leave out; overwritten: those below them, too.
        place: int32[>=W], overwritten.
        tokens: int32[>=W], overwritten.
        parents: int32[>=W], overwritten.
        depths: int32[>=W], overwritten.

    Returns:
        How many are left.
    """
    n = 0
    for node in range(len(tree_tokens)):
        parent = tree_parents[node]
        if parent >= 0 and is_out[parent]:
            is_out[node] = True
        if not is_out[node]:
            tokens[n] = tree_tokens[node]
            parents[n] = place[parent] if parent >= 0 else -1
            depths[n] = tree_depths[node]
            place[node] = n
            n += 1
    return n
