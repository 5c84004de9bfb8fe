import os
import sys
import time

import pytest
from recorded import BUILD_LOG, FAILED_BUILD_LOG, UNREACHED_INDEX_LOG

from recycle_cpp.errors import InstallError
from recycle_cpp.setup.commands import EXCERPT_LINES, advice, excerpt, run_logged


def test_the_excerpt_of_a_failed_build_shows_the_compilers_error_and_no_noise():
    lines = [line.strip() for line in excerpt(FAILED_BUILD_LOG)]
    assert lines[:2] == [
        "FAILED: CMakeFiles/x.dir/a.cpp.o",
        "a.cpp:1:18: error: 'g' was not declared in this scope",
    ]
    assert not any("WARNING" in line or "ccache" in line or "Werror" in line for line in lines)


def test_a_log_without_errors_shows_its_last_lines_but_no_compiler_calls():
    lines = excerpt(BUILD_LOG)
    assert lines[-1].strip() == "*** Making wheel..."
    assert not any("[140/140]" in line for line in lines)


def test_the_excerpt_is_short_and_keeps_the_last_errors():
    lines = excerpt("\n".join(f"x.cpp:{n}:1: error: {'wide ' * 100}" for n in range(100)))
    assert len(lines) == EXCERPT_LINES
    assert lines[-1].startswith("x.cpp:99:1")
    assert max(map(len, lines)) <= 160


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (UNREACHED_INDEX_LOG, "check the network"),
        ("ERROR: No matching distribution found for x==1", "pip's settings"),
        ("c++: fatal error: Killed signal terminated program cc1plus", "CMAKE_BUILD_PARALLEL_LEVEL=1"),
        ("/tmp/x.s: fatal error: write: No space left on device", "disk space"),
        ("g++: error: unrecognized command-line option '-bogus-flag'", "CXXFLAGS"),
        ("CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage", "compiler"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'", "GGML_CUDA=OFF"),
        (FAILED_BUILD_LOG, "read the log"),
    ],
)
def test_the_advice_fits_the_log(log, told):
    assert told in advice(log)


class Ears:
    def __init__(self):
        self.heard = []

    def line(self, text):
        self.heard.append(text)


def python(source):
    return [sys.executable, "-c", source]


def test_output_goes_to_the_log_and_to_the_listener(tmp_path):
    ears, log = Ears(), tmp_path / "logs" / "x.log"
    run_logged("talking", python("import sys; print('one'); sys.stderr.write('two\\n')"), log, os.environ, ears)
    assert sorted(log.read_text().split()) == ["one", "two"]
    assert sorted(line for line in ears.heard if line) == ["one\n", "two\n"]


def test_a_silent_second_is_told_to_the_listener(tmp_path):
    ears = Ears()
    run_logged("sleeping", python("import time; time.sleep(1.3)"), tmp_path / "x.log", os.environ, ears)
    assert "" in ears.heard


def test_a_command_that_fails_names_its_log_and_carries_the_telling_lines(tmp_path):
    log = tmp_path / "x.log"
    with pytest.raises(InstallError, match="failed") as caught:
        run_logged("building it", python("import sys; print('error: no'); sys.exit(1)"), log, os.environ)
    assert str(caught.value).startswith("building it failed: ")
    assert str(log) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__notes__ == ["error: no"]


def test_bytes_that_are_no_text_do_not_stop_a_command(tmp_path):
    run_logged("bytes", python("import os; os.write(1, b'\\xff\\xfe\\n')"), tmp_path / "x.log", os.environ)


def test_a_command_asks_nothing(tmp_path):
    log = tmp_path / "x.log"
    run_logged("asking", python("import sys; print(repr(sys.stdin.read()))"), log, os.environ)
    assert log.read_text() == "''\n"


def test_an_interrupt_ends_the_command_and_its_children(tmp_path):
    class Impatient:
        def line(self, text):
            if text:
                raise KeyboardInterrupt

    source = "import subprocess; subprocess.run(['sh', '-c', 'echo started; exec sleep 60'])"
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_logged("waiting", python(source), tmp_path / "x.log", os.environ, Impatient())
    assert time.monotonic() - started < 30  # a child that lived on would keep the pipe open
