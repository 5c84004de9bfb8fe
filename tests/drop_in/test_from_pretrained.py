"""from_pretrained against a hub of the tests' own: which files a pattern means, and where they come to lie."""

from __future__ import annotations

import json
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from comparing import SETTINGS, said

from recycle_cpp import DownloadError, Llama, UsageError
from recycle_cpp.drop_in import llama as module

REPO = "owner/model-GGUF"
COMMIT = "c0ffee" * 6 + "c0de"
FILES = {"README.md": b"# read me", "model-q4_0.gguf": b"GGUF four", "parts/model-q8_0.gguf": b"GGUF eight"}


class Handler(BaseHTTPRequestHandler):
    files: dict[str, bytes]

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self.do_GET(body=False)

    def do_GET(self, *, body: bool = True) -> None:
        path = self.path.split("?")[0]
        if REPO not in path:
            self.answer(404, b"{}", body, {"X-Error-Code": "RepoNotFound"})
        elif "/resolve/" in path:
            content = self.files[path.split("/resolve/")[1].split("/", 1)[1]]
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{sha256(content).hexdigest()}"'}
            self.answer(200, content, body, headers)
        elif "/tree/" in path:
            tree = [
                {"type": "file", "path": name, "oid": "0" * 40, "size": len(data)} for name, data in self.files.items()
            ]
            self.answer(200, json.dumps(tree).encode(), body)
        else:
            found = {"id": REPO, "sha": COMMIT, "siblings": [{"rfilename": name} for name in self.files]}
            self.answer(200, json.dumps(found).encode(), body)

    def answer(self, status: int, content: bytes, body: bool, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The files of a repo on a hub that HF_ENDPOINT leads to."""
    files = dict(FILES)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("BoundHandler", (Handler,), {"files": files}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
    yield files
    from huggingface_hub import close_session

    close_session()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def fetched(monkeypatch, hub, tmp_path):
    """Return the path that a call would load, and its other arguments."""
    monkeypatch.setattr(module.Llama, "__init__", lambda self, **arguments: vars(self).update(arguments))
    monkeypatch.setattr(module.Llama, "__getstate__", lambda self: vars(self))

    def fetch(filename, **arguments):
        found = Llama.from_pretrained(REPO, filename, **{"cache_dir": tmp_path / "cache", **arguments})
        return Path(found.model_path), vars(found)

    return fetch


def test_a_pattern_finds_its_file(fetched) -> None:
    path, arguments = fetched("*q4_0.gguf", n_ctx=64, verbose=False)
    assert path.read_bytes() == FILES["model-q4_0.gguf"]
    assert (arguments["n_ctx"], arguments["verbose"]) == (64, False)


def test_a_file_in_a_folder_is_found_and_put_into_ones_own(fetched, tmp_path) -> None:
    for pattern in ("*q8_0.gguf", "parts/model-q8_0.gguf"):
        path, _ = fetched(pattern, local_dir=tmp_path / "own", local_dir_use_symlinks=False)
        assert path == tmp_path / "own/parts/model-q8_0.gguf"
        assert path.read_bytes() == FILES["parts/model-q8_0.gguf"]


def test_further_files_are_fetched_and_the_first_one_is_loaded(fetched, tmp_path) -> None:
    path, _ = fetched("*q4_0.gguf", additional_files=["parts/*", "README*"], local_dir=tmp_path / "own")
    assert path == tmp_path / "own/model-q4_0.gguf"
    assert (tmp_path / "own/parts/model-q8_0.gguf").is_file()
    assert (tmp_path / "own/README.md").is_file()


@pytest.mark.parametrize(
    ("filename", "more", "message"),
    [
        ("*q5*", None, "No file found in .* that match"),
        (None, None, "No file found"),
        ("*.gguf", None, "Multiple files found"),
        ("*q4_0.gguf", ["*.txt"], "No file found"),
        ("*q4_0.gguf", ["*.gguf"], "Multiple files found"),
    ],
)
def test_a_pattern_that_means_no_file_or_many_is_a_value_error(fetched, filename, more, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        fetched(filename, additional_files=more)
    assert isinstance(caught.value, UsageError)
    assert "model-q4_0.gguf" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_repo_that_there_is_not_and_a_name_that_is_none_are_told_in_one_line(hub, tmp_path) -> None:
    with pytest.raises(DownloadError, match="owner/other cannot be fetched") as caught:
        Llama.from_pretrained("owner/other", "*.gguf")
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="is no repo's name"):
        Llama.from_pretrained("a b", "*.gguf")


def test_what_is_fetched_is_loaded(hub, smollm_file, cache_home, tmp_path) -> None:
    hub["model-q4_0.gguf"] = Path(smollm_file).read_bytes()
    with Llama.from_pretrained(REPO, "*q4_0.gguf", cache_dir=tmp_path, **SETTINGS) as llama:
        assert said(llama("1, 2, 3, 4,", max_tokens=2, temperature=0.0)) == " 5"
