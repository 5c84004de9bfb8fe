"""The sources of candidates, slow and readable: lists, dictionaries, and kinds that say what they stand for."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np

BORDER = -1
SOURCES = ("suffix", "follower", "row", "previous", "frequent")
AGREEMENTS = ("once", "all", "half", "few")

# Every kind of opinion, in the order of the numbers that the kernels give them.
KINDS: list[tuple[object, ...]] = [
    *product(["suffix"], range(10), range(3), AGREEMENTS),
    *product(["suffix silent"], range(11)),
    *product(["follower"], range(2), (1, 2, 3)),
    *product(["follower silent"], ("knows others", "knows none")),
    *product(["row"], range(8), range(7)),
    *product(["row silent"], (*range(7), "no row")),
    *product(["previous"], range(8), ("near", "far", "further")),
    *product(["previous silent"], ("a row", "no row")),
    *product(["frequent"], range(16), ("no row", "a row")),
    ("frequent silent",),
]
NUMBER_OF = {kind: number for number, kind in enumerate(KINDS)}


def slot(before: int, last: int, n_slots: int) -> int:
    """Return the hash slot of two tokens."""
    return ((before * 2654435761) ^ (last * 40503) ^ (last >> 5)) % n_slots


class SlowSuffix:
    """A suffix index that keeps everything and looks at all of it."""

    def __init__(self, size: int) -> None:
        self.everything: list[int] = []
        self._size = size

    def append(self, tokens) -> None:
        """Append tokens."""
        self.everything += list(tokens)

    @property
    def _oldest(self) -> int:
        return max(0, len(self.everything) - self._size)

    def _after(self, at: int) -> int:
        return self.everything[at + 1] if at + 1 < len(self.everything) else BORDER

    def continuations(self, context: list[int]) -> list[tuple[int, int, int]]:
        """Return (token, longest match, occurrences) for a context whose newest token comes first."""
        if len(context) < 2:
            return []
        text, oldest = self.everything, self._oldest
        wanted = slot(context[1], context[0], self._size)
        linked = [
            at
            for at in range(len(text) - 1, oldest, -1)
            if BORDER not in text[at - 1 : at + 1] and slot(text[at - 1], text[at], self._size) == wanted
        ][:12]
        found: dict[int, list[int]] = {}
        for at in linked:
            before = text[oldest : at + 1][::-1]
            pairs = list(zip(before, context[:32], strict=False))
            length = next((i for i, (one, other) in enumerate(pairs) if one != other), len(pairs))
            follower = self._after(at)
            if length >= 2 and follower != BORDER and (follower in found or len(found) < 4):
                found.setdefault(follower, []).append(length)
        listed = [(token, max(lengths), len(lengths)) for token, lengths in found.items()]
        return sorted(listed, key=lambda entry: (-entry[1], -entry[2]))

    def followers(self, last: int) -> list[tuple[int, int]]:
        """Return (token, occurrences) of what followed one token, newest first."""
        text = self.everything
        places = range(len(text) - 1, self._oldest - 1, -1)
        linked = [at for at in places if text[at] != BORDER and (text[at] - last) % self._size == 0][:4]
        found: dict[int, int] = {}
        for at in linked:
            follower = self._after(at)
            if text[at] == last and follower != BORDER and (follower in found or len(found) < 2):
                found[follower] = found.get(follower, 0) + 1
        return list(found.items())


class SlowFrequent:
    """A list of tokens and counts, most frequent first, of at most 16."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, float]] = []

    @property
    def tokens(self) -> list[int]:
        """The tokens alone."""
        return [token for token, _ in self.entries]

    def append(self, emitted: list[int]) -> None:
        """Count tokens; a new one takes over the count of the last of a full list."""
        for token in emitted:
            counts = dict(self.entries)
            evicted = self.entries[-1] if token not in counts and len(counts) == 16 else (token, counts.get(token, 0.0))
            entry = (token, evicted[1] + 1.0)
            rest = [other for other in self.entries if other[0] != evicted[0]]
            place = sum(other[1] >= entry[1] for other in rest)
            self.entries = [*rest[:place], entry, *rest[place:]]
            if self.entries[0][1] > 200:
                self.entries = [(token, count / 2) for token, count in self.entries]


def length_class(length: int) -> int:
    """Return which of 1, 2, 3, 4, 5-6, 7-9, 10-13, 14-19, 20-31, 32 a match length is."""
    return next(i for i, most in enumerate((1, 2, 3, 4, 6, 9, 13, 19, 31, 32)) if length <= most)


def lead_class(gap: int) -> int:
    """Return the class of a distance in sixteenths."""
    return next(i for i, end in enumerate((4, 10, 18, 32, 56, 96, 256)) if gap < end)


