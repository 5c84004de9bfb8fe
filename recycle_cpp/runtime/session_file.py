"""Session files: the cache of a chat and its messages, to go on in another process.

One line (magic, version, bytes of head and body, SHA-256 of both), a JSON head, the tokens as little-endian
int32, llama.cpp's state. The digest shows damage, not malice: llama.cpp trusts the state as it trusts a model's file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recycle_cpp.backend.library import TESTED_VERSION
from recycle_cpp.decoding.engine import CacheState
from recycle_cpp.errors import UsageError
from recycle_cpp.models.private_file import write_private
from recycle_cpp.types import Message, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recycle_cpp.backend.loaded import LoadedModel

VERSION = 1
_MAGIC = "recycle-cpp-session"
_FIRST_LINE = re.compile(
    rf"{_MAGIC} (?P<version>\d+)(?: (?P<head>\d+) (?P<body>\d+) (?P<digest>[0-9a-f]{{64}}))?[^\n]*\n"
)
_LONGEST_LINE = 256
_OPTIONS = {"type_k": "--cache-type-k", "type_v": "--cache-type-v", "flash_attention": "--flash-attn"}


class SessionIdentity(NamedTuple):
    """What must be the same where a session is saved and restored.

    Attributes:
        model: fingerprint of the model's file.
        bindings: version of llama-cpp-python.
        type_k: type of the cached keys.
        type_v: type of the cached values.
        flash_attention: on or off; values lie otherwise in memory.
    """

    model: str
    bindings: str
    type_k: str
    type_v: str
    flash_attention: str

    @classmethod
    def of(cls, loaded: LoadedModel) -> SessionIdentity:
        """Return that of a loaded model."""
        attention = "on" if loaded.settings.flash_attention else "off"
        return cls(loaded.fingerprint, TESTED_VERSION, *loaded.cache_types, attention)


def save_session_file(
    path: Path, identity: SessionIdentity, state: CacheState, messages: Sequence[Message] = ()
) -> None:
    """Write a session beside a path and rename it, for nobody else to read: it holds the user's words.

    Raises:
        UsageError: if it cannot be written.
    """
    head = {
        **identity._asdict(),
        "n_tokens": len(state.tokens),
        "n_plain": state.n_plain,
        "messages": [_plain(message) for message in messages],
    }
    parts = [json.dumps(head).encode(), np.array(state.tokens, "<i4").tobytes(), state.data]
    n_body = len(parts[1]) + len(parts[2])
    first = f"{_MAGIC} {VERSION} {len(parts[0])} {n_body} {_digest(*parts)}\n".encode()
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no plain file: give the name of a file to save the session to")
        write_private(path, [first, *parts])
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{path} cannot be written ({reason}): save the session to a file in a folder of yours"
        ) from error


def read_session_file(
    path: Path, identity: SessionIdentity, *, n_ctx: int, n_vocab: int
) -> tuple[CacheState, tuple[Message, ...]]:
    """Return the cache and the messages of a session, after checking every byte of it.

    Raises:
        UsageError: if it cannot be read, is damaged, or does not fit this model, its settings or its context.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would have us wait
            raise UsageError(f"{path} is no plain file: give a session that was saved before")
        with path.open("rb") as file:
            head, rest = _read(file, path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{path} cannot be read ({reason}): give a session that was saved before") from error
    try:
        saved_by, state, messages = _parse(head, rest)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path) from error
    _require_same(path, saved_by, identity)
    if len(state.tokens) > n_ctx:
        raise UsageError(f"{path} has {len(state.tokens)} tokens, the context {n_ctx}: raise --ctx-size")
    if not all(0 <= token < n_vocab for token in state.tokens):
        raise UsageError(f"{path} has tokens that this model does not know: save the session anew")
    return state, messages


def _damaged(path: Path) -> UsageError:
    return UsageError(f"{path} is damaged (cut short, or changed since it was saved): save the session anew")


def _read(file: IO[bytes], path: Path) -> tuple[bytes, bytes]:
    """Return the head and the body of a file whose digest is right; nothing large is read before its size is."""
    first = file.readline(_LONGEST_LINE)
    found = _FIRST_LINE.fullmatch(first.decode("ascii", "replace"))
    if found is None:
        raise UsageError(f"{path} is no session of recycle-cpp: give a file that was saved as one")
    if int(found["version"]) != VERSION:
        raise UsageError(
            f"{path} is a session of version {found['version']}, this recycle_cpp reads {VERSION}: use the one that "
            "saved it"
        )
    n_head, n_body = int(found["head"] or 0), int(found["body"] or 0)
    if os.fstat(file.fileno()).st_size != len(first) + n_head + n_body:
        raise _damaged(path)
    head, body = file.read(n_head), file.read(n_body)
    if _digest(head, body) != found["digest"]:
        raise _damaged(path)
    return head, body


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _parse(text: bytes, body: bytes) -> tuple[SessionIdentity, CacheState, tuple[Message, ...]]:
    """Return what a file says; the errors of whatever it does not say are the caller's to explain."""
    head = json.loads(text)
    n_tokens, n_plain = head["n_tokens"], head["n_plain"]
    if not 0 <= n_plain <= n_tokens or 4 * n_tokens > len(body):
        raise ValueError("sizes that do not fit")
    tokens = np.frombuffer(body[: 4 * n_tokens], "<i4").tolist()
    messages = tuple(
        Message(**{**said, "tool_calls": tuple(ToolCall(**call) for call in said["tool_calls"])})
        for said in head["messages"]
    )
    identity = SessionIdentity(*(str(head[name]) for name in SessionIdentity._fields))
    return identity, CacheState(tokens, body[4 * n_tokens :], n_plain), messages


def _require_same(path: Path, saved_by: SessionIdentity, identity: SessionIdentity) -> None:
    if saved_by.model != identity.model:
        raise UsageError(f"{path} is a session of another model: load the model that it was saved with")
    if saved_by.bindings != identity.bindings:
        raise UsageError(
            f"{path} was saved with llama-cpp-python {saved_by.bindings}, this is {identity.bindings}: begin anew"
        )
    for name, option in _OPTIONS.items():
        then, now = getattr(saved_by, name), getattr(identity, name)
        if then != now:
            raise UsageError(f"{path} was saved with {option} {then}, the model is loaded with {now}: use {then}")


def _plain(message: Message) -> dict[str, Any]:
    return {**message._asdict(), "tool_calls": [call._asdict() for call in message.tool_calls]}
