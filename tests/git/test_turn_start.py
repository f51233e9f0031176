"""What is kept at the beginning of a turn: the diff shows only what changed since, and the repository is not touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imi_monitor.git import turn_start
from imi_monitor.git.turn_start import USUAL_LIMITS, KeptLimits
from imi_monitor.model import times
from imi_monitor.model.diff import Diff
from imi_monitor.model.errors import GitError
from tests.git.git_kit import open_git
from tests.helpers import Repo, imi, shift_clock, tree_hash


def keep(repo: Repo, limits: KeptLimits = USUAL_LIMITS) -> None:
    turn_start.keep(open_git(repo), "claude:1", "claude-1", times.stamp(), times.stamp(), limits)


def turn_diff(repo: Repo) -> Diff:
    git = open_git(repo)
    start = turn_start.read(git.admin_dir)
    assert start is not None
    return turn_start.read_turn_diff(git, start)


def changes(repo: Repo) -> dict[str, tuple[int | None, int | None]]:
    return {file.path: (file.added, file.removed) for file in turn_diff(repo).files}


@pytest.fixture
def feat(repo: Repo) -> Repo:
    """A worktree in which something of each kind is uncommitted."""
    made = repo.worktree("feat-x")
    made.write("README.md", "hello\nstaged\n")
    made.git("add", "README.md")
    made.write("README.md", "hello\nstaged\nchanged\n")
    made.write("new\n.txt", "new\n")
    made.write("gone.txt", "later deleted\n")
    return made


def test_only_what_changed_since_is_shown_committed_or_not(feat: Repo) -> None:
    objects = Path(open_git(feat).common_dir, "objects")
    before = tree_hash(objects), Path(open_git(feat).admin_dir, "index").read_bytes()
    keep(feat)
    assert (tree_hash(objects), Path(open_git(feat).admin_dir, "index").read_bytes()) == before
    assert changes(feat) == {}
    feat.write("README.md", "hello\nstaged\nchanged\nmore\n")
    feat.write("new\n.txt", "other\n")
    feat.write("agent.py", "one\ntwo\n")
    os.unlink(feat.path / "gone.txt")
    expected = {"README.md": (1, 0), "new\n.txt": (1, 1), "agent.py": (2, 0), "gone.txt": (0, 1)}
    assert changes(feat) == expected
    feat.git("add", "--all")
    feat.commit("the agent commits")
    assert changes(feat) == expected, "a commit is part of the turn"
    keep(feat)
    assert changes(feat) == {}, "the next turn begins anew"


def test_a_conflict_and_a_file_without_a_commit_are_kept(tmp_path: Path, repo: Repo) -> None:
    empty = Repo(tmp_path / "empty")
    empty.path.mkdir()
    empty.git("init", "-q")
    empty.write("a.txt", "a\n")
    keep(empty)
    empty.write("a.txt", "a\nb\n")
    assert changes(empty) == {"a.txt": (1, 0)}


def test_a_large_new_file_counts_as_unchanged_until_it_is_written(feat: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    feat.write("large.txt", "x" * 100)
    for shift, shown in ((60.0, {}), (-60.0, {"large.txt": (1, 0)})):
        shift_clock(monkeypatch, shift)  # the file is older than the turn, or newer
        keep(feat, KeptLimits(bytes=60))
        assert changes(feat) == shown


def test_too_many_files_are_refused_and_the_earlier_turn_stays(feat: Repo) -> None:
    keep(feat)
    before = turn_start.read(open_git(feat).admin_dir)
    with pytest.raises(GitError, match="too many to keep"):
        keep(feat, KeptLimits(files=2))
    assert turn_start.read(open_git(feat).admin_dir) == before
    assert len(os.listdir(os.path.dirname(turn_start.folder_of(open_git(feat).admin_dir)))) == 1


def test_what_belongs_to_no_worktree_is_deleted(feat: Repo, repo: Repo) -> None:
    keep(feat)
    keep(repo)
    repo.git("worktree", "remove", "--force", str(feat.path))
    turn_start.forget_gone()
    assert turn_start.read(open_git(repo).admin_dir) is not None
    assert len(os.listdir(os.path.dirname(turn_start.folder_of(open_git(repo).admin_dir)))) == 1


def test_imi_diff_shows_the_last_turn(feat: Repo, repo: Repo) -> None:
    missing = imi("diff", "x", "--turn", cwd=repo.path)
    assert missing.code == 1 and "no turn of an agent is known in feat-x" in missing.err
    keep(feat)
    feat.write("agent.py", "one\n")
    done = imi("diff", "x", "--turn", cwd=repo.path)
    assert done.out.splitlines()[0].startswith("since claude-1's last turn began, ")
    assert done.out.splitlines()[1:] == ["── agent.py  untracked, +1 −0", "     1 +one"]
    again = imi("diff", "x", "--turn", "--json", cwd=repo.path).data
    assert [file["path"] for file in again["files"]] == ["agent.py"]
