"""A context in memory that keeps llama.cpp's rules, a toy model behind it, and what tests need to drive them.

Where llama.cpp is lenient the context is strict: what would silently change the text there is an error here.
"""

from __future__ import annotations

import hashlib
import pickle
from bisect import bisect_left
from types import FunctionType

import numpy as np
import pytest

from recycle_cpp.backend.measure import ExactWidths
from recycle_cpp.backend.model import SamplerVocabulary
from recycle_cpp.backend.tree import TreeBackend
from recycle_cpp.decoding.sampling.protocol import NOTHING, Sampler
from recycle_cpp.drafting.drafter import TreeArrays
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.template import TreeTemplate
from recycle_cpp.errors import BackendError, CancelledError
from recycle_cpp.types import DraftTree

EOG = 0
ALL_EXACT = ExactWidths(2**30, 2**30)
COMMON_TOKENS = 40  # the others are never likely


def toy_vocabulary(n_vocab: int = 48, n_ctx: int = 64) -> SamplerVocabulary:
    """Return what samplers must know of a toy model; there are no texts of tokens."""
    return SamplerVocabulary(None, n_vocab, (EOG,), n_ctx)


def seen(position: int, token: int, rounded: bool = False, moved: int = 0) -> int:
    """Return what attention reads of one cell, as one number that sorts by position; `moved` is how far a shift went.

    A cell that was moved was made from what stood before it then, so it is not the cell of a fresh evaluation there.
    """
    return position << 32 | moved << 16 | token << 1 | rounded


def token_of(cell: int) -> int:
    """Return the token of a cell as `seen` packs it."""
    return (cell & 0xFFFF) >> 1


def position_of(cell: int) -> int:
    """Return the position of a cell as `seen` packs it."""
    return cell >> 32


class ToyModel:
    """Logits as a pure function of every cell that a token sees.

    Half of a row depends on the last token alone, so that recycled candidates often hit; the other half is a hash of
    all that is seen, so that a cell too many, one too few or one at a wrong position changes the text.
    """

    def __init__(self, seed: int = 0, n_vocab: int = 48, eog: float = 0.0) -> None:
        """Take a seed; `eog` raises (or lowers) the logit of the end-of-generation token."""
        self.n_vocab = n_vocab
        self._key = str(seed).encode()
        self._after = np.random.default_rng(seed).normal(0, 2, (n_vocab, n_vocab)).astype(np.float32)
        self._after[:, COMMON_TOKENS:] -= 40
        self._after[:, EOG] += eog
        self._rows: dict[bytes, np.ndarray] = {}

    def row(self, cells: list[int]) -> np.ndarray:
        """Return float32[n_vocab], read-only, for the last of the cells seen, given in rising order."""
        digest = hashlib.blake2b(np.array(cells, np.int64).tobytes(), digest_size=8, key=self._key).digest()
        if digest not in self._rows:
            noise = np.random.default_rng(int.from_bytes(digest)).normal(0, 1, self.n_vocab)
            row = self._after[token_of(cells[-1])] + noise.astype(np.float32)
            row.flags.writeable = False
            self._rows[digest] = row
        return self._rows[digest]

    def row_after(self, tokens: list[int]) -> np.ndarray:
        """Return the row that plain decoding gets after these tokens and nothing else."""
        return self.row([seen(position, token) for position, token in enumerate(tokens)])

    def plain_text(
        self, prompt, sampler, *, n_ctx: int, max_tokens: int | None = None, shift_keep: int | None = None
    ) -> tuple[list[int], str]:
        """Return what plain decoding emits and why it ends: no cache, no tree, one token at a time."""
        cells, emitted = [(token, 0) for token in prompt], []
        while True:
            row = self.row([seen(place, token, moved=moved) for place, (token, moved) in enumerate(cells)])
            token = sampler.sample(row, int(np.argmax(row)))
            if token == NOTHING:
                return emitted, "stop"
            emitted.append(token)
            if emitted[-1] == EOG:
                return emitted, "stop"
            if len(emitted) == max_tokens or (len(cells) == n_ctx and shift_keep is None):
                return emitted, "length"
            if len(cells) == n_ctx:
                n_dropped = (n_ctx - shift_keep) // 2
                rest = cells[shift_keep + n_dropped :]
                cells = cells[:shift_keep] + [(token, moved + n_dropped) for token, moved in rest]
            cells.append((emitted[-1], 0))


