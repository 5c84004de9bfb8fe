"""The tree templates against the published numbers."""

from __future__ import annotations

import numpy as np
import pytest

from recycle_cpp.drafting import template
from recycle_cpp.drafting.template import TreeTemplate

# Copied from the text of the design: children of each node, by the path of ranks from the root.
PUBLISHED = """
root 8 · 0: 8, 1: 4, 2: 3, 3: 2, 4 to 7: 1 · 00: 8, 01: 3, 02: 2, 03 to 07: 1, 10: 2, 11, 20, 30, 40, 50: 1 ·
000: 5, 001: 2, 002, 003, 004, 010, 020, 100, 200, 300: 1 · 0000: 3, 0001, 0002, 0010, 0100, 1000: 1 · 00000: 2,
00010: 1
"""


def read_children(text: str) -> dict[str, int]:
    """Read "path: count" entries; paths without a count share the next one, and "a to b" is a range."""
    children: dict[str, int] = {}
    waiting: list[str] = []
    for entry in text.replace("root ", "root: ").replace("·", ",").split(","):
        path, _, count = (part.strip() for part in entry.partition(":"))
        first, _, last = path.partition(" to ")
        waiting += [f"{i:0{len(first)}d}" for i in range(int(first), int(last) + 1)] if last else [first]
        if count:
            children.update({"" if path == "root" else path: int(count) for path in waiting})
            waiting = []
    assert not waiting
    return children


def paths_of(shape: TreeTemplate) -> list[str]:
    """Return the path of ranks of each slot, in the template's order."""
    paths = [""]
    for parent, rank in zip(shape.parent.tolist()[1:], shape.rank.tolist()[1:], strict=True):
        paths.append(f"{paths[parent]}{rank}")
    return paths


def test_the_published_tree_is_the_one_in_the_text() -> None:
    children = read_children(PUBLISHED)
    expected = {f"{path}{rank}" for path, n in children.items() for rank in range(n)} | {""}
    paths = paths_of(template.published())
    assert len(paths) == len(set(paths)) == 81
    assert set(paths) == expected


def test_the_published_tree_has_80_nodes_in_6_levels_and_40_leaves() -> None:
    shape = template.published()
    paths = paths_of(shape)
    per_level = [sum(len(path) == depth for path in paths) for depth in range(8)]
    assert shape.width == 81
    assert per_level == [1, 8, 21, 25, 15, 8, 3, 0]
    assert len(set(range(81)) - set(shape.parent.tolist())) == 40


def test_the_published_tree_is_in_level_order_and_likelier_slots_come_first_in_each_level() -> None:
    paths = paths_of(template.published())
    assert paths == sorted(paths, key=lambda path: (len(path), path))


def test_all_arrays_are_int32_for_the_kernels() -> None:
    for shape in (template.published(), template.chain(3)):
        assert shape.parent.dtype == shape.rank.dtype == np.int32


@pytest.mark.parametrize("width", [1, 2, 8])
def test_a_chain_is_one_path_of_best_candidates(width: int) -> None:
    shape = template.chain(width)
    assert shape.width == width
    assert paths_of(shape) == ["0" * depth for depth in range(width)]
