import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from recycle_cpp.version import __version__

ROOT = Path(__file__).parents[2]


def test_the_wheel_holds_all_files_of_the_package_and_models_toml_among_them(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    shutil.copytree(ROOT / "recycle_cpp", tmp_path / "recycle_cpp", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "models.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "README.md").write_text("# recycle_cpp\n")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    assert (tmp_path / "installed" / "recycle_cpp" / "models" / "models.toml").read_bytes() == (
        ROOT / "models.toml"
    ).read_bytes()
    packaged = {path.relative_to(tmp_path) for path in (tmp_path / "recycle_cpp").rglob("*") if path.is_file()}
    installed = tmp_path / "installed"
    assert {path for path in packaged if not (installed / path).is_file()} == set()
    assert {"py.typed", "prior.json", "prompts.jsonl"} <= {path.name for path in packaged}
    (facts,) = installed.glob("*.dist-info/METADATA")
    assert f"\nVersion: {__version__}\n" in facts.read_text("utf-8")
    program = "from recycle_cpp.models import registry; print(registry.own_models_toml(), registry.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "installed",
        check=True,
        capture_output=True,
        text=True,
    )
    toml, module = map(Path, found.stdout.split())
    assert toml == module.with_name("models.toml")
    assert toml.is_relative_to(tmp_path)
