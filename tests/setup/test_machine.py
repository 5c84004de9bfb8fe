import re

import pytest
from recorded import (
    APPLE_CLANG_BANNER,
    APPLE_SYSCTL,
    ARM_CPUINFO,
    CLANG_BANNER,
    GCC_BANNER,
    NVCC_BANNER,
    NVIDIA_SMI_LIST,
    XEON_CPUINFO,
)

from recycle_cpp.errors import InstallError
from recycle_cpp.setup import machine


def test_the_flags_of_the_first_cpu_are_read_sorted():
    flags = machine.cpu_flags_from_cpuinfo(XEON_CPUINFO)
    assert list(flags) == sorted(flags)
    assert {"amx_tile", "amx_int8", "avx512_vnni"} <= set(flags)


def test_an_arm_cpu_calls_its_flags_features():
    assert "asimddp" in machine.cpu_flags_from_cpuinfo(ARM_CPUINFO)


def test_a_cpuinfo_without_flags_gives_none():
    assert machine.cpu_flags_from_cpuinfo("processor : 0\n") == ()


def test_apple_features_are_those_that_are_present():
    flags = machine.cpu_flags_from_sysctl(APPLE_SYSCTL)
    assert "Apple M2" in flags
    assert "hw.optional.arm.FEAT_DotProd" in flags
    assert "hw.optional.arm.FEAT_SME" not in flags


@pytest.mark.parametrize(
    ("banner", "is_gcc", "version"),
    [
        (GCC_BANNER, True, "GCC (Debian 12.2.0-14+deb12u1) 12.2.0"),
        (CLANG_BANNER, False, "Debian clang version 14.0.6"),
        (APPLE_CLANG_BANNER, False, "Apple clang version 15.0.0 (clang-1500.3.9.4)"),
    ],
)
def test_a_banner_tells_gcc_from_clang(banner, is_gcc, version):
    found = machine.compiler_from_banner("c++", banner)
    assert (found.is_gcc, found.version) == (is_gcc, version)


def test_the_name_that_gcc_was_called_by_does_not_matter():
    other = GCC_BANNER.replace("g++ (", "x86_64-linux-gnu-g++-12 (", 1)
    assert machine.compiler_from_banner("c++", other).version == machine.compiler_from_banner("c++", GCC_BANNER).version


def test_the_cuda_release_is_read_in_full():
    assert machine.cuda_release_from_banner(NVCC_BANNER) == "V13.0.88"
    assert machine.cuda_release_from_banner("") is None


def test_a_kind_of_gpu_is_named_once():
    assert machine.gpus_from_list(NVIDIA_SMI_LIST) == ("NVIDIA H200",)
    assert machine.gpus_from_list("No devices found.\n") == ()


def fake_compiler(folder, name, banner):
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{banner}END\n")
    path.chmod(0o755)
    return path


def test_the_users_compiler_is_taken_with_its_wrapper(tmp_path):
    wrapper = tmp_path / "ccache"
    wrapper.write_text('#!/bin/sh\nexec "$@"\n')
    wrapper.chmod(0o755)
    command = f"{wrapper} {fake_compiler(tmp_path, 'clang++', CLANG_BANNER)}"
    found = machine.find_compiler("CXX", ["c++"], {"CXX": command})
    assert (found.command, found.is_gcc) == (command, False)


def test_a_compiler_that_python_was_built_with_but_is_not_here_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.sysconfig, "get_config_var", lambda name: "/nowhere/clang++ -pthread")
    here = fake_compiler(tmp_path, "g++", GCC_BANNER)
    assert machine.find_compiler("CXX", [str(here)], {}).command == str(here)


def test_pythons_own_compiler_is_taken_without_its_flags(tmp_path, monkeypatch):
    own = fake_compiler(tmp_path, "clang++", CLANG_BANNER)
    monkeypatch.setattr(machine.sysconfig, "get_config_var", lambda name: f"{own} -pthread -arch arm64")
    assert machine.find_compiler("CXX", ["c++"], {}).command == str(own)


def test_without_a_compiler_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr(machine.sysconfig, "get_config_var", lambda name: None)
    with pytest.raises(InstallError, match=r"no C\+\+ compiler found .* run `.+`") as caught:
        machine.find_compiler("CXX", ["/nowhere/c++"], {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("own", ["/nowhere/g++", 'g++ "'])
def test_a_users_compiler_that_does_not_run_is_named(own):
    with pytest.raises(InstallError, match=f"CXX is {re.escape(own)}, .*unset"):
        machine.find_compiler("CXX", ["c++"], {"CXX": own})