class SlowSources:
    """All that is known, and the candidates that follow from it.

    Attributes:
        suffix: the texts so far.
        frequent: the tokens emitted most.
        rows: candidates and gaps of each token's adjacency row.
        in_use: names of the sources that are asked.
    """

    def __init__(self, size: int = 256, in_use: tuple[str, ...] = SOURCES) -> None:
        self.suffix = SlowSuffix(size)
        self.frequent = SlowFrequent()
        self.rows: dict[int, tuple[list[int], list[int]]] = {}
        self.in_use = in_use

    def candidates(self, context: list[int]) -> tuple[list[tuple[int, tuple[tuple[object, ...], ...]]], int]:
        """Return (token, what each source says of it) of each candidate, and the situation.

        Args:
            context: the last tokens, newest first.
        """
        row = self.rows.get(context[0]) if "row" in self.in_use else None
        said: dict[int, dict[str, tuple[object, ...]]] = {}
        longest = self._ask_suffix(context, said)
        any_follower = self._ask_followers(context, said)
        if row is not None:
            for rank, token in enumerate(row[0]):
                said.setdefault(token, {})["row"] = ("row", rank, lead_class(row[1][max(rank, 1)]))
        has_previous = self._ask_previous(context, said)
        self._ask_frequent(row is not None, said)
        silent = {
            "suffix": ("suffix silent", longest),
            "follower": ("follower silent", "knows others" if any_follower else "knows none"),
            "row": ("row silent", "no row" if row is None else lead_class(row[1][1])),
            "previous": ("previous silent", "a row" if has_previous else "no row"),
            "frequent": ("frequent silent",),
        }
        found = [(token, tuple(own.get(name, silent[name]) for name in SOURCES)) for token, own in said.items()]
        certainty = 0 if row is None else (1 if row[1][1] < 1.5 * 16 else 2)
        return found, longest * 3 + certainty

    def _ask_suffix(self, context: list[int], said) -> int:
        if "suffix" not in self.in_use:
            return 0
        continuations = self.suffix.continuations(context)
        total = sum(times for _, _, times in continuations)
        for place, (token, length, times) in enumerate(continuations):
            if total == 1:
                agreement = "once"
            elif times == total:
                agreement = "all"
            else:
                agreement = "half" if times >= total / 2 else "few"
            said.setdefault(token, {})["suffix"] = ("suffix", length_class(length), min(place, 2), agreement)
        return 1 + length_class(continuations[0][1]) if continuations else 0

    def _ask_followers(self, context: list[int], said) -> bool:
        followers = self.suffix.followers(context[0]) if "follower" in self.in_use else []
        for place, (token, times) in enumerate(followers):
            said.setdefault(token, {})["follower"] = ("follower", place, min(times, 3))
        return bool(followers)

    def _ask_previous(self, context: list[int], said) -> bool:
        if "previous" not in self.in_use or len(context) < 2 or context[1] not in self.rows:
            return False
        row, gaps = self.rows[context[1]]
        for rank, token in enumerate(row):
            distance = next(name for name, end in (("near", 1.5), ("far", 4), ("further", 99)) if gaps[rank] / 16 < end)
            if token != context[0] and (rank < 4 or token in said):
                said.setdefault(token, {})["previous"] = ("previous", rank, distance)
        return True

    def _ask_frequent(self, has_row: bool, said) -> None:
        if "frequent" not in self.in_use:
            return
        for place, token in enumerate(self.frequent.tokens):
            if token in said or (not has_row and place < 8):
                said.setdefault(token, {})["frequent"] = ("frequent", place, "a row" if has_row else "no row")


def tally_of_kinds(found: list[tuple[int, tuple[tuple[object, ...], ...]]], truth: int) -> tuple[Counter, Counter]:
    """Return how often each kind was said of the candidates of one position, and of the one that was right."""
    trials = Counter(NUMBER_OF[kind] for _, kinds in found for kind in kinds)
    hits = Counter(NUMBER_OF[kind] for token, kinds in found for kind in kinds if token == truth)
    return trials, hits


class Pair:
    """Random knowledge over a small vocabulary: as the package keeps it, and as the reference does."""

    def __init__(self, rng: np.random.Generator, knowledge, suffix, n_vocab: int, in_use: tuple[str, ...]) -> None:
        """Fill a Knowledge, whose suffix index is replaced by a small one, and its twin.

        Args:
            rng: decides all.
            knowledge: a new Knowledge of that vocabulary.
            suffix: a new SuffixIndex.
            n_vocab: tokens.
            in_use: names of the sources that are asked.
        """
        self.knowledge = knowledge
        knowledge.suffix = suffix
        knowledge.sources = knowledge.sources._replace(history=suffix.history)
        self.slow = SlowSources(len(suffix.history.tokens), in_use)
        self.n_vocab = n_vocab
        pieces = [rng.integers(0, n_vocab, rng.integers(2, 12)).tolist() for _ in range(4)]
        for _ in range(int(rng.integers(12))):
            self._append([BORDER] if rng.uniform() < 0.1 else pieces[rng.integers(4)])
        for token in range(n_vocab):
            if rng.uniform() < 0.8:
                self._write(rng, token)
        emitted = (rng.integers(0, n_vocab, rng.integers(0, 60)) * rng.uniform()).astype(np.int32)
        knowledge.frequent.append(emitted)
        self.slow.frequent.append(emitted.tolist())

    def any_context(self, rng: np.random.Generator) -> list[int]:
        """Return the end of the text, or a few tokens that may stand nowhere; newest first."""
        end = self.slow.suffix.everything[::-1][: rng.integers(1, 40)]
        if BORDER in end or not end:
            return rng.integers(0, self.n_vocab, rng.integers(1, 4)).tolist()
        return end[:32]

    def _append(self, tokens: list[int]) -> None:
        self.knowledge.suffix.append(tokens)
        self.slow.suffix.append(tokens)

    def _write(self, rng: np.random.Generator, token: int) -> None:
        n = int(rng.choice([1, 2, 8]))
        row = rng.permutation(self.n_vocab)[:n].tolist()
        values = -np.sort(rng.exponential(3, (1, 8))).astype(np.float32)
        top = np.array([row + [-1] * (8 - n)], np.int32)
        self.knowledge.matrix.update(np.array([token], np.int32), top, values)
        gaps = np.floor(np.minimum(16 * (values[0, 0] - values[0]), 255)).astype(int).tolist()
        self.slow.rows[token] = (row, gaps[:n] + [255] * (8 - n))
