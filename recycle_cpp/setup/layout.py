"""Where the set-up keeps its things, and the lock that lets one set-up run at a time."""

import fcntl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from recycle_cpp.errors import InstallError


@dataclass(frozen=True)
class Layout:
    """The paths of one checkout and of one user's cache."""

    root: Path
    cache: Path

    @property
    def venv(self) -> Path:
        """The checkout's own environment."""
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.venv / "bin" / "python"

    @property
    def stamp(self) -> Path:
        """What the last finished set-up installed."""
        return self.venv / "recycle-cpp-setup.json"

    @property
    def build_record(self) -> Path:
        """Which build of llama.cpp is installed."""
        return self.venv / "recycle-cpp-build.json"

    @property
    def wheels(self) -> Path:
        """The store of built wheels, shared by all checkouts of this user."""
        return self.cache / "wheels"

    @property
    def logs(self) -> Path:
        """The full output of every command that the set-up ran last."""
        return self.cache / "logs"


def cache_folder(environ: Mapping[str, str], home: Path) -> Path:
    """Return this user's cache folder of recycle_cpp (a relative XDG_CACHE_HOME is ignored, as XDG asks)."""
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else home / ".cache") / "recycle-cpp"


def find_layout(environ: Mapping[str, str]) -> Layout:
    """Return the paths for the checkout that holds this file.

    Raises:
        InstallError: This file is not part of a checkout.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / "pyproject.toml").is_file():
        raise InstallError(f"{root} is no checkout (it has no pyproject.toml): run the set-up from a clone")
    return Layout(root, cache_folder(environ, Path.home()))


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file while the block runs; call `on_wait` once if another process holds it now."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
