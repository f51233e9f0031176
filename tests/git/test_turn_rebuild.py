"""The files at the beginning of a turn that nothing saw: rebuilt from what the agent recorded, from times and from the reflog."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from imi_monitor.git import turn_rebuild, turn_start
from imi_monitor.git.turn_start import KeptLimits
from imi_monitor.model import times
from imi_monitor.model.errors import GitError
from imi_monitor.model.turn_files import NO_FILES, TurnFiles
from tests.git.git_kit import open_git
from tests.helpers import Repo, tree_hash

_GRAIN = 0.06  # seconds after which the times of files tell two writes apart

Changes = dict[str, tuple[str, int | None, int | None, bool]]


def begin(repo: Repo) -> str:
    """The turn begins now: what was written before and what is written behind it have other times."""
    time.sleep(_GRAIN)
    began = times.stamp()
    time.sleep(_GRAIN)
    return began


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of the agent have a later second than the turn's beginning: a reflog has no finer times."""
    stamp = f"@{int(time.time()) + 5} +0000"
    monkeypatch.setenv("GIT_COMMITTER_DATE", stamp)


def rebuilt(repo: Repo, began: str, files: dict[str, bytes | None], *, inexact: tuple[str, ...] = ()) -> Changes:
    """Each file of the turn's diff: its state, its lines, and whether it is only likely."""
    git, root = open_git(repo), os.path.realpath(repo.path)
    real = {os.path.join(root, name): content for name, content in files.items()}
    recorded = TurnFiles(real, frozenset(os.path.join(root, name) for name in inexact))
    start = turn_start.keep(git, "claude:1", "claude-1", began, times.stamp(), recorded=recorded)
    assert start.rebuilt and turn_start.read(git.admin_dir) == start
    return {
        one.path: (one.state, one.added, one.removed, one.likely) for one in turn_start.read_turn_diff(git, start).files
    }


@pytest.fixture
def feat(repo: Repo) -> Repo:
    """A worktree with changes of a person: one staged and edited on, one new, one deleted in a folder that rests."""
    (repo.path / "rests").mkdir()
    repo.write("rests/gone.txt", "gone\n")
    repo.write("kept.txt", "kept\n")
    repo.commit("more")
    made = repo.worktree("feat-x")
    made.write("README.md", "hello\nmine\n")
    made.git("add", "README.md")
    made.write("README.md", "hello\nmine\nmore of mine\n")
    made.write("new.txt", "mine\n")
    os.unlink(made.path / "rests" / "gone.txt")
    return made


def test_what_is_recorded_is_exact_and_what_was_not_written_is_unchanged(feat: Repo) -> None:
    before = tree_hash(Path(open_git(feat).common_dir, "objects")), Path(open_git(feat).admin_dir, "index").read_bytes()
    began = begin(feat)
    assert rebuilt(feat, began, {}) == {}
    feat.write("README.md", "hello\nmine\nmore of mine\nagent\n")
    feat.write("agent.py", "one\ntwo\n")
    assert rebuilt(feat, began, {"README.md": b"hello\nmine\nmore of mine\n", "agent.py": None}) == {
        "README.md": ("M", 1, 0, False),
        "agent.py": ("?", 2, 0, False),
    }
    after = tree_hash(Path(open_git(feat).common_dir, "objects")), Path(open_git(feat).admin_dir, "index").read_bytes()
    assert after == before, "the repository is not touched"


def test_what_a_command_changed_is_likely(feat: Repo) -> None:
    began = begin(feat)
    feat.write("kept.txt", "kept\nby a command\n")
    feat.write("by-command.txt", "new\n")
    os.unlink(feat.path / "new.txt")  # git never had it: nothing is left of it
    os.unlink(feat.path / "README.md")
    expected: Changes = {
        "kept.txt": ("M", 1, 0, True),
        "by-command.txt": ("?", 1, 0, True),
        "README.md": ("D", 0, 1, True),
    }
    assert rebuilt(feat, began, {}) == expected


