from dataclasses import replace

import pytest
from recorded import CLANG, GCC, XEON

from recycle_cpp.setup.build import AMX_CURE, AMX_OFF, build_environment, plan_build, without_amx

GPU = replace(XEON, nvcc="/usr/local/cuda/bin/nvcc", cuda_release="V13.0.88", gpus=("NVIDIA H200",))


def plan(machine=XEON, version="0.3.36", **environ):
    return plan_build(version, machine, environ)


def test_gcc_on_an_amx_cpu_gets_the_cure():
    assert plan().variables["CXXFLAGS"] == AMX_CURE


def test_the_users_flags_stand_in_front_of_the_cure():
    assert plan(CXXFLAGS="-O2").variables["CXXFLAGS"] == f"-O2 {AMX_CURE}"


def test_clang_needs_no_cure():
    assert plan(replace(XEON, cxx=CLANG)).variables["CXXFLAGS"] == ""


def test_a_cpu_without_amx_needs_no_cure():
    assert plan(replace(XEON, cpu_flags=("avx2",))).variables["CXXFLAGS"] == ""


def test_a_cpu_build_leaves_the_multimodal_part_out():
    assert plan().variables["CMAKE_ARGS"] == "-DLLAVA_BUILD=OFF"


def test_a_toolkit_and_a_gpu_give_cuda():
    found = plan(GPU)
    assert found.variables["CMAKE_ARGS"] == "-DLLAVA_BUILD=OFF -DGGML_CUDA=on"
    assert found.variables["CUDACXX"] == "/usr/local/cuda/bin/nvcc"


@pytest.mark.parametrize("lacking", [{"nvcc": None, "cuda_release": None}, {"gpus": ()}, {"cuda_release": None}])
def test_a_toolkit_without_a_gpu_or_a_gpu_without_a_toolkit_gives_no_cuda(lacking):
    assert "CUDA" not in plan(replace(GPU, **lacking)).variables["CMAKE_ARGS"]


def test_a_users_cmake_args_win_but_the_cure_stays():
    found = plan(GPU, CMAKE_ARGS="-DGGML_VULKAN=1")
    assert found.variables["CMAKE_ARGS"] == "-DGGML_VULKAN=1"
    assert found.variables["CXXFLAGS"] == AMX_CURE


def test_cuda_turned_off_by_the_user_is_off():
    found = plan(GPU, CMAKE_ARGS="-DGGML_CUDA=OFF")
    assert found.inputs["cuda"] == ""
    assert "CUDACXX" not in found.variables


def test_the_key_is_short_and_the_same_for_the_same_build():
    assert plan().key == plan().key
    assert len(plan().key) == 12


def test_the_key_does_not_depend_on_the_order_of_the_cpu_flags():
    assert plan(replace(XEON, cpu_flags=XEON.cpu_flags[::-1])).key == plan().key


@pytest.mark.parametrize("flag", XEON.cpu_flags)
def test_the_key_changes_when_any_cpu_flag_goes(flag):
    assert plan(replace(XEON, cpu_flags=tuple(f for f in XEON.cpu_flags if f != flag))).key != plan().key


@pytest.mark.parametrize(
    "other",
    [
        plan(version="0.3.37"),
        plan(replace(XEON, architecture="aarch64")),
        plan(replace(XEON, system="Darwin")),
        plan(replace(XEON, cxx=replace(GCC, version="GCC (Debian 12.2.0-15) 12.2.0"))),
        plan(CMAKE_ARGS="-DLLAVA_BUILD=ON"),
        plan(CXXFLAGS="-O2"),
        plan(CFLAGS="-O2"),
        plan(LDFLAGS="-s"),
        plan(GPU),
    ],
)
def test_the_key_changes_with_each_input(other):
    assert other.key != plan().key


def test_another_cuda_or_another_gpu_is_another_build():
    keys = {
        plan(GPU).key,
        plan(replace(GPU, cuda_release="V12.4.131")).key,
        plan(replace(GPU, gpus=("RTX 4090",))).key,
    }
    assert len(keys) == 3


def test_how_the_compiler_is_called_is_no_part_of_the_key():
    assert plan(replace(XEON, cxx=replace(GCC, command="x86_64-linux-gnu-g++"))).key == plan().key


def test_the_build_without_amx_is_another_build_and_has_no_further_fall_back():
    other = without_amx(plan(CFLAGS="-O2"))
    assert other.key != plan(CFLAGS="-O2").key
    assert other.variables["CXXFLAGS"] == f"{AMX_CURE} {AMX_OFF}"
    assert other.variables["CFLAGS"] == f"-O2 {AMX_OFF}"
    assert (plan().can_drop_amx, other.can_drop_amx) == (True, False)


def test_a_cpu_without_amx_has_none_to_drop():
    assert not plan(replace(XEON, cpu_flags=("avx2",))).can_drop_amx


def test_the_build_runs_with_named_compilers_and_for_this_very_cpu():
    environ = build_environment(plan(), {"PATH": "/bin", "SOURCE_DATE_EPOCH": "1", "CXXFLAGS": "-O1"})
    assert (environ["CC"], environ["CXX"], environ["PATH"]) == ("g++", "g++", "/bin")
    assert environ["CXXFLAGS"] == AMX_CURE
    assert "SOURCE_DATE_EPOCH" not in environ


def test_a_users_number_of_jobs_is_kept():
    assert build_environment(plan(), {"CMAKE_BUILD_PARALLEL_LEVEL": "1"})["CMAKE_BUILD_PARALLEL_LEVEL"] == "1"
