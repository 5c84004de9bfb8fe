"""The public namespace: exactly what the package promises, and each name is there."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import recycle_cpp
import recycle_cpp.errors
import recycle_cpp.types


@pytest.mark.parametrize("name", recycle_cpp.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(recycle_cpp, name) is not None


def test_no_other_name_is() -> None:
    assert dir(recycle_cpp) == sorted(recycle_cpp.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Model'"):
        recycle_cpp.Model  # noqa: B018


def test_every_error_is_public() -> None:
    errors = {name for name, thing in vars(recycle_cpp.errors).items() if isinstance(thing, type)}
    assert errors <= set(recycle_cpp.__all__)


def test_late_names_come_from_where_they_are_said_to() -> None:
    for name, module in recycle_cpp._LATE.items():
        assert getattr(recycle_cpp, name) is getattr(import_module(module), name)


def test_the_records_alone_load_neither_numba_nor_llama_cpp() -> None:
    code = "import sys, recycle_cpp; recycle_cpp.GenerateOptions(); print({'numba', 'llama_cpp'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
