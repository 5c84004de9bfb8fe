"""Files that a command writes: whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from recycle_cpp.cli import output_file


def test_a_text_that_utf8_cannot_hold_is_written_with_escapes(tmp_path: Path) -> None:
    output_file.write(tmp_path / "report", "model a\udcffb")
    assert (tmp_path / "report").read_text() == "model a\\udcffb"


def test_an_interrupt_leaves_nothing_beside_the_file(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "report").write_text("before")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        output_file.write(tmp_path / "report", "after")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report", "before")]
