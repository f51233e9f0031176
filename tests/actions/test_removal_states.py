"""R1: whatever state a worktree is in, `imi remove` and `imi undo` bring it back byte for byte, and a `git gc` in between
takes nothing away."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.config import database_path
from imi_monitor.model.errors import Refused
from imi_monitor.store import claims, db
from tests.actions.removal_kit import admin_of, assert_same, fingerprint, force, process_inside, remove, undo
from tests.helpers import Repo, git

State = Callable[[Repo, Repo], None]


def clean(repo: Repo, tree: Repo) -> None:
    pass


def modified(repo: Repo, tree: Repo) -> None:
    tree.write("README.md", "changed\n")


def staged(repo: Repo, tree: Repo) -> None:
    tree.write("new.py", "staged, and in no commit\n")
    tree.git("add", "new.py")
    tree.write("new.py", "changed after staging\n")


def staged_rename(repo: Repo, tree: Repo) -> None:
    tree.git("mv", "README.md", "LIESMICH.md")
    tree.write("later.py", "x\n")
    tree.git("add", "--intent-to-add", "later.py")


def untracked(repo: Repo, tree: Repo) -> None:
    tree.write("notes.txt", "not yet added\n")
    tree.write("a dir/with space", "x\n")


def untracked_hidden(repo: Repo, tree: Repo) -> None:
    repo.git("config", "status.showUntrackedFiles", "no")
    untracked(repo, tree)


def conflicted(repo: Repo, tree: Repo) -> None:
    tree.write("README.md", "theirs\n")
    tree.commit("theirs")
    repo.write("README.md", "ours\n")
    repo.commit("ours")
    tree.git("merge", "main", check=False)


def rebase(repo: Repo, tree: Repo) -> None:
    tree.write("README.md", "theirs\n")
    tree.commit("theirs")
    repo.write("README.md", "ours\n")
    repo.commit("ours")
    tree.git("rebase", "main", check=False)
    assert (admin_of(tree.path) / "rebase-merge").is_dir()


def cherry_pick(repo: Repo, tree: Repo) -> None:
    repo.write("README.md", "ours\n")
    sha = repo.commit("ours")
    tree.write("README.md", "theirs\n")
    tree.commit("theirs")
    tree.git("cherry-pick", sha, check=False)


def am(repo: Repo, tree: Repo) -> None:
    repo.write("README.md", "ours\n")
    repo.commit("ours")
    repo.git("format-patch", "-1", "-o", str(repo.path.parent / "patches"))
    tree.write("README.md", "theirs\n")
    tree.commit("theirs")
    tree.git("am", str(next((repo.path.parent / "patches").iterdir())), check=False)


def bisect(repo: Repo, tree: Repo) -> None:
    tree.git("bisect", "start", "HEAD", "HEAD~1")


def ignored_env(repo: Repo, tree: Repo) -> None:
    tree.write(".env", "TOKEN=1\n")


def ignored_database(repo: Repo, tree: Repo) -> None:
    tree.write("data/app.sqlite", "x" * 10)


def ignored_outputs(repo: Repo, tree: Repo) -> None:
    tree.write("build/result.bin", "x" * 9000)
    tree.write("node_modules/dep/index.js", "x" * 9000)


def nested_ignored(repo: Repo, tree: Repo) -> None:
    nested = Repo.create(tree.path / "build" / "checkout")
    nested.write("only-here.txt", "x\n")
    nested.commit("a commit that nothing else has")


def nested_untracked(repo: Repo, tree: Repo) -> None:
    Repo.create(tree.path / "tools" / "helper")


def assume_unchanged(repo: Repo, tree: Repo) -> None:
    tree.git("update-index", "--assume-unchanged", "README.md")
    tree.write("README.md", "a secret edit\n")


def skip_worktree(repo: Repo, tree: Repo) -> None:
    tree.git("update-index", "--skip-worktree", "README.md")
    tree.write("README.md", "a local edit\n")


def detached(repo: Repo, tree: Repo) -> None:
    tree.git("checkout", "-q", "--detach")
    tree.write("README.md", "on no branch\n")
    tree.commit("on no branch")


def detached_on_branch(repo: Repo, tree: Repo) -> None:
    tree.git("checkout", "-q", "--detach", "main")


def orphan(repo: Repo, tree: Repo) -> None:
    tree.git("checkout", "-q", "--orphan", "fresh")
    tree.git("rm", "-rfq", ".")


def unmerged(repo: Repo, tree: Repo) -> None:
    tree.write("README.md", "work\n")
    tree.commit("work")


def squash_merged(repo: Repo, tree: Repo) -> None:
    unmerged(repo, tree)
    repo.git("merge", "--squash", "-q", tree.git("branch", "--show-current"))
    repo.git("commit", "-qm", "squashed")


def stashed(repo: Repo, tree: Repo) -> None:
    tree.write("README.md", "put away\n")
    tree.git("stash", "-q")


def locked(repo: Repo, tree: Repo) -> None:
    repo.git("worktree", "lock", "--reason", "on a portable disk", str(tree.path))


def sparse(repo: Repo, tree: Repo) -> None:
    tree.git("sparse-checkout", "set", "src")


def split_index(repo: Repo, tree: Repo) -> None:
    tree.git("update-index", "--split-index")
    tree.write("new.py", "x\n")
    tree.git("add", "new.py")


def links(repo: Repo, tree: Repo) -> None:
    secret = repo.path.parent / "outside.txt"
    secret.write_text("outside\n")
    (tree.path / "to-file").symlink_to(secret)
    (tree.path / "to-folder").symlink_to(repo.path)
    (tree.path / "dangling").symlink_to("nowhere")
    (tree.path / ".env").symlink_to(secret)


def modes(repo: Repo, tree: Repo) -> None:
    tree.write("run.sh", "#!/bin/sh\n").chmod(0o751)
    folder = tree.path / "read-only"
    folder.mkdir()
    (folder / "file").write_text("x\n")
    folder.chmod(0o555)
    (tree.path / "empty").mkdir(mode=0o700)
    os.mkfifo(tree.path / "build-pipe")


def odd_names(repo: Repo, tree: Repo) -> None:
    for name in (b"latin-\xe9", b"new\nline", b"-rf", b"\x1b[31m", b'quo"te'):
        with open(os.path.join(os.fsencode(tree.path), name), "wb") as file:
            file.write(b"x\n")


def relative_pointers(repo: Repo, tree: Repo) -> None:
    """What `worktree.useRelativePaths` of newer gits makes."""
    admin = admin_of(tree.path)
    (tree.path / ".git").write_text(f"gitdir: {os.path.relpath(admin, tree.path)}\n")
    (admin / "gitdir").write_text(f"{os.path.relpath(tree.path / '.git', admin)}\n")


def stale_lock(repo: Repo, tree: Repo) -> None:
    (admin_of(tree.path) / "index.lock").write_bytes(b"")


def worktree_config(repo: Repo, tree: Repo) -> None:
    repo.git("config", "extensions.worktreeConfig", "true")
    tree.git("config", "--worktree", "user.name", "Only Here")


# state: (how to make it, the reasons that must stop a plain remove; none: it goes without asking)
STATES: dict[str, tuple[State, set[str]]] = {
    "clean": (clean, set()),
    "modified": (modified, {"unstaged"}),
    "staged": (staged, {"staged", "unstaged"}),
    "staged rename": (staged_rename, {"staged", "unstaged"}),
    "untracked": (untracked, {"untracked"}),
    "untracked, status told to hide it": (untracked_hidden, {"untracked"}),
    "conflict": (conflicted, {"conflicted", "operation"}),
    "rebase": (rebase, {"conflicted", "operation"}),
    "cherry-pick": (cherry_pick, {"conflicted", "operation"}),
    "am": (am, {"operation"}),
    "bisect": (bisect, {"operation"}),
    "ignored .env": (ignored_env, {"ignored"}),
    "ignored database": (ignored_database, {"ignored"}),
    "ignored build products": (ignored_outputs, set()),
    "nested repository, ignored": (nested_ignored, {"nested"}),
    "nested repository, untracked": (nested_untracked, {"nested"}),
    "assume-unchanged": (assume_unchanged, {"hidden"}),
    "skip-worktree": (skip_worktree, {"hidden"}),
    "detached, own commits": (detached, {"detached"}),
    "detached, nothing own": (detached_on_branch, set()),
    "unborn": (orphan, set()),
    "unmerged": (unmerged, set()),
    "squash-merged": (squash_merged, set()),
    "stashed": (stashed, set()),
    "locked": (locked, {"locked"}),
    "sparse": (sparse, set()),
    "split index": (split_index, {"staged"}),
    "links": (links, {"untracked"}),
    "modes": (modes, {"untracked"}),
    "odd names": (odd_names, {"untracked"}),
    "relative pointers": (relative_pointers, set()),
    "stale index.lock": (stale_lock, {"git-busy"}),
    "worktree config": (worktree_config, set()),
}


def made(repo: Repo, state: State) -> Repo:
    tree = repo.worktree("feat-x")
    state(repo, tree)
    settle_logs(repo)
    return tree


def settle_logs(repo: Repo) -> None:
    """`git gc` writes a log's empty messages differently: done before, so that the gc in the test changes nothing."""
    repo.git("reflog", "expire", "--expire=never", "--expire-unreachable=never", "--all")


