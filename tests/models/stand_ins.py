"""Stand-ins: a Hugging Face hub on a real socket, models whose source it is, files that begin like a GGUF."""

import hashlib
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from recycle_cpp.models import ModelEntry, Registry

COMMIT = "c0ffee" * 6 + "c0de"
REPO = "owner/model-GGUF"
HUB_FILE = "model-q4.gguf"


def gguf(size: int = 1000) -> bytes:
    """Bytes that begin like a GGUF and do not repeat."""
    body = b"".join(i.to_bytes(4, "little") for i in range(size // 4))
    return (b"GGUF\x03\0\0\0" + body)[:size]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Hub:
    """What the stand-in serves, how it misbehaves, and what it was asked.

    HEAD and GET on /{repo}/resolve/{rev}/{file} answer with a redirect to a second origin, as the real hub's
    do for large files.
    """

    content: bytes = field(default_factory=gguf)
    reported: str | None = None  # the digest in X-Linked-Etag; None reports the content's
    head_status: int = 302
    error_code: str | None = None
    with_commit: bool = True
    answers: list[tuple[str, int]] = field(default_factory=list)
    """What the next GETs of the bytes do: ("cut", n) closes after n of them, ("status", n) sends none."""
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    url: str = ""
    storage_url: str = ""

    def asked(self, method: str, part: str) -> list[dict[str, str]]:
        """Headers of the requests of a method whose path holds a part."""
        return [headers for verb, path, headers in self.requests if verb == method and part in path]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self.note()
        self.resolve()

    def do_GET(self) -> None:
        self.note()
        if self.path.startswith("/storage/"):
            self.send_bytes()
        else:
            self.resolve()

    def note(self) -> None:
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.hub.requests.append((self.command, self.path, headers))

    def resolve(self) -> None:
        hub = self.hub
        self.send_response(hub.head_status)
        if hub.error_code:
            self.send_header("X-Error-Code", hub.error_code)
        if hub.head_status == 302:
            if hub.with_commit:
                self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("X-Linked-Etag", f'"{hub.reported or digest(hub.content)}"')
            self.send_header("X-Linked-Size", str(len(hub.content)))
            self.send_header("Location", f"{hub.storage_url}/storage/{HUB_FILE}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_bytes(self) -> None:
        hub = self.hub
        kind, number = hub.answers.pop(0) if hub.answers else ("whole", 0)
        if kind == "status":
            self.send_response(number)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start = int(self.headers.get("Range", "bytes=0-")[len("bytes=") : -1])
        body = hub.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(hub.content) - 1}/{len(hub.content)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if kind == "cut":
            body = body[:number]
            self.close_connection = True
        self.wfile.write(body)


def entry(**changes: object) -> ModelEntry:
    """A model whose source is the stand-in, with changes."""
    values: dict[str, object] = {
        "name": "tiny",
        "architecture": "llama",
        "parameters": "1M",
        "quantisation": "Q4_0",
        "licence": "Apache-2.0",
        "kind": "chat",
        "file": "tiny.gguf",
    }
    if not {"path", "package"} & set(changes):
        values |= {"hub": REPO, "hub_file": HUB_FILE}
    return ModelEntry(**{**values, **changes})  # type: ignore[arg-type]


def registry(**changes: object) -> Registry:
    """A registry that knows one model, `tiny`."""
    return Registry(default="tiny", entries=(entry(**changes),))
