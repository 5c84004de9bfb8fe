"""The patch of llama.cpp: applied whole or not at all, to the very source that it was written for."""

import hashlib
import io
import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from recorded import XEON

from recycle_cpp.backend.library import read_build
from recycle_cpp.errors import InstallError
from recycle_cpp.setup.build import patched_source, plan_build
from recycle_cpp.setup.patch import ADDED_TO, STOCK, read_edits, read_patch, unpack, wanted_patch

SOURCE = "int one;\nint zero;\nint two;\nint three;\n"
MIRRORED = "float dot();\n"
DIFF = """\
--- a/vendor/x.c
+++ b/vendor/x.c
@@ -1,3 +1,3 @@
 int one;
 int zero;
-int two;
+int TWO;
@@ -4 +4,2 @@
 int three;
+int four;
"""


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def patch(tmp_path):
    folder = tmp_path / "patch"
    folder.mkdir()
    (folder / "x.patch").write_text(DIFF)
    (folder / "new.h").write_text("// new\n")
    (folder / "expected.sha256").write_text(f"{digest(SOURCE)}  vendor/x.c\n{digest(MIRRORED)}  vendor/dot.c\n")
    return read_patch(folder)


def write_source(folder, source=SOURCE, mirrored=MIRRORED):
    for path, text in {"vendor/x.c": source, "vendor/dot.c": mirrored, "llama_cpp/__init__.py": ""}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / ADDED_TO).mkdir(parents=True)
    return folder


def archive_of(members, path):
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def member(name, size=1, kind=tarfile.REGTYPE, link=""):
    found = tarfile.TarInfo(name)
    found.size, found.type, found.linkname = size, kind, link
    return found


def packed(source, path):
    with tarfile.open(path, "w:gz") as tar:
        tar.add(source, "llama_cpp_python-0.3.36")
    return path


def test_the_right_source_is_changed_in_each_place_and_nowhere_else(patch, tmp_path):
    root = write_source(tmp_path / "source")
    assert patch.misfit(root) is None
    patch.apply(root)
    assert (root / "vendor/x.c").read_text() == "int one;\nint zero;\nint TWO;\nint three;\nint four;\n"
    assert (root / "vendor/dot.c").read_text() == MIRRORED
    assert (root / ADDED_TO / "new.h").read_text() == "// new\n"


def test_a_changed_file_does_not_fit_even_where_every_edit_would(patch, tmp_path):
    root = write_source(tmp_path / "source", source=SOURCE + "// mine\n")
    assert patch.misfit(root) == "vendor/x.c is another one"


def test_a_changed_file_whose_arithmetic_is_repeated_does_not_fit(patch, tmp_path):
    root = write_source(tmp_path / "source", mirrored="double dot();\n")
    assert patch.misfit(root) == "vendor/dot.c is another one"


def test_a_missing_file_does_not_fit(patch, tmp_path):
    root = write_source(tmp_path / "source")
    (root / "vendor/dot.c").unlink()
    assert patch.misfit(root) == "vendor/dot.c is missing"


def test_a_source_that_was_patched_by_others_does_not_fit(patch, tmp_path):
    root = write_source(tmp_path / "source")
    (root / ADDED_TO / "new.h").write_text("theirs")
    assert patch.misfit(root) == f"{ADDED_TO}/new.h is there already"


@pytest.mark.parametrize("source", ["int one;\nint two;\n", SOURCE + SOURCE])
def test_an_edit_that_fits_nowhere_or_twice_changes_nothing_at_all(patch, tmp_path, source):
    root = write_source(tmp_path / "source", source=source)
    with pytest.raises(ValueError, match=r"holds [02] times what is to be changed"):
        patch.apply(root)
    assert (root / "vendor/x.c").read_text() == source
    assert not (root / ADDED_TO / "new.h").exists()


@pytest.mark.parametrize("line", ["int lost_its_sign;\n", "\\ No newline at end of file\n", "\n"])
def test_a_line_that_is_none_of_a_diff_is_refused(line):
    with pytest.raises(ValueError, match="no line of a unified diff"):
        read_edits(DIFF + line)


def test_the_digest_changes_with_each_file_of_the_patch(patch, tmp_path):
    digests = {patch.digest}
    for name, text in {
        "new.h": "// newer\n",
        "x.patch": DIFF.replace("TWO", "2"),
        "expected.sha256": f"{digest('')}  vendor/x.c\n",
    }.items():
        (tmp_path / "patch" / name).write_text(text)
        digests.add(read_patch(tmp_path / "patch").digest)
    assert len(digests) == 4


def test_a_patched_build_has_a_key_of_its_own_and_a_stock_build_the_key_it_always_had(patch):
    stock, ours = plan_build("0.3.36", XEON, {}), plan_build("0.3.36", XEON, {}, patch)
    assert "patch" not in stock.inputs
    assert len({stock.key, ours.key, plan_build("0.3.36", XEON, {}, replace(patch, digest="other")).key}) == 3
    assert str(stock).startswith("stock llama.cpp, ")
    assert "stock" not in str(ours)


