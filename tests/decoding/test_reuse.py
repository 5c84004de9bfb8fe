"""What a prompt may keep of the cache: the most that its kind of request allows, and never a cell that differs."""

from __future__ import annotations

import pytest
from fakes import EOG, FakeContext, LayoutContext, ToyModel, fake_backend
from hypothesis import given, settings
from hypothesis import strategies as st

from recycle_cpp.backend.measure import PLAIN_ONLY, ExactWidths
from recycle_cpp.backend.tree import TreeBackend
from recycle_cpp.decoding.engine import Engine, Request
from recycle_cpp.decoding.prefix import Provenance
from recycle_cpp.decoding.sampling.samplers import GreedySampler
from recycle_cpp.drafting.drafter import PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.matrix import AdjacencyMatrix
from recycle_cpp.drafting.template import chain, published

MODEL = ToyModel(1, eog=-50)
EXACT = ExactWidths(3, 60)
N_CTX = 80
KINDS = ("exact chain", "exact plain", "plain", "tree", "shifting tree", "exact shifting chain", "exact shifting plain")
REQUESTS = st.tuples(
    st.sampled_from(KINDS),
    st.sampled_from(("new", "go on", "again", "first part")),
    st.lists(st.integers(1, 40), min_size=1, max_size=30),
    st.integers(1, 40),  # max_tokens
    st.integers(0, 5),  # tokens that a stop string takes back
    st.sampled_from((0, 3, 9, 20)),  # tokens that shifts keep
)


class Layout:
    """An engine over a context in which all of the layout shows, and what exact requests say of it."""

    def __init__(self, n_batch: int) -> None:
        self.context = LayoutContext(MODEL, n_ctx=N_CTX, n_batch=n_batch, exact=EXACT)
        self.engine = Engine(TreeBackend(self.context, lambda token: token == EOG, N_CTX, 96))
        self.matrix = AdjacencyMatrix(MODEL.n_vocab)

    def run(
        self, kind: str, prompt: list[int], max_tokens: int, n_keep: int = 0
    ) -> tuple[int, list[int], list[object]]:
        """Decode as the runtime would; return tokens evaluated, the text, and the logits of each token."""
        is_plain = "plain" in kind
        drafter = (
            PlainDrafter() if is_plain else TemplateDrafter(self.matrix, chain(3) if "exact" in kind else published())
        )
        widths = PLAIN_ONLY if is_plain else EXACT if "exact" in kind else None
        reuse = "fresh" if "exact" in kind else "plain" if is_plain else "all"
        evaluated = self.engine.prepare(prompt, reuse=reuse)
        shift_keep = n_keep if "shifting" in kind else None
        steps = list(self.engine.steps(Request(drafter, GreedySampler(), max_tokens, widths, shift_keep, logprobs=0)))
        return evaluated, [t for s in steps for t in s.tokens], [r for s in steps for r in s.logprobs]


@pytest.mark.parametrize("n_batch", [1, 4, 7, 96])
@settings(max_examples=60)
@given(asked=st.lists(REQUESTS, min_size=2, max_size=7))
def test_an_exact_request_says_what_it_says_in_a_fresh_process_whatever_came_before(n_batch: int, asked) -> None:
    layout, tokens = Layout(n_batch), [1]
    for kind, start, more, max_tokens, taken_back, n_keep in asked:
        prompt = {"new": more, "go on": tokens + more, "again": tokens, "first part": tokens[: len(more)]}[start][
            :N_CTX
        ]
        _, text, records = layout.run(kind, prompt, max_tokens, n_keep)
        if "exact" in kind:
            _, fresh_text, fresh_records = Layout(n_batch).run(
                "exact shifting plain" if "shifting" in kind else "exact plain", prompt, max_tokens, n_keep
            )
            assert (text, records) == (fresh_text, fresh_records)
        tokens = [*prompt, *text]
        tokens = tokens[: max(1, len(tokens) - taken_back)]
        if taken_back:
            layout.engine.keep(len(tokens))


