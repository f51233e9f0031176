"""The checks of an inspection one by one: the exact reasons of a worktree, and what is no reason."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.actions import worktree_lookup as targets
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import inspection, safe_removal
from imi_monitor.model.verdict import FORCE, NEVER, NOTE, YES_REALLY, Reason
from imi_monitor.store import claims
from tests.actions.removal_kit import act, admin_of, process_inside
from tests.audit_events import at_event, fail
from tests.helpers import ROOT, Repo


@pytest.fixture
def tree(repo: Repo) -> Repo:
    return repo.worktree("feat-x")


def reasons(
    repo: Repo, name: str = "feat-x", *, cwd: Path | None = None, agent: str | None = None, deep: bool = False
) -> list[Reason]:
    with Context(str(cwd or repo.path), repo=str(repo.path)) as context:
        found = targets.find_worktree(context, name)
        return list(safe_removal.removal_verdict(context, found, agent=agent, deep=deep).reasons)


def told(found: list[Reason]) -> list[tuple[str, str, str]]:
    return [(one.code, one.sentence, one.override) for one in found]


def test_a_clean_worktree_has_no_reason(repo: Repo, tree: Repo) -> None:
    assert reasons(repo) == []


class TestFiles:
    def test_each_kind_is_named_with_its_files(self, repo: Repo, tree: Repo) -> None:
        tree.write("README.md", "theirs\n")
        tree.commit("theirs")
        repo.write("README.md", "ours\n")
        repo.commit("ours")
        tree.git("merge", "main", check=False)
        tree.write("staged.py", "x\n")
        tree.git("add", "staged.py")
        tree.write("staged.py", "y\n")
        tree.write("new.py", "x\n")
        Repo.create(tree.path / "tools")
        found = [one for one in reasons(repo) if one.override != NOTE]
        assert told(found) == [
            ("conflicted", "1 conflicted file", FORCE),
            ("staged", "1 staged change", FORCE),
            ("unstaged", "1 uncommitted change", FORCE),
            ("untracked", "1 untracked file", FORCE),
            ("operation", "a merge is in progress", FORCE),
            ("nested", "1 nested repository", FORCE),
        ]
        assert [one.names for one in found] == [
            ("README.md",),
            ("staged.py",),
            ("staged.py",),
            ("new.py",),
            (),
            ("tools",),
        ]

    def test_what_git_hides_is_named(self, repo: Repo, tree: Repo, tmp_path: Path) -> None:
        tree.write(".gitignore", "*.env\nmine/\ntheirs/\n")
        tree.commit("ignore")
        tree.write("a.env", "x")
        tree.write("b.env", "x")
        Repo.create(tree.path / "mine" / "one")
        Repo.create(tree.path / "mine" / "two")
        other = Repo.create(tmp_path / "other")
        other.git("worktree", "add", "-q", "-b", "w", str(tree.path / "theirs"))
        tree.git("update-index", "--assume-unchanged", "src/db.py")
        tree.write("src/db.py", "hidden\n")
        found = [one for one in reasons(repo) if one.override != NOTE]
        assert told(found) == [
            ("ignored", "2 ignored files of possible value", FORCE),
            ("nested", "2 nested repositories", FORCE),
            ("nested-worktree", "1 worktree of another repository inside, which that repository would lose", NEVER),
            ("hidden", "1 edited file hidden from git (assume-unchanged, skip-worktree)", FORCE),
        ]
        assert [sorted(one.names) for one in found] == [
            ["a.env", "b.env"],
            ["mine/one", "mine/two"],
            ["theirs"],
            ["src/db.py"],
        ]


class TestPlace:
    def test_only_the_first_is_told_and_git_does_not_run_there(self, repo: Repo, tree: Repo) -> None:
        """A folder whose `.git` file names another place is not what it claims to be."""
        (tree.path / ".git").write_text(f"gitdir: {repo.path}/.git\n")
        (tree.path / "new.py").write_text("x\n")
        repo.git("worktree", "lock", str(tree.path))
        (only,) = reasons(repo)
        assert (only.code, only.override) == ("tampered", NEVER)

    def test_a_name_that_the_registry_cannot_store(self, repo: Repo) -> None:
        repo.git("worktree", "add", "-q", "-b", "odd", str(repo.path.parent / "feat-\x1b"))
        with Context(str(repo.path)) as context:
            (found,) = [
                one for one in targets.list_worktrees(context, context.repository(str(repo.path))) if not one.is_main
            ]
            (only,) = inspection.inspect_worktree(context, found, "me").reasons
        assert (only.code, only.override) == ("odd-name", NEVER)

    @pytest.mark.parametrize("name", ["sync", "HEAD", "trunk"])
    def test_a_reserved_name(self, repo: Repo, name: str) -> None:
        repo.git("worktree", "add", "-q", "-b", "odd", str(repo.path.parent / name))
        (only,) = reasons(repo, name)
        assert (only.code, only.override) == ("trunk", NEVER)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
    def test_root_removes_what_belongs_to_another_user(self, repo: Repo, tree: Repo) -> None:
        os.chown(tree.path, 12345, -1)
        assert "another-user" not in [one.code for one in reasons(repo)]

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts")
    def test_another_device_that_is_no_mount_cannot_be_moved(self, repo: Repo, tree: Repo) -> None:
        """As a subvolume of btrfs is one."""
        script = (
            "from pathlib import Path\n"
            "from imi_monitor import host\n"
            "from tests.actions.removal_kit import remove\n"
            "from tests.helpers import Repo\n"
            "host.mounts_inside = lambda path: []\n"
            f"remove(Repo(Path({str(repo.path)!r})), 'feat-x')\n"
        )
        shell = 'mount -t tmpfs none "$0" || exit 77; cp "$1" "$0/.git"; shift; exec "$@"'
        kept = repo.path.parent / "git-file"
        kept.write_text((tree.path / ".git").read_text())
        argv = ["unshare", "--mount", "sh", "-c", shell, str(tree.path), str(kept), sys.executable, "-c", script]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(argv, env=env, cwd=repo.path, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 77 or "unshare" in done.stderr:
            pytest.skip("nothing can be mounted here")
        assert "is a mount point and cannot be moved" in done.stderr, done


class TestProcesses:
    def test_the_callers_place(self, repo: Repo, tree: Repo) -> None:
        beside = tree.path.with_name("feat-x-2")
        beside.mkdir()
        said = ("inside", "your shell, or the program that started imi, is in it: cd somewhere else first", FORCE)
        for cwd, inside in ((tree.path, True), (tree.path / "src", True), (beside, False), (tree.path.parent, False)):
            assert told(reasons(repo, cwd=cwd)) == ([said] if inside else []), cwd

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
    def test_others_are_named(self, repo: Repo, tree: Repo) -> None:
        with process_inside(tree.path) as one, process_inside(tree.path / "src") as two:
            (only,) = reasons(repo)
        assert (only.code, only.sentence, only.override) == ("live-processes", "2 processes at work inside", YES_REALLY)
        assert sorted(only.names) == sorted(f"sleep ({child.pid})" for child in (one, two))

    def test_the_first_process_of_a_container_may_be_the_callers_shell(self, repo: Repo, tree: Repo) -> None:
        """In a process namespace of its own the shell is process 1: the caller, and no other process at work inside."""
        script = (
            "from imi_monitor.actions.context import Context\n"
            "from imi_monitor.actions import worktree_lookup\n"
            "from imi_monitor.actions.removal import inspection\n"
            f"with Context({str(repo.path)!r}) as context:\n"
            "    print(inspection.live_processes(worktree_lookup.find_worktree(context, 'feat-x')))\n"
        )
        shell = 'echo "$$" && cd "$0" && (cd / && "$@") && true'
        space = ["unshare", "--pid", "--fork", "--mount-proc", *(["--map-root-user"] if os.geteuid() else [])]
        argv = [*space, "sh", "-c", shell, str(tree.path), sys.executable, "-c", script]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        try:
            done = subprocess.run(argv, env=env, cwd=repo.path, capture_output=True, text=True, timeout=60, check=False)
        except FileNotFoundError:
            pytest.skip("no unshare here")
        if "unshare" in done.stderr:
            pytest.skip(f"no process namespace here: {done.stderr}")
        assert done.stdout == "1\n([], True)\n", done


class TestLocks:
    @pytest.mark.parametrize(("why", "shown"), [("on a disk", "on a disk"), ("", "no reason given")])
    def test_the_reason_of_a_lock(self, repo: Repo, tree: Repo, why: str, shown: str) -> None:
        repo.git("worktree", "lock", "--reason", why, str(tree.path))
        sentence = f"it is locked ({shown}); the lock comes back with `imi undo`"
        assert told(reasons(repo)) == [("locked", sentence, FORCE)]

    @pytest.mark.parametrize(("name", "override"), [("index.lock", FORCE), ("HEAD.lock", NEVER)])
    def test_of_git(self, repo: Repo, tree: Repo, name: str, override: str) -> None:
        lock = admin_of(tree.path) / name
        lock.touch()
        (only,) = reasons(repo)
        assert (only.code, only.override, only.count) == ("git-busy", override, 1) and str(lock) in only.sentence

    def test_that_cannot_be_listed_are_unknown(self, repo: Repo, tree: Repo) -> None:
        admin = str(admin_of(tree.path))
        with at_event("os.listdir", fail(errno.EIO), when=lambda path, *_: str(path) == admin):
            (only,) = reasons(repo)
        assert (only.code, only.override) == ("unknown", YES_REALLY)
        assert only.sentence.startswith("cannot tell whether git is running there: Input/output error")


class TestClaims:
    @pytest.fixture
    def lock(self, cluster: Repo) -> Path:
        cluster.worktree("feat-x")
        folder = cluster.path.parent / ".iMi" / "presence"
        folder.mkdir(exist_ok=True)
        return folder / "feat-x.lock"

    @pytest.mark.parametrize("registered", [True, False])
    def test_of_another_program(self, cluster: Repo, lock: Path, registered: bool) -> None:
        if registered:
            act("claim", cwd=cluster.path, name="feat-x", agent="me")
            act("release", cwd=cluster.path, name="feat-x", agent="me")
        lock.write_text("yi-agent-7\n")
        sentence = "yi-agent-7 has claimed it, according to its presence lock"
        assert told(reasons(cluster, agent="me")) == [("claimed", sentence, YES_REALLY)]
        assert reasons(cluster, agent="yi-agent-7") == []

    def test_the_registry_is_believed_first(self, cluster: Repo, lock: Path) -> None:
        act("claim", cwd=cluster.path, name="feat-x", agent="claude-1")
        lock.write_text("yi-agent-7\n")
        assert told(reasons(cluster, agent="me")) == [("claimed", "claude-1 has claimed it", YES_REALLY)]
        assert reasons(cluster, agent="claude-1") == []

    def test_of_a_dead_process_is_none(self, repo: Repo, tree: Repo) -> None:
        act("claim", cwd=repo.path, name="feat-x", agent="claude-1")
        with Context(str(repo.path)) as context:
            context.connection.execute("UPDATE claims SET boot = 'another boot', pid = 1, pid_started = '0'")
            dead = claims.state(claims.current(context.connection, "app", "feat-x"))
        assert (dead, reasons(repo, agent="me")) == ("dead", [])


def note(code: str, sentence: str) -> tuple[str, str, str]:
    return code, sentence, NOTE


class TestCommits:
    def on_a_tag(self, repo: Repo, tree: Repo) -> None:
        tree.git("tag", "v1")

    def on_a_remote(self, repo: Repo, tree: Repo) -> None:
        repo.git("update-ref", "refs/remotes/origin/x", tree.git("rev-parse", "HEAD"))

    def on_a_branch(self, repo: Repo, tree: Repo) -> None:
        tree.git("branch", "kept")

    def in_the_trunk(self, repo: Repo, tree: Repo) -> None:
        repo.git("merge", "-q", "--ff-only", tree.git("rev-parse", "HEAD"))

    def nowhere(self, repo: Repo, tree: Repo) -> None:
        pass

    @pytest.mark.parametrize("where", ["on_a_tag", "on_a_remote", "on_a_branch", "in_the_trunk", "nowhere"])
    def test_of_a_detached_head(self, repo: Repo, tree: Repo, where: str) -> None:
        """A reason only if nothing else keeps them."""
        tree.git("checkout", "-q", "--detach")
        tree.write("work.py", "x\n")
        sha = tree.commit("work")
        keep: Callable[[Repo, Repo], None] = getattr(self, where)
        keep(repo, tree)
        sentence = "1 commit on no branch: run `git branch NAME` there to keep them"
        found = reasons(repo)
        assert told(found) == ([("detached", sentence, FORCE)] if where == "nowhere" else [])
        assert [one.names for one in found] == ([(f"{sha[:10]} work",)] if found else [])

    def test_of_a_branch_are_notes(self, cloned: Repo) -> None:
        tree = cloned.worktree("feat-x")
        assert reasons(cloned) == []
        tree.write("work.py", "x\n")
        first = tree.commit("first")
        tree.git("push", "-q", "origin", "feat/x")
        unmerged = "1 commit not in main; branch feat/x is kept"
        found = reasons(cloned)
        assert (told(found), found[0].names) == ([note("unmerged", unmerged)], (f"{first[:10]} first",))
        tree.write("work.py", "y\n")
        second = tree.commit("second")
        found = reasons(cloned)
        assert told(found) == [
            note("unmerged", "2 commits not in main; branch feat/x is kept"),
            note("unpushed", "1 commit on no remote; branch feat/x is kept"),
        ]
        assert found[1].names == (f"{second[:10]} second",)
        cloned.git("merge", "-q", "--ff-only", "feat/x")
        cloned.git("push", "-q", "origin", "main")
        assert reasons(cloned) == []

    def test_without_a_remote_nothing_is_unpushed(self, repo: Repo, tree: Repo) -> None:
        tree.write("work.py", "x\n")
        tree.commit("work")
        assert told(reasons(repo)) == [note("unmerged", "1 commit not in main; branch feat/x is kept")]

    def test_only_a_deep_look_proves_a_squash(self, repo: Repo, tree: Repo) -> None:
        tree.write("work.py", "x\n")
        tree.commit("work")
        repo.git("merge", "-q", "--squash", "feat/x")
        repo.git("commit", "-qm", "squashed")
        assert [one.code for one in reasons(repo)] == ["unmerged"]
        assert reasons(repo, deep=True) == []
        with Context(str(repo.path)) as context:  # one that costs time is made only on request
            found = targets.find_worktree(context, "feat-x")
            assert [one.code for one in inspection.inspect_worktree(context, found, "me").reasons] == ["unmerged"]
            assert [one.code for one in safe_removal.removal_verdict(context, found).reasons] == ["unmerged"]

    def test_the_default_branch_stays(self, repo: Repo) -> None:
        repo.git("checkout", "-q", "-b", "elsewhere")
        repo.git("worktree", "add", "-q", str(repo.path.parent / "work"), "main")
        assert told(reasons(repo, "work")) == [("trunk", "main is the repository's default branch", NEVER)]

    @pytest.mark.parametrize("detached", [True, False])
    def test_without_a_trunk_only_remotes_are_compared(self, tmp_path: Path, detached: bool) -> None:
        repo = Repo.create(tmp_path / "app", branch="one")
        repo.git("checkout", "-q", "-b", "two")
        tree = repo.worktree("feat-x")
        tree.write("work.py", "x\n")
        tree.commit("work")
        repo.git("checkout", "-q", "--detach")
        repo.git("remote", "add", "origin", str(tmp_path / "nowhere.git"))
        if detached:
            tree.git("checkout", "-q", "--detach")
        found = reasons(repo)
        assert [one.code for one in found] == ([] if detached else ["unpushed"]), found

    def test_a_stash_is_a_note_of_its_branch(self, repo: Repo, tree: Repo) -> None:
        repo.write("README.md", "of the trunk\n")
        repo.git("stash", "-q")
        assert reasons(repo) == []
        for number in range(2):
            tree.write("README.md", f"put away {number}\n")
            tree.git("stash", "-q")
        words = "stash entries made here; the repository's stash is kept"
        found = reasons(repo)
        assert told(found) == [note("stash", f"2 {words}")] and len(found[0].names) == 2

    def test_an_unborn_branch_has_none(self, repo: Repo, tree: Repo) -> None:
        tree.git("checkout", "-q", "--orphan", "fresh")
        tree.git("rm", "-rfq", ".")
        assert reasons(repo) == []


def test_the_processes_of_a_host_end_at_none() -> None:
    assert host.parent_pid(0) == 0
    assert host.parent_pid(1) == 0