@pytest.mark.parametrize("name", STATES)
def test_a_removed_worktree_is_restored_byte_for_byte(repo: Repo, name: str) -> None:  # R1 S2.49
    state, _ = STATES[name]
    tree = made(repo, state)
    before = fingerprint(repo, tree.path)
    remove(repo, "feat-x", **force("feat-x"))
    assert not os.path.lexists(tree.path)
    # What keeps the objects alive is that the admin directory stays registered; what keeps that is the lock.
    repo.git("worktree", "prune", "--expire=now")
    repo.git("gc", "-q", "--prune=now")
    undo(repo)
    assert_same(fingerprint(repo, tree.path), before)
    assert "missing" not in tree.git("fsck", "--connectivity-only", "--no-dangling")
    assert not (repo.path / ".git" / "imi").exists()


@pytest.mark.parametrize("name", STATES)
def test_each_state_is_refused_for_its_reasons(
    repo: Repo, name: str
) -> None:  # R1: the 8 of git's own remove, and the others
    state, reasons = STATES[name]
    tree = made(repo, state)
    before = fingerprint(repo, tree.path)
    if not reasons:
        remove(repo, "feat-x")
        assert not os.path.lexists(tree.path)
        return
    with pytest.raises(Refused) as refused:
        remove(repo, "feat-x")
    assert told(refused.value) == reasons
    named = [
        reason["sentence"] for reason in (refused.value.data or {})["reasons"] if "submodule" in reason["sentence"]
    ]  # type: ignore[attr-defined]
    assert named == []  # this worktree has none
    assert_same(fingerprint(repo, tree.path), before)


