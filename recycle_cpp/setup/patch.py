"""What recycle_cpp changes in llama.cpp: a patch and the files beside it, applied whole or not at all."""

import hashlib
import json
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from recycle_cpp.errors import InstallError
from recycle_cpp.setup.machine import Machine

STOCK = "RECYCLE_CPP_STOCK"  # set it to build llama.cpp as its authors ship it
FOLDER = Path(__file__).with_name("llama_cpp")
ADDED_TO = "vendor/llama.cpp/ggml/src/ggml-cpu"  # where the added files go
MARK = "llama_cpp/recycle_cpp_build.json"  # becomes part of the wheel; backend/library.py reads it
X86 = ("x86_64", "amd64")


@dataclass(frozen=True)
class Edit:
    """One place in one file: the text that stands there, and what is to stand there."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Patch:
    """A change of llama.cpp's source.

    Attributes:
        edits: The places that change.
        added: The files that are added, by path.
        expected: SHA-256 of the files that the change was written and checked against, by path: those that are
            edited, and those whose arithmetic the added code repeats.
        digest: A short digest of all of the above.
    """

    edits: tuple[Edit, ...]
    added: Mapping[str, str]
    expected: Mapping[str, str]
    digest: str

    def misfit(self, root: Path) -> str | None:
        """Return why the patch does not fit the source in a folder, None if it does."""
        for path, digest in self.expected.items():
            if not (root / path).is_file():
                return f"{path} is missing"
            if hashlib.sha256((root / path).read_bytes()).hexdigest() != digest:
                return f"{path} is another one"
        return next((f"{path} is there already" for path in self.added if (root / path).exists()), None)

    def apply(self, root: Path) -> None:
        """Change the source in a folder; nothing is written unless every edit fits.

        Raises:
            ValueError: An edit's text does not stand in its file exactly once.
        """
        texts: dict[str, str] = dict(self.added)
        for edit in self.edits:
            text = texts.get(edit.path) or (root / edit.path).read_bytes().decode()
            if text.count(edit.old) != 1:
                raise ValueError(f"{edit.path} holds {text.count(edit.old)} times what is to be changed:\n{edit.old}")
            texts[edit.path] = text.replace(edit.old, edit.new)
        for path, text in texts.items():
            (root / path).write_bytes(text.encode())


def read_edits(diff: str) -> tuple[Edit, ...]:
    """Read a unified diff; each hunk is one edit. Line numbers are not used: a hunk's text must be unique.

    Raises:
        ValueError: A line is none of a unified diff's.
    """
    edits: list[Edit] = []
    path = ""
    for line in diff.splitlines(keepends=True):
        sign, text = line[0], line[1:]
        if line.startswith("+++ b/"):
            path = line.removeprefix("+++ b/").strip()
        elif line.startswith("@@ "):
            edits.append(Edit(path, "", ""))
        elif edits and sign in " -+" and not line.startswith("--- a/"):
            last = edits[-1]
            edits[-1] = Edit(path, last.old + text * (sign != "+"), last.new + text * (sign != "-"))
        elif not line.startswith("--- a/"):
            raise ValueError(f"this is no line of a unified diff: {line!r}")
    return tuple(edits)


def read_patch(folder: Path = FOLDER) -> Patch:
    """Read the patch, the headers and the expected digests (as sha256sum writes them) that lie in a folder."""
    diff = "".join(path.read_text() for path in sorted(folder.glob("*.patch")))
    added = {f"{ADDED_TO}/{path.name}": path.read_text() for path in sorted(folder.glob("*.h"))}
    lines = (folder / "expected.sha256").read_text().splitlines()
    expected = {path: digest for digest, path in (line.split() for line in lines)}
    whole = json.dumps([diff, added, expected], sort_keys=True)
    return Patch(read_edits(diff), added, expected, hashlib.sha256(whole.encode()).hexdigest()[:12])


def wanted_patch(machine: Machine, environ: Mapping[str, str]) -> Patch | None:
    """Return the patch for a machine; None where it would change nothing, or where the user wants stock llama.cpp."""
    if environ.get(STOCK, "").strip() not in ("", "0") or machine.architecture.lower() not in X86:
        return None
    return read_patch()


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a source archive and return the one folder that it holds.

    Raises:
        InstallError: It cannot be read, or holds anything but files and folders inside one folder.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            members = tar.getmembers()
            for member in members:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
                    raise InstallError(f"{archive.name} holds {member.name!r}, which no source should: do not use it")
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            roots = {PurePosixPath(member.name).parts[0] for member in members}
            if len(roots) != 1:
                raise InstallError(f"{archive.name} holds {len(roots)} folders, one was expected: do not use it")
            tar.extractall(folder, members)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise InstallError(f"{archive.name} cannot be unpacked ({error}): run again") from error
    return folder / roots.pop()


def write_mark(root: Path, key: str, patch: Patch) -> None:
    """Write into the source what its build can be recognised by at run time."""
    (root / MARK).write_text(json.dumps({"key": key, "patch": patch.digest}) + "\n")
