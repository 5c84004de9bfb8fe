"""SmolLM2 behind llama_cpp's class and behind ours, with the same settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from comparing import SETTINGS, Remembered

from recycle_cpp import Llama

SMOLLM = "smollm2-135m-instruct-q4_1.gguf"
KINDS = {"plain": {"draft": "off"}, "exact": {"exact": True}, "auto": {}}


@pytest.fixture(scope="session")
def smollm_file(model_file) -> str:
    return str(model_file(SMOLLM))


@pytest.fixture(scope="session")
def cache_home(tmp_path_factory) -> Iterator[Path]:
    """A folder of the tests' own for what is measured and learned."""
    folder = tmp_path_factory.mktemp("drop-in-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session")
def theirs(smollm_file):
    """llama_cpp's own; `logits_all`, since it cannot report log probabilities without."""
    import llama_cpp

    llama = llama_cpp.Llama(smollm_file, logits_all=True, **SETTINGS)
    yield Remembered(llama)
    llama.close()


@pytest.fixture(scope="session")
def opened(smollm_file, cache_home):
    """Return ours by how it drafts; each is loaded once."""
    found: dict[str, Llama] = {}

    def get(kind: str) -> Llama:
        if kind not in found:
            found[kind] = Llama(smollm_file, **SETTINGS, **KINDS[kind])
        return found[kind]

    yield get
    for llama in found.values():
        llama.close()


@pytest.fixture(params=["plain", "auto"])
def ours(request, opened) -> Llama:
    """Ours, without drafts and with them."""
    return opened(request.param)


@pytest.fixture
def llama(opened) -> Llama:
    """Ours as it is by default."""
    return opened("auto")