def test_commits_of_the_agent_belong_to_its_turn(feat: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    began = begin(feat)
    feat.write("README.md", "hello\nmine\nmore of mine\nagent\n")
    feat.write("agent.py", "one\n")
    later(monkeypatch)
    feat.git("add", "--all")
    feat.commit("the agent commits all")
    feat.write("agent.py", "one\ntwo\n")
    found = rebuilt(feat, began, {"README.md": b"hello\nmine\nmore of mine\n", "agent.py": None})
    assert found == {"README.md": ("M", 1, 0, False), "agent.py": ("?", 2, 0, False)} | {
        path: change for path, change in found.items() if path not in ("README.md", "agent.py")
    }
    assert "new.txt" not in found, "it was not written since"


def test_a_file_that_is_again_as_committed_was_changed_by_the_agent(feat: Repo) -> None:
    """The person's uncommitted lines are gone: the diff of the last commit shows nothing, that of the turn does."""
    began = begin(feat)
    feat.git("checkout", "-q", "HEAD", "--", "README.md")
    assert rebuilt(feat, began, {"README.md": b"hello\nmine\nmore of mine\n"}) == {"README.md": ("M", 0, 2, False)}


def test_a_text_without_its_line_ends_is_likely(feat: Repo) -> None:
    began = begin(feat)
    feat.write("kept.txt", "kept\nagent\n")
    found = rebuilt(feat, began, {"kept.txt": b"kept\n"}, inexact=("kept.txt",))
    assert found == {"kept.txt": ("M", 1, 0, True)}


def test_hostile_names_links_modes_and_places_outside(feat: Repo) -> None:
    (feat.path / "run.sh").write_text("#!/bin/sh\n")
    (feat.path / "run.sh").chmod(0o755)
    feat.git("add", "run.sh")
    feat.commit("a script")
    feat.write(".gitignore", "secret.env\n")
    feat.write("secret.env", "TOKEN=1\n")
    began = begin(feat)
    feat.write("-n\n\"ü'.txt", "x\n")
    feat.write("run.sh", "#!/bin/sh\ntrue\n")
    feat.write("secret.env", "TOKEN=2\n")
    names = {
        "-n\n\"ü'.txt": None,
        "run.sh": b"#!/bin/sh\n",
        "secret.env": b"TOKEN=1\n",
        ".git/config": b"x",
        "../a": b"x",
    }
    assert rebuilt(feat, began, names) == {"-n\n\"ü'.txt": ("?", 1, 0, False), "run.sh": ("M", 1, 0, False)}


def test_the_commit_of_a_moment(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    git, now = open_git(repo), time.time()
    first = repo.git("rev-parse", "HEAD")
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"@{int(now) + 100} +0200")
    repo.write("a.txt", "a\n")
    second = repo.commit("second")
    assert turn_rebuild.commit_at(git, now + 50) == first
    assert turn_rebuild.commit_at(git, now + 101) == second == repo.git("rev-parse", "HEAD")
    assert turn_rebuild.commit_at(git, 0) is None, "nothing was committed then"
    made = open_git(repo.worktree("feat-x"))
    assert turn_rebuild.commit_at(made, 0) == second, "a worktree that was made since began at its commit"
    os.unlink(os.path.join(git.admin_dir, "logs", "HEAD"))
    assert turn_rebuild.commit_at(git, now + 50) == second, "without a reflog it is the present one"
    Path(git.admin_dir, "logs", "HEAD").write_text(f"{'0' * 40} {'1' * 40} A <a@b> 5 +0000\tcommit: lost\n")
    with pytest.raises(GitError, match="is gone"):
        turn_rebuild.commit_at(git, now)


def test_too_many_files_are_refused(feat: Repo) -> None:
    began = begin(feat)
    feat.write("one.txt", "1\n")
    with pytest.raises(GitError, match="too many to keep"):
        turn_start.keep(open_git(feat), "a", "a", began, times.stamp(), KeptLimits(files=1), NO_FILES)


def test_a_turn_is_rebuilt_once(feat: Repo) -> None:
    git, asked = open_git(feat), []
    began = times.stamp(times.now() - timedelta(seconds=60))

    def recorded() -> TurnFiles:
        asked.append(1)
        return NO_FILES

    assert turn_start.keep_turn(git, "a", "a", began, recorded=recorded)
    assert not turn_start.keep_turn(git, "a", "a", began, recorded=recorded) and len(asked) == 1
    assert turn_start.keep_turn(git, "a", "a", times.stamp()) and len(asked) == 1
    start = turn_start.read(git.admin_dir)
    assert start is not None and not start.rebuilt, "one that begins now is kept as it is"
