"""The store of built wheels: one folder per build key, there whole or not at all."""

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

RECORD = "build.json"
REJECTED = "rejected.txt"
UNFINISHED = ".building-"


@dataclass(frozen=True)
class StoredBuild:
    """One wheel in the store and the record beside it."""

    wheel: Path
    record: Mapping[str, object]


def file_digest(path: Path) -> str:
    """Return a file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class WheelStore:
    """The wheels under one folder. Callers that add or reject hold the set-up lock."""

    folder: Path

    def find(self, key: str) -> StoredBuild | None:
        """Return the build with this key, None if it is not there or not as it was stored."""
        try:
            record = json.loads((self.folder / key / RECORD).read_text())
            wheel = self.folder / key / record["wheel"]
            if file_digest(wheel) == record["sha256"]:
                return StoredBuild(wheel, record)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return None

    def add(self, key: str, inputs: Mapping[str, str], make: Callable[[Path], Path]) -> StoredBuild:
        """Make a wheel and store it.

        Args:
            key: The build's key.
            inputs: What the key was made of; kept beside the wheel.
            make: Builds the wheel into the folder it is given and returns its path. What it raises passes
                through, and the store is then as it was.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for left_over in self.folder.glob(f"{UNFINISHED}*"):
            shutil.rmtree(left_over, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=self.folder))
        started = time.monotonic()
        try:
            wheel = make(work)
            ready = work / "ready"
            ready.mkdir()
            record = {
                "key": key,
                "built": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                "seconds": round(time.monotonic() - started),
                "wheel": wheel.name,
                "sha256": file_digest(wheel),
                "inputs": dict(inputs),
            }
            wheel.replace(ready / wheel.name)
            (ready / RECORD).write_text(json.dumps(record, indent=2) + "\n")
            self._put(ready, key)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return StoredBuild(self.folder / key / wheel.name, record)

    def reject(self, key: str, reason: str) -> None:
        """Throw a build out for good, so that it is neither installed nor made again."""
        work = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=self.folder))
        ready = work / "ready"
        ready.mkdir()
        (ready / REJECTED).write_text(reason + "\n")
        self._put(ready, key)
        shutil.rmtree(work, ignore_errors=True)

    def rejection(self, key: str) -> str | None:
        """Return why the build with this key was thrown out, None if it was not."""
        try:
            return (self.folder / key / REJECTED).read_text().strip()
        except OSError:
            return None

    def _put(self, ready: Path, key: str) -> None:
        shutil.rmtree(self.folder / key, ignore_errors=True)
        ready.replace(self.folder / key)
