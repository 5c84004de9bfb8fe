import io

import pytest
from recorded import BUILD_LOG

from recycle_cpp.errors import InstallError
from recycle_cpp.setup.progress import BuildProgress, duration, fraction_done, step, time_left


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """Each reading is later than the one before by `stride` seconds."""

    def __init__(self, stride):
        self.stride, self.now = stride, 0.0

    def __call__(self):
        self.now += self.stride
        return self.now


def test_the_share_done_is_read_from_each_build_line_of_a_real_log():
    found = [f for line in BUILD_LOG.splitlines() if (f := fraction_done(line)) is not None]
    assert found == [1 / 140, 2 / 140, 0.1, 0.5, 1.0]


def test_make_s_percentages_are_read_too():
    assert fraction_done("[  7%] Building CXX object ggml.cpp.o") == 0.07


@pytest.mark.parametrize("line", ["[0/1] Re-running CMake...", "  [notice] new pip", "-- Configuring done", ""])
def test_other_lines_say_nothing_about_the_share(line):
    assert fraction_done(line) is None


@pytest.mark.parametrize(("seconds", "text"), [(0.44, "0.4 s"), (38.2, "38 s"), (312, "5 min 12 s")])
def test_durations_are_written_for_people(seconds, text):
    assert duration(seconds) == text


def test_no_estimate_is_given_before_there_is_ground_for_one():
    assert time_left(0.5, 3) == ""
    assert time_left(0.01, 60) == ""


def test_the_estimate_follows_from_the_share_done():
    assert time_left(0.25, 60) == "about 3 min left"
    assert time_left(0.9, 180) == "less than a minute left"


def show(out, lines, stride=10.0):
    with BuildProgress("building llama.cpp", out, Clock(stride)) as progress:
        for line in lines:
            progress.line(line)
    return out.getvalue()


def test_a_log_file_gets_a_line_every_ten_percent():
    shown = show(io.StringIO(), [f"[{n}/200] g++ -c x.cpp\n" for n in range(1, 201)]).splitlines()
    assert [line.split()[0] for line in shown[1:-1]] == [str(n) for n in range(10, 101, 10)]
    assert "left" in shown[3]
    assert shown[0] == "  building llama.cpp ..."
    assert shown[-1].startswith("  building llama.cpp: done in ")


def test_a_terminal_gets_one_line_that_is_drawn_over():
    shown = show(Terminal(), ["[1/2] g++\n", "", "[2/2] g++\n"])
    assert shown.count("\n") == 1
    assert "[########........]  50 %" in shown
    assert shown.rstrip().endswith("s")


def test_a_terminal_is_drawn_anew_only_when_something_changed():
    shown = show(Terminal(), ["[1/2] g++\n", *["x.cpp:1: warning: wide\n"] * 1000], stride=0.0)
    assert shown.count("\r") == 2


def test_the_line_fits_a_terminal_of_80_columns():
    shown = show(Terminal(), ["[1/2] g++\n", "[11/20] g++\n"], stride=333.0)
    assert "left\x1b[K" in shown


def test_a_build_that_fails_says_after_how_long():
    out = io.StringIO()
    with pytest.raises(InstallError), BuildProgress("building", out, Clock(10.0)):
        raise InstallError("no")
    assert "building: failed after" in out.getvalue()


def test_a_step_is_one_line_with_its_seconds():
    out = io.StringIO()
    with step("making .venv", out):
        pass
    assert out.getvalue() == "  making .venv ... 0.0 s\n"


def test_a_step_that_fails_ends_its_line():
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt), step("making .venv", out):
        raise KeyboardInterrupt
    assert out.getvalue() == "  making .venv ... failed\n"