class Cell:
    """One cell of the cache: a token at a position, and the sequences that see it.

    Attributes:
        made: which evaluation made it: its first position, and how many rows; a row of a tree counts as one alone,
            since its rounding is told by itself.
    """

    def __init__(self, token: int, position: int, seqs: set[int], rounded: bool, made: tuple[int, int]) -> None:
        self.token = token
        self.position = position
        self.seqs = seqs
        self.rounded = rounded
        self.moved = 0
        self.made = made

    @property
    def seen(self) -> int:
        """What attention reads of it."""
        return seen(self.position, self.token, self.rounded, self.moved)


class FakeContext:
    """A `Context` that refuses what llama.cpp refuses, and what would go wrong there without a word.

    Attributes:
        decodes: successful evaluations.
        rows: rows in them.
        calls: every seq_rm, seq_cp and seq_add, with its arguments; each is a scan of all cells in llama.cpp.
        exact: widths that do not round; a wider evaluation gives other logits, and spoils its cells.
    """

    def __init__(
        self,
        model: ToyModel | None = None,
        *,
        n_ctx: int = 64,
        n_batch: int = 96,
        n_seq_max: int = 96,
        exact: ExactWidths = ALL_EXACT,
        can_shift: bool = True,
    ) -> None:
        self.model = model or ToyModel()
        self.n_ctx = n_ctx
        self.n_batch = n_batch
        self.n_vocab = self.model.n_vocab
        self.n_seq_max = min(n_seq_max, n_ctx)
        self.exact = exact
        self.can_shift = can_shift
        self.decodes = self.rows = 0
        self.calls: list[tuple[object, ...]] = []
        self.closed = False
        self._cells: list[Cell | None] = [None] * n_ctx
        self._head = 0
        self._failure: tuple[BaseException, bool] | None = None
        self._logits = np.empty((0, self.n_vocab), np.float32)

    def plan_failure(self, error: BaseException, *, cells_stay: bool) -> None:
        """Let the next decode raise: before it takes any cell, or (an interrupt) when its cells are filled."""
        self._failure = (error, cells_stay)

    def decode_prompt(self, tokens: np.ndarray, first: int, cancel=None) -> None:
        """As the Protocol's; a cancellation leaves the cells of the chunk, as an interrupt does."""
        if cancel is not None and cancel.is_set():
            self.plan_failure(CancelledError("cancelled inside a chunk"), cells_stay=True)
        positions = np.arange(first, first + len(tokens))
        self._decode(tokens.tolist(), positions.tolist(), [range(1)] * len(tokens), rounded=False, is_prompt=True)

    def decode_tree(self, tokens, positions, seq_from, seq_count) -> np.ndarray:
        """As the Protocol's; the array returned is overwritten with NaN at the next decode."""
        ranges = [range(first, first + n) for first, n in zip(seq_from.tolist(), seq_count.tolist(), strict=True)]
        width, end = len(tokens), max(positions.tolist(), default=0) + 1
        rounded = width > 1 and (width > self.exact.width or end > self.exact.n_cells)
        self._decode(tokens.tolist(), positions.tolist(), ranges, rounded=rounded)
        filled = self._filled()
        visible = {ids[0]: self._visible([cell for cell in filled if ids[0] in cell.seqs]) for ids in ranges}
        rows = []
        for ids, position in zip(ranges, positions.tolist(), strict=True):
            cells = visible[ids[0]]
            rows.append(self._row(cells[: bisect_left(cells, seen(position + 1, 0))]))
        self._logits = np.array(rows, np.float32)
        return self._logits

    def _visible(self, cells: list[Cell]) -> list[int]:
        """Return what attention reads of cells, in order of position."""
        return sorted(cell.seen for cell in cells)

    def _row(self, cells: list[int]) -> np.ndarray:
        """Return the logits of the last of the cells seen, given in rising order."""
        return self.model.row(cells)

    def seq_rm(self, seq: int, first: int, last: int) -> None:
        """As the Protocol's."""
        self.calls.append(("seq_rm", seq, first, last))
        self._require(-1 <= seq < self.n_seq_max, f"sequence {seq} is not below {self.n_seq_max}")
        freed = [
            place
            for place, cell in enumerate(self._cells)
            if cell is not None and first <= cell.position and (last < 0 or cell.position < last)
            if self._take_off(place, cell, seq)
        ]
        self._head = min([self._head, *freed])

    def _take_off(self, place: int, cell: Cell, seq: int) -> bool:
        if seq >= 0 and seq not in cell.seqs:
            return False
        cell.seqs -= cell.seqs.copy() if seq < 0 else {seq}
        if cell.seqs:
            return False
        self._cells[place] = None
        return True

    def seq_cp(self, source: int, target: int, first: int, last: int) -> None:
        """As the Protocol's."""
        self.calls.append(("seq_cp", source, target, first, last))
        ids = range(self.n_seq_max)
        self._require(source in ids and target in ids, f"sequence {source} or {target} is not below {self.n_seq_max}")
        for cell in self._filled():
            if source in cell.seqs and first <= cell.position < last:
                cell.seqs.add(target)

    def seq_add(self, seq: int, first: int, last: int, delta: int) -> None:
        """As the Protocol's; refuses what would leave two cells of a sequence at one position."""
        self.calls.append(("seq_add", seq, first, last, delta))
        self._require(self.can_shift, "this memory cannot shift")
        inside = [
            c for c in self._filled() if seq in c.seqs and first <= c.position and (last < 0 or c.position < last)
        ]
        outside = {c.position for c in self._filled() if seq in c.seqs} - {c.position for c in inside}
        self._require(all(c.seqs == {seq} for c in inside), f"other sequences hold cells of {seq}")
        self._require(all(c.position + delta not in outside for c in inside), "a position would hold two cells")
        self._require(all(c.position + delta >= 0 for c in inside), "a position would be below 0")
        for cell in inside:
            cell.position += delta
            cell.moved -= delta
        self._head = 0

    def snapshot(self) -> bytes:
        """As the Protocol's: the cells of sequence 0 as they lie in memory."""
        kept = [cell for cell in self._filled() if 0 in cell.seqs]
        return pickle.dumps([(c.token, c.position, c.rounded, c.moved, c.made) for c in kept])

    def restore(self, data: bytes, seq: int) -> bool:
        """As the Protocol's; into an empty cache."""
        self._require(not self._filled(), "the cache is not empty")
        try:
            found = pickle.loads(data)
        except pickle.UnpicklingError:
            return False
        if len(found) > self.n_ctx:
            return False
        for place, (token, position, rounded, moved, made) in enumerate(found):
            cell = self._cells[place] = Cell(token, position, {seq}, rounded, made)
            cell.moved = moved
        self._head = 0
        return True

    def n_held(self, seq: int) -> int:
        """As the Protocol's."""
        return max((cell.position + 1 for cell in self._filled() if seq in cell.seqs), default=0)

    def close(self) -> None:
        """As the Protocol's."""
        self.closed = True

    def cells(self) -> list[tuple[int, int]]:
        """Return (position, token) of every cell in use, in order of position."""
        return sorted((cell.position, cell.token) for cell in self._filled())

    def cells_of(self, seq: int) -> list[tuple[int, int]]:
        """Return (position, token) of the cells that a sequence sees, in order of position."""
        return sorted((cell.position, cell.token) for cell in self._filled() if seq in cell.seqs)

    def places(self) -> list[int]:
        """Return which cells are in use, in order of their positions."""
        used = [(cell.position, place) for place, cell in enumerate(self._cells) if cell is not None]
        return [place for _, place in sorted(used)]

    def _filled(self) -> list[Cell]:
        return [cell for cell in self._cells if cell is not None]

    def _decode(
        self, tokens: list[int], positions: list[int], ranges: list[range], *, rounded: bool, is_prompt: bool = False
    ) -> None:
        self._logits.fill(np.nan)  # the rows of the decode before die here
        self._check_rows(tokens, ranges)
        self._check_positions(positions, ranges)
        self._check_coupling(ranges)
        failure, self._failure = self._failure, None
        if failure is not None and not failure[1]:
            raise failure[0]
        places = self._find_slot(len(tokens))
        for place, token, position, ids in zip(places, tokens, positions, ranges, strict=True):
            made = (positions[0], len(tokens)) if is_prompt else (position, 1)
            self._cells[place] = Cell(token, position, set(ids), rounded, made)
        self._head = places[-1] + 1
        if failure is not None:
            raise failure[0]
        self.decodes += 1
        self.rows += len(tokens)

    @staticmethod
    def _require(holds: bool, complaint: str) -> None:
        if not holds:
            raise BackendError(f"llama.cpp would refuse this: {complaint}")

    def _check_rows(self, tokens: list[int], ranges: list[range]) -> None:
        self._require(0 < len(tokens) <= self.n_batch, f"{len(tokens)} rows in a batch of {self.n_batch}")
        for token, ids in zip(tokens, ranges, strict=True):
            self._require(0 <= token < self.n_vocab, f"token {token} in a vocabulary of {self.n_vocab}")
            self._require(len(ids) > 0, f"token {token} has no sequence id")
            self._require(min(ids) >= 0 and max(ids) < self.n_seq_max, f"ids {ids} are not below {self.n_seq_max}")

    def _check_positions(self, positions: list[int], ranges: list[range]) -> None:
        """Each sequence goes on where its cells end, one row per position, in order of position."""
        filled = self._filled()
        for seq in set().union(*ranges):
            held = sorted(cell.position for cell in filled if seq in cell.seqs)
            self._require(held == list(range(len(held))), f"sequence {seq} holds the positions {held}")
            own = [position for position, ids in zip(positions, ranges, strict=True) if seq in ids]
            wanted = list(range(len(held), len(held) + len(own)))
            self._require(own == wanted, f"sequence {seq} holds {len(held)} tokens and goes on at {own}")

    def _check_coupling(self, ranges: list[range]) -> None:
        """Sequences that share a row see the same cells, and each sequence's sets of ids only shrink."""
        filled = self._filled()
        visible = {seq: {id(c) for c in filled if seq in c.seqs} for seq in set().union(*ranges)}
        last: dict[int, set[int]] = {}
        for ids in ranges:
            for seq in ids:
                self._require(visible[seq] == visible[ids[0]], f"sequences {ids[0]} and {seq} have diverged")
                self._require(set(ids) <= last.get(seq, set(ids)), f"sequence {seq} joins others again")
                last[seq] = set(ids)

    def _find_slot(self, n: int) -> list[int]:
        """Return n empty cells as llama.cpp's find_slot picks them: from a moving head on, freed cells first."""
        used = len(self._filled())
        self._require(n <= self.n_ctx - used, f"no room for {n} tokens: {used} of {self.n_ctx} cells are taken")
        head = 0 if self._head > used + 2 * n else self._head
        order = [*range(head, self.n_ctx), *range(head)]
        return [place for place in order if self._cells[place] is None][:n]


