"""SmolLM2 behind a Runtime, with a cache folder of its own for what is measured."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager

import pytest
from real_prompts import SMOLLM

from recycle_cpp.runtime import Runtime
from recycle_cpp.types import LoadOptions


@pytest.fixture(scope="session")
def own_cache(tmp_path_factory):
    """Return a context in which digests and profiles are kept away from the user's, and probes are short."""
    folder = str(tmp_path_factory.mktemp("cache"))

    @contextmanager
    def in_use():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", folder)
            patch.setattr("recycle_cpp.backend.loaded.PROBE_CONTEXT", 256)  # the prompts here are short
            yield

    return in_use


@pytest.fixture(scope="module", autouse=True)
def own_cache_in_tests(own_cache):
    """Keep the tests of this folder, and no others, on that cache."""
    with own_cache():
        yield


@pytest.fixture(scope="session")
def loader(model_file, own_cache):
    """Return a context that gives a function to load SmolLM2 with, and closes what it loaded at its end."""

    @contextmanager
    def loading():
        with ExitStack() as opened:

            def open_with(**options) -> Runtime:
                settings = {"n_ctx": 512, "n_threads": 1, "flash_attention": "on", "learned": False, **options}
                with own_cache():  # a session's fixture may be made before a module's
                    runtime = Runtime.load(str(model_file(SMOLLM)), LoadOptions(**settings))
                opened.callback(runtime.close)
                return runtime

            yield open_with

    return loading


@pytest.fixture(scope="module")
def load(loader):
    """Load SmolLM2 with options of one's own, one thread unless said otherwise; closed with the module."""
    with loader() as open_with:
        yield open_with


@pytest.fixture(scope="session")
def smollm(loader) -> Runtime:
    """SmolLM2 with flash attention, where chains are exact."""
    with loader() as open_with:
        yield open_with()