def test_the_patched_source_carries_a_mark_that_tells_the_build_at_run_time(patch, tmp_path):
    archive = packed(write_source(tmp_path / "source"), tmp_path / "llama_cpp_python-0.3.36.tar.gz")
    plan = plan_build("0.3.36", XEON, {}, patch)
    root = patched_source(archive, plan)
    assert root == tmp_path / "llama_cpp_python-0.3.36"
    assert "TWO" in (root / "vendor/x.c").read_text()
    assert read_build(root / "llama_cpp") == f"{plan.key} patch {patch.digest}"


def test_another_source_is_built_as_it_is_and_one_line_says_so(patch, tmp_path, capsys):
    archive = packed(write_source(tmp_path / "source", source="int other;\n"), tmp_path / "a.tar.gz")
    assert patched_source(archive, plan_build("0.3.36", XEON, {}, patch)) == archive
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "built unpatched" in said
    assert "vendor/x.c is another one" in said


def test_without_a_patch_the_archive_is_not_even_opened(tmp_path):
    assert patched_source(tmp_path / "no.tar.gz", plan_build("0.3.36", XEON, {})) == tmp_path / "no.tar.gz"


@pytest.mark.parametrize(
    "bad",
    [
        member("/etc/x"),
        member("s/../../x"),
        member("s/link", 0, tarfile.SYMTYPE, "/etc"),
        member("s/link", 0, tarfile.LNKTYPE, "s/a"),
        member("s/pipe", 0, tarfile.FIFOTYPE),
        member("s/device", 0, tarfile.CHRTYPE),
    ],
    ids=lambda bad: f"{bad.name} {bad.type!r}",
)
def test_an_archive_that_reaches_outside_or_holds_links_or_devices_is_refused(tmp_path, bad):
    archive = archive_of([member("s/a"), bad], tmp_path / "bad.tar.gz")
    with pytest.raises(InstallError, match="which no source should: do not use it"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_archive_of_several_folders_or_of_none_is_refused(tmp_path):
    for names in (["a/x", "b/x"], []):
        archive = archive_of([member(name) for name in names], tmp_path / "bad.tar.gz")
        with pytest.raises(InstallError, match="one was expected"):
            unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("keep", [0, 5, 60])
def test_an_archive_that_was_cut_is_an_error_in_one_line(tmp_path, keep):
    archive = archive_of([member("s/a", 3000)], tmp_path / "cut.tar.gz")
    archive.write_bytes(archive.read_bytes()[:keep])
    with pytest.raises(InstallError, match=r"cut.tar.gz cannot be unpacked \(.*\): run again"):
        unpack(archive, tmp_path / "out")


def test_no_member_gets_more_rights_than_a_source_needs(tmp_path):
    wild = member("s/a")
    wild.mode = 0o6777
    root = unpack(archive_of([wild], tmp_path / "wild.tar.gz"), tmp_path / "out")
    assert oct((root / "a").stat().st_mode)[-4:] == "0755"


@pytest.mark.parametrize(
    ("architecture", "stock", "patched"),
    [("x86_64", "", True), ("AMD64", "0", True), ("x86_64", "1", False), ("aarch64", "", False), ("arm64", "", False)],
)
def test_only_x86_is_patched_and_only_if_the_user_does_not_want_stock(architecture, stock, patched):
    found = wanted_patch(replace(XEON, architecture=architecture), {STOCK: stock})
    assert (found is not None) == patched


def test_the_shipped_patch_adds_what_it_includes_and_names_what_it_changes():
    shipped = read_patch()
    includes = [edit for edit in shipped.edits if '+#include "few-columns.h"' in f"+{edit.new}".replace("\n", "\n+")]
    assert len(includes) == 1
    assert set(shipped.added) == {f"{ADDED_TO}/few-columns.h"}
    assert {edit.path for edit in shipped.edits} < set(shipped.expected)
    assert all(edit.old and edit.old != edit.new for edit in shipped.edits)


def test_the_shipped_patch_fits_the_real_source(tmp_path):
    name = os.environ.get("RECYCLE_CPP_SDIST")
    if not name:
        pytest.skip("RECYCLE_CPP_SDIST names no archive (pip download --no-binary :all: llama-cpp-python==0.3.36)")
    root = unpack(Path(name), tmp_path)
    shipped = read_patch()
    assert shipped.misfit(root) is None
    shipped.apply(root)
    assert all((root / path).read_text() == text for path, text in shipped.added.items())


@pytest.mark.parametrize("mark", [None, "", "{", "[]", '{"key": "a"}'])
def test_a_package_without_a_mark_that_can_be_read_is_stock(tmp_path, mark):
    if mark is not None:
        (tmp_path / "recycle_cpp_build.json").write_text(mark)
    assert read_build(tmp_path) == "stock"


def test_the_mark_is_read_as_it_is_written(tmp_path):
    (tmp_path / "recycle_cpp_build.json").write_text(json.dumps({"key": "abc", "patch": "def"}))
    assert read_build(tmp_path) == "abc patch def"