class LayoutContext(FakeContext):
    """A context in which all of the layout shows in the logits: where each cell lies, and which evaluation made it.

    Rows are compared with those of another such context that was asked nothing before, not with the toy's own.
    """

    def _visible(self, cells: list[Cell]) -> list[int]:
        """As the base's, and remembers of which cell each number is; of trees, of the last path's."""
        self._known = {cell.seen: (self._cells.index(cell), cell.made) for cell in cells}
        return super()._visible(cells)

    def _row(self, cells: list[int]) -> np.ndarray:
        """As the base's, shuffled by the layout."""
        layout = repr([self._known.get(number) for number in cells[:-1]]).encode()
        noise = np.random.default_rng(int.from_bytes(hashlib.blake2b(layout, digest_size=8).digest()))
        return super()._row(cells) + noise.normal(0, 1, self.n_vocab).astype(np.float32)


def fake_backend(model: ToyModel | None = None, **settings) -> tuple[TreeBackend, FakeContext]:
    """Return a TreeBackend over a fresh FakeContext, and the context."""
    context = FakeContext(model, **settings)
    return TreeBackend(context, lambda token: token == EOG, context.n_ctx, 96), context


class HashSampler(Sampler):
    """Chooses among the five best by a hash of all that it has been asked so far: one call too many changes the text.

    Attributes:
        chosen: what it returned, call by call.
    """

    def __init__(self, seed: int = 0, fail_at: int | None = None) -> None:
        self.chosen: list[int] = []
        self._state = hashlib.blake2b(str(seed).encode(), digest_size=8)
        self._fail_at = fail_at

    def sample(self, logits: np.ndarray, best: int) -> int:
        """As a Sampler's; raises at the call numbered `fail_at`, counted from 0."""
        if len(self.chosen) == self._fail_at:
            raise RuntimeError("the sampler fails")
        assert best == np.argmax(logits), "the argmax handed over is another row's"
        self._state.update(logits.tobytes())
        rank = min(self._state.digest()[0] // 48, 4, len(logits) - 1)
        self.chosen.append(int(np.argsort(-logits, kind="stable")[rank]))
        return self.chosen[-1]


def make_tree(tokens, parents) -> DraftTree:
    """Return a tree of its own memory from nodes in any order in which parents come first."""
    arrays = TreeArrays(len(tokens))
    depths = [0]
    for parent in list(parents)[1:]:
        depths.append(depths[parent] + 1)
    for buffer, values in ((arrays.tokens, tokens), (arrays.parents, parents), (arrays.depths, depths)):
        buffer[:] = list(values)
    return arrays.lay_out(len(tokens))


def random_parents(rng: np.random.Generator, width: int, n_leaves: int | None = None) -> list[int]:
    """Return parents of a random tree, bushy or deep, of at most n leaf paths."""
    parents, is_leaf = [-1], {0}
    depth_wish = rng.uniform(0, 1)
    while len(parents) < width:
        parent = len(parents) - 1 if rng.uniform() < depth_wish else int(rng.integers(len(parents)))
        if n_leaves is not None and len(is_leaf) >= n_leaves and parent not in is_leaf:
            parent = max(is_leaf)
        is_leaf.discard(parent)
        is_leaf.add(len(parents))
        parents.append(parent)
    return parents


def random_template(rng: np.random.Generator, width: int) -> TreeTemplate:
    """Return a random template in level order whose ranks are below 8, of at most 64 leaf paths."""
    parents = random_parents(rng, width, n_leaves=64)
    depth = [0]
    for parent in parents[1:]:
        depth.append(depth[parent] + 1)
    order = sorted(range(width), key=lambda node: depth[node])
    slot = {node: place for place, node in enumerate(order)}
    parent = [-1] + [slot[parents[node]] for node in order[1:]]
    ranks = rng.integers(0, 8, width)
    ranks[0] = 0
    return TreeTemplate(np.array(parent, np.int32), ranks.astype(np.int32))


def path_to(tree: DraftTree, node: int) -> list[int]:
    """Return the nodes from the root to a node."""
    path = [node]
    while path[0] != 0:
        path.insert(0, int(tree.parents[path[0]]))
    return path


def path_tokens(tree: DraftTree, node: int) -> list[int]:
    """Return the tokens from the root to a node."""
    return [int(tree.tokens[i]) for i in path_to(tree, node)]


def falling(top) -> np.ndarray:
    """Return logits for candidates, float32[W, k]: half a unit from each to the next."""
    return np.tile(-0.5 * np.arange(np.shape(top)[1], dtype=np.float32), (len(top), 1))


def write_rows(matrix: AdjacencyMatrix, tokens, top) -> None:
    """Write candidates whose logits nobody cares about into a matrix."""
    top = np.asarray(top, np.int32)
    matrix.update(np.asarray(tokens, np.int32), top, falling(top))


def both_ways(kernel) -> list[object]:
    """Return pytest parameters: a Numba kernel as it is compiled, and the same code run by Python."""
    return [pytest.param(kernel, id="compiled"), pytest.param(as_python(kernel), id="python")]


def as_python(kernel) -> FunctionType:
    """Return a kernel's own code as a plain function that calls plain functions."""
    function = kernel.py_func
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        if hasattr(scope.get(name), "py_func"):
            scope[name] = as_python(scope[name])
    return FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
