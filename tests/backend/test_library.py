"""The library's log: what is remembered of it for error messages. The version that is asked for."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from recycle_cpp.backend import library
from recycle_cpp.backend.library import TESTED_VERSION, Log, load_library
from recycle_cpp.errors import InstallError

DEBUG, INFO, WARN, ERROR, CONTINUED = range(1, 6)


def test_the_first_error_is_the_reason_and_a_warning_only_where_there_is_no_error() -> None:
    log = Log()
    log.write(INFO, b"loading\n", None)
    log.write(DEBUG, b"details\n", None)
    assert log.why() == "llama.cpp gave no reason"
    log.write(WARN, b"a long context\n", None)
    assert log.why() == "a long context"
    log.write(ERROR, b"no memory:\n  9 GB\n", None)
    log.write(ERROR, b"giving up\n", None)
    assert log.why() == "no memory: 9 GB"
    log.forget()
    assert log.why() == "llama.cpp gave no reason"


def test_a_continued_line_counts_as_what_it_continues() -> None:
    log = Log()
    log.write(INFO, b"dots ", None)
    log.write(CONTINUED, b"...\n", None)
    assert log.why() == "llama.cpp gave no reason"
    log.write(ERROR, b"\n", None)
    log.write(CONTINUED, b"the \xff reason", None)
    assert log.why() == "the \ufffd reason"


def test_the_log_goes_to_standard_error_only_when_asked_for(capsys) -> None:
    log = Log()
    log.write(ERROR, b"quiet\n", None)
    log.verbose = True
    log.write(INFO, b"loud\n", None)
    assert capsys.readouterr() == ("", "loud\n")


def test_the_tested_version_is_the_pinned_one() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    pins = [line for line in project["dependencies"] if line.startswith("llama-cpp-python")]
    assert pins == [f"llama-cpp-python=={TESTED_VERSION}"]


def test_another_version_is_refused_with_both_numbers(monkeypatch) -> None:
    monkeypatch.setattr(library, "version", lambda name: "0.0.1")
    with pytest.raises(InstallError, match=f"is 0.0.1, recycle_cpp needs {TESTED_VERSION}: run"):
        load_library.__wrapped__()  # past its cache: this process may be using the library


INTERRUPTED_AT = """
import ctypes, sys
from recycle_cpp.backend.library import load_library

library = load_library()

def interrupt(frame, event, _):
    if frame.f_code.co_name == "write" and frame.f_code.co_filename.endswith("library.py"):
        if event == sys.argv[1]:
            raise KeyboardInterrupt
    return interrupt

sys.settrace(interrupt)
library._callback(2, b"loading\\n", None)
sys.settrace(None)
try:
    library.log.raise_interrupt()
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("event", ["call", "line", "return"])
def test_an_interrupt_while_the_library_logs_is_kept_and_prints_nothing(event: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT, event]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
