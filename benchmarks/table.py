"""Write the tables of measured numbers in README.md from the dated results that they name.

    python benchmarks/table.py            # rewrite the tables
    python benchmarks/table.py --check    # change nothing; status 1 if a table is not what its files say

A table stands between two comments; the first says its kind and its files:

    <!-- table: speed benchmarks/results/2026-12-02-a.json benchmarks/results/2026-12-02-b.json -->
    <!-- end of table -->

`speed` takes reports of `recycle-cpp bench --json`, one row each; `attention` those of benchmarks/attention.py;
`settings` those of benchmarks/settings_cost.py.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TABLE = re.compile(r"(<!-- table: (\w+) ([^>]+?) -->\n).*?(<!-- end of table -->)", re.DOTALL)
PICKED_AT = 1024  # tokens in the context at which the runtime compares attention settings
SUBJECT, PLAIN = "auto", "plain"
OTHERS = ("stock", "binding", "lookup", "chain", "tree")


def filled(text: str, root: Path = ROOT) -> str:
    """Return a text with each table in it made anew.

    Raises:
        SystemExit: if a table is of no known kind or its file cannot be read.
    """

    def fill(match: re.Match[str]) -> str:
        head, kind, names, end = match.groups()
        if kind not in KINDS:
            raise SystemExit(f"there is no table {kind!r}: write one of {', '.join(KINDS)}")
        rows = KINDS[kind]([read(root / name) for name in names.split()])
        lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
        return head + "".join(f"| {' | '.join(line)} |\n" for line in lines) + end

    return TABLE.sub(fill, text)


def read(path: Path) -> dict[str, Any]:
    """Return a result file.

    Raises:
        SystemExit: if it cannot be read.
    """
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path} cannot be read ({error}): name a JSON file of benchmarks/results") from error


def attention(reports: list[dict[str, Any]]) -> list[list[str]]:
    """Return plain speeds with flash attention, and with what is picked, by model."""
    rows = [["model", "tokens in the context", "flash attention, tok/s", "picked, tok/s", "ratio"]]
    measured = [row for report in reports for row in report["rows"]]
    for model in dict.fromkeys(row["model"] for row in measured):
        fills = [row for row in measured if row["model"] == model]
        picked = next("on" if row["on"] > row["off"] else "off" for row in fills if row["cells"] == PICKED_AT)
        columns = (
            [f"{row['cells']:,}" for row in fills],
            [speed(row["on"]) for row in fills],
            [speed(row[picked]) for row in fills],
            [f"{row['off/on'] if picked == 'off' else 1:.2f}" for row in fills],
        )
        rows.append([model, *(" / ".join(column) for column in columns)])
    return rows


def speeds(reports: list[dict[str, Any]]) -> list[list[str]]:
    """Return one row per report: the speed of `auto` over plain decoding, by category at worst, and over other arms."""
    others = [arm for arm in OTHERS if any(arm in report["arms"] for report in reports)]
    heads = ["model", "prompts", "plain, tok/s", "auto / plain", "lowest category", "tokens per step"]
    return [[*heads, *(f"auto / {arm}" for arm in others)], *(speed_row(report, others) for report in reports)]


def speed_row(report: dict[str, Any], others: list[str]) -> list[str]:
    arms = report["arms"]
    over = {name: group["arms"][SUBJECT]["over"][PLAIN] for name, group in report["categories"].items()}
    lowest = min(over, key=lambda name: over[name][0])
    return [
        report["model"],
        f"{report['prompts']} {report['prompts_from']}, {report['options']['max_tokens']} tokens",
        speed(arms[PLAIN]["tokens_per_second"]),
        ratio(arms[SUBJECT]["over"][PLAIN]),
        f"{lowest} {over[lowest][0]:.2f}",
        f"{arms[SUBJECT]['mean_accepted_tokens']:.2f}",
        *(ratio(arms[SUBJECT]["over"].get(arm)) for arm in others),
    ]


def settings(reports: list[dict[str, Any]]) -> list[list[str]]:
    """Return, for each kind of request, what it costs plain decoding, and what drafting gains on it, by model."""
    models = [report["model"] for report in reports]
    heads = [
        "request",
        *(f"{model}: plain / greedy" for model in models),
        *(f"{model}: auto / plain" for model in models),
    ]
    rows = [heads]
    for name in reports[0]["settings"]:
        found = [report["settings"][name] for report in reports]
        plain = [f"{one['plain over greedy plain']['median']:.2f}" for one in found]
        auto = [one["auto over plain"] for one in found]
        rows.append([name, *plain, *(f"{one['median']:.2f} ({one['low']:.2f}-{one['high']:.2f})" for one in auto)])
    return rows


KINDS = {"attention": attention, "speed": speeds, "settings": settings}


def speed(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}"


def ratio(over: list[float] | None) -> str:
    """Return a median with its spread."""
    if over is None:
        return "-"
    median, low, high = over
    return f"{median:.2f}" if low == high else f"{median:.2f} ({low:.2f}-{high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 if a table is out of step")
    check = parser.parse_args().check
    text = README.read_text("utf-8")
    new = filled(text)
    if check and new != text:
        sys.exit("README.md is not what its results say: run python benchmarks/table.py")
    if new != text:
        beside = README.with_name("README.md.partial")
        beside.write_text(new, "utf-8")
        beside.replace(README)


if __name__ == "__main__":
    main()
