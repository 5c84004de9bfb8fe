import json

import pytest

from recycle_cpp.errors import InstallError
from recycle_cpp.setup.store import WheelStore

NAME = "llama_cpp_python-0.3.36-py3-none-linux_x86_64.whl"
INPUTS = {"version": "0.3.36", "cxx": "GCC 12"}


@pytest.fixture
def store(tmp_path):
    return WheelStore(tmp_path / "wheels")


def make(folder, content="whole"):
    (folder / "llama_cpp_python-0.3.36.tar.gz").write_text("source")
    wheel = folder / NAME
    wheel.write_text(content)
    return wheel


def dies_half_way(folder):
    (folder / NAME).write_text("ha")
    raise InstallError("the build failed")


def test_a_stored_wheel_is_found_under_its_key_alone(store):
    store.add("abc", INPUTS, make)
    assert store.find("abc").wheel.read_text() == "whole"
    assert store.find("abd") is None


def test_the_record_beside_the_wheel_can_be_read_by_people(store):
    stored = store.add("abc", INPUTS, make)
    record = json.loads((store.folder / "abc" / "build.json").read_text())
    assert record == stored.record
    assert (record["key"], record["inputs"], record["wheel"]) == ("abc", INPUTS, NAME)


def test_only_the_wheel_and_its_record_are_kept(store):
    store.add("abc", INPUTS, make)
    assert sorted(p.name for p in (store.folder / "abc").iterdir()) == ["build.json", NAME]
    assert [p.name for p in store.folder.iterdir()] == ["abc"]


@pytest.mark.parametrize("death", [InstallError, KeyboardInterrupt, OSError])
def test_a_build_that_dies_half_way_leaves_nothing(store, death):
    def dies(folder):
        (folder / NAME).write_text("ha")
        raise death("half way")

    with pytest.raises(death):
        store.add("abc", INPUTS, dies)
    assert store.find("abc") is None
    assert list(store.folder.iterdir()) == []


def test_a_build_that_dies_leaves_the_older_wheel_as_it_was(store):
    store.add("abc", INPUTS, make)
    with pytest.raises(InstallError):
        store.add("abc", INPUTS, dies_half_way)
    assert store.find("abc").wheel.read_text() == "whole"


def test_what_a_killed_set_up_left_over_is_cleared_away(store):
    left_over = store.folder / ".building-x"
    left_over.mkdir(parents=True)
    (left_over / NAME).write_text("ha")
    store.add("abc", INPUTS, make)
    assert not left_over.exists()


def test_a_wheel_is_replaced_by_a_newer_one_with_the_same_key(store):
    store.add("abc", INPUTS, make)
    store.add("abc", INPUTS, lambda folder: make(folder, "newer"))
    assert store.find("abc").wheel.read_text() == "newer"


@pytest.mark.parametrize("content", ["", "wh", "WHOLE"])
def test_a_wheel_that_was_cut_or_changed_is_not_taken(store, content):
    store.add("abc", INPUTS, make).wheel.write_text(content)
    assert store.find("abc") is None


@pytest.mark.parametrize("record", ["", "{", "[]", '{"wheel": "x.whl"}', "{}"])
def test_a_record_that_cannot_be_read_is_as_none(store, record):
    store.add("abc", INPUTS, make)
    (store.folder / "abc" / "build.json").write_text(record)
    assert store.find("abc") is None


def test_a_rejected_build_is_gone_and_remembered(store):
    store.add("abc", INPUTS, make)
    store.reject("abc", "died by SIGILL")
    assert store.find("abc") is None
    assert store.rejection("abc") == "died by SIGILL"
    assert store.rejection("abd") is None
