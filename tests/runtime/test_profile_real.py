"""What is measured of a real model serves the contexts that it was measured for, and no others."""

from __future__ import annotations

from recycle_cpp.backend.cost import LADDER


def test_what_a_small_context_measured_does_not_narrow_a_larger_one(load, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for n_ctx in (8, 1024):
        assert load(n_ctx=n_ctx).cost_curve.ladder == LADDER


def test_widths_probed_in_a_small_context_do_not_limit_a_larger_one(load, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("recycle_cpp.backend.loaded.PROBE_CONTEXT", 1024)
    small, large = (load(n_ctx=n_ctx)._loaded.exact_widths() for n_ctx in (256, 1024))
    assert small.width == large.width > 1
    assert small.n_cells <= 512 < large.n_cells
