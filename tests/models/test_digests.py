import hashlib
import os
from pathlib import Path

import pytest

from recycle_cpp.errors import ModelFileError
from recycle_cpp.models import fingerprint, sha256
from recycle_cpp.models.known_digests import KnownDigests

MIB = 1 << 20


def test_sha256_is_the_standard_one_and_shows_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(2 * MIB + 17))
    shown: list[int] = []
    assert sha256(path, shown.append) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert shown[-1] == 2 * MIB + 17


def test_a_copy_has_the_same_fingerprint_whatever_its_name_and_time(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(os.urandom(3 * MIB))
    two.write_bytes(one.read_bytes())
    os.utime(two, (1, 1))
    assert fingerprint(one) == fingerprint(two)
    assert len(fingerprint(one)) == 32


@pytest.mark.parametrize("size", [0, 1, 1000, 64 << 10, MIB, MIB + 1, 5 * MIB])
def test_a_fingerprint_sees_the_size_the_start_and_the_end(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    content = bytearray(size)
    path.write_bytes(content)
    seen = {fingerprint(path)}
    path.write_bytes(content + b"\0")
    seen.add(fingerprint(path))
    for position in {0, size - 1} if size else set():
        changed = bytearray(content)
        changed[position] = 1
        path.write_bytes(changed)
        seen.add(fingerprint(path))
    assert len(seen) == 2 + len({0, size - 1} if size else set())


def test_a_fingerprint_sees_sixteen_blocks_between_and_nothing_else(tmp_path: Path) -> None:
    size, block = 40 * MIB, 64 << 10
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(size)
    plain = fingerprint(path)

    def changed_at(position: int) -> bool:
        with path.open("r+b") as file:
            file.seek(position)
            file.write(b"x")
            file.flush()
            changed = fingerprint(path) != plain
            file.seek(position)
            file.write(b"\0")
        return changed

    starts = [i * (size - block) // 15 for i in range(16)]
    assert all(changed_at(start + 1) for start in starts)
    assert not changed_at(starts[3] + block + 1)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    for function in (sha256, fingerprint):
        with pytest.raises(ModelFileError, match="cannot be read"):
            function(tmp_path / "none")


class TestKnownDigests:
    def known(self, tmp_path: Path) -> KnownDigests:
        return KnownDigests(tmp_path / "memory" / "digests.json")

    def test_a_file_is_hashed_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"model")
        first = self.known(tmp_path).get(path, progress=False)
        monkeypatch.setattr("recycle_cpp.models.known_digests.sha256", None)
        assert self.known(tmp_path).get(path, progress=False) == first == hashlib.sha256(b"model").hexdigest()

    def test_a_changed_file_is_hashed_again(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"model")
        first = self.known(tmp_path).get(path, progress=False)
        path.write_bytes(b"MODEL")
        os.utime(path, (1, 1))
        assert self.known(tmp_path).get(path, progress=False) != first

    @pytest.mark.parametrize("memory", ["", "[]", "{", '{"FILE": 3}', '{"FILE": {"sha256": "x"}}'])
    def test_a_damaged_memory_costs_time_only(self, tmp_path: Path, memory: str) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"model")
        known = self.known(tmp_path)
        known.memory.parent.mkdir()
        known.memory.write_text(memory.replace("FILE", str(path)))
        assert known.get(path, progress=False) == hashlib.sha256(b"model").hexdigest()

    def test_a_memory_that_cannot_be_written_costs_time_only(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"model")
        known = KnownDigests(path / "no folder" / "digests.json")
        assert known.get(path, progress=False) == hashlib.sha256(b"model").hexdigest()

    def test_files_that_are_gone_are_forgotten_and_nothing_else_is_left_beside(self, tmp_path: Path) -> None:
        one, two = tmp_path / "one", tmp_path / "two"
        for path in (one, two):
            path.write_bytes(b"model")
        known = self.known(tmp_path)
        known.get(one, progress=False)
        one.unlink()
        known.get(two, progress=False)
        assert str(one) not in known.memory.read_text()
        assert list(known.memory.parent.iterdir()) == [known.memory]
