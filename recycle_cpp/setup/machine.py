"""What this machine is: the CPU's features, the compilers that a build takes, the CUDA toolkit, GPUs."""

import itertools
import platform
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from recycle_cpp.errors import InstallError

CUDA_HOME_NVCC = "/usr/local/cuda/bin/nvcc"  # where the toolkit lies when nobody put it on the PATH
ANSWER_SECONDS = 30.0


@dataclass(frozen=True)
class Compiler:
    """One compiler: the words that run it, its version without the name it was called by, its family."""

    command: str
    version: str
    is_gcc: bool


@dataclass(frozen=True)
class Machine:
    """All that the choice of a build depends on."""

    system: str
    architecture: str
    cpu_flags: tuple[str, ...]
    cc: Compiler
    cxx: Compiler
    nvcc: str | None
    cuda_release: str | None
    gpus: tuple[str, ...]

    @property
    def has_amx(self) -> bool:
        """Whether the CPU has tile matrix instructions."""
        return bool({"amx_tile", "amx_int8"} & set(self.cpu_flags))

    @property
    def can_use_cuda(self) -> bool:
        """Whether both a CUDA compiler and a working GPU are here."""
        return self.nvcc is not None and self.cuda_release is not None and bool(self.gpus)


def cpu_flags_from_cpuinfo(text: str) -> tuple[str, ...]:
    """Return the sorted feature flags of the first CPU in /proc/cpuinfo (x86: flags, ARM: Features)."""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return tuple(sorted(found.group(1).split())) if found else ()


def cpu_flags_from_sysctl(text: str) -> tuple[str, ...]:
    """Return the sorted names that `sysctl hw.optional` shows as present, and the CPU's brand."""
    pairs = [line.partition(":") for line in text.splitlines()]
    present = [name.strip() for name, _, value in pairs if value.strip() == "1"]
    brands = [value.strip() for name, _, value in pairs if name.strip() == "machdep.cpu.brand_string"]
    return tuple(sorted(present + brands))


def compiler_from_banner(command: str, banner: str) -> Compiler:
    """Tell a compiler's family and version from what `--version` prints.

    GCC's first line starts with the name it was called by, which differs from call to call: it is replaced.
    Clang and all that is built on it do not name the Free Software Foundation.
    """
    line = banner.strip().splitlines()[0]
    is_gcc = "Free Software Foundation" in banner and "clang" not in banner
    return Compiler(command, f"GCC {line.partition(' ')[2]}" if is_gcc else line, is_gcc)


def cuda_release_from_banner(banner: str) -> str | None:
    """Return the toolkit's version from what `nvcc --version` prints."""
    found = re.search(r"release [\d.]+, (V[\d.]+)", banner)
    return found.group(1) if found else None


def gpus_from_list(text: str) -> tuple[str, ...]:
    """Return the sorted kinds of GPU that `nvidia-smi -L` lists, each once."""
    return tuple(sorted(set(re.findall(r"^GPU \d+: (.+?) \(UUID", text, re.MULTILINE))))


def answer(command: Iterable[str]) -> str:
    """Run a command that only answers a question; return its output, empty if it failed."""
    try:
        done = subprocess.run(
            list(command),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quotation mark without its other half
        return []


def _leading_words(command: str) -> str:
    """Return the compiler's words without its flags, as scikit-build-core takes them."""
    return shlex.join(itertools.takewhile(lambda word: not word.startswith("-"), _words(command)))


def find_compiler(variable: str, names: Iterable[str], environ: Mapping[str, str]) -> Compiler:
    """Return the compiler that the build will take: $CC or $CXX, else Python's own, else one of `names`.

    Raises:
        InstallError: None of them answers.
    """
    if own := environ.get(variable, "").strip():
        candidates = [own]
    else:
        candidates = [_leading_words(sysconfig.get_config_var(variable) or ""), *names]
    for command in filter(None, candidates):
        if banner := answer([*_words(command), "--version"]).strip():
            return compiler_from_banner(command, banner)
    language = "C++" if variable == "CXX" else "C"
    if own:
        raise InstallError(f"${variable} is {own}, which does not run: correct or unset it, then run this again")
    tried = ", ".join(filter(None, candidates))
    cure = "xcode-select --install" if platform.system() == "Darwin" else "apt-get install g++"
    raise InstallError(
        f"no {language} compiler found (tried {tried}): run `{cure}` (or your system's like), then this again"
    )


def _cpu_flags(system: str) -> tuple[str, ...]:
    if system == "Darwin":
        return cpu_flags_from_sysctl(answer(["sysctl", "machdep.cpu.brand_string", "hw.optional"]))
    cpuinfo = Path("/proc/cpuinfo")
    return cpu_flags_from_cpuinfo(cpuinfo.read_text(errors="replace")) if cpuinfo.exists() else ()


def read_machine(environ: Mapping[str, str]) -> Machine:
    """Look at this machine.

    Raises:
        InstallError: No C or no C++ compiler answers.
    """
    system = platform.system()
    nvcc = shutil.which(environ.get("CUDACXX") or "nvcc") or shutil.which(CUDA_HOME_NVCC)
    return Machine(
        system=system,
        architecture=platform.machine(),
        cpu_flags=_cpu_flags(system),
        cc=find_compiler("CC", ["cc", "gcc", "clang"], environ),
        cxx=find_compiler("CXX", ["c++", "g++", "clang++"], environ),
        nvcc=nvcc,
        cuda_release=cuda_release_from_banner(answer([nvcc, "--version"])) if nvcc else None,
        gpus=gpus_from_list(answer(["nvidia-smi", "-L"])),
    )
