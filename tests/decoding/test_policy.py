"""Which drafter a request gets, on a stand-in whose costs are known."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from recycle_cpp.backend.cost import Curve
from recycle_cpp.backend.measure import ExactWidths
from recycle_cpp.decoding.policy import Choice, Policy
from recycle_cpp.drafting.drafter import PlainDrafter, TemplateDrafter
from recycle_cpp.drafting.planned import PlannedDrafter
from recycle_cpp.types import GenerateOptions

CURVE = Curve((1, 2), (1.0, 1.5), (0.0, 0.0), 0.0)


def choose(*, width: int = 8, can_branch: bool = True, **options) -> Choice:
    def may_not_measure() -> None:
        raise AssertionError("nothing needs to be measured for this")

    planned = options.get("draft", "auto") == "auto"
    loaded = SimpleNamespace(
        model=SimpleNamespace(n_vocab=48, can_branch=can_branch),
        curve=(lambda: CURVE) if planned else may_not_measure,
        exact_widths=(lambda: ExactWidths(width, 256)) if options.get("exact") else may_not_measure,
    )
    return Policy(loaded).choose(GenerateOptions(**options))


def test_drafts_are_planned_by_default() -> None:
    choice = choose()
    assert isinstance(choice.drafter, PlannedDrafter)
    assert (choice.exact, choice.note) == (None, "")


@pytest.mark.parametrize(("draft", "width"), [("tree", 81), ("chain", 4)])
def test_fixed_shapes_are_drafted_on_request_and_measure_nothing(draft: str, width: int) -> None:
    choice = choose(draft=draft)
    assert isinstance(choice.drafter, TemplateDrafter)
    assert choice.drafter.width == width
    assert (choice.exact, choice.note) == (None, "")


@pytest.mark.parametrize("exact", [False, True])
def test_off_is_plain_decoding_on_no_cell_that_was_rounded(exact: bool) -> None:
    choice = choose(draft="off", exact=exact)
    assert isinstance(choice.drafter, PlainDrafter)
    assert (choice.exact.at(0), choice.note) == (1, "")


@pytest.mark.parametrize(("draft", "kind"), [("auto", PlannedDrafter), ("tree", TemplateDrafter)])
def test_exact_drafting_stays_within_what_is_exact_and_says_so(draft: str, kind: type) -> None:
    choice = choose(exact=True, draft=draft)
    assert isinstance(choice.drafter, kind)
    assert [choice.exact.at(n_past) for n_past in (0, 248, 252, 255, 300)] == [8, 8, 4, 1, 1]
    assert "8 rows" in choice.note


@pytest.mark.parametrize("draft", ["auto", "tree", "chain"])
def test_exact_drafting_that_cannot_be_is_plain_decoding_with_the_reason(draft: str) -> None:
    choice = choose(exact=True, draft=draft, width=1)
    assert isinstance(choice.drafter, PlainDrafter)
    assert choice.note.startswith("exact: plain decoding, since ")


@pytest.mark.parametrize("options", [{}, {"draft": "tree"}, {"exact": True}])
def test_a_memory_that_cannot_branch_is_decoded_plainly_with_the_reason(options) -> None:
    choice = choose(can_branch=False, **options)
    assert isinstance(choice.drafter, PlainDrafter)
    assert choice.note == "drafting is off: this architecture's memory cannot hold a tree"


def test_all_requests_share_one_planned_drafter_and_its_curve_is_measured_once() -> None:
    measured: list[Curve] = []

    def curve() -> Curve:
        measured.append(CURVE)
        return CURVE

    model = SimpleNamespace(n_vocab=48, can_branch=True)
    policy = Policy(SimpleNamespace(model=model, curve=curve))
    first, second = (policy.choose(GenerateOptions(max_tokens=n)) for n in (1, 2))
    assert first.drafter is second.drafter
    assert len(measured) == 1
