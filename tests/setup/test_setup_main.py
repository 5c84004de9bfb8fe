import ast
import sys
from pathlib import Path

import pytest

from recycle_cpp.errors import InstallError
from recycle_cpp.setup import __main__ as entry
from recycle_cpp.setup import steps

SOURCES = sorted(Path(entry.__file__).parent.glob("*.py"))


@pytest.mark.parametrize(
    ("version", "platform", "told"),
    [
        ((3, 9), "darwin", "make PYTHON=python3.11"),
        ((3, 10), "linux", "3.10 is too old"),
        ((3, 12), "win32", "WSL"),
    ],
)
def test_where_the_set_up_cannot_run_one_line_says_so(version, platform, told):
    reason = entry.unsupported(version, platform)
    assert told in reason
    assert "\n" not in reason


def test_it_runs_on_the_oldest_python_that_the_package_takes():
    assert entry.unsupported((3, 11), "linux") is None


def run(monkeypatch, error=None):
    def fake(layout, environ, *, dev):
        if error:
            raise error

    monkeypatch.setattr(steps, "set_up", fake)
    monkeypatch.setattr(entry, "ENDED", ())  # the handlers would outlive the test
    monkeypatch.setattr(sys, "argv", ["setup"])
    return entry.main()


def test_success_is_zero_and_silent(monkeypatch, capsys):
    assert run(monkeypatch) == 0
    assert capsys.readouterr() == ("", "")


def test_a_failed_step_shows_its_log_lines_then_one_error_line(monkeypatch, capsys):
    error = InstallError("building failed: read the log; the whole log is /x.log")
    error.add_note("x.cpp:1: error: no")
    assert run(monkeypatch, error) == 2
    assert capsys.readouterr().err.splitlines() == ["    x.cpp:1: error: no", f"error: {error}"]


def test_a_full_disk_is_one_line(monkeypatch, capsys):
    assert run(monkeypatch, OSError(28, "No space left on device", "/cache/x")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: the set-up stopped: No space left on device (/cache/x)")


def test_ctrl_c_ends_quietly(monkeypatch, capsys):
    assert run(monkeypatch, KeyboardInterrupt()) == 130
    assert "Traceback" not in capsys.readouterr().err


def imported_modules(source):
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_set_up_needs_nothing_that_must_be_installed_first(source):
    allowed = {"recycle_cpp.errors", *(["llama_cpp"] if source.name == "probe.py" else [])}
    for name in imported_modules(source):
        own = name.startswith("recycle_cpp.setup") or name in allowed
        assert own or name.partition(".")[0] in sys.stdlib_module_names, name
