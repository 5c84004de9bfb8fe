"""Trace files: what is written is read again, and what is no trace is said to be none in one line."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import N_VOCAB, as_trace, repetitive_trace, turn

from recycle_cpp.bench.trace import FIELDS, FORMAT, Trace
from recycle_cpp.errors import UsageError

TEXTS = st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=30)


def fields_of(trace: Trace, folder: Path) -> dict[str, np.ndarray]:
    trace.save(folder / "whole.npz")
    with np.load(folder / "whole.npz") as kept:
        return dict(kept)


def refused(path: Path) -> str:
    """Return what loading a file says; it must be one line."""
    with pytest.raises(UsageError) as caught:
        Trace.load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


@given(texts=st.lists(st.tuples(TEXTS, TEXTS, st.sampled_from(["a", "Übersetzung", ""])), min_size=1, max_size=5))
def test_what_is_written_is_read_again(tmp_path_factory, texts) -> None:
    path = tmp_path_factory.mktemp("traces") / "kept.npz"
    trace = as_trace(*(turn(*drawn, np.random.default_rng(3)) for drawn in texts))
    trace.save(path)
    read = Trace.load(path)
    assert (read.model, read.n_vocab, len(read.turns)) == (trace.model, trace.n_vocab, len(trace.turns))
    for one, other in zip(read.turns, trace.turns, strict=True):
        assert one.category == other.category
        for name in ("prompt", "emitted", "top", "values"):
            array = getattr(one, name)
            assert np.array_equal(array, getattr(other, name))
            assert (array.dtype, array.flags.c_contiguous) == (getattr(other, name).dtype, True)
    assert [entry.name for entry in path.parent.iterdir()] == ["kept.npz"], "nothing is left beside it"


def test_a_trace_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    for n in (20, 10):
        repetitive_trace(n).save(tmp_path / "kept.npz")
    assert len(Trace.load(tmp_path / "kept.npz").turns[0].emitted) == 10


@pytest.mark.parametrize("place", ["no/folder/kept.npz", "a file/kept.npz"])
def test_a_place_that_cannot_be_written_is_said_in_one_line(tmp_path: Path, place: str) -> None:
    (tmp_path / "a file").write_text("x")
    with pytest.raises(UsageError, match="cannot be written") as caught:
        repetitive_trace().save(tmp_path / place)
    assert "\n" not in str(caught.value)


def test_an_interrupt_while_a_trace_is_written_leaves_nothing_beside_it(tmp_path: Path, monkeypatch) -> None:
    def interrupted(file, **_: object) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        repetitive_trace().save(tmp_path / "kept.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_cannot_be_read_and_the_reason_is_named() -> None:
    read, write = os.pipe()
    os.close(write)
    try:
        assert "None" not in refused(Path(f"/dev/fd/{read}"))
    finally:
        os.close(read)


def test_a_file_that_is_not_there_or_a_folder_cannot_be_read(tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path / "none.npz")
    assert "cannot be read" in refused(tmp_path)


def foreign_files(folder: Path) -> dict[str, Path]:
    folder = folder / "foreign"
    folder.mkdir()
    (folder / "empty").touch()
    (folder / "text").write_text('{"ladder": [1]}')
    np.save(folder / "array.npy", np.arange(9))
    np.save(folder / "objects.npy", np.array([{}], object))
    np.savez(folder / "other.npz", a=np.arange(9))
    np.savez(folder / "objects.npz", format=np.array([{}], object))
    with zipfile.ZipFile(folder / "zip", "w") as archive:
        archive.writestr("format.npy", "no array")
    return {path.name: path for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["empty", "text", "array.npy", "objects.npy", "other.npz", "objects.npz", "zip"])
def test_a_foreign_file_is_no_trace(tmp_path: Path, name: str) -> None:
    assert "is no trace" in refused(foreign_files(tmp_path)[name])


def test_a_file_that_ends_early_or_has_wrong_bytes_is_no_trace(tmp_path: Path) -> None:
    repetitive_trace().save(tmp_path / "whole.npz")
    whole = (tmp_path / "whole.npz").read_bytes()
    damaged, rng, n_refused = tmp_path / "damaged.npz", np.random.default_rng(4), 0
    for size in range(0, len(whole), len(whole) // 40):
        damaged.write_bytes(whole[:size])
        refused(damaged)
    for at in rng.integers(0, len(whole) - 8, 200).tolist():
        damaged.write_bytes(whole[:at] + rng.bytes(8) + whole[at + 8 :])
        try:
            Trace.load(damaged)  # a byte that nobody reads may be any
        except UsageError as error:
            assert "\n" not in str(error)
            n_refused += 1
    assert n_refused > 100


DAMAGES = {
    "another format": {"format": np.array("recycle-cpp trace 0")},
    "a token outside": {"emitted": lambda array: np.where(np.arange(len(array)) == 3, N_VOCAB, array)},
    "no token in a prompt": {"prompts": lambda array: np.where(np.arange(len(array)) == 3, -1, array)},
    "no token in a text": {"emitted": lambda array: np.where(np.arange(len(array)) == 3, -1, array)},
    "a candidate outside": {"top": lambda array: array + N_VOCAB},
    "a candidate below none": {"top": lambda array: array - N_VOCAB},
    "a smaller vocabulary": {"n_vocab": np.array(5)},
    "fewer positions": {"top": lambda array: array[:-1], "values": lambda array: array[:-1]},
    "fewer values": {"values": lambda array: array[:, :-1]},
    "fewer candidates": {"top": lambda array: array[:, :5], "values": lambda array: array[:, :5]},
    "flat candidates": {"top": lambda array: array[:, 0], "values": lambda array: array[:, 0]},
    "an end too far": {"emitted_ends": lambda array: array + 1},
    "an end too near": {"prompt_ends": lambda array: array - 1},
    "ends that fall": {"prompt_ends": lambda array: array[::-1]},
    "an empty prompt": {"prompt_ends": lambda array: np.where(np.arange(len(array)) == 0, array[1], array)},
    "fewer ends": {"emitted_ends": lambda array: array[1:]},
    "fewer categories": {"categories": lambda array: array[1:]},
    "one category": {"categories": lambda array: array[0]},
    "tokens that are no integers": {"emitted": lambda array: array + 0.5},
    "ends that are no integers": {"emitted_ends": lambda array: array.astype(float)},
    "a vocabulary that is no number": {"n_vocab": np.array("many")},
    "a vocabulary beyond all memory": {"n_vocab": np.array(10**13)},
    "an empty text": {"emitted_ends": lambda array: np.where(np.arange(len(array)) == 0, 0, array)},
}


@pytest.mark.parametrize("name", DAMAGES)
def test_parts_that_do_not_fit_together_are_no_trace(tmp_path: Path, name: str) -> None:
    trace = as_trace(turn([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), turn([5, 4, 3, 2, 1], [9, 8, 7, 6, 5, 4]))
    fields = fields_of(trace, tmp_path)
    for field, change in DAMAGES[name].items():
        fields[field] = change(fields[field]) if callable(change) else change
    np.savez(tmp_path / "damaged.npz", **fields)
    assert "is no trace" in refused(tmp_path / "damaged.npz")


@pytest.mark.parametrize("name", ["format", *FIELDS])
def test_a_missing_part_is_noticed(tmp_path: Path, name: str) -> None:
    fields = fields_of(repetitive_trace(), tmp_path)
    del fields[name]
    np.savez(tmp_path / "damaged.npz", **fields)
    assert "is no trace" in refused(tmp_path / "damaged.npz")


def test_the_format_has_a_name_and_a_number() -> None:
    assert FORMAT.split()[-1].isdigit()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    repetitive_trace().save(tmp_path / "kept.npz")
    (tmp_path / "kept.npz").chmod(0)
    assert "cannot be read (Permission denied)" in refused(tmp_path / "kept.npz")
