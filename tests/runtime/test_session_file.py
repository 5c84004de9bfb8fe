"""Session files: all of it comes back, or one line says what is wrong."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from recycle_cpp.decoding.engine import CacheState
from recycle_cpp.errors import UsageError
from recycle_cpp.runtime.session_file import SessionIdentity, read_session_file, save_session_file
from recycle_cpp.types import Message, ToolCall

IDENTITY = SessionIdentity("abc", "0.3.36", "f16", "f16", "on")
STATE = CacheState([1, 2, 300, 7], bytes(range(256)) * 3, 2)
MESSAGES = (
    Message("system", "Be brief."),
    Message("user", "Grüße, 你好 \ud800 \x00"),
    Message("assistant", "", "Hm.", (ToolCall("add", '{"a": 1}', "c1"), ToolCall("now", "{}"))),
    Message("tool", "3", tool_call_id="c1", name="add"),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "chat.session"
    save_session_file(path, IDENTITY, STATE, MESSAGES)
    return path


def read(path: Path, identity: SessionIdentity = IDENTITY, n_ctx: int = 4, n_vocab: int = 301):
    return read_session_file(path, identity, n_ctx=n_ctx, n_vocab=n_vocab)


def complaint(path: Path, *args, **kwargs) -> str:
    with pytest.raises(UsageError) as caught:
        read(path, *args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(f"{path} ")


def test_all_of_a_session_comes_back(path: Path) -> None:
    assert read(path) == (STATE, MESSAGES)
    save_session_file(path, IDENTITY, CacheState([], b"", 0))
    assert read(path) == (CacheState([], b"", 0), ())


def test_it_is_for_nobody_else_to_read_and_nothing_lies_beside_it(path: Path) -> None:
    path.chmod(0o644)
    save_session_file(path, IDENTITY, STATE)
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_any_changed_or_missing_byte_is_noticed(path: Path) -> None:
    data = path.read_bytes()
    for place in range(0, len(data), 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert any(word in complaint(path) for word in ("damaged", "no session", "version"))
        path.write_bytes(data[:place])
        assert any(word in complaint(path) for word in ("damaged", "no session"))
    path.write_bytes(data + b"x")
    assert "damaged" in complaint(path)


def test_what_is_no_session_is_said_to_be_none(tmp_path: Path) -> None:
    assert "cannot be read (No such file" in complaint(tmp_path / "nowhere")
    assert "is no plain file" in complaint(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "is no plain file" in complaint(tmp_path / "pipe")
    for number, data in enumerate((b"", b"\n", b"GGUF" + bytes(1000), b"recycle-cpp-session", b"x" * 10**6)):
        other = tmp_path / f"{number}"
        other.write_bytes(data)
        assert complaint(other) == "is no session of recycle-cpp: give a file that was saved as one"
    assert "cannot be read" in complaint(tmp_path / ("n" * 300))
    assert "cannot be read" in complaint(tmp_path / "a\0b")


def test_a_file_that_may_not_be_read_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert "cannot be read (Permission denied)" in complaint(path)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model": "x"}, "is a session of another model"),
        ({"bindings": "0.4"}, "was saved with llama-cpp-python 0.3.36, this is 0.4"),
        ({"type_k": "q8_0"}, "was saved with --cache-type-k f16, the model is loaded with q8_0: use f16"),
        ({"type_v": "f32"}, "was saved with --cache-type-v f16, the model is loaded with f32: use f16"),
        ({"flash_attention": "off"}, "was saved with --flash-attn on, the model is loaded with off: use on"),
    ],
)
def test_what_must_be_the_same_is_named(path: Path, changed: dict[str, str], said: str) -> None:
    assert complaint(path, IDENTITY._replace(**changed)).startswith(said)


def test_what_does_not_fit_the_context_or_the_vocabulary_is_refused(path: Path) -> None:
    assert complaint(path, n_ctx=3) == "has 4 tokens, the context 3: raise --ctx-size"
    assert complaint(path, n_vocab=300).startswith("has tokens that this model does not know")
    save_session_file(path, IDENTITY, STATE._replace(tokens=[1, -1]))
    assert complaint(path).startswith("has tokens that this model does not know")


def test_a_session_of_a_later_version_is_said_to_be_one(path: Path) -> None:
    for line in (b"recycle-cpp-session 2 9 9 " + b"0" * 64, b"recycle-cpp-session 12 something quite different"):
        path.write_bytes(line + b"\nand so on")
        assert "a session of version" in complaint(path)


def test_a_head_that_says_nonsense_with_a_right_digest_counts_as_damaged(path: Path) -> None:
    head = json.loads(path.read_bytes().split(b"\n")[1][: int(path.read_bytes().split()[2])])
    heads = [
        "[]",
        "{",
        "3",
        *(json.dumps({key: value for key, value in head.items() if key != gone}) for gone in head),
        *(json.dumps({**head, "n_tokens": value}) for value in (-1, 10**12, "4", None, 1.5)),
        *(json.dumps({**head, "n_plain": value}) for value in (-1, 5, "x")),
        *(json.dumps({**head, "messages": value}) for value in (3, [3], [{}], [{"role": "user", "tool_calls": []}])),
        json.dumps({**head, "messages": [{"role": "u", "content": "", "tool_calls": [], "new": 1}]}),
    ]
    for text in heads:
        body = bytes(16 + 768)
        digest = hashlib.sha256(text.encode() + body).hexdigest()
        path.write_bytes(f"recycle-cpp-session 1 {len(text)} {len(body)} {digest}\n{text}".encode() + body)
        assert complaint(path).startswith("is damaged"), text


def test_a_place_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "no" / "such", tmp_path / ("n" * 300), tmp_path / "a\0b", Path("/dev/null")):
        with pytest.raises(UsageError) as caught:
            save_session_file(place, IDENTITY, STATE)
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_on_the_way_leaves_the_old_session(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def fail(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(UsageError, match="cannot be written \\(No space left on device\\)"):
        save_session_file(path, IDENTITY, STATE, MESSAGES)
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == before
