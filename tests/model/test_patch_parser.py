"""Patches are parsed in pieces of any size, and invalid input raises nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.model.diff import COUNTS_ONLY, Diff, DiffLimits, FileDiff
from imi_monitor.model.patch_parser import PatchParser

PATCH = b"""diff --git a/src/api.py b/src/api.py
index 1111111..2222222 100644
--- a/src/api.py
+++ b/src/api.py
@@ -1,3 +1,4 @@ def api():
 one
-two
--- two
+TWO
++++ TWO
 three
@@ -10 +11 @@
-x
\\ No newline at end of file
+y
diff --git a/old name b/new name
similarity index 100%
rename from old name
rename to new name
diff --git "a/a\\nb\\303\\251\\"" "b/a\\nb\\303\\251\\""
new file mode 100755
index 0000000..3333333
--- /dev/null
+++ "b/a\\nb\\303\\251\\""
@@ -0,0 +1 @@
+hello
diff --git a/mode b/mode
old mode 100644
new mode 100755
diff --git a/bin b/bin
index 4444444..5555555 100644
Binary files a/bin and b/bin differ
diff --cc both
index 6666666,7777777..0000000
--- a/both
+++ b/both
@@@ -1,2 -1,2 +1,4 @@@
  same
++<<<<<<< HEAD
 +ours
- theirs
diff --git a/sub b/sub
index 8888888..9999999 160000
--- a/sub
+++ b/sub
@@ -1 +1 @@
-Subproject commit 8888888
+Subproject commit 9999999
diff --git a/touched b/touched
* Unmerged path gone
diff --git a/sp ace b/sp ace
index 1..2 100644
--- a/sp ace\t
+++ b/sp ace\t
@@ -1 +1 @@
-a
+b
"""


def read(data: bytes, limits: DiffLimits | None = None, size: int = 1 << 30) -> Diff:
    reader = PatchParser(limits) if limits else PatchParser()
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
    return reader.close()


def test_every_kind_of_changed_file_is_parsed() -> None:
    files = {file.path: file for file in read(PATCH).files}
    assert list(files) == ["src/api.py", "new name", 'a\nbé"', "mode", "bin", "both", "sub", "gone", "sp ace"], (
        "the file that was only touched is not there"
    )
    api = files["src/api.py"]
    assert (api.state, api.added, api.removed, len(api.hunks)) == ("M", 3, 3, 2)
    assert [(line.sign, line.text, line.old, line.new) for line in api.hunks[0].lines] == [
        (" ", "one", 1, 1),
        ("-", "two", 2, None),
        ("-", "-- two", 3, None),
        ("+", "TWO", None, 2),
        ("+", "+++ TWO", None, 3),
        (" ", "three", 4, 4),
    ]
    assert api.hunks[0].section == "def api():"
    assert [line.sign for line in api.hunks[1].lines] == ["-", "\\", "+"]
    assert (files["new name"].state, files["new name"].origin) == ("R", "old name")
    assert (files['a\nbé"'].state, files['a\nbé"'].new_mode) == ("A", "100755")
    assert (files["mode"].old_mode, files["mode"].new_mode) == ("100644", "100755")
    assert files["bin"].binary and files["bin"].added is None
    both = files["both"]
    assert both.state == "U" and [(line.sign, line.marks, line.text) for line in both.hunks[0].lines] == [
        (" ", "  ", "same"),
        ("+", "++", "<<<<<<< HEAD"),
        ("+", " +", "ours"),
        ("-", "- ", "theirs"),
    ]
    assert files["sub"].submodule and files["gone"].state == "U"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("limits", [DiffLimits(), DiffLimits(lines_of_file=1), DiffLimits(lines=4), COUNTS_ONLY])
def test_the_result_does_not_depend_on_the_pieces(size: int, limits: DiffLimits) -> None:
    assert read(PATCH, limits, size) == read(PATCH, limits)


@pytest.mark.parametrize("limits", [DiffLimits(lines_of_file=1), DiffLimits(lines=4), COUNTS_ONLY])
def test_lines_beyond_the_limit_are_counted(limits: DiffLimits) -> None:
    whole, short = read(PATCH), read(PATCH, limits)
    assert sum(file.kept for file in short.files) < sum(file.kept for file in whole.files)
    for full, cut in zip(whole.files, short.files, strict=True):
        assert (cut.path, cut.state, cut.added, cut.removed) == (full.path, full.state, full.added, full.removed)
        assert cut.kept + cut.cut == full.kept - (notes(full) - notes(cut))


def notes(file: FileDiff) -> int:
    return sum(line.sign == "\\" for hunk in file.hunks for line in hunk.lines)


def test_a_line_without_end_is_cut_and_the_next_file_is_found() -> None:
    head = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n"
    tail = b"\n+end\ndiff --git a/y b/y\nnew file mode 100644\n"
    found = read(head + b"+" + b"x" * 3_000_000 + tail, size=4096)
    lines = found.files[0].hunks[0].lines
    assert [(len(line.text), line.cut) for line in lines] == [(2000, True), (3, False)]
    assert [file.path for file in found.files] == ["x", "y"]
    counted = read(head + b"+" + b"x" * 3_000_000 + tail, COUNTS_ONLY, size=4096)
    assert [(file.path, file.added, file.cut) for file in counted.files] == [("x", 2, 2), ("y", 0, 0)]


def test_files_beyond_the_limit_are_counted() -> None:
    patch = b"".join(b"diff --git a/%d b/%d\nnew file mode 100644\n" % (n, n) for n in range(50))
    found = read(patch, DiffLimits(files=10))
    assert (len(found.files), found.omitted) == (10, 40)


@given(
    st.lists(st.one_of(st.sampled_from(PATCH.split(b"\n")), st.binary(max_size=40)), max_size=40), st.integers(1, 50)
)
def test_invalid_input_raises_nothing(lines: list[bytes], size: int) -> None:
    data = b"\n".join(lines)
    found = read(data, size=size)
    assert found == read(data)
    assert sum(file.kept for file in found.files) <= data.count(b"\n") + 1
