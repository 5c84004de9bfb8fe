"""recycle-cpp forget: removes what was asked for, says so in one line, and fetches nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from recycle_cpp.cli.options import load_options_from
from recycle_cpp.models import Registry, fingerprint
from recycle_cpp.models.learned_files import LearnedFile, learned_files, learned_folder
from recycle_cpp.types import LoadOptions


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Two model files, one of them the default model's, with something learned of both."""
    monkeypatch.setenv("RECYCLE_CPP_MODELS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    registry = Registry.load()
    known, other = tmp_path / registry.get(registry.default).file, tmp_path / "other.gguf"
    for path in (known, other):
        path.write_bytes(b"GGUF\x03\0\0\0" + path.name.encode().ljust(64))
    for path in (known, other):
        LearnedFile.of_user(fingerprint(path)).write(b"x" * 1_500_000)
    return registry.default, other


def test_one_model_is_forgotten_by_its_name_or_its_path(call, kept) -> None:
    name, path = kept
    assert call("forget", "-m", name) == (
        0,
        f"removed what was learned of {name}: 2 MB in {learned_folder()}\n",
        "",
    )
    assert learned_files() == [LearnedFile.of_user(fingerprint(path))]
    assert call("forget", "-m", str(path)).out.startswith(f"removed what was learned of {path}: ")
    assert learned_files() == []
    assert call("forget", "-m", name) == (0, f"nothing was learned of {name}\n", "")


def test_all_models_are_forgotten_at_once(call, kept) -> None:
    assert call("forget", "--all").out == f"removed what was learned of 2 models: 3 MB in {learned_folder()}\n"
    assert learned_files() == []
    assert call("forget", "--all") == (0, "nothing was learned of any model\n", "")


def test_a_dry_run_removes_nothing(call, kept) -> None:
    name, _ = kept
    assert call("forget", "--all", "--dry-run").out.startswith("would remove what was learned of 2 models: 3 MB in ")
    assert call("forget", "-m", name, "--dry-run").out.startswith(f"would remove what was learned of {name}: 2 MB in ")
    assert len(learned_files()) == 2


@pytest.mark.parametrize("arguments", [[], ["--dry-run"], ["--all", "-m", "x"]])
def test_what_to_forget_must_be_said(call, kept, arguments: list[str]) -> None:
    code, out, err = call("forget", *arguments)
    assert (code, out) == (2, "")
    assert err == "error: what to forget is not clear: give either -m MODEL or --all\n"
    assert len(learned_files()) == 2


def test_a_model_that_is_not_here_is_not_fetched(call, kept) -> None:
    registry = Registry.load()
    absent = next(entry.name for entry in registry.entries if entry.hub and entry.name != registry.default)
    for model in (absent, "no-such-model", "missing.gguf"):
        code, out, err = call("forget", "-m", model)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert model in err
    assert len(learned_files()) == 2


def test_what_cannot_be_removed_is_named(call, kept) -> None:
    path = learned_files()[0].path
    for file in learned_files():
        file.path.unlink()
        file.path.mkdir()
    code, out, err = call("forget", "--all")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(path.parent) in err


@pytest.mark.parametrize(("arguments", "learned"), [([], True), (["--no-learned"], False)])
def test_generate_keeps_what_it_learns_unless_told_not_to(call, fake, arguments: list[str], learned: bool) -> None:
    call("generate", "-m", "m", "-p", "x", *arguments)
    assert fake.loaded == [("m", LoadOptions(learned=learned))]


def test_a_command_that_does_not_ask_for_it_neither_uses_nor_keeps_what_was_learned() -> None:
    assert load_options_from({"n_ctx": 64}) == LoadOptions(n_ctx=64, learned=False)


@pytest.mark.parametrize("which", ["--all", "one"])
def test_a_folder_that_cannot_be_listed_is_not_said_to_be_empty(call, kept, monkeypatch, which: str) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    asked = ["--all"] if which == "--all" else ["-m", str(kept[1])]
    status, out, err = call("forget", *asked)
    assert (status, out) == (2, "")
    assert err == f"error: {learned_folder()} cannot be listed (Permission denied): check its rights\n"
