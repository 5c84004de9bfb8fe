"""Draws a benchmark report as SVG: speed per category, and the cost curve with the widths that were used."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from recycle_cpp.bench.arms import PLAIN
from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILLS = (128, 1024)  # tokens in the cache for which the cost curve is drawn
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "recycle-cpp",
    "font.size": 9,
    "axes.spines.top": False,
}


def require_matplotlib() -> None:
    """Check that there is something to draw with.

    Raises:
        UsageError: if matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("--svg needs matplotlib: pip install 'recycle-cpp[plot]'") from None


def draw(report: dict[str, Any]) -> str:
    """Return the picture of a report, as the report file has it, as SVG text."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        has_curve = report["cost_curve"] is not None
        figure = Figure(figsize=(max(7.0, 1.1 * len(report["categories"]) + 2), 7.5 if has_curve else 4))
        axes = figure.subplots(2 if has_curve else 1, 1, squeeze=False)[:, 0]
        _draw_speeds(axes[0], report)
        if has_curve:
            _draw_curve(axes[1], report)
        figure.tight_layout()
        target = io.StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None})
    return target.getvalue()


def _draw_speeds(axes: Axes, report: dict[str, Any]) -> None:
    """Draw a bar per category and arm, as high as its speed over plain decoding's, with the spread over repeats."""
    groups = {**report["categories"], "all": report}
    arms = [arm for arm in report["arms"] if arm != PLAIN]
    width = 0.8 / max(1, len(arms))
    for number, arm in enumerate(arms):
        over = [group["arms"][arm]["over"][PLAIN] or (0.0, 0.0, 0.0) for group in groups.values()]
        places = [place + (number - (len(arms) - 1) / 2) * width for place in range(len(groups))]
        spread = ([median - low for median, low, _ in over], [high - median for median, _, high in over])
        axes.bar(places, [median for median, _, _ in over], width, yerr=spread, capsize=2, label=arm)
    axes.axhline(1.0, color="black", linewidth=0.8, label=PLAIN)
    names = [name.replace(" ", "\n", 1) for name in groups]
    axes.set_xticks(range(len(groups)), names, parse_math=False)  # a dollar is a dollar
    axes.set_ylabel("speed over plain decoding")
    axes.set_title(f"{report['model']}, {report['turns']} turns, {report['date'][:10]}", parse_math=False)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_curve(axes: Axes, report: dict[str, Any]) -> None:
    """Draw C(W) at some fills of the cache, over the share of steps that used each width."""
    curve, subject = report["cost_curve"], report["subject"]
    for fill in FILLS:
        seconds = [base + slope * fill for base, slope in zip(curve["base"], curve["slope"], strict=True)]
        costs = [each / seconds[0] for each in seconds]
        axes.plot(curve["ladder"], costs, marker="o", markersize=3, label=f"C(W), {fill:,} tokens in the cache")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    ticks = [width for width in curve["ladder"] if width & (width - 1) == 0]
    axes.set_xticks(ticks, [str(width) for width in ticks])
    axes.set_yticks(ticks, [str(width) for width in ticks])
    axes.set_xlabel("width W: rows in one evaluation")
    axes.set_ylabel("C(W) = T(W) / T(1)")
    widths = {int(width): n for width, n in report["arms"][subject].get("widths", {}).items()}
    shares = axes.twinx()
    total = sum(widths.values()) or 1
    shares.bar(list(widths), [n / total for n in widths.values()], [0.1 * width for width in widths], alpha=0.35)
    shares.set_ylabel(f"share of {subject}'s steps")
    shares.set_ylim(0, 1)
    axes.legend(frameon=False, loc="upper left")
