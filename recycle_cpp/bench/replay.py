"""Replays traces with any drafter on any cost curve: how fast it would have been, without running the model.

A replay knows what the model said along the text only. A real tree also shows candidates at nodes that were not
accepted, from which the adjacency matrix learns: so replays are a little below what real runs reach.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from recycle_cpp.backend.cost import Curve
from recycle_cpp.backend.kernels import FIRST_CHANGES, charge_of, follow_changes
from recycle_cpp.decoding.kernels import find_child
from recycle_cpp.drafting import template
from recycle_cpp.drafting.drafter import Limits, Outcome, PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.knowledge import SOURCES, Knowledge
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.planned import PlannedDrafter
from recycle_cpp.types import DraftTree

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from recycle_cpp.bench.trace import Trace, TracedTurn
    from recycle_cpp.drafting.drafter import Drafter

MOST_ROWS = 96
CHAIN_WIDTHS = (2, 3, 4, 6, 8, 12, 16)


@dataclass(slots=True)
class Tally:
    """What some steps came to.

    Attributes:
        emitted: tokens.
        steps: evaluations.
        expected: tokens that the drafter promised.
        seconds: by the curve.
        plain_seconds: what plain decoding takes for the same tokens.
        widths: steps by width.
    """

    emitted: int = 0
    steps: int = 0
    expected: float = 0.0
    seconds: float = 0.0
    plain_seconds: float = 0.0
    widths: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def speedup(self) -> float:
        """Speed over plain decoding."""
        return self.plain_seconds / self.seconds

    @property
    def mean_accepted_tokens(self) -> float:
        """Emitted tokens per step, bonus included."""
        return self.emitted / self.steps


class ReplayCosts:
    """A curve as it is, as the planner's costs and as the clock of a replay; T(W) between its widths is a line."""

    def __init__(self, curve: Curve) -> None:
        self.ladder = curve.ladder
        self._base, self._slope = np.array(curve.base), np.array(curve.slope)
        self._switch = curve.switch
        self._last_width = 1
        self._changes = FIRST_CHANGES

    def seconds(self, n_past: int) -> NDArray[np.float64]:
        """Return float64[L], seconds of the next step at each width of the ladder."""
        charge = charge_of(self._switch, self._changes)
        seconds: NDArray[np.float64] = self._base + self._slope * n_past
        seconds += charge * (np.array(self.ladder) != self._last_width)
        return seconds

    def observe(self, width: int, n_past: int, seconds: float) -> None:
        """Take note of the width; nothing is corrected, the curve is the truth here."""
        self._changes = follow_changes(self._changes, float(width != self._last_width))
        self._last_width = width

    def spend(self, width: int, n_past: int) -> float:
        """Return the seconds of a step, the change of width included."""
        seconds = np.interp(width, self.ladder, self._base + self._slope * n_past)
        if width > self.ladder[-1]:  # the published tree has a row more than the ladder
            seconds *= width / self.ladder[-1]
        return float(seconds) + self._switch * (width != self._last_width)

    def plain(self, n_past: int) -> float:
        """Return the seconds of a single row."""
        return float(self._base[0] + self._slope[0] * n_past)


class AlwaysWidest:
    """Costs under which the widest tree that there is, up to a width, is always the best."""

    def __init__(self, width: int) -> None:
        self.ladder = tuple(range(1, width + 1))

    def seconds(self, n_past: int) -> NDArray[np.float64]:
        """Return float64[L]: the wider, the cheaper."""
        return 1.0 / np.array(self.ladder, np.float64)

    def observe(self, width: int, n_past: int, seconds: float) -> None:
        """Do nothing."""