def test_the_layout_shows_so_that_the_test_above_means_something() -> None:
    prompt = list(range(1, 30))
    one, other = Layout(8), Layout(9)
    assert one.run("exact plain", prompt, 5)[2] != other.run("exact plain", prompt, 5)[2]
    again = Layout(8)
    again.run("tree", prompt, 10)
    drafted = again.engine.tokens
    assert again.run("plain", [*drafted, 1, 2, 3], 5)[2] != Layout(8).run("plain", [*drafted, 1, 2, 3], 5)[2]


def test_each_kind_of_reuse_keeps_what_it_may_and_no_less() -> None:
    layout, prompt = Layout(8), list(range(1, 31))  # 29 cells: three whole chunks and 5
    assert layout.run("exact chain", prompt, 10)[0] == 29
    assert layout.run("exact chain", prompt, 10)[0] == 0
    turn = [*layout.engine.tokens, 7, 8, 9]
    assert layout.run("exact chain", turn, 5)[0] == len(turn) - 1 - 24
    assert layout.run("exact chain", turn, 5)[0] == 0
    edited = [*prompt[:20], 40, *turn[21:]]
    assert layout.run("exact chain", edited, 5)[0] == len(edited) - 1 - 16
    assert layout.run("exact chain", prompt, 5)[0] == 29 - 16
    turn = [*layout.engine.tokens, 7, 8, 9]
    assert layout.engine.prepare(turn, reuse="plain") == 3
    assert layout.engine.prepare([*turn, 1], reuse="all") == 1
    assert layout.engine.prepare(prompt, reuse="fresh") == 0, "the prompt's own cells are still as they were"


def test_cells_from_before_a_shift_are_kept_and_none_behind_them() -> None:
    backend, context = fake_backend(MODEL, n_ctx=40, n_batch=4)
    engine, prompt = Engine(backend), list(range(1, 31))
    engine.prepare(prompt)
    list(engine.steps(Request(PlainDrafter(), GreedySampler(), 20, PLAIN_ONLY, shift_keep=10)))
    held = [token for _, token in context.cells()]
    assert held[:10] == prompt[:10]
    assert held[10:] != prompt[10 : len(held)]
    for reuse, kept in (("all", 10), ("plain", 10), ("fresh", 8)):
        again, context = shifted()
        assert again.prepare([*held, 5], reuse=reuse) == len(held) - kept
        assert context.cells() == list(enumerate(held))


def shifted() -> tuple[Engine, FakeContext]:
    """Return an engine after a run that has shifted, and its context."""
    backend, context = fake_backend(MODEL, n_ctx=40, n_batch=4)
    engine = Engine(backend)
    engine.prepare(list(range(1, 31)))
    list(engine.steps(Request(PlainDrafter(), GreedySampler(), 20, PLAIN_ONLY, shift_keep=10)))
    return engine, context


def test_a_worked_example_of_what_cells_are_good_for() -> None:
    cells = Provenance(10)
    cells.prefilled(0, 25)
    assert [cells.usable(25, wanted, "fresh") for wanted in (25, 26, 40)] == [25, 20, 20]
    assert [cells.usable(common, common, "fresh") for common in (24, 19, 10, 3)] == [20, 10, 10, 0]
    cells.decoded(25, rounded=False)
    cells.decoded(30, rounded=True)
    assert [cells.usable(40, 50, reuse) for reuse in ("all", "plain", "fresh")] == [40, 30, 20]
    cells.prefilled(40, 50)
    assert cells.usable(50, 50, "fresh") == 20
    cells.shifted(12)
    assert [cells.usable(40, 50, reuse) for reuse in ("all", "plain", "fresh")] == [12, 12, 10]
    cells.rewound(12)
    cells.prefilled(12, 30)
    assert [cells.usable(30, 50, reuse) for reuse in ("all", "plain", "fresh")] == [30, 30, 10]
    cells.rewound(10)
    cells.prefilled(10, 28)
    assert cells.usable(28, 28, "fresh") == 28
    cells.prefilled(28, 35)  # 28 to 34 at once, where an empty cache would have had 20 to 29
    assert cells.usable(35, 35, "fresh") == 20
    cells.shifted(5)
    cells.shifted(12)
    assert cells.unmoved == 5
