"""A home of its own for every test, the hub's stand-in, and a package to install."""

import os
import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from stand_ins import Handler, Hub

os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"  # read at import; otherwise the library asks the real hub things


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The running stand-in; HF_ENDPOINT leads to it."""
    hub = Hub()
    handler = type("BoundHandler", (Handler,), {"hub": hub})
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
    threads = [threading.Thread(target=server.serve_forever, args=(0.01,)) for server in servers]
    for thread in threads:
        thread.start()
    hub.url, hub.storage_url = (f"http://127.0.0.1:{server.server_port}" for server in servers)
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield hub
    from huggingface_hub import close_session

    close_session()
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, so that no test sees or touches the user's models, token or memory."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(folder / "token"))
    for name in ("XDG_CACHE_HOME", "RECYCLE_CPP_MODELS", "HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def models_folder(home: Path) -> Path:
    folder = home / ".cache" / "recycle-cpp" / "models"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A function that installs a package `tiny-model`, with a file in it if content is given."""

    def build(version: str = "1.0", content: bytes | None = None) -> Path:
        site = tmp_path / "site"
        info = site / f"tiny_model-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tiny-model\nVersion: {version}\n")
        (info / "RECORD").write_text("tiny_model/tiny.gguf,,\n")
        path = site / "tiny_model" / "tiny.gguf"
        if content is not None:
            path.parent.mkdir()
            path.write_bytes(content)
        monkeypatch.syspath_prepend(site)
        return path

    return build