def replay(trace: Trace, drafter: Drafter, costs: ReplayCosts) -> dict[str, Tally]:
    """Decode every turn again with a drafter, and return what each category came to; "all" is all of them."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for turn in trace.turns:
        _replay_turn(turn, drafter, costs, (tallies[turn.category], tallies["all"]))
    return dict(tallies)


def _replay_turn(turn: TracedTurn, drafter: Drafter, costs: ReplayCosts, tallies: tuple[Tally, ...]) -> None:
    tokens, emitted = turn.prompt.tolist(), turn.emitted.tolist()
    drafter.begin(tokens)
    done = 0
    while done < len(emitted):
        n_past = len(tokens) - 1
        tree = drafter.draft(tokens[-1], Limits(n_past, MOST_ROWS, len(emitted) - done - 1))
        path = _accepted_path(tree, emitted[done:])
        n = len(path)
        outcome = Outcome(
            _chain_of(tree, path), turn.top[done : done + n], turn.values[done : done + n], emitted[done : done + n]
        )
        seconds, plain = costs.spend(tree.width, n_past), sum(costs.plain(n_past + i) for i in range(n))
        for tally in tallies:
            tally.emitted += n
            tally.steps += 1
            tally.expected += drafter.expected
            tally.seconds += seconds
            tally.plain_seconds += plain
            tally.widths[tree.width] += 1
        drafter.update(outcome)
        costs.observe(tree.width, n_past, seconds)
        tokens += emitted[done : done + n]
        done += n


def _accepted_path(tree: DraftTree, emitted: list[int]) -> list[int]:
    """Return the nodes from the root along which the tree foresaw the text."""
    path = [0]
    for token in emitted[:-1]:
        node = find_child(path[-1], token, tree.tokens, tree.parents)
        if node < 0:
            break
        path.append(node)
    return path


def _chain_of(tree: DraftTree, path: list[int]) -> DraftTree:
    """Return a path of a tree as a tree: the model's rows are known along it only."""
    n = len(path)
    steps = np.arange(n, dtype=np.int32)
    return DraftTree(tree.tokens[path], steps - 1, steps, np.zeros(n, np.int32), np.ones(n, np.int32))


def contenders(trace: Trace) -> dict[str, Callable[[ReplayCosts], Drafter]]:
    """Return what is compared, by name: the planner, the fixed tree, fixed chains and plain decoding."""
    found: dict[str, Callable[[ReplayCosts], Drafter]] = {
        "auto": lambda costs: PlannedDrafter(Knowledge(trace.n_vocab), costs),
        "tree": lambda _: TemplateDrafter(AdjacencyMatrix(trace.n_vocab), template.published()),
        "plain": lambda _: PlainDrafter(),
    }
    for width in CHAIN_WIDTHS:

        def chain(_: ReplayCosts, width: int = width) -> Drafter:
            return TemplateDrafter(AdjacencyMatrix(trace.n_vocab), template.chain(width))

        found[f"chain {width}"] = chain
    return found


def compare(trace: Trace, curve: Curve) -> dict[str, dict[str, Tally]]:
    """Return the tallies of every contender on a curve."""
    found = {}
    for name, make in contenders(trace).items():
        costs = ReplayCosts(curve)
        found[name] = replay(trace, make(costs), costs)
    return found


def ablation(trace: Trace, widths: tuple[int, ...] = (4, 8, 16, 80)) -> dict[str, dict[int, float]]:
    """Return mean accepted tokens by width with each source alone, with all but it, and with all."""
    subsets = {
        **{f"{name} alone": (name,) for name in SOURCES},
        **{f"without {name}": tuple(other for other in SOURCES if other != name) for name in SOURCES},
        "all": SOURCES,
    }
    return {name: {width: mean_accepted(trace, width, subset) for width in widths} for name, subset in subsets.items()}


def mean_accepted(trace: Trace, width: int, in_use: tuple[str, ...] = SOURCES) -> float:
    """Return mean accepted tokens of best-first trees that always have `width` rows, or all that are worth one."""
    drafter = PlannedDrafter(Knowledge(trace.n_vocab, in_use), AlwaysWidest(width))
    flat = ReplayCosts(flat_curve())
    return replay(trace, drafter, flat)["all"].mean_accepted_tokens


def flat_curve() -> Curve:
    """Return a curve on which every width takes a second."""
    return Curve((1, MOST_ROWS), (1.0, 1.0), (0.0, 0.0), 0.0)
