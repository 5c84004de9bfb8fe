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

    A file that is missing, unreadable or not ours counts as empty, and a folder that cannot be written is no fault:
    then things are measured again next time.
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
        with contextlib.suppress(OSError, ValueError):
            stored = json.loads(self.path.read_text("utf-8"))
            if isinstance(stored, dict) and stored.get("identity") == self._identity:
                self._values = dict(stored.get("values", {}))

    def get(self, name: str) -> Any:
        """Return a kept value, or None."""
        return self._values.get(name)

    def put(self, name: str, value: Any) -> None:
        """Keep a value that JSON can hold; the file is written beside and renamed."""
        self._values[name] = value
        text = json.dumps({"identity": self._identity, "values": self._values}, indent=1, sort_keys=True)
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.path.parent, delete=False, encoding="utf-8") as file:
                file.write(text)
            Path(file.name).replace(self.path)
