"""The picture of a report, drawn from made-up answers."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from made_up import answer, foreign, result

from recycle_cpp.bench import plot, report

CURVE = {"ladder": (1, 2, 4), "base": (0.01, 0.012, 0.02), "slope": (0.0, 1e-6, 2e-6), "switch": 0.001}


def drawn(curve: dict[str, object] | None, model: str = "small", other: str = "chat") -> str:
    answers = {"plain": answer(), "auto": answer(ms=50), "lookup": foreign(ms=80), "binding": foreign((1,), ms=0)}
    results = [result(category, repeat, **answers) for repeat in range(2) for category in ("code editing", other)]
    facts = {"model": model, "date": "2026-12-01T10:00:00+00:00", "cost_curve": curve}
    return plot.draw({**report.summary(results), **facts})


@pytest.mark.parametrize("curve", [CURVE, None])
def test_a_picture_names_arms_categories_and_model_and_draws_the_same_twice(curve: dict[str, object] | None) -> None:
    text = drawn(curve)
    assert text == drawn(curve)
    words = {element.text for element in ElementTree.fromstring(text).iter() if element.text}
    assert {"plain", "auto", "lookup", "binding", "chat", "all", "small, 4 turns, 2026-12-01"} <= words
    assert any("share of auto" in word for word in words) is (curve is not None)


def test_names_with_dollars_are_no_formulas() -> None:
    text = drawn(CURVE, model="a$x{y$b", other="$\\frac$")
    words = {element.text for element in ElementTree.fromstring(text).iter() if element.text}
    assert {"a$x{y$b, 4 turns, 2026-12-01", "$\\frac$"} <= words
