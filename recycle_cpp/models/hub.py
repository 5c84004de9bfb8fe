"""Fetching a file from the Hugging Face hub: whole, checked, or not at all.

The bytes go into `<file>.<digest>.partial` beside the target, which a later run continues, and only a
checked file gets the target's name. `hf_hub_download` keeps no partial file between runs, so its building
blocks are used here.
"""

from __future__ import annotations

import glob
import io
import logging
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from recycle_cpp.errors import DigestError, DownloadError
from recycle_cpp.models.digest import SHORT, sha256, short
from recycle_cpp.models.entry import ModelEntry
from recycle_cpp.models.hub_errors import explain, failures, is_disk_full
from recycle_cpp.models.known_digests import KnownDigests
from recycle_cpp.models.progress import byte_bar, size_text


@dataclass(frozen=True, slots=True)
class HubFile:
    """What the hub says about a file.

    Attributes:
        url: where its bytes are, bound to one commit.
        headers: to send along, the user's token included if there is one.
        size: in bytes; None if the hub does not say.
        sha256: the digest that the hub reports; None if it reports none.
    """

    url: str
    headers: dict[str, str]
    size: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Download:
    """One file on its way from the hub into a models folder.

    Attributes:
        entry: the model; its source is the hub.
        target: where the file will stand.
        progress: show a bar on a terminal.
    """

    entry: ModelEntry
    target: Path
    progress: bool

    def run(self) -> None:
        """Fetch the file, check it and put it in its place, unless another process just did.

        Raises:
            DownloadError: if it cannot be fetched; what was fetched so far is kept for the next run.
            DigestError: if the hub has another file than models.toml names, or sent other bytes; nothing
                is kept.
        """
        with _quiet_hub(), self._explained():
            found = self._ask()
            accepted = self._accepted(found)
            with self._alone():
                if self.target.exists():
                    return
                partial = self._partial(accepted[0])
                self._fetch(found, partial)
                digest = self._check(partial, accepted)
                partial.replace(self.target)
                KnownDigests.of_user().remember(self.target, digest)

    def _ask(self) -> HubFile:
        """Return what the hub says about the file."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # exported lazily

        assert self.entry.hub is not None
        assert self.entry.hub_file is not None
        place = {"repo_id": self.entry.hub, "filename": self.entry.hub_file, "endpoint": endpoint()}
        found = get_hf_file_metadata(hf_hub_url(**place), endpoint=endpoint())
        if found.commit_hash is None or found.etag is None:
            raise self._error("the answer is not the hub's (a proxy or log-in page?)", "check the network")
        return HubFile(
            url=hf_hub_url(**place, revision=found.commit_hash),
            headers=build_hf_headers(headers={"Accept-Encoding": "identity"}),  # to be continued by range
            size=found.size,
            sha256=found.etag if re.fullmatch("[0-9a-f]{64}", found.etag) else None,
        )

    def _accepted(self, found: HubFile) -> tuple[str, ...]:
        """Return the digests that the fetched file may have, before a byte of it is fetched."""
        pinned = self.entry.sha256
        if found.sha256 is None:
            if not pinned:
                raise self._error("neither the hub nor models.toml names its SHA-256", "correct models.toml")
            return pinned
        if pinned and found.sha256 not in pinned:
            raise DigestError(
                f"{self.entry.name}: the hub's file has SHA-256 {found.sha256[:SHORT]}, models.toml names "
                f"{short(pinned)}; nothing was fetched: update recycle-cpp, or put the file at {self.target}"
            )
        return (found.sha256,)

    def _partial(self, digest: str) -> Path:
        """Return the partial file of a digest, and remove those of other versions."""
        partial = self.target.with_name(f"{self.target.name}.{digest[:SHORT]}.partial")
        for other in self._partials():
            if other != partial:
                other.unlink(missing_ok=True)
        return partial

    def _partials(self) -> list[Path]:
        return list(self.target.parent.glob(f"{glob.escape(self.target.name)}.*.partial"))

    def _fetch(self, found: HubFile, partial: Path) -> None:
        """Complete the partial file."""
        have = partial.stat().st_size if partial.exists() else 0
        if found.size is not None and have > found.size:
            partial.unlink()
            have = 0
        missing = (found.size or self.entry.size_bytes or 0) - have
        free = shutil.disk_usage(self.target.parent).free
        if missing > free:
            raise self._error(f"it needs {size_text(missing)}, {size_text(free)} are free there", "make room")
        try:
            self._append(found, partial, have)
        except OSError as error:
            if is_disk_full(error):
                partial.unlink(missing_ok=True)  # what has no use must not hold the room
            raise
        finally:
            if partial.exists() and not partial.stat().st_size:
                partial.unlink()

    def _append(self, found: HubFile, partial: Path, have: int) -> None:
        """Append what is missing to the partial file, and have it on the disk."""
        from huggingface_hub.file_download import http_get

        with (
            byte_bar(self.target.name, found.size, start=have, show=self.progress) as show,
            _ShownWriter(partial, show) as file,
        ):
            http_get(found.url, file, resume_size=have, headers=found.headers, expected_size=found.size)
            file.flush()
            os.fsync(file.fileno())

    def _check(self, partial: Path, accepted: tuple[str, ...]) -> str:
        """Return the SHA-256 of the fetched file if it is an accepted one."""
        size = partial.stat().st_size
        with byte_bar(f"checking {self.target.name}", size, show=self.progress) as show:
            digest = sha256(partial, show)
        if digest not in accepted:
            partial.unlink()
            raise DigestError(
                f"{self.entry.name}: the fetched file has SHA-256 {digest[:SHORT]}, expected "
                f"{short(accepted)}; nothing was kept: run it again, or put the file at {self.target}"
            )
        return digest

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock on the target, so that two processes do not write one partial file."""
        from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]  # exported lazily

        with WeakFileLock(self.target.with_name(f".{self.target.name}.lock")):
            yield

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what the hub's library or the disk raises into one line."""
        try:
            yield
        except failures() as error:
            why, remedy = explain(error, endpoint(), self.entry)
            for partial in self._partials():
                remedy += f" (it goes on from {size_text(partial.stat().st_size)})"
            raise self._error(why, remedy) from error

    def _error(self, why: str, remedy: str) -> DownloadError:
        return DownloadError(
            f"{self.entry.name}: cannot fetch {self.entry.hub_file} of {endpoint()}/{self.entry.hub}: {why}; "
            f"{remedy}, or put the file at {self.target}"
        )


class _ShownWriter(io.BufferedWriter):
    """A file open for appending that shows its position after each write."""

    def __init__(self, path: Path, show: Callable[[int], None]) -> None:
        super().__init__(io.FileIO(path, "a"))
        self._show = show

    def write(self, data: bytes) -> int:  # type: ignore[override]  # any buffer there; the hub sends bytes
        written = super().write(data)
        self._show(self.tell())
        return written


def endpoint() -> str:
    """Return the hub's address; HF_ENDPOINT counts even when it was set after the library's import."""
    from huggingface_hub import constants

    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or constants.ENDPOINT


@contextmanager
def _quiet_hub() -> Iterator[None]:
    """Keep huggingface_hub's log, warnings and bars off standard error; restore them afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from huggingface_hub import utils

        bar, level = "huggingface_hub.http_get", utils.logging.get_verbosity()
        had_bar = not utils.are_progress_bars_disabled(bar)  # type: ignore[attr-defined]  # exported lazily
        utils.logging.set_verbosity(logging.ERROR)
        utils.disable_progress_bars(bar)  # type: ignore[attr-defined]
        try:
            yield
        finally:
            utils.logging.set_verbosity(level)
            if had_bar:
                utils.enable_progress_bars(bar)  # type: ignore[attr-defined]
