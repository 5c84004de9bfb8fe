"""Which build of llama-cpp-python this machine gets, and how it is made."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from recycle_cpp.errors import InstallError
from recycle_cpp.setup.commands import pip_environment, run_logged
from recycle_cpp.setup.machine import Machine
from recycle_cpp.setup.patch import Patch, unpack, write_mark
from recycle_cpp.setup.progress import BuildProgress, say, step

PACKAGE = "llama-cpp-python"

# GCC drops the stores of the AMX tile configuration: SIGILL at the first wide batch (llama.cpp#26954).
AMX_CURE = "-fno-tree-dse -fno-dse"
AMX_OFF = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"  # holds against -march=native, wherever that stands

ALWAYS = "-DLLAVA_BUILD=OFF"  # no multimodal part: it halves the build time
CUDA = "-DGGML_CUDA=on"


@dataclass(frozen=True)
class BuildPlan:
    """One build: what it depends on (readable, hashed to its key), and the environment and patch that make it so."""

    inputs: Mapping[str, str]
    variables: Mapping[str, str]
    patch: Patch | None = None

    @property
    def key(self) -> str:
        """A short digest of the inputs: two builds with one key are interchangeable."""
        return hashlib.sha256(json.dumps(dict(self.inputs), sort_keys=True).encode()).hexdigest()[:12]

    @property
    def version(self) -> str:
        """The version of llama-cpp-python."""
        return self.inputs["version"]

    @property
    def can_drop_amx(self) -> bool:
        """Whether a second try without AMX would be another build."""
        return "amx_" in self.inputs["cpu_flags"] and AMX_OFF not in self.inputs["cxxflags"]

    def __str__(self) -> str:
        """Describe the build in a few words for people."""
        words = [self.inputs[name] for name in ("cuda", "cxx", "cmake_args", "cxxflags")]
        return ", ".join(filter(None, ["" if self.patch else "stock llama.cpp", *words]))


def cmake_arguments(machine: Machine, environ: Mapping[str, str]) -> str:
    """Return the CMake arguments: the user's own if any, else those of this machine's best backend."""
    if own := environ.get("CMAKE_ARGS", "").strip():
        return own
    return f"{ALWAYS} {CUDA}" if machine.can_use_cuda else ALWAYS


def cxx_flags(machine: Machine, environ: Mapping[str, str]) -> str:
    """Return the C++ flags: the user's own, then the cure where GCC would miscompile the AMX code."""
    own = environ.get("CXXFLAGS", "").strip()
    needs_cure = machine.cxx.is_gcc and machine.has_amx
    return f"{own} {AMX_CURE}".strip() if needs_cure else own


def plan_build(version: str, machine: Machine, environ: Mapping[str, str], patch: Patch | None = None) -> BuildPlan:
    """Choose the build of llama-cpp-python for this machine, with llama.cpp changed by a patch if one is given.

    The compilers are named outright: left alone, the build takes those that Python was built with.
    """
    arguments, flags = cmake_arguments(machine, environ), cxx_flags(machine, environ)
    uses_cuda = re.search(r"GGML_CUDA(:BOOL)?=(on|1|true|yes)\b", arguments, re.IGNORECASE) is not None
    inputs = {
        "version": version,
        "system": machine.system,
        "architecture": machine.architecture,
        "cpu_flags": " ".join(sorted(machine.cpu_flags)),
        "cc": machine.cc.version,
        "cxx": machine.cxx.version,
        "cmake_args": arguments,
        "cflags": environ.get("CFLAGS", "").strip(),
        "cxxflags": flags,
        "ldflags": environ.get("LDFLAGS", "").strip(),
        "cuda": f"CUDA {machine.cuda_release} for {', '.join(machine.gpus)}" if uses_cuda else "",
    }
    if patch:
        inputs["patch"] = patch.digest
    variables = {
        "CC": machine.cc.command,
        "CXX": machine.cxx.command,
        "CMAKE_ARGS": arguments,
        "CXXFLAGS": flags,
    }
    if uses_cuda and machine.nvcc:
        variables["CUDACXX"] = machine.nvcc
    return BuildPlan(inputs, variables, patch)


def without_amx(plan: BuildPlan) -> BuildPlan:
    """Return the same build with the AMX instructions off and everything else of the CPU on."""
    changed = {name: f"{plan.inputs[name]} {AMX_OFF}".strip() for name in ("cflags", "cxxflags")}
    variables = {"CFLAGS": changed["cflags"], "CXXFLAGS": changed["cxxflags"]}
    return replace(plan, inputs={**plan.inputs, **changed}, variables={**plan.variables, **variables})


def build_environment(plan: BuildPlan, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the build.

    SOURCE_DATE_EPOCH is left out: where it is set, ggml silently builds for no CPU in particular. Ninja takes
    all cores by itself; make, which stands in for it on some systems, has to be told.
    """
    kept = {name: value for name, value in environ.items() if name != "SOURCE_DATE_EPOCH"}
    return pip_environment({"CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1), **kept, **plan.variables})


def patched_source(source: Path, plan: BuildPlan) -> Path:
    """Unpack a source archive beside it, apply the plan's patch, and return what is to be built.

    That is the archive itself if there is no patch, or if it is not the source that the patch was written for.

    Raises:
        InstallError: The archive cannot be unpacked, or safely.
    """
    if plan.patch is None:
        return source
    root = unpack(source, source.parent)
    if reason := plan.patch.misfit(root):
        say(f"llama.cpp is built unpatched, wide evaluations will be slower: in {source.name}, {reason}")
        return source
    plan.patch.apply(root)
    write_mark(root, plan.key, plan.patch)
    return root


def build_wheel(plan: BuildPlan, python: Path, folder: Path, log: Path, environ: Mapping[str, str]) -> Path:
    """Build the wheel into `folder` and return its path.

    The source may come from pip's cache; the wheel never does, for pip's cache knows neither flags nor CPU.

    Raises:
        InstallError: The source could not be fetched or the build failed.
    """
    pip = [str(python), "-m", "pip"]
    source_only = ["--no-deps", "--no-binary", PACKAGE]
    variables = build_environment(plan, environ)
    with step(f"fetching the source of {PACKAGE} {plan.version}"):
        fetch = [*pip, "download", *source_only, "--dest", str(folder), f"{PACKAGE}=={plan.version}"]
        run_logged(f"fetching {PACKAGE} {plan.version}", fetch, log, variables)
        (archive,) = _only(folder, "*.tar.gz")
    source = patched_source(archive, plan)
    command = [*pip, "wheel", "-v", *source_only, "--no-cache-dir", "--wheel-dir", str(folder), str(source)]
    with BuildProgress("building llama.cpp") as progress:
        run_logged(f"building {PACKAGE} {plan.version}", command, log, variables, progress)
    (wheel,) = _only(folder, "*.whl")
    return wheel


def _only(folder: Path, pattern: str) -> tuple[Path]:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise InstallError(f"pip left {len(found)} files {pattern} in {folder}, one was expected: run again")
    return (found[0],)