def test_removal_names_what_the_repository_keeps(repo: Repo) -> None:
    """A stash and commits belong to the repository: a removal is not refused for them, and its dry run names them."""
    tree = made(repo, stashed)
    tree.write("new.txt", "x\n")
    tree.commit("only here")
    lines = "\n".join(remove(repo, "feat-x", dry_run=True).lines)
    assert "note: 1 stash entry made here" in lines
    assert "note: 1 commit not in main; branch feat/x is kept" in lines


def told(refused: Refused) -> set[str]:
    reasons: Any = (refused.data or {})["reasons"]
    return {reason["code"] for reason in reasons if reason["override"] != "none"}


@pytest.fixture
def with_submodule(repo: Repo, tmp_path: Path) -> Repo:
    """`app` with a submodule `lib` whose own commits are all on its remote, in a worktree where it is checked out."""
    library = Repo.create_with_origin(tmp_path / "lib-source", tmp_path / "lib.git")
    repo.git("submodule", "add", "-q", str(library.path.parent / "lib.git"), "lib")
    repo.commit("with a submodule")
    tree = repo.worktree("feat-x")
    tree.git("submodule", "update", "-q", "--init")
    return tree


@pytest.mark.parametrize("what", ["clean", "dirty", "unpushed", "staged bump"])
def test_submodules_come_back(repo: Repo, with_submodule: Repo, what: str) -> None:  # R1
    tree, inner = with_submodule, Repo(with_submodule.path / "lib")
    if what == "dirty":
        inner.write("README.md", "changed in the submodule\n")
    elif what != "clean":
        inner.write("README.md", "a commit of the submodule\n")
        inner.commit("only here")
        inner.git("checkout", "-q", "-B", "work")
    if what == "staged bump":
        tree.git("add", "lib")
    settle_logs(repo)
    before = fingerprint(repo, tree.path), inner.git("rev-parse", "HEAD")
    if what != "clean":
        with pytest.raises(Refused) as refused:
            remove(repo, "feat-x")
        assert "submodule" in told(refused.value)
    remove(repo, "feat-x", **({} if what == "clean" else force("feat-x")))
    repo.git("gc", "-q", "--prune=now")
    undo(repo)
    assert (fingerprint(repo, tree.path), inner.git("rev-parse", "HEAD")) == before
    assert tree.git("submodule", "status").split()[1] == "lib"
    inner.git("log", "-1")


