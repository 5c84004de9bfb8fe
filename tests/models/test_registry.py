from pathlib import Path

import pytest

from recycle_cpp.errors import ModelError
from recycle_cpp.models import Registry

GOOD = """
default = "one"
[one]
architecture = "llama"
parameters = "1B"
quantisation = "Q4_0"
licence = "MIT"
kind = "chat"
file = "one.gguf"
hub = "owner/repo"
hub_file = "one.gguf"
aliases = ["uno"]
"""


def load(tmp_path: Path, text: str) -> Registry:
    path = tmp_path / "models.toml"
    path.write_text(text)
    return Registry.load(path)


def test_the_own_models_toml_loads_and_its_default_exists() -> None:
    registry = Registry.load()
    default = registry.get(registry.default)
    assert default is not None
    assert default.name == "smollm2-135m"
    assert len(registry.entries) >= 7


def test_every_own_model_has_a_gguf_name_and_a_plausible_size() -> None:
    for entry in Registry.load().entries:
        assert entry.file.endswith(".gguf")
        assert entry.size_bytes is not None
        assert entry.size_bytes > 50e6


def test_a_name_or_alias_is_found_in_any_case_and_nothing_else_is(tmp_path: Path) -> None:
    registry = load(tmp_path, GOOD)
    assert registry.get("one") is registry.get("ONE") is registry.get(" Uno ") is registry.entries[0]
    assert registry.get("on") is None
    assert registry.get("") is None


def test_the_closest_names_come_first(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD).closest("unoo") == ["uno"]
    assert "qwen3-8b" in Registry.load().closest("qwen3_8b")


def test_a_relative_path_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    text = GOOD.replace('hub = "owner/repo"\nhub_file = "one.gguf"', 'path = "here/one.gguf"')
    assert load(tmp_path, text).entries[0].path == tmp_path / "here" / "one.gguf"


def test_one_digest_and_a_list_of_digests_are_both_read(tmp_path: Path) -> None:
    one, two = "a" * 64, "b" * 64
    assert load(tmp_path, f'{GOOD}sha256 = "{one}"').entries[0].sha256 == (one,)
    assert load(tmp_path, f'{GOOD}sha256 = ["{one}", "{two}"]').entries[0].sha256 == (one, two)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('kind = "chat"', 'kind = "talk"', "[one], key kind: is 'talk'"),
        ('kind = "chat"', "", "[one], key kind: missing"),
        ('licence = "MIT"', "licence = 3", "[one], key licence: is 3"),
        ('licence = "MIT"', 'license = "MIT"', "[one], key license: unknown key"),
        ('file = "one.gguf"\nhub =', 'file = "../one.gguf"\nhub =', "[one], key file: is '../one.gguf'"),
        ('hub = "owner/repo"', 'hub = "repo"', "[one], key hub: is 'repo'"),
        ('hub = "owner/repo"', 'hub = "owner/repo"\npath = "x"', "exactly one source, found path and hub"),
        ('hub = "owner/repo"\nhub_file = "one.gguf"', "", "exactly one source, found none"),
        ('hub = "owner/repo"\n', 'package = "llm-x"\n', "[one], key hub_file: does not go with"),
        ('hub = "owner/repo"\nhub_', 'package = "llm-x"\npackage_', "[one], key package: is 'llm-x'"),
        ('hub_file = "one.gguf"', "", "[one], key hub_file: missing"),
        ('aliases = ["uno"]', "aliases = [1]", "[one], key aliases: is [1]"),
        ('aliases = ["uno"]', 'aliases = ["ONE"]', "[one], key aliases: 'ONE' is taken by [one]"),
        ('aliases = ["uno"]', 'sha256 = "abc"', "[one], key sha256: is 'abc'"),
        ('aliases = ["uno"]', f'sha256 = "{"A" * 64}"', "in lower case"),
        ('aliases = ["uno"]', "size_bytes = true", "[one], key size_bytes: is True"),
        ('aliases = ["uno"]', "size_bytes = 0", "[one], key size_bytes: is 0"),
        ('default = "one"', 'default = "two"', "key default: is 'two'; give one of the models: one"),
        ('default = "one"', "", "key default: is None"),
        ('default = "one"', 'default = "one"\nextra = 1', "key extra: unknown key"),
        ("[one]", "[one", "is not valid TOML"),
    ],
)
def test_a_bad_models_toml_is_one_line_with_table_and_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(ModelError) as raised:
        load(tmp_path, GOOD.replace(old, new))
    assert said in str(raised.value)
    assert str(tmp_path / "models.toml") in str(raised.value)
    assert "\n" not in str(raised.value)


def test_two_models_cannot_share_an_alias_or_a_file(tmp_path: Path) -> None:
    second = GOOD.split("\n", 2)[2].replace("[one]", "[two]")
    with pytest.raises(ModelError, match=r"\[two\], key aliases: 'uno' is taken by \[one\]"):
        load(tmp_path, GOOD + second.replace("one.gguf", "two.gguf"))
    with pytest.raises(ModelError, match=r"\[two\], key file: 'one.gguf' is taken by \[one\]"):
        load(tmp_path, GOOD + second.replace('"uno"', '"dos"'))


def test_a_missing_models_toml_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        Registry.load(tmp_path / "models.toml")
