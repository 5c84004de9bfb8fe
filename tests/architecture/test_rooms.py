"""The rules that keep the package readable: which room may import which, and how big things may be."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import recycle_cpp

PACKAGE = Path(recycle_cpp.__file__).parent
FILES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}

# What each room may import of the package, besides itself. `face` is the package's own __init__.
BASE = {"errors", "types", "version"}
RUNTIME = {*BASE, "drafting", "backend", "decoding", "text", "models"}
FRONT = {*BASE, "runtime"}
MAY_IMPORT = {
    "version": set(),
    "errors": set(),
    "types": {"errors"},
    "drafting": BASE,
    "backend": BASE,
    "decoding": {*BASE, "drafting", "backend"},
    "text": BASE,
    "models": {"errors", "version"},
    "runtime": RUNTIME,
    "bench": {*FRONT, "drafting", "backend", "decoding"},  # replays drive drafters without a model
    "server": FRONT,
    "drop_in": {*FRONT, "models"},  # another library's class over the runtime
    "face": {*FRONT, "drop_in"},
    "cli": {*FRONT, "models", "bench", "server"},  # its commands list models, run the bench, start the server
    "setup": {"errors", "version"},
}
NUMBA = {file for file in FILES if file.startswith("drafting/kernels/") and not file.endswith("__init__.py")}
NUMBA |= {"decoding/kernels.py", "backend/kernels.py"}
LLAMA_CPP = {
    "text/chat.py",
    "text/grammars/schema_rules.py",
    "setup/probe.py",
    "bench/foreign.py",
}  # and all of backend/
LLAMA_CPP |= {"drop_in/chats.py", "drop_in/llama.py", "drop_in/tokens.py"}  # its chat handlers, classes and types


def room_of(file: str) -> str:
    first = file.split("/", maxsplit=1)[0].removesuffix(".py")
    return "face" if first == "__init__" else first


def imports_of(tree: ast.AST) -> list[str]:
    """Return the full dotted names that a file imports, wherever in it the imports stand."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def rooms_imported(tree: ast.AST) -> set[str]:
    parts = [name.split(".") for name in imports_of(tree)]
    inside = [part[1:] for part in parts if part[0] == "recycle_cpp"]
    return {part[0] if part and part[0] in MAY_IMPORT else "face" for part in inside}


def functions_of(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how long a function is, its head (long where a kernel takes many arrays) and its docstring left out."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_the_walk_finds_the_package() -> None:
    assert len(FILES) > 40
    assert "recycle_cpp.errors.UsageError" in imports_of(FILES["types/checks.py"])
    assert rooms_imported(FILES["decoding/engine.py"]) == {"backend", "decoding", "drafting", "errors", "types"}


@pytest.mark.parametrize("file", FILES)
def test_no_import_goes_up(file: str) -> None:
    room = room_of(file)
    assert room in MAY_IMPORT, f"{room} is no room that the design knows"
    assert rooms_imported(FILES[file]) <= {*MAY_IMPORT[room], room}


def test_the_arrows_go_round_in_no_circle() -> None:
    placed: set[str] = set()
    while len(placed) < len(MAY_IMPORT):
        free = {room for room, below in MAY_IMPORT.items() if room not in placed and below <= placed}
        assert free, f"a circle among {set(MAY_IMPORT) - placed}"
        placed |= free


def test_only_the_kernels_import_numba_and_only_named_files_llama_cpp() -> None:
    def importing(library: str) -> set[str]:
        return {file for file, tree in FILES.items() if library in {name.split(".")[0] for name in imports_of(tree)}}

    assert importing("numba") == NUMBA
    assert len(NUMBA) > 5
    assert {file for file in importing("llama_cpp") if not file.startswith("backend/")} == LLAMA_CPP


@pytest.mark.parametrize("file", sorted(NUMBA))
def test_every_kernel_is_compiled_in_the_called_form_to_disk_and_without_the_lock(file: str) -> None:
    kernels = functions_of(FILES[file])
    assert kernels
    for kernel in kernels:
        assert [ast.unparse(decorator) for decorator in kernel.decorator_list] == ["njit(cache=True, nogil=True)"]


@pytest.mark.parametrize("file", FILES)
def test_files_and_functions_are_short(file: str) -> None:
    n_lines = len((PACKAGE / file).read_text("utf-8").splitlines())
    assert n_lines <= 350
    long = {function.name: length_of(function) for function in functions_of(FILES[file])}
    assert {name: n for name, n in long.items() if n >= 40} == {}


def test_the_median_file_is_short() -> None:
    lengths = sorted(len((PACKAGE / file).read_text("utf-8").splitlines()) for file in FILES)
    assert lengths[len(lengths) // 2] < 120


@pytest.mark.parametrize("file", FILES)
def test_all_that_is_public_says_what_it_is(file: str) -> None:
    tree = FILES[file]
    assert ast.get_docstring(tree), "the file has no docstring"
    public = [tree]
    for owner in public:  # grows while it is walked: classes hold methods
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        members = [node for node in owner.body if isinstance(node, kinds) and not node.name.startswith("_")]
        assert [node.name for node in members if not ast.get_docstring(node)] == []
        public += [node for node in members if isinstance(node, ast.ClassDef)]


def test_every_file_is_named_after_what_it_does() -> None:
    vague = re.compile(r"(^|_)(utils?|helpers?|managers?|misc|common)(_|$)")
    names = {part.removesuffix(".py") for file in FILES for part in file.split("/")}
    assert {name for name in names if vague.search(name)} == set()
    assert vague.search("string_utils")


def test_no_function_sets_globals() -> None:
    found = {file for file, tree in FILES.items() for node in ast.walk(tree) if isinstance(node, ast.Global)}
    assert found == set()


def test_the_structure_page_names_every_room_and_no_other() -> None:
    page = (PACKAGE.parent / "docs/structure.md").read_text("utf-8")
    table = "".join(line for line in page.splitlines() if line.startswith("|"))
    named = set(re.findall(r"`([a-z_/]+)/`", table))
    folders = {Path(file).parent for file in FILES if "/" in file}
    assert {folder for folder in folders if not named & {folder.as_posix(), folder.name}} == set()
    assert named <= {folder.as_posix() for folder in folders} | {folder.name for folder in folders} | {"llama_cpp"}
    assert {"decoding/sampling", "kernels", "answers"} <= named
