"""SmolLM2 behind a Runtime, with a cache folder of its own for what is measured."""

from __future__ import annotations

import pytest
from real_prompts import SMOLLM

from recycle_cpp.runtime import Runtime
from recycle_cpp.types import LoadOptions


@pytest.fixture(scope="session", autouse=True)
def own_cache_folder(tmp_path_factory):
    """Keep digests and profiles away from the user's, and probe a short context only: these prompts are short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recycle_cpp.backend.loaded.PROBE_CONTEXT", 256)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def load(model_file):
    """Load SmolLM2 with options of one's own, one thread unless said otherwise; closed at the end."""
    opened: list[Runtime] = []

    def open_with(**options) -> Runtime:
        settings = {"n_ctx": 512, "n_threads": 1, "flash_attention": "on", **options}
        opened.append(Runtime.load(str(model_file(SMOLLM)), LoadOptions(**settings)))
        return opened[-1]

    yield open_with
    for runtime in opened:
        runtime.close()


@pytest.fixture(scope="session")
def smollm(load) -> Runtime:
    """SmolLM2 with flash attention, where chains are exact."""
    return load()
