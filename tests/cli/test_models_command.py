from __future__ import annotations

import json

import pytest

from recycle_cpp.models import Registry, status


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A models folder with one file in it, the default model's, and no other folder."""
    monkeypatch.setenv("RECYCLE_CPP_MODELS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    registry = Registry.load()
    (tmp_path / registry.get(registry.default).file).write_bytes(b"GGUF")
    return tmp_path


def test_a_pipe_gets_one_tab_separated_line_for_each_model(call, own_folder) -> None:
    code, out, err = call("models")
    assert (code, err) == (0, "")
    registry = Registry.load()
    lines = [line.split("\t") for line in out.splitlines()]
    assert [line[0] for line in lines] == [entry.name for entry in registry.entries]
    assert {len(line) for line in lines} == {7}
    assert [line[0] for line in lines if line[1] == "default"] == [registry.default]
    here = {line[0]: line[6] for line in lines}
    assert here[registry.default] == str(own_folder / registry.get(registry.default).file)


def test_json_tells_all_that_is_known_of_each_model(call, own_folder) -> None:
    code, out, err = call("models", "--json")
    assert (code, err) == (0, "")
    listing = json.loads(out)
    registry = Registry.load()
    assert listing["default"] == registry.default
    for model, entry in zip(listing["models"], registry.entries, strict=True):
        assert model["name"] == entry.name
        assert model["licence"] == entry.licence
        assert model["path"] == (str(path) if (path := status(entry).path) else None)


def test_a_models_toml_that_cannot_be_used_is_one_line(call, tmp_path, monkeypatch) -> None:
    bad = tmp_path / "models.toml"
    bad.write_text("default = [")
    monkeypatch.setattr("recycle_cpp.models.registry.own_models_toml", lambda: bad)
    for arguments in (["models"], ["generate", "-p", "x"]):
        code, out, err = call(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith(f"error: {bad}: ")
        assert err.count("\n") == 1