def _ignored_in_submodule(inner: Repo) -> None:
    exclude = Path(inner.git("rev-parse", "--git-path", "info/exclude"))
    (inner.path / exclude).write_text("secret.txt\nbuild/\n")
    inner.write("secret.txt", "the only copy\n")
    inner.write("build/big", "x" * 5000)


def _hidden_in_submodule(inner: Repo) -> None:
    inner.git("update-index", "--assume-unchanged", "README.md")
    inner.write("README.md", "hidden\n")


def _stash_in_submodule(inner: Repo) -> None:
    inner.write("README.md", "put aside\n")
    inner.git("stash", "-q")


def _bisect_in_submodule(inner: Repo) -> None:
    inner.git("bisect", "start", "-q")


def _repository_in_submodule(inner: Repo) -> None:
    git("init", "-q", "mine", cwd=inner.path)
    (inner.path / "mine" / "x").write_text("x")


@pytest.mark.parametrize("deep", [False, True], ids=["submodule", "submodule of a submodule"])
@pytest.mark.parametrize(
    ("make", "code", "words", "names"),
    [
        (_ignored_in_submodule, "ignored", "1 ignored file of possible value in submodule", ["secret.txt"]),
        (_hidden_in_submodule, "hidden", "1 edited file hidden from git", ["README.md"]),
        (_stash_in_submodule, "submodule", "has 1 stash entry", None),
        (_bisect_in_submodule, "submodule", "has a bisect in progress", []),
        (_repository_in_submodule, "nested", "1 nested repository in submodule", ["mine"]),
    ],
)
def test_what_only_a_submodule_has_is_a_reason(  # R1
    repo: Repo,
    with_submodule: Repo,
    tmp_path: Path,
    make: Callable[[Repo], None],
    code: str,
    words: str,
    names: list[str] | None,
    deep: bool,
) -> None:
    inner = Repo(with_submodule.path / "lib")
    if deep:
        other = Repo.create_with_origin(tmp_path / "other-source", tmp_path / "other.git")
        inner.git("checkout", "-q", "-B", "work")
        inner.git("submodule", "add", "-q", str(other.path.parent / "other.git"), "other")
        inner.commit("with a submodule")
        inner.git("push", "-q", "origin", "work")
        with_submodule.git("add", "lib")
        with_submodule.commit("the submodule has one, too")
        inner = Repo(inner.path / "other")
        inner.git("checkout", "-q", "--detach")
    make(inner)
    with pytest.raises(Refused) as refused:
        remove(repo, "feat-x")
    assert told(refused.value) == {code}
    [reason] = [one for one in (refused.value.data or {})["reasons"] if one["code"] == code]  # type: ignore[attr-defined]
    at = inner.path.relative_to(with_submodule.path)
    assert words in reason["sentence"] and str(at) in reason["sentence"]
    if names is not None:
        assert reason["names"] == [f"{at}/{name}" for name in names]
    before = fingerprint(repo, with_submodule.path)
    remove(repo, "feat-x", **force("feat-x"))
    undo(repo)
    assert_same(fingerprint(repo, with_submodule.path), before)


def test_files_in_the_folder_of_a_submodule_that_is_not_initialised_are_a_reason(
    repo: Repo, with_submodule: Repo
) -> None:
    """git shows nothing of them."""
    with_submodule.git("submodule", "deinit", "-q", "-f", "lib")
    (with_submodule.path / "lib" / "notes.txt").write_text("mine")
    with pytest.raises(Refused) as refused:
        remove(repo, "feat-x")
    assert told(refused.value) == {"submodule"}
    assert "submodule lib has files, but is not initialised" in str((refused.value.data or {})["reasons"])


def test_a_submodule_that_was_never_checked_out_is_no_reason(repo: Repo, with_submodule: Repo) -> None:
    """`git worktree add` leaves each of them so: an empty folder, or none after somebody tidied up."""
    tree = repo.worktree("feat-y", "feat/y")
    assert os.listdir(tree.path / "lib") == []
    (tree.path / "lib").rmdir()
    with pytest.raises(Refused) as refused:
        remove(repo, "feat-y")
    assert told(refused.value) == {"unstaged"}, "only git itself misses the folder"
    (tree.path / "lib").mkdir()
    remove(repo, "feat-y")


