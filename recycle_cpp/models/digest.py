"""Digests of files: SHA-256 as proof, and a fast fingerprint as a key for caches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from recycle_cpp.errors import ModelFileError

MEBIBYTE = 1 << 20
SAMPLE_BYTES = 64 << 10
SAMPLES = 16
SHORT = 12  # digits of a digest that messages show


def sha256(path: Path, show: Callable[[int], object] | None = None) -> str:
    """Return a file's SHA-256 as 64 hex digits.

    Args:
        path: the file.
        show: called with the number of bytes read so far, after each MiB.

    Raises:
        ModelFileError: if the file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            done = 0
            while block := file.read(MEBIBYTE):
                digest.update(block)
                done += len(block)
                if show is not None:
                    show(done)
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read ({error.strerror}); check its rights and its disk") from error
    return digest.hexdigest()


def short(digests: tuple[str, ...]) -> str:
    """Return digests as messages show them."""
    return " or ".join(digest[:SHORT] for digest in digests)


def fingerprint(path: Path) -> str:
    """Return a fast identity of a file's content as 32 hex digits.

    It is the key under which measurements of a model are kept: equal for copies of one file whatever their
    name and time, and read in a moment where SHA-256 takes seconds. It covers the size, the first and the
    last MiB and 16 blocks of 64 KiB spread evenly over the file. It is no proof of integrity: a change
    elsewhere goes unseen.

    Raises:
        ModelFileError: if the file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        size = path.stat().st_size
        digest.update(size.to_bytes(8, "little"))
        with path.open("rb") as file:
            for start, length in _samples(size):
                file.seek(start)
                digest.update(file.read(length))
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read ({error.strerror}); check its rights and its disk") from error
    return digest.hexdigest()


def _samples(size: int) -> list[tuple[int, int]]:
    """Return start and length of every block that a fingerprint covers."""
    ends = [(0, MEBIBYTE), (max(0, size - MEBIBYTE), MEBIBYTE)]
    step = max(0, size - SAMPLE_BYTES) / (SAMPLES - 1)
    return ends + [(int(i * step), SAMPLE_BYTES) for i in range(SAMPLES)]
