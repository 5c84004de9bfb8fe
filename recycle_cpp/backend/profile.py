"""What was measured of a model on this machine, kept on disk so that it is measured once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any


class Profile:
    """A small JSON object on disk, one file per model, build and settings.

    A file that is missing, unreadable, changed by other hands or not ours counts as empty, and a folder that cannot
    be written is no fault: then things are measured again next time.
    """

    def __init__(self, folder: Path, **identity: object) -> None:
        """Read the profile.

        Args:
            folder: where profiles are kept.
            identity: everything that the measurements depend on.
        """
        self._identity = {name: str(value) for name, value in identity.items()}
        digest = hashlib.sha256(json.dumps(self._identity, sort_keys=True).encode()).hexdigest()
        self.path = folder / f"{digest[:32]}.json"
        self._values: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            stored = json.loads(self.path.read_text("utf-8"))
            if stored["check"] == self._check(stored["values"]):
                self._values = stored["values"]

    def get(self, name: str) -> Any:
        """Return a kept value, or None."""
        return self._values.get(name)

    def put(self, name: str, value: Any) -> None:
        """Keep a value that JSON can hold; the file is written beside and renamed."""
        self._values[name] = value
        kept = {"identity": self._identity, "values": self._values, "check": self._check(self._values)}
        text = json.dumps(kept, indent=1, sort_keys=True)
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.path.parent, delete=False, encoding="utf-8") as file:
                beside = Path(file.name)
                try:
                    file.write(text)
                    file.flush()
                    beside.replace(self.path)
                except BaseException:
                    beside.unlink(missing_ok=True)
                    raise

    def _check(self, values: Any) -> str:
        """Return a checksum of the values for this identity."""
        return hashlib.sha256(json.dumps([self._identity, values], sort_keys=True).encode()).hexdigest()[:16]
