"""What was read of a diff, by content: changed, restored, rebased, renamed, over worktrees, on the command line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from imi_monitor.git.worktree_review import WorktreeReview, read_review
from imi_monitor.model.diff import Diff, DiffHunk, DiffLine, FileDiff
from imi_monitor.model.diff_identity import hunk_ids, reviewable_parts
from imi_monitor.model.review_progress import ReadPart, progress, reviewed, storable
from imi_monitor.store import db, read_parts
from tests.git.git_kit import open_git
from tests.helpers import Repo, imi

FILES, REGIONS, GAP = 200, 10, 9
BASE, MISSING = 0, -1
Region = tuple[int, int]


class Desk:
    """200 files with ten regions each. A region in a version that is not BASE is one hunk; its content names the version."""

    def __init__(self, repo: Repo) -> None:
        self.main = repo
        self.names = [f"src/file {number}.txt" for number in range(FILES)]
        self.top = 0  # lines that the trunk has put on top of each file
        self.versions: dict[Region, int] = {(file, at): BASE for file in range(FILES) for at in range(REGIONS)}
        for file in range(FILES):
            repo.write(self.names[file], self.text(file))
        repo.commit("many files")
        self.feat = repo.worktree("feat-x")
        self.read: set[tuple[int, int, int]] = set()
        self.kept: set[ReadPart] = set()

    def text(self, file: int) -> str:
        lines = [f"trunk {number}" for number in range(self.top)]
        lines += [f"same {file} {number}" for number in range(GAP)]
        for at in range(REGIONS):
            version = self.versions[file, at]
            lines += [f"file {file} region {at} {'base' if version == BASE else f'version {version}'}"]
            lines += [f"same {file} {number}" for number in range(GAP)]
        return "\n".join(lines) + "\n"

    def change(self, region: Region, version: int) -> None:
        self.versions[region] = version
        self.feat.write(self.names[region[0]], self.text(region[0]))

    def review(self) -> WorktreeReview:
        return read_review(open_git(self.feat), "refs/heads/main", frozenset(self.kept))

    def mark_read(self, regions: list[Region]) -> None:
        """Read the hunks of these regions, which are found by their text."""
        by_text = {}
        for one in self.review().files:
            for part, hunk in zip(one.parts, one.file.hunks, strict=False):
                added = next(line.text for line in hunk.lines if line.sign == "+")
                by_text[added] = (storable(one.file.path), part)
        for file, at in regions:
            self.kept.add(by_text[f"file {file} region {at} version {self.versions[file, at]}"])
            self.read.add((file, at, self.versions[file, at]))

    def check(self) -> None:
        hunks = {(file, at, version) for (file, at), version in self.versions.items() if version != BASE}
        found = self.review().progress
        assert (found.total, found.unread, found.partial) == (len(hunks), len(hunks - self.read), False)


def test_2000_hunks_read_changed_restored_rebased_and_renamed(repo: Repo) -> None:
    desk, draw = Desk(repo), random.Random(21)
    regions = list(desk.versions)
    for region in regions:
        desk.versions[region] = 1
    for file in range(FILES):
        desk.feat.write(desk.names[file], desk.text(file))
    desk.check()
    desk.mark_read(draw.sample(regions, 1500))
    desk.check()
    for region in draw.sample(regions, 300):
        desk.change(region, draw.choice((BASE, 2, 3)))
    desk.check()
    desk.mark_read([region for region in draw.sample(regions, 400) if desk.versions[region] != BASE])
    desk.feat.commit("half of it is committed")
    for region in draw.sample(regions, 400):
        desk.change(region, 1)
    desk.check()
    desk.feat.commit("and restored")
    desk.top = 7
    versions, desk.versions = desk.versions, dict.fromkeys(regions, BASE)
    for file in range(FILES):
        desk.main.write(desk.names[file], desk.text(file))
    desk.main.commit("the trunk goes on")
    desk.versions = versions
    desk.feat.git("rebase", "-q", "main")
    desk.check()
    for file in draw.sample(range(FILES), 40):
        new = f"moved/{file}.txt"
        (desk.feat.path / "moved").mkdir(exist_ok=True)
        desk.feat.git("mv", desk.names[file], new)
        desk.names[file] = new
    desk.check()
    desk.mark_read([region for region in draw.sample(regions, 100) if desk.versions[region] != BASE])
    desk.check()


def file(path: str, *texts: str, state: str = "M", origin: str | None = None, content: str = "a..b") -> FileDiff:
    hunks = tuple(DiffHunk(9, 9, "", (DiffLine(" ", "around"), DiffLine("+", text))) for text in texts)
    return FileDiff(path, state, origin, hunks=hunks, content=content)


def everything(*files: FileDiff) -> set[ReadPart]:
    return {(storable(one.path), part) for one in files for part in reviewable_parts(one)}


def unread(kept: set[ReadPart], *files: FileDiff, omitted: int = 0) -> list[int]:
    return [one.unread for one in reviewed(Diff(files, omitted=omitted), kept)]


def test_equal_hunks_of_a_file_are_counted_one_by_one() -> None:
    twice = file("a.py", "pass", "pass")
    assert hunk_ids(twice)[1] == f"{hunk_ids(twice)[0]}.2"
    assert unread(everything(file("a.py", "pass")), twice) == [1]
    assert unread(everything(file("a.py", "pass")), file("b.py", "pass")) == [1], "of another file"


def test_a_new_file_keeps_what_was_read_under_a_name_that_is_gone() -> None:
    kept = everything(file("old.py", "one", "two", state="?"))
    assert unread(kept, file("new.py", "one", "two", state="?")) == [0]
    assert unread(kept, file("new.py", "one", "two", state="?"), omitted=1) == [2], "the old name may be among them"
    assert unread(kept, file("new.py", "one", "two")) == [2], "a changed file was there before"
    assert unread(kept, file("new.py", "one", state="?"), file("old.py", "two", state="?")) == [1, 0]


def test_files_without_lines_and_modes_are_parts_of_their_own() -> None:
    binary = FileDiff("a.bin", binary=True, added=None, removed=None, content="1..2")
    assert unread(everything(binary), binary) == [0]
    assert unread(everything(binary), FileDiff("a.bin", binary=True, added=None, removed=None, content="1..3")) == [1]
    plain = file("run.sh", "echo")
    executable = FileDiff("run.sh", old_mode="100644", new_mode="100755", hunks=plain.hunks)
    assert unread(everything(plain), executable) == [1]
    cut = FileDiff("big.txt", hunks=plain.hunks, cut=5, content="1..2")
    assert unread(everything(cut), FileDiff("big.txt", hunks=plain.hunks, cut=5, content="1..3")) == [1]
    assert progress(Diff(omitted=2), ()).data() == {"unread": 0, "total": 0, "partial": True}


def test_the_oldest_parts_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_parts, "_MOST", 3)
    connection = db.connect(str(tmp_path / "iMi.db"))
    for number in range(5):
        monkeypatch.setattr("imi_monitor.model.times.stamp", lambda number=number: f"2026-01-0{number + 1}")
        db.transact(connection, read_parts.add, "app", "feat-x", [("a.py", str(number))])
    assert read_parts.list_parts(connection, "app", "feat-x") == {("a.py", str(number)) for number in (2, 3, 4)}
    connection.close()


def test_the_command_line_counts_and_marks(repo: Repo) -> None:
    feat = repo.worktree("feat-x")
    repo.worktree("feat-y")
    feat.write("committed.py", "one\n")
    feat.commit("own work")
    feat.write("README.md", "hello\nmore\n")
    feat.write("new.txt", "new\n")
    assert imi("unread", cwd=repo.path).out.splitlines() == [
        "feat-x  3/3 unread",
        "app     nothing to read",
        "feat-y  nothing to read",
    ]
    assert (
        imi("read", "x", "README.md", "committed.py", cwd=repo.path).out
        == "2 files of feat-x read; 1/3 unread against the trunk\n"
    )
    assert imi("unread", "x", cwd=repo.path).out.splitlines() == ["feat-x: 1/3 unread", "   1/1    new.txt"]
    assert imi("rename", "feat-x", "feat-z", cwd=repo.path).code == 0
    rows = imi("unread", "--json", cwd=repo.path).data["worktrees"]
    assert next((row["worktree_name"], row["unread"], row["total"]) for row in rows) == ("feat-z", 1, 3)
    counts = {
        row["worktree_name"]: row["unread"]
        for row in imi("status", "--unread", "--json", cwd=repo.path).data["worktrees"]
    }
    assert counts["feat-z"] == {"unread": 1, "total": 3, "partial": False} and counts["feat-y"]["total"] == 0
    again = imi("status", "--json", cwd=repo.path).data["worktrees"]
    assert {row["worktree_name"]: row["unread"] for row in again} == counts, "what was counted is known"
    hunk = imi("diff", "feat-z", "--json", cwd=repo.path).data["files"][0]["hunks"][0]["id"]
    again = imi("read", "feat-z", "README.md", "--hunk", hunk, "--undo", cwd=repo.path)
    assert again.out == "1 hunk of feat-z unread again; 2/3 unread against the trunk\n"
    assert imi("read", "feat-z", cwd=repo.path).code == 2
    wrong = imi("read", "feat-z", "README.md", "--hunk", "zz", cwd=repo.path)
    assert (wrong.code, wrong.err) == (2, "imi: 'zz' is no id of a hunk: `imi diff --json` has them\n")
    assert imi("read", "feat-z", "gone", cwd=repo.path).code == 1
    assert imi("read", "feat-z", ".", cwd=repo.path).out == "3 files of feat-z read; 3 parts read against the trunk\n"
