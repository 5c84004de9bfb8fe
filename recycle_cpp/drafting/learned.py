"""What drafting has learned of one model, as bytes and back, and when to keep it."""

from __future__ import annotations

import contextlib
import hashlib
import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recycle_cpp.drafting.knowledge import Knowledge

KIND = "recycle-cpp learned state"
# To be raised when the meaning of an array, a bucket or a hash changes while its name, type and shape stay.
VERSION = 1
CHECK_BYTES = 16
INTERVAL = 60.0  # seconds between two savings while requests come in


class Store(Protocol):
    """Where the bytes are kept."""

    def read(self) -> bytes | None:
        """Return what was kept, or None if nothing was.

        Raises:
            OSError: if it cannot be read.
        """

    def write(self, data: bytes) -> None:
        """Keep bytes in place of what was kept.

        Raises:
            OSError: if they cannot be kept.
        """


class Learned:
    """Keeps one model's knowledge in a store, from session to session.

    What is missing, damaged, of another model or of another version counts as empty, and a store that cannot be
    written is no fault: then drafting begins anew next time.
    """

    def __init__(self, knowledge: Knowledge, store: Store | None, model: str, interval: float = INTERVAL) -> None:
        """Take what belongs together; nothing is read yet.

        Args:
            knowledge: what is kept, and overwritten by `load`.
            store: where; None keeps nothing and loads nothing.
            model: identity of the model.
            interval: seconds between two savings by `save_if_due`.
        """
        self._knowledge = knowledge
        self._store = store
        self._model = model
        self._interval = interval
        self._saved_at = time.monotonic()
        self._kept = b""

    def load(self) -> str:
        """Replace the knowledge by what is kept.

        Returns:
            One line on why that cannot be used, or nothing.
        """
        if self._store is None:
            return ""
        try:
            data = self._store.read()
            if data is None:
                return ""
            self._knowledge.adopt(unpack(data, self._knowledge.arrays(), self._model))
        except (OSError, ValueError) as error:
            return (
                f"drafting starts with nothing: what was kept is refused ({getattr(error, 'strerror', None) or error})"
            )
        self._kept = _check(pack(self._knowledge.arrays(), self._model))
        return ""

    def save_if_due(self) -> None:
        """Save, unless that was done less than the interval ago."""
        if time.monotonic() - self._saved_at >= self._interval:
            self.save()

    def save(self) -> None:
        """Keep the knowledge, if there is something new in it. The kernels must be at rest."""
        self._saved_at = time.monotonic()
        if self._store is None or self._knowledge.is_empty:
            return
        data = pack(self._knowledge.arrays(), self._model)
        if _check(data) == self._kept:
            return
        with contextlib.suppress(OSError, ValueError):
            self._knowledge.check_integrity()  # an interrupt may have come in the middle of an update
            self._store.write(data)
            self._kept = _check(data)


def pack(arrays: Mapping[str, NDArray[Any]], model: str) -> bytes:
    """Return arrays as bytes: a head of text lines that says all but their values, the values, and a checksum."""
    parts = [_head(arrays, model), *(array.tobytes() for array in arrays.values())]
    digest = hashlib.blake2b(digest_size=CHECK_BYTES)
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])


def unpack(data: bytes, like: Mapping[str, NDArray[Any]], model: str) -> dict[str, NDArray[Any]]:
    """Return packed arrays as read-only views of the bytes.

    The head is compared with the one that is wanted and never parsed.

    Args:
        data: what `pack` returned, or anything.
        like: arrays of the wanted names, types and shapes, in the wanted order.
        model: the wanted model.

    Raises:
        ValueError: if the bytes are damaged, of another model, or of another version.
    """
    body = data[:-CHECK_BYTES]
    if hashlib.blake2b(body, digest_size=CHECK_BYTES).digest() != _check(data):
        raise ValueError("damaged")
    head = _head(like, model)
    if not body.startswith(_identity(model)):
        raise ValueError("of another version or another model")
    if not body.startswith(head) or len(body) != len(head) + sum(array.nbytes for array in like.values()):
        raise ValueError("of another version")
    arrays, at = {}, len(head)
    for name, array in like.items():
        arrays[name] = np.frombuffer(body, array.dtype, array.size, at).reshape(array.shape)
        at += array.nbytes
    return arrays


def _check(data: bytes) -> bytes:
    return data[-CHECK_BYTES:]


def _identity(model: str) -> bytes:
    return f"{KIND} {VERSION}\nmodel {model}\n".encode()


def _head(arrays: Mapping[str, NDArray[Any]], model: str) -> bytes:
    """Return the lines before the values: kind, version, model, then name, type (byte order too) and shape of each."""
    table = "".join(f"{name} {array.dtype.str} {array.shape}\n" for name, array in arrays.items())
    return _identity(model) + f"{table}\n".encode()
