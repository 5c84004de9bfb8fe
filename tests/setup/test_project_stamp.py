import json
from dataclasses import replace
from pathlib import Path

import pytest

from recycle_cpp.errors import InstallError
from recycle_cpp.setup.project import Stamp, read_project, read_stamp, write_stamp

PROJECT = """\
[project]
name = "recycle-cpp"
dependencies = ["llama-cpp-python==0.3.36", "numpy>=1.26"]
[project.optional-dependencies]
dev = ["pytest>=8.0"]
[project.scripts]
recycle-cpp = "recycle_cpp.cli.main:main"
"""
STAMP = Stamp(root="/home/a/recycle", project="p1", build_key="k1", dev=False)


def project(folder, text=PROJECT, **extra):
    (folder / "pyproject.toml").write_text(text)
    return read_project(folder, **extra)


def test_the_pin_is_read_from_pyproject(tmp_path):
    assert project(tmp_path).llama_version == "0.3.36"


def test_the_repositorys_own_pyproject_has_one_pin():
    assert read_project(Path(__file__).parents[2]).llama_version


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"numpy>=1.26"', '"numpy>=2"'),
        ("pytest>=8.0", "pytest>=9"),
        ("cli.main:main", "cli.app:main"),
        ("0.3.36", "0.3.37"),
    ],
)
def test_the_digest_changes_with_all_that_is_installed(tmp_path, old, new):
    assert project(tmp_path, PROJECT.replace(old, new)).digest != project(tmp_path).digest


def test_the_digest_changes_with_the_model_package(tmp_path):
    assert project(tmp_path, extra=("model==2",)).digest != project(tmp_path, extra=("model==1",)).digest


def test_the_digest_does_not_change_with_the_rest_of_the_file(tmp_path):
    assert project(tmp_path, PROJECT + "[tool.ruff]\nline-length = 99\n").digest == project(tmp_path).digest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[project",
        PROJECT.replace("==0.3.36", ">=0.3"),
        PROJECT.replace('"llama-cpp-python==0.3.36", ', ""),
    ],
)
def test_a_pyproject_without_the_pin_is_refused_in_one_line(tmp_path, text):
    with pytest.raises(InstallError) as caught:
        project(tmp_path, text)
    assert str(tmp_path / "pyproject.toml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_stamp_covers_the_same_set_up():
    assert STAMP.covers(STAMP)


@pytest.mark.parametrize("change", [{"root": "/elsewhere"}, {"project": "p2"}, {"build_key": "k2"}])
def test_a_stamp_does_not_cover_another_set_up(change):
    assert not STAMP.covers(replace(STAMP, **change))


def test_development_tools_may_be_there_unasked_but_not_lack():
    dev = replace(STAMP, dev=True)
    assert dev.covers(STAMP)
    assert not STAMP.covers(dev)


def test_a_written_stamp_reads_back(tmp_path):
    path = tmp_path / "stamp.json"
    write_stamp(path, STAMP, "CPU : AVX = 1 |")
    assert read_stamp(path) == STAMP
    assert json.loads(path.read_text())["system_info"] == "CPU : AVX = 1 |"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"root": "/"}', "null"])
def test_a_stamp_that_cannot_be_read_is_as_none(tmp_path, text):
    path = tmp_path / "stamp.json"
    path.write_text(text)
    assert read_stamp(path) is None


def test_no_stamp_is_none(tmp_path):
    assert read_stamp(tmp_path / "stamp.json") is None
