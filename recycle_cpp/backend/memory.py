"""How much memory a cache takes, and how much there is: llama.cpp itself asks, and the system kills."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from recycle_cpp.errors import UsageError

if TYPE_CHECKING:
    from recycle_cpp.backend.model import LlamaModel
    from recycle_cpp.types import CacheType

_BYTES_PER_ELEMENT: dict[CacheType, float] = {"f32": 4, "f16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32}
_SPARE = 0.95  # of what is available; the rest goes to compute buffers and to everybody else


def cache_bytes_per_token(model: LlamaModel, type_k: CacheType, type_v: CacheType) -> float:
    """Return the bytes of one cell in all layers; sliding windows are kept whole, so they save nothing."""
    return model.n_layer * (model.n_embd_k * _BYTES_PER_ELEMENT[type_k] + model.n_embd_v * _BYTES_PER_ELEMENT[type_v])


def available_bytes() -> int | None:
    """Return how much memory can be taken without swapping; None where the system does not say."""
    with suppress(OSError):
        found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
        if found:
            return 1024 * int(found.group(1))
    with suppress(OSError, ValueError, AttributeError):  # no such name on this system: all there is, at least
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def require_room(n_ctx: int, bytes_per_token: float, available: int | None) -> None:
    """Check that the cache of a context fits, before llama.cpp takes the memory.

    Raises:
        UsageError: if it does not; the message says how much would.
    """
    needed = n_ctx * bytes_per_token
    if available is None or needed <= _SPARE * available:
        return
    fits = int(_SPARE * available / bytes_per_token)
    raise UsageError(
        f"a context of {n_ctx} tokens needs {needed / 2**30:.1f} GiB for its cache, {available / 2**30:.1f} GiB are "
        f"free: give --ctx-size {fits} or less"
    )
