"""The files of what drafting has learned: private, bounded, and whole whatever happens to their writers."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from recycle_cpp.models import learned_files as module
from recycle_cpp.models.learned_files import MOST_BYTES, MOST_MODELS, LearnedFile, learned_files, learned_folder

FINGERPRINTS = [f"{number:032x}" for number in range(MOST_MODELS + 4)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names() -> list[str]:
    return sorted(path.name for path in learned_folder().iterdir())


def test_what_is_written_is_read_and_is_the_users_alone() -> None:
    file = LearnedFile.of_user(FINGERPRINTS[0])
    assert (file.read(), file.size, learned_files()) == (None, 0, [])
    previous = os.umask(0)
    try:
        file.write(b"some tokens")
    finally:
        os.umask(previous)
    assert (file.read(), file.size, learned_files()) == (b"some tokens", 11, [file])
    assert (mode(file.path), mode(learned_folder())) == (0o600, 0o700)
    assert names() == [f"{FINGERPRINTS[0]}.learned"]


def test_the_files_written_last_are_kept() -> None:
    for number, fingerprint in enumerate(FINGERPRINTS):
        file = LearnedFile.of_user(fingerprint)
        file.write(b"x")
        os.utime(file.path, (number, number))
    LearnedFile.of_user(FINGERPRINTS[-1]).write(b"y")
    assert names() == [f"{fingerprint}.learned" for fingerprint in FINGERPRINTS[-MOST_MODELS:]]


def test_what_is_larger_than_any_of_ours_is_not_read() -> None:
    file = LearnedFile.of_user(FINGERPRINTS[0])
    file.write(b"x" * MOST_BYTES)
    assert len(file.read() or b"") == MOST_BYTES
    file.write(b"x" * (MOST_BYTES + 1))
    with pytest.raises(ValueError, match="larger"):
        file.read()


def test_a_folder_or_a_pipe_in_the_place_of_a_file_is_neither_read_nor_waited_for() -> None:
    learned_folder().mkdir(parents=True)
    folder, pipe = (LearnedFile.of_user(fingerprint) for fingerprint in FINGERPRINTS[:2])
    folder.path.mkdir()
    os.mkfifo(pipe.path)
    for file in (folder, pipe):
        with pytest.raises(ValueError, match="no plain file"):
            file.read()
    with pytest.raises(OSError):
        folder.write(b"x")
    assert not [name for name in names() if name.endswith(".partial")]


@pytest.mark.parametrize("folder_is", ["a file", "unwritable"])
def test_a_folder_that_takes_no_files_is_an_oserror(own_cache: Path, folder_is: str) -> None:
    learned_folder().parent.mkdir(parents=True)
    if folder_is == "a file":
        learned_folder().touch()
    else:
        learned_folder().mkdir(mode=0o500)
        if os.access(learned_folder(), os.W_OK):
            pytest.skip("this user may write everywhere")
    with pytest.raises(OSError):
        LearnedFile.of_user(FINGERPRINTS[0]).write(b"x")
    assert learned_files() == []


WRITER = """
import os, sys, threading
from recycle_cpp.models.learned_files import LearnedFile
file = LearnedFile.of_user(sys.argv[1])
data = sys.argv[2].encode() * 500_000
print("begun", flush=True)
while True:
    file.write(data)
"""


def writers(letters: str) -> list[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, FINGERPRINTS[0]]
    return [subprocess.Popen([*command, letter], stdout=subprocess.PIPE, env=environment) for letter in letters]


def test_of_processes_that_write_at_once_and_are_killed_one_wins_whole_each_time() -> None:
    file = LearnedFile.of_user(FINGERPRINTS[0])
    processes = writers("ab")
    try:
        for process in processes:
            process.stdout.readline()
        seen, n_reads, end = set(), 0, time.monotonic() + 30
        while n_reads < 300 or (not seen and time.monotonic() < end):  # the first write may be slow in coming
            n_reads += 1
            data = file.read()
            if data is not None:
                assert len(data) == 500_000
                assert data in (b"a" * 500_000, b"b" * 500_000)
                seen.add(data[:1])
    finally:
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
    assert seen
    assert file.read() in (b"a" * 500_000, b"b" * 500_000)
    file.write(b"after")
    assert file.read() == b"after"


def test_threads_that_write_at_once_leave_one_whole_file() -> None:
    file = LearnedFile.of_user(FINGERPRINTS[0])
    threads = [threading.Thread(target=file.write, args=(bytes([number]) * 100_000,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data = file.read() or b""
    assert data == data[:1] * 100_000
    assert names() == [file.path.name]


def test_what_a_killed_process_left_is_removed_when_it_is_old_and_with_its_file() -> None:
    file, other = (LearnedFile.of_user(fingerprint) for fingerprint in FINGERPRINTS[:2])
    file.write(b"x")
    old, new = (learned_folder() / f"{FINGERPRINTS[0]}.{name}.partial" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    other.write(b"y")
    assert not old.exists()
    assert new.exists()
    assert file.read() == b"x"
    assert file.size == 5
    file.remove()
    file.remove()
    assert names() == [other.path.name]


def test_a_file_that_is_nobodys_stays() -> None:
    learned_folder().mkdir(parents=True)
    (learned_folder() / "notes.txt").write_text("mine")
    for fingerprint in FINGERPRINTS:
        LearnedFile.of_user(fingerprint).write(b"x")
    for file in learned_files():
        file.remove()
    assert names() == ["notes.txt"]


def test_an_interrupt_in_the_middle_of_writing_leaves_the_old_file(monkeypatch) -> None:
    file = LearnedFile.of_user(FINGERPRINTS[0])
    file.write(b"old")

    def interrupted(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        file.write(b"new")
    assert file.read() == b"old"
    assert names() == [file.path.name]


def test_the_size_does_not_count_what_another_process_has_just_renamed(monkeypatch) -> None:
    file = LearnedFile.of_user(FINGERPRINTS[0])
    file.write(b"some tokens")
    gone = learned_folder() / f"{FINGERPRINTS[0]}.gone.partial"
    monkeypatch.setattr(module, "_listed", lambda _: [gone, file.path])
    assert file.size == len(b"some tokens")
