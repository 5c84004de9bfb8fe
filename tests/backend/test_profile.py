"""What was measured is kept on disk; a file that is damaged, changed or not ours counts as empty."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from recycle_cpp.backend.memory import require_room
from recycle_cpp.backend.profile import Profile
from recycle_cpp.errors import UsageError


def test_a_value_is_found_again_under_the_same_identity_only(tmp_path: Path) -> None:
    Profile(tmp_path, model="a", threads=2).put("cost", [1.5, 2])
    assert Profile(tmp_path, model="a", threads=2).get("cost") == [1.5, 2]
    assert Profile(tmp_path, model="a", threads=4).get("cost") is None
    assert Profile(tmp_path, model="b", threads=2).get("cost") is None


def damage_value(text: str) -> str:
    return text.replace("1.5", "1000.5")


def no_object(text: str) -> str:
    return "[1, 2]"


def cut(text: str) -> str:
    return text[: len(text) // 2]


def nested(text: str) -> str:
    return "[" * 200_000


def values_of_another_type(text: str) -> str:
    return json.dumps({**json.loads(text), "values": [1, 2]})


@pytest.mark.parametrize("damage", [damage_value, no_object, cut, nested, values_of_another_type])
def test_a_damaged_file_counts_as_empty_and_is_written_anew(tmp_path: Path, damage) -> None:
    kept = Profile(tmp_path, model="a")
    kept.put("cost", [1.5, 2])
    kept.path.write_text(damage(kept.path.read_text()))
    again = Profile(tmp_path, model="a")
    assert again.get("cost") is None
    again.put("cost", 3)
    assert Profile(tmp_path, model="a").get("cost") == 3
    assert [path.name for path in tmp_path.iterdir()] == [kept.path.name]


def test_a_folder_that_cannot_be_made_only_means_measuring_again(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    profile = Profile(tmp_path / "file" / "folder", model="a")
    profile.put("cost", 1)
    assert profile.get("cost") == 1


def test_a_context_that_does_not_fit_the_memory_is_refused_with_what_would() -> None:
    require_room(1000, 1024.0, 2 * 1024 * 1000)
    require_room(1000, 1024.0, None)
    with pytest.raises(
        UsageError, match=r"2000000 tokens needs 1\.9 GiB .* 1\.0 GiB are free: give --ctx-size 996147 or"
    ):
        require_room(2_000_000, 1024.0, 2**30)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_value_that_could_not_be_kept_leaves_nothing_beside_the_file(
    tmp_path: Path, monkeypatch, error: type[BaseException]
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Path, "replace", fail)
    with contextlib.suppress(KeyboardInterrupt):
        Profile(tmp_path, model="a").put("cost", 1)
    assert list(tmp_path.iterdir()) == []
