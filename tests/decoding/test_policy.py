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


def choose(*, cost: float = 1.0, width: int = 8, batch: int = 96, can_branch: bool = True, **options) -> Choice:
    def may_not_measure(*_) -> None:
        raise AssertionError("nothing needs to be measured for this")

    loaded = SimpleNamespace(
        model=SimpleNamespace(n_vocab=48, can_branch=can_branch),
        backend=SimpleNamespace(max_width=batch),
        relative_cost=(lambda _width: cost) if options.get("draft", "auto") == "auto" else may_not_measure,
        exact_widths=(lambda: ExactWidths(width, 256)) if options.get("exact") else may_not_measure,
    )
    return Policy(loaded).choose(GenerateOptions(**options))


def test_drafting_is_on_by_default_where_it_pays() -> None:
    choice = choose(cost=1.5)
    assert isinstance(choice.drafter, TemplateDrafter)
    assert (choice.exact, choice.note) == (None, "")


def test_drafting_is_off_by_default_where_it_does_not_pay_and_the_reason_is_given() -> None:
    choice = choose(cost=24.0)
    assert isinstance(choice.drafter, PlainDrafter)
    assert choice.note == "drafting is off: 81 rows cost 24.0 times one row here"
    assert "8 rows" in choose(cost=24.0, batch=8).note, "no wider evaluation than the batch holds may be measured"


@pytest.mark.parametrize("exact", [False, True])
def test_off_is_plain_decoding_on_no_cell_that_was_rounded(exact: bool) -> None:
    choice = choose(draft="off", exact=exact)
    assert isinstance(choice.drafter, PlainDrafter)
    assert (choice.exact.at(0), choice.note) == (1, "")


def test_exact_drafting_stays_within_what_is_exact_and_says_so() -> None:
    for choice in (choose(exact=True, draft="tree"), choose(exact=True, cost=1.4)):
        assert isinstance(choice.drafter, TemplateDrafter)
        assert [choice.exact.at(n_past) for n_past in (0, 248, 252, 255, 300)] == [8, 8, 4, 1, 1]
        assert "8 rows" in choice.note


@pytest.mark.parametrize("measured", [{"width": 1}, {"cost": 1.6}])
def test_exact_drafting_that_cannot_be_or_does_not_pay_is_plain_decoding_with_the_reason(measured) -> None:
    choice = choose(exact=True, **measured)
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
        measured.append(Curve((1, 2), (1.0, 1.5), (0.0, 0.0), 0.0))
        return measured[-1]

    model = SimpleNamespace(n_vocab=48, can_branch=True)
    policy = Policy(SimpleNamespace(model=model, curve=curve))
    first, second = (policy.choose(GenerateOptions(draft="planned", max_tokens=n)) for n in (1, 2))
    assert isinstance(first.drafter, PlannedDrafter)
    assert first.drafter is second.drafter
    assert len(measured) == 1
