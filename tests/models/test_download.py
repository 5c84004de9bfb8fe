import errno
import io
import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from stand_ins import COMMIT, HUB_FILE, REPO, Hub, digest, entry, gguf, registry

from recycle_cpp.errors import DigestError, DownloadError, ModelError
from recycle_cpp.models import resolve, status

HALF = 300_000
LARGE = 600_000


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks far below 10 MB, and no pause before a retry."""
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 10_000)
    monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda seconds: None))


def failure(kind: type[ModelError], **changes: object) -> str:
    """The message of the error that fetching `tiny` ends with."""
    with pytest.raises(kind) as raised:
        resolve("tiny", registry(**changes))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def left(folder: Path) -> list[str]:
    """What stands in a folder, the lock aside."""
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_a_whole_download_gets_its_name_and_is_not_hashed_again(
    hub: Hub, models_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = registry(sha256=(digest(hub.content),))
    found = resolve("tiny", tiny)
    assert found.path == models_folder / "tiny.gguf"
    assert found.path.read_bytes() == hub.content
    assert left(models_folder) == ["tiny.gguf"]
    assert status(tiny.entries[0]).path == found.path
    monkeypatch.setattr("recycle_cpp.models.known_digests.sha256", None)
    assert resolve("tiny", tiny) == found
    assert len(hub.asked("GET", "/storage/")) == 1


def test_the_bytes_are_asked_for_by_commit_not_by_branch(hub: Hub) -> None:
    resolve("tiny", registry())
    assert hub.asked("HEAD", f"/{REPO}/resolve/main/{HUB_FILE}")
    assert hub.asked("GET", f"/{REPO}/resolve/{COMMIT}/{HUB_FILE}")


def test_the_token_goes_to_the_hub_and_not_to_the_storage(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    resolve("tiny", registry())
    assert all("authorization" in headers for headers in hub.asked("GET", "/resolve/"))
    assert not any("authorization" in headers for headers in hub.asked("GET", "/storage/"))


def test_the_folder_of_the_variable_is_made_and_takes_the_file(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECYCLE_CPP_MODELS", str(tmp_path / "my" / "models"))
    assert resolve("tiny", registry()).path == tmp_path / "my" / "models" / "tiny.gguf"


def test_without_a_digest_in_models_toml_the_hubs_own_decides(hub: Hub, models_folder: Path) -> None:
    hub.reported = digest(b"something else")
    message = failure(DigestError)
    assert digest(hub.content)[:12] in message
    assert hub.reported[:12] in message
    assert left(models_folder) == []


@pytest.mark.usefixtures("small_chunks")
def test_a_cut_connection_is_continued_where_it_broke(hub: Hub, models_folder: Path) -> None:
    hub.content, hub.answers = gguf(LARGE), [("cut", HALF), ("cut", 50_000)]
    assert resolve("tiny", registry()).path.read_bytes() == hub.content
    ranges = [headers.get("range") for headers in hub.asked("GET", "/storage/")]
    assert ranges == [None, f"bytes={HALF}-", f"bytes={HALF + 50_000}-"]
    assert left(models_folder) == ["tiny.gguf"]


@pytest.mark.usefixtures("small_chunks")
def test_a_download_that_broke_off_is_continued_by_the_next_run(hub: Hub, models_folder: Path) -> None:
    hub.content, hub.answers = gguf(10 * LARGE), [("cut", 5 * LARGE), ("status", 503)]
    message = failure(DownloadError)
    assert "the hub is busy or down (503)" in message
    assert "it goes on from 3 MB" in message
    (partial,) = models_folder.glob("*.partial")
    assert partial.stat().st_size == 5 * LARGE
    assert status(entry()).path is None

    hub.requests.clear()
    assert resolve("tiny", registry()).path.read_bytes() == hub.content
    assert [headers["range"] for headers in hub.asked("GET", "/storage/")] == [f"bytes={5 * LARGE}-"]
    assert left(models_folder) == ["tiny.gguf"]


@pytest.mark.usefixtures("small_chunks")
def test_an_interrupted_download_is_never_taken_for_the_model(
    hub: Hub, models_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(url: str, file: io.BufferedWriter, **_: object) -> None:
        file.write(hub.content[:500])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("huggingface_hub.file_download.http_get", interrupted)
        resolve("tiny", registry())
    assert left(models_folder) == [f"tiny.gguf.{digest(hub.content)[:12]}.partial"]
    assert resolve("tiny", registry()).path.read_bytes() == hub.content


def test_the_partial_file_of_another_version_is_not_continued(hub: Hub, models_folder: Path) -> None:
    (models_folder / f"tiny.gguf.{'0' * 12}.partial").write_bytes(b"old bytes")
    assert resolve("tiny", registry()).path.read_bytes() == hub.content
    assert left(models_folder) == ["tiny.gguf"]


def test_a_partial_file_that_is_too_long_or_wrong_is_dropped(hub: Hub, models_folder: Path) -> None:
    partial = models_folder / f"tiny.gguf.{digest(hub.content)[:12]}.partial"
    partial.write_bytes(b"x" * 2000)
    assert resolve("tiny", registry()).path.read_bytes() == hub.content
    (models_folder / "tiny.gguf").unlink()
    partial.write_bytes(b"x" * 500)
    failure(DigestError)
    assert left(models_folder) == []


def test_wrong_bytes_are_not_kept(hub: Hub, models_folder: Path) -> None:
    wanted = digest(hub.content)
    hub.reported, hub.content = wanted, hub.content[:-1] + b"\xff"
    message = failure(DigestError, sha256=(wanted,))
    assert wanted[:12] in message
    assert digest(hub.content)[:12] in message
    assert str(models_folder / "tiny.gguf") in message
    assert left(models_folder) == []


def test_a_file_that_the_hub_replaced_is_refused_before_a_byte_is_fetched(hub: Hub) -> None:
    message = failure(DigestError, sha256=("a" * 64,))
    assert "a" * 12 in message
    assert digest(hub.content)[:12] in message
    assert not hub.asked("GET", "")


@pytest.mark.parametrize(
    ("state", "why", "remedy"),
    [
        ({"head_status": 404, "error_code": "EntryNotFound"}, "no such file (404)", "correct hub_file"),
        ({"head_status": 404, "error_code": "RepoNotFound"}, "no such repo, or no access", "hf auth login"),
        ({"head_status": 401, "error_code": "GatedRepo"}, "the repo is gated", "accept its terms at http"),
        ({"head_status": 401}, "no access to it (401)", "hf auth login"),
        ({"head_status": 500}, "busy or down (500)", "run it again later"),
        ({"head_status": 429}, "busy or down (429)", "run it again later"),
        ({"head_status": 400}, "refused (400)", "run it again later"),
        ({"with_commit": False}, "the answer is not the hub's", "check the network"),
        ({"reported": "not-a-sha256"}, "neither the hub nor models.toml names its SHA-256", "correct"),
        ({"answers": [("status", 404)]}, "no access to it (404)", "hf auth login"),
    ],
)
def test_a_refusal_is_one_line_with_place_reason_and_remedy(
    hub: Hub,
    models_folder: Path,
    capfd: pytest.CaptureFixture[str],
    state: dict[str, object],
    why: str,
    remedy: str,
) -> None:
    for name, value in state.items():
        setattr(hub, name, value)
    message = failure(DownloadError)
    assert message.startswith(f"tiny: cannot fetch {HUB_FILE} of {hub.url}/{REPO}: ")
    assert why in message
    assert remedy in message
    assert message.endswith(f", or put the file at {models_folder / 'tiny.gguf'}")
    assert left(models_folder) == []
    assert capfd.readouterr() == ("", "")


def test_a_digest_in_models_toml_is_enough_when_the_hub_reports_none(hub: Hub) -> None:
    hub.reported = "not-a-sha256"
    assert resolve("tiny", registry(sha256=("a" * 64, digest(hub.content)))).path.is_file()


def test_offline_by_variable_is_one_line(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = failure(DownloadError)
    assert "HF_HUB_OFFLINE forbids the network; unset it" in message
    assert not hub.requests


def test_a_hub_that_does_not_answer_is_one_line(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    message = failure(DownloadError)
    assert "http://127.0.0.1:1/owner/model-GGUF: no connection" in message
    assert "check the network" in message
    assert capfd.readouterr() == ("", "")


def test_a_disk_that_is_too_small_is_told_before_a_byte_is_fetched(
    hub: Hub, models_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.content = gguf(3_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1_000_000))
    assert "it needs 3 MB, 1 MB are free there; make room" in failure(DownloadError)
    assert not hub.asked("GET", "")
    assert left(models_folder) == []


@pytest.mark.usefixtures("small_chunks")
def test_a_disk_that_fills_up_leaves_nothing_half_written(
    hub: Hub, models_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: io.BufferedWriter, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    hub.content = gguf(LARGE)
    monkeypatch.setattr("recycle_cpp.models.hub._ShownWriter.write", full)
    assert "the disk is full; make room" in failure(DownloadError)
    assert left(models_folder) == []


def test_without_a_writable_folder_the_folders_are_named(
    hub: Hub, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    (home / ".cache").touch()
    monkeypatch.setenv("RECYCLE_CPP_MODELS", str(tmp_path / "a file"))
    message = failure(DownloadError)
    assert str(tmp_path / "a file") in message
    assert "set RECYCLE_CPP_MODELS" in message


def test_two_at_once_fetch_the_file_once(hub: Hub, models_folder: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: resolve("tiny", registry()), range(2)))
    assert found[0] == found[1]
    assert found[0].path.read_bytes() == hub.content
    assert len(hub.asked("GET", "/storage/")) == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("wanted", [True, False])
def test_a_bar_is_drawn_on_a_terminal_if_wanted(hub: Hub, monkeypatch: pytest.MonkeyPatch, wanted: bool) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    resolve("tiny", registry(), progress=wanted)
    assert ("tiny.gguf" in terminal.getvalue()) == wanted


def test_the_library_is_left_as_it_was(hub: Hub) -> None:
    from huggingface_hub.utils import are_progress_bars_disabled, logging  # type: ignore[attr-defined]

    before = logging.get_verbosity(), are_progress_bars_disabled("huggingface_hub.http_get")
    resolve("tiny", registry())
    assert (logging.get_verbosity(), are_progress_bars_disabled("huggingface_hub.http_get")) == before


def test_the_digest_of_a_download_is_remembered(hub: Hub, home: Path) -> None:
    resolve("tiny", registry())
    memory = json.loads((home / ".cache" / "recycle-cpp" / "digests.json").read_text())
    assert [known["sha256"] for known in memory.values()] == [digest(hub.content)]
