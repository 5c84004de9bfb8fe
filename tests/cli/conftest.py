from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from fake_runtime import FakeRuntime, fake_module

from recycle_cpp.cli.main import run


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture(scope="session")
def model(model_file) -> str:
    """Return the path of SmolLM2."""
    return str(model_file("smollm2-135m-instruct-q4_1.gguf"))


@pytest.fixture
def fake(monkeypatch) -> FakeRuntime:
    module = fake_module()
    monkeypatch.setitem(sys.modules, "recycle_cpp.runtime", module)
    return module.Runtime


@pytest.fixture
def call(fake, capsys, monkeypatch):
    """Run a command line in this process on the fake runtime, with the given bytes on standard input."""

    def call_with(*arguments: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="ascii"))
        status = run(arguments)
        return Outcome(status, *capsys.readouterr())

    return call_with


@pytest.fixture
def start():
    """Start a command line on the fake runtime as a process, and end it if it still runs after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start_with(*arguments: str, **settings) -> subprocess.Popen[bytes]:
        script = Path(__file__).with_name("fake_runtime.py")
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen([sys.executable, str(script), *arguments], **{**streams, **settings}))
        return started[-1]

    yield start_with
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