@pytest.mark.parametrize("where", ["on a branch", "on no branch", "on an earlier branch"])
def test_commits_that_only_a_submodule_has_are_counted(repo: Repo, with_submodule: Repo, where: str) -> None:
    """Not only those of the branch that is checked out there."""
    inner = Repo(with_submodule.path / "lib")
    inner.git("checkout", "-q", "--detach") if where == "on no branch" else inner.git("checkout", "-q", "-b", "work")
    before = inner.git("rev-parse", "HEAD")
    inner.write("README.md", "a commit of the submodule\n")
    inner.commit("only here")
    if where == "on an earlier branch":
        inner.git("checkout", "-q", "--detach", before)
    with pytest.raises(Refused) as refused:
        remove(repo, "feat-x")
    assert "submodule lib has 1 commit on no remote" in str(refused.value.data)


def test_a_submodule_without_a_commit_is_known_all_the_same(repo: Repo, with_submodule: Repo) -> None:
    inner = Repo(with_submodule.path / "lib")
    inner.git("checkout", "-q", "--orphan", "fresh")
    with pytest.raises(Refused) as refused:
        remove(repo, "feat-x")
    assert "submodule" in told(refused.value) and "unknown" not in told(refused.value)


def test_a_submodule_whose_repository_lies_elsewhere_is_not_entered(
    repo: Repo, with_submodule: Repo, tmp_path: Path
) -> None:
    """Its `.git` file could name any repository of the user, which the removal would not take along."""
    real = admin_of(with_submodule.path / "lib")
    (with_submodule.path / "lib" / ".git").write_text(f"gitdir: {real.rename(tmp_path / 'elsewhere')}\n")
    with pytest.raises(Refused) as refused:
        remove(repo, "feat-x", force=True)
    assert "unknown" in told(refused.value)
    assert f"its .git file names {tmp_path}/elsewhere, which is no place for a submodule" in str(refused.value.data)


def test_a_claim_of_another_needs_both_overrides(repo: Repo) -> None:  # R1
    tree = repo.worktree("feat-x")
    remove(repo, "feat-x")
    undo(repo)  # now it is registered
    claimed(repo, "feat-x", "claude-1")
    with pytest.raises(Refused) as refused:
        remove(repo, "feat-x", force=True)
    assert told(refused.value) == {"claimed"}
    assert "claude-1" in refused.value.sentence
    before = fingerprint(repo, tree.path)
    remove(repo, "feat-x", **force("feat-x"))
    undo(repo)
    assert_same(fingerprint(repo, tree.path), before)


def test_a_claim_gone_silent_is_still_a_claim(repo: Repo) -> None:
    """Stale is shown, and taken over by an act of its own; the agent may only be thinking."""
    repo.worktree("feat-x")
    remove(repo, "feat-x")
    undo(repo)
    claimed(repo, "feat-x", "claude-1")
    connection = db.connect(database_path(None))
    connection.execute("UPDATE claims SET heartbeat_uptime = heartbeat_uptime - 1e9, ttl_seconds = 60")
    connection.close()
    with pytest.raises(Refused, match="claude-1 has claimed it, but has been silent for long"):
        remove(repo, "feat-x", force=True)


def test_its_own_claim_is_no_reason(repo: Repo) -> None:
    repo.worktree("feat-x")
    remove(repo, "feat-x")
    undo(repo)
    claimed(repo, "feat-x", "claude-1")
    remove(repo, "feat-x", agent="claude-1")
    connection = db.connect(database_path(None))
    assert claims.current(connection, "app", "feat-x").agent_id is None
    connection.close()


def claimed(repo: Repo, name: str, agent: str) -> None:
    connection = db.connect(database_path(None))
    wanted = claims.ClaimRequest(agent, host.identify_process(None))
    assert db.transact(connection, claims.grant, "app", name, wanted) is not None
    connection.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_live_process_inside_needs_both_overrides(repo: Repo) -> None:  # R1: live cwd
    tree = repo.worktree("feat-x")
    tree.write("sub/file", "x\n")
    tree.commit("sub")
    before = fingerprint(repo, tree.path)
    with process_inside(tree.path / "sub") as child:
        with pytest.raises(Refused) as refused:
            remove(repo, "feat-x", force=True)
        assert told(refused.value) == {"live-processes"}
        assert str(child.pid) in str(refused.value.data)
        remove(repo, "feat-x", **force("feat-x"))
        undo(repo)
    assert_same(fingerprint(repo, tree.path), before)
