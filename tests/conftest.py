from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadlines: the machine may be busy, and the first call of a kernel may compile it.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


@pytest.fixture(scope="session")
def model_file():
    """Return the path of a GGUF file by its name; skip where the file is not there."""
    folder = Path(os.environ.get("RECYCLE_CPP_MODELS") or Path.home() / ".cache/recycle-cpp/models")

    def find(name: str) -> Path:
        if not (folder / name).is_file():
            pytest.skip(f"{name} is not in {folder}")
        return folder / name

    return find
