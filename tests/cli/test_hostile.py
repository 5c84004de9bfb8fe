"""Outputs that cannot be written, inputs without end, folders that are not there: one line each, no traceback."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recycle_cpp.bench.prompts import read_prompts
from recycle_cpp.cli import prompt, text_input
from recycle_cpp.errors import ModelError, UsageError
from recycle_cpp.models.folders import cache_folder
from recycle_cpp.models.registry import Registry


def run_on_full_output(*arguments: str) -> subprocess.CompletedProcess[str]:
    with Path("/dev/full").open("w") as full:
        return subprocess.run(
            [sys.executable, "-m", "recycle_cpp.cli.main", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["models"], ["--help"], ["models", "--json"]])
def test_an_output_that_is_full_is_one_line(arguments: list[str]) -> None:
    done = run_on_full_output(*arguments)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("error: the output cannot be written (No space left")


def test_a_prompt_without_end_is_refused(monkeypatch, call) -> None:
    monkeypatch.setattr(text_input, "MOST_BYTES", 1 << 20)
    for arguments, stdin in ((["-f", "/dev/zero"], b""), ([], b"x" * ((1 << 20) + 1))):
        status, out, err = call("generate", "-m", "m", *arguments, stdin=stdin)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "is larger than 1 MiB" in err


def test_standard_input_that_has_nothing_yet_is_one_line(monkeypatch) -> None:
    class Empty(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer) -> None:
            return None

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Empty())))
    with pytest.raises(UsageError, match="nothing to read yet"):
        prompt.read_prompt(None, None, raw=False)


def test_brackets_without_end_are_no_prompt_and_no_list_of_models(tmp_path: Path) -> None:
    path = tmp_path / "deep"
    path.write_text("[" * 100_000)
    with pytest.raises(UsageError, match="is not a prompt"):
        read_prompts(path)
    path.write_text("a=" + "[" * 100_000)
    with pytest.raises(ModelError, match="is not valid TOML"):
        Registry.load(path)


def test_a_user_without_a_home_gets_a_cache_folder_all_the_same(monkeypatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert cache_folder().name == f"recycle-cpp-{os.getuid()}"


@pytest.mark.parametrize("target", ["x" * 260, "/dev/null", "/proc/x.json", "."])
def test_a_report_that_cannot_be_written_is_refused_before_the_work(call, fake, target: str) -> None:
    status, out, err = call("bench", "-m", "m", "--json", target)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert fake.loaded == []


@pytest.mark.parametrize("option", ["-f", "--grammar-file", "--json-schema-file"])
def test_a_pipe_that_nobody_writes_to_is_waited_for_and_named(tmp_path: Path, start, option: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    more = [] if option == "-f" else ["-p", "x"]
    process = start("generate", "-m", "m", option, str(pipe), *more)
    assert process.stderr.readline() == f"waiting for {pipe}\n".encode()
    with pipe.open("w") as writer:
        writer.write({"-f": "hello", "--grammar-file": 'root ::= "a"'}.get(option, "{}"))
    assert process.wait(30) == 0


def test_a_mark_of_byte_order_is_no_text(call, fake, tmp_path: Path) -> None:
    path = tmp_path / "marked"
    path.write_bytes("\ufeffhello".encode())
    assert call("generate", "-m", "m", "-f", str(path)).out == "hello\n"
    assert call("generate", "-m", "m", stdin=path.read_bytes()).out == "hello\n"
    assert call("chat", "-m", "m", stdin=path.read_bytes()).out == "hello\n"
    path.write_bytes("\ufeff{}".encode())
    assert call("generate", "-m", "m", "-p", "x", "--json-schema-file", str(path)).out == "x\n"
