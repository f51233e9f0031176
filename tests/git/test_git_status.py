"""`read_status`, hidden edits, operations and stashes, compared with the files on disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from imi_monitor.git.dirty import is_dirty
from imi_monitor.git.git_status import (
    GitStatus,
    GitStatusEntry,
    all_stashes,
    hidden_edits,
    operation_in_progress,
    read_status,
    stashes,
)
from imi_monitor.git.runner import Git
from imi_monitor.model.errors import GitError
from tests.git.git_kit import commit_id, commit_on_main, make_branch, open_git, start_conflict
from tests.helpers import Repo, git


def test_a_clean_worktree_is_empty_in_every_list(cloned: Repo) -> None:
    status = read_status(open_git(cloned), ignored=True)
    assert (status.branch, status.oid, status.upstream) == ("main", commit_id(cloned), "origin/main")
    assert (status.ahead, status.behind) == (0, 0)
    assert status.entries == ()
    assert not (status.dirty or status.detached)
    assert not is_dirty(open_git(cloned))


def test_every_kind_of_change_is_in_its_list(repo: Repo) -> None:
    repo.write("README.md", "changed\n")
    repo.write("src/api.py", "staged\n")
    repo.git("add", "src/api.py")
    repo.write("src/api.py", "staged and changed\n")
    repo.git("mv", "src/db.py", "src/database.py")
    repo.write("new/deep.txt", "x")
    repo.write(".env", "SECRET=1")
    repo.write("node_modules/a/b.js", "x")
    status = read_status(open_git(repo), ignored=True)
    assert status.unstaged == ("README.md", "src/api.py")
    assert status.staged == ("src/api.py", "src/database.py")
    assert status.untracked == ("new/deep.txt",)
    assert status.ignored == (".env", "node_modules/")
    assert status.conflicted == ()
    renamed = next(one for one in status.entries if one.path == "src/database.py")
    assert renamed == GitStatusEntry("src/database.py", "R", ".", origin="src/db.py")
    assert is_dirty(open_git(repo))


@pytest.mark.parametrize("only", ["staged", "unstaged", "untracked", "conflicted", "ignored"])
def test_each_kind_of_change_but_ignored_files_makes_it_dirty(only: str) -> None:
    lists = dict.fromkeys(("entries", "staged", "unstaged", "untracked", "conflicted", "ignored"), ())
    status = GitStatus("main", None, None, None, None, **{**lists, only: ("file",)})
    assert status.dirty == (only != "ignored")


def test_a_submodule_counts_as_changed_when_it_is_at_another_commit(repo: Repo, tmp_path: Path) -> None:
    """The commit that is recorded would be lost with the worktree; what is dirty in the submodule is checked by itself."""
    library = Repo.create(tmp_path / "lib")
    repo.git("submodule", "add", "-q", str(library.path), "lib")
    repo.commit("with a submodule")
    inner = Repo(repo.path / "lib")
    inner.write("README.md", "dirty\n")
    for trusted in (False, True):
        assert not read_status(open_git(repo, trusted=trusted)).dirty
    inner.commit("only here")
    for trusted in (False, True):
        assert read_status(open_git(repo, trusted=trusted)).unstaged == ("lib",)


def test_a_status_lists_ignored_files_only_when_asked_and_finds_renames_whatever_the_settings_say(repo: Repo) -> None:
    repo.git("config", "status.renames", "false")
    repo.git("mv", "src/db.py", "src/database.py")
    repo.write(".env", "SECRET=1")
    status = read_status(open_git(repo))
    assert status.ignored == () and read_status(open_git(repo), ignored=True).ignored == (".env",)
    assert status.entries == (GitStatusEntry("src/database.py", "R", ".", "src/db.py"),)
    repo.write("new/a", "x")
    repo.write("new/b", "x")
    assert read_status(open_git(repo), untracked="normal").untracked == ("new/",)


def test_untracked_files_show_even_when_the_repository_hides_them(repo: Repo) -> None:  # R1: showUntrackedFiles=no
    repo.git("config", "status.showUntrackedFiles", "no")
    repo.write("work.txt", "x")
    assert read_status(open_git(repo)).untracked == ("work.txt",)
    assert is_dirty(open_git(repo))


def test_a_conflict_is_conflicted_and_nothing_else(repo: Repo) -> None:
    start_conflict(repo)
    status = read_status(open_git(repo))
    assert (status.conflicted, status.staged, status.unstaged) == (("README.md",), (), ())
    assert status.dirty
    assert operation_in_progress(open_git(repo).admin_dir) == "merge"


def test_status_keeps_every_byte_of_a_name(repo: Repo) -> None:  # T3
    names = [b"caf\xff\xfe.txt", b"two\nlines", b'quo"te', b"tab\there", b" lead", b"back\\slash", "zoë.txt".encode()]
    for name in names:
        Path(os.fsdecode(os.path.join(os.fsencode(repo.path), name))).write_text("x")
    found = read_status(open_git(repo)).untracked
    assert sorted(map(os.fsencode, found)) == sorted(names)
    repo.git("add", "-A")
    os.rename(os.path.join(os.fsencode(repo.path), names[0]), os.path.join(os.fsencode(repo.path), b"moved\xfe"))
    repo.git("add", "-A")
    assert sorted(map(os.fsencode, read_status(open_git(repo)).staged)) == sorted([*names[1:], b"moved\xfe"])


def test_status_of_some_paths_takes_them_literally(repo: Repo) -> None:
    for name in ("a*", "ab", ":(glob)x"):
        repo.write(name, "x")
    assert read_status(open_git(repo), paths=["a*", ":(glob)x"]).untracked == (":(glob)x", "a*")


def test_status_of_an_unborn_branch(tmp_path: Path) -> None:
    git("init", "-q", "-b", "main", str(tmp_path / "new"), cwd=tmp_path)
    made = Repo(tmp_path / "new")
    made.write("a", "x")
    made.git("add", "a")
    status = read_status(open_git(made))
    assert (status.branch, status.oid, status.staged) == ("main", None, ("a",))
    assert (status.ahead, status.behind, status.upstream) == (None, None, None)


def test_status_of_a_detached_head(repo: Repo) -> None:
    repo.git("checkout", "-q", "--detach")
    status = read_status(open_git(repo))
    assert status.detached
    assert status.branch is None
    assert status.oid == commit_id(repo)


def test_status_of_a_bare_repository_is_an_error(tmp_path: Path) -> None:
    git("init", "-q", "--bare", str(tmp_path / "bare.git"), cwd=tmp_path)
    for ask in (read_status, is_dirty):
        with pytest.raises(GitError) as refused:
            ask(open_git(tmp_path / "bare.git"))
        assert ask is is_dirty or (refused.value.code, refused.value.sentence.endswith("it has no files")) == (
            "bare",
            True,
        )


def test_status_has_ahead_behind_and_a_gone_upstream(cloned: Repo) -> None:
    make_branch(cloned, "other", ("o.txt", "o"))
    cloned.git("push", "-q", "origin", "other:main")
    commit_on_main(cloned, "a", "a")
    commit_on_main(cloned, "b", "b")
    cloned.git("config", "status.aheadBehind", "false")  # would give question marks for numbers
    status = read_status(open_git(cloned))
    assert (status.ahead, status.behind) == (2, 1)
    cloned.git("update-ref", "-d", "refs/remotes/origin/main")
    status = read_status(open_git(cloned))
    assert (status.upstream, status.ahead, status.behind) == ("origin/main", None, None)


def test_status_of_shallow_and_sparse_clones(cloned: Repo, tmp_path: Path) -> None:
    git("clone", "-q", "--depth=1", f"file://{tmp_path}/origin.git", "thin", cwd=tmp_path)
    thin = Repo(tmp_path / "thin")
    thin.git("sparse-checkout", "set", "--no-cone", "/README.md")
    assert not (thin.path / "src").exists()
    assert read_status(open_git(thin)).entries == ()
    assert hidden_edits(open_git(thin)) == ()


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (["merge", "theirs"], "merge"),
        (["rebase", "theirs"], "rebase"),
        (["rebase", "--apply", "theirs"], "rebase"),
        (["cherry-pick", "theirs"], "cherry-pick"),
        (["revert", "--no-edit", "HEAD~1"], "revert"),
        (["bisect", "start"], "bisect"),
    ],
)
def test_an_operation_in_progress_has_a_name(repo: Repo, begin: list[str], expected: str) -> None:  # R1
    make_branch(repo, "theirs", ("README.md", "theirs\n"))
    commit_on_main(repo, "README.md", "one\n")
    commit_on_main(repo, "README.md", "two\n")
    tree = repo.worktree("feat-x")  # in a linked worktree, whose state lies in an admin directory of its own
    tree.git(*begin, check=False)
    assert operation_in_progress(open_git(tree).admin_dir) == expected
    assert operation_in_progress(open_git(repo).admin_dir) is None


def test_a_series_between_two_picks_is_still_in_progress(repo: Repo) -> None:
    make_branch(repo, "theirs", ("README.md", "1\n"), ("README.md", "2\n"))
    commit_on_main(repo, "README.md", "ours\n")
    repo.git("cherry-pick", "theirs~1", "theirs", check=False)
    repo.write("README.md", "1\n")
    repo.git("commit", "-qam", "by hand")
    assert not (repo.path / ".git/CHERRY_PICK_HEAD").exists()
    assert operation_in_progress(open_git(repo).admin_dir) == "cherry-pick"


@pytest.mark.parametrize(
    ("file", "operation"),
    [
        ("MERGE_HEAD", "merge"),
        ("CHERRY_PICK_HEAD", "cherry-pick"),
        ("REVERT_HEAD", "revert"),
        ("BISECT_LOG", "bisect"),
        ("BISECT_START", "bisect"),
        ("rebase-merge", "rebase"),
        ("rebase-apply", "rebase"),
        ("ORIG_HEAD", None),
    ],
)
def test_one_file_of_an_operation_is_enough(tmp_path: Path, file: str, operation: str | None) -> None:
    """git deletes them one after another, and may be killed in between."""
    (tmp_path / file).mkdir() if file.startswith("rebase") else (tmp_path / file).touch()
    assert operation_in_progress(str(tmp_path)) == operation


def test_am_is_an_operation_in_progress(repo: Repo) -> None:
    make_branch(repo, "theirs", ("README.md", "theirs\n"))
    repo.git("format-patch", "-q", "-1", "theirs", "-o", "..")
    commit_on_main(repo, "README.md", "ours\n")
    patch = next(repo.path.parent.glob("*.patch"))
    repo.git("am", str(patch), check=False)
    assert operation_in_progress(open_git(repo).admin_dir) == "am"


def test_an_unreadable_git_directory_is_not_idle(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="cannot be read"):
        operation_in_progress(str(tmp_path / "nowhere"))


def test_hidden_edits_are_found(repo: Repo) -> None:  # R1: assume-unchanged, skip-worktree
    odd = ("li\nne", 'quo"te', "back\\slash", "tab\tbed")
    for name in (
        "same",
        "edited",
        "gone",
        "skipped",
        "absent",
        "both",
        "link",
        "same link",
        "filed",
        "linked",
        "folded",
        *odd,
    ):
        if name in ("link", "same link", "filed"):
            (repo.path / name).symlink_to("same")
        else:
            repo.write(name, "old\n")
    repo.commit("files")
    repo.write("inner/deep", "old\n")
    repo.commit("a folder")
    marked = ("same", "edited", "gone", "link", "same link", "filed", "linked", "folded", "inner/deep", "both", *odd)
    repo.git("update-index", "--assume-unchanged", *marked)
    repo.git("update-index", "--skip-worktree", "skipped", "absent", "both")
    for name in ("edited", "skipped", *odd[:3]):
        repo.write(name, "new\n")
    for name in ("gone", "absent", "both", "filed", "linked", "folded"):
        (repo.path / name).unlink()
    (repo.path / "filed").write_text("same")  # what the link named
    (repo.path / "linked").symlink_to("same")
    (repo.path / "folded").mkdir()
    (repo.path / "inner" / "deep").unlink()
    (repo.path / "inner").rmdir()
    (repo.path / "inner").symlink_to("inner")  # cannot be read: a loop
    repo.write(".git/info/exclude", "/inner\n")
    (repo.path / "link").unlink()
    (repo.path / "link").symlink_to("elsewhere")
    assert repo.git("status", "--porcelain") == ""  # git itself says nothing
    edited = ("edited", "gone", "skipped", "link", "filed", "linked", "folded", "inner/deep", *odd[:3])
    assert hidden_edits(open_git(repo)) == tuple(sorted(edited))
    (repo.path / "inner").unlink()
    (repo.path / "inner").write_text("a file instead of the folder")
    assert "inner/deep" in hidden_edits(open_git(repo))


def test_a_marked_link_is_compared_by_the_hash_of_the_repository(tmp_path: Path) -> None:
    git("init", "-q", "--object-format=sha256", str(tmp_path / "new"), cwd=tmp_path)
    made = Repo(tmp_path / "new")
    for name in ("same", "moved"):
        (made.path / name).symlink_to("target")
    made.git("add", "-A")
    made.git("update-index", "--assume-unchanged", "same", "moved")
    (made.path / "moved").unlink()
    (made.path / "moved").symlink_to("elsewhere")
    assert hidden_edits(open_git(made)) == ("moved",)


def test_a_marked_submodule_counts_as_edited_while_it_is_there(repo: Repo, tmp_path: Path) -> None:
    library = Repo.create(tmp_path / "lib")
    repo.git("submodule", "add", "-q", str(library.path), "lib")
    repo.commit("with a submodule")
    repo.git("update-index", "--assume-unchanged", "lib")
    assert hidden_edits(open_git(repo)) == ("lib",)
    (repo.path / "lib" / ".git").unlink()
    assert hidden_edits(open_git(repo)) == ()


def test_marked_files_of_which_git_gives_no_id_are_an_error(repo: Repo, shim: Callable[[str], Path]) -> None:
    found = open_git(repo)
    repo.git("update-index", "--assume-unchanged", "README.md")
    shim('case "$*" in *hash-object*) exit 0;; esac; exec "$real_git" "$@"')
    assert not hidden_edits_known(found)


def hidden_edits_known(found: Git) -> bool:
    """Whether the only marked file is taken for unchanged."""
    try:
        return hidden_edits(found) == ()
    except ValueError:
        return False


def test_a_marked_file_is_compared_as_git_stores_it(repo: Repo) -> None:
    repo.write(".gitattributes", "*.txt text eol=crlf\n")
    repo.write("a.txt", "one\r\ntwo\r\n")
    repo.write("b.txt", "one\r\ntwo\r\n")
    repo.commit("windows")
    repo.git("update-index", "--skip-worktree", "a.txt", "b.txt")
    repo.write("b.txt", "one\r\nTWO\r\n")
    assert hidden_edits(open_git(repo)) == ("b.txt",)


def test_hidden_edits_read_no_pipe(repo: Repo) -> None:  # G5
    repo.git("update-index", "--assume-unchanged", "README.md")
    (repo.path / "README.md").unlink()
    os.mkfifo(repo.path / "README.md")
    assert hidden_edits(open_git(repo)) == ("README.md",)


def test_stashes_belong_to_the_branch_they_were_made_on(repo: Repo) -> None:
    assert stashes(open_git(repo), "main") == []
    repo.git("checkout", "-q", "--detach")
    repo.write("README.md", "on no branch\n")
    repo.git("stash", "push", "-q")
    assert [line[:26] for line in stashes(open_git(repo), None)] == ["stash@{0}: WIP on (no bran"]
    repo.git("stash", "drop", "-q")
    repo.git("checkout", "-q", "main")
    tree = repo.worktree("feat-x")
    for place, message in ((repo, None), (tree, None), (tree, "kept: for later")):
        place.write("README.md", f"{message}\n")
        place.git("stash", "push", "-q", *(["-m", message] if message else []))
    assert stashes(open_git(repo), "main") == [f"stash@{{2}}: WIP on main: {repo.git('log', '-1', '--format=%h %s')}"]
    assert [line[:25] for line in stashes(open_git(tree), "feat/x")] == [
        "stash@{0}: On feat/x: kep",
        "stash@{1}: WIP on feat/x:",
    ]
    assert stashes(open_git(tree), "feat") == []


def test_a_repository_without_a_stash_takes_no_process(repo: Repo, count_git: Callable[[], int]) -> None:
    assert all_stashes(open_git(repo)) == [] and count_git() == 0
    repo.git("config", "log.showSignature", "true")
    repo.write("README.md", "put away\n")
    repo.git("stash", "push", "-q")
    (entry,) = all_stashes(open_git(repo))
    assert entry.startswith("stash@{0}: WIP on main: ") and count_git() > 0


def test_a_repository_with_tables_for_refs_is_asked_for_its_stash(repo: Repo, shim: Callable[[str], Path]) -> None:
    """Only git reads them."""
    found = open_git(repo)
    (repo.path / ".git" / "reftable").mkdir()
    shim(r"printf 'stash@{0}: WIP on main: x\0'")
    assert all_stashes(found) == ["stash@{0}: WIP on main: x"]


def test_status_takes_no_lock_and_writes_no_index(repo: Repo) -> None:  # G4
    index = repo.path / ".git/index"
    os.utime(repo.path / "README.md")  # stat-dirty: a plain status would now rewrite the index
    before = index.stat().st_mtime_ns, index.read_bytes()
    (repo.path / ".git/index.lock").write_text("")  # another process is committing
    assert read_status(open_git(repo)).entries == ()
    assert not is_dirty(open_git(repo))
    assert (index.stat().st_mtime_ns, index.read_bytes()) == before
