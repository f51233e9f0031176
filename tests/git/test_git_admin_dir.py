"""The admin directory of a worktree in the trash: its copy, its files and HEAD, against links and against a git that runs."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from imi_monitor.git import git_admin_dir
from imi_monitor.model.errors import GitError, Refused
from tests.audit_events import at_event
from tests.git.git_kit import commit_id, open_git
from tests.helpers import Repo, tree_hash


@pytest.fixture
def admin(repo: Repo) -> Path:
    repo.worktree("feat-x")
    return repo.path / ".git" / "worktrees" / "feat-x"


def test_the_copy_holds_the_repositories_of_submodules(admin: Path, tmp_path: Path) -> None:  # R1
    """`git worktree prune` deletes `modules/`, and with it commits of a submodule that are nowhere else."""
    objects = admin / "modules" / "lib" / "objects" / "ab"
    objects.mkdir(parents=True)
    (objects / "cdef").write_text("a commit of the submodule")
    before = tree_hash(admin)
    git_admin_dir.copy_admin_dir(str(admin), str(tmp_path / "copy"))
    shutil.rmtree(admin)
    assert git_admin_dir.restore_admin_dir(str(admin), str(tmp_path / "copy"))
    assert tree_hash(admin) == before


def test_the_copy_is_made_again_after_a_crash(admin: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    git_admin_dir.copy_admin_dir(str(admin), str(copy))
    git_admin_dir.write_file(str(admin / "ORIG_HEAD"), "newer\n")
    (copy / "HEAD").unlink()
    (copy / "HEAD").write_text("of an earlier attempt\n")
    git_admin_dir.copy_admin_dir(str(admin), str(copy))
    assert {name: (copy / name).read_text() for name in ("HEAD", "ORIG_HEAD")} == {
        "HEAD": "ref: refs/heads/feat/x\n",
        "ORIG_HEAD": "newer\n",
    }


@pytest.mark.parametrize("name", ["HEAD", "gitdir", "commondir"])
def test_a_record_that_lacks_a_file_is_restored_without_touching_the_others(
    admin: Path, tmp_path: Path, name: str
) -> None:
    git_admin_dir.copy_admin_dir(str(admin), str(tmp_path / "copy"))
    assert not git_admin_dir.restore_admin_dir(str(admin), str(tmp_path / "copy")), "it is whole"
    original = (admin / name).read_text()
    (admin / name).unlink()
    git_admin_dir.write_file(str(admin / "index"), "newer\n")
    assert git_admin_dir.restore_admin_dir(str(admin), str(tmp_path / "copy"))
    assert (admin / name).read_text() == original
    assert (admin / "index").read_text() == "newer\n"


@pytest.mark.parametrize("name", ["HEAD", "gitdir", "locked"])
def test_a_link_in_place_of_a_file_of_git_is_refused(admin: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").write_text("ref: refs/heads/main\n")
    (admin / name).unlink(missing_ok=True)
    (admin / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match=f"{name} cannot be read") as refused:
        git_admin_dir.read_admin_files(str(admin))
    assert refused.value.code == "admin-broken"


@pytest.mark.parametrize("name", ["HEAD", "gitdir"])
def test_a_record_without_head_or_pointer_is_incomplete(admin: Path, name: str) -> None:
    (admin / name).unlink()
    with pytest.raises(Refused, match="is incomplete"):
        git_admin_dir.read_admin_files(str(admin))


def test_a_file_larger_than_git_makes_it_is_refused(admin: Path) -> None:
    (admin / "locked").write_text("x" * (1 << 16))
    with pytest.raises(Refused, match="larger than git makes it"):
        git_admin_dir.read_admin_files(str(admin))


def test_nothing_is_written_through_a_planted_link(admin: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("my work\n")
    (admin / "locked.imi-new").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="imi-new"):
        git_admin_dir.lock(str(admin), "imi trash 1")
    assert (tmp_path / "mine").read_text() == "my work\n"
    assert not (admin / "locked").exists()
    git_admin_dir.remove_temporary_files(str(admin))
    git_admin_dir.lock(str(admin), "imi trash 1")
    assert (admin / "locked").read_text() == "imi trash 1\n"


def test_a_replaced_file_keeps_its_permissions(admin: Path) -> None:
    (admin / "gitdir").chmod(0o640)
    git_admin_dir.write_pointer(str(admin), "/elsewhere/.git\n")
    assert (admin / "gitdir").stat().st_mode & 0o777 == 0o640
    assert git_admin_dir.read_pointer(str(admin)) == "/elsewhere/.git\n"


def test_only_our_lock_is_taken_off(admin: Path) -> None:
    parked = git_admin_dir.read_admin_files(str(admin))
    (admin / "locked").write_text("on a stick\n")
    git_admin_dir.unlock(str(admin), parked, "imi trash ")
    assert (admin / "locked").read_text() == "on a stick\n"
    git_admin_dir.lock(str(admin), "imi trash 1")
    git_admin_dir.unlock(str(admin), parked, "imi trash ")
    assert not (admin / "locked").exists()


@pytest.mark.parametrize("text", ["", "0123\n", "0123"])
@pytest.mark.parametrize("ours", [True, False])
def test_only_our_own_head_lock_is_deleted(admin: Path, text: str, ours: bool) -> None:
    """A crashed imi leaves it empty or with the new content; any other belongs to a git that may be running."""
    (admin / "HEAD.lock").write_text(text)
    (admin / "locked").write_text("imi trash 1\n" if ours else "on a stick\n")
    git_admin_dir.remove_head_lock(str(admin), ("0123\n",), "imi trash ")
    assert (admin / "HEAD.lock").exists() == (not ours or text == "0123")


@pytest.mark.parametrize("act", ["detach", "restore"])
def test_a_head_lock_that_git_takes_at_the_last_moment_is_respected(repo: Repo, admin: Path, act: str) -> None:
    """The lock files were listed before: between that and ours, a git can have begun to write HEAD."""
    git, lock = open_git(repo).at(str(admin), None), admin / "HEAD.lock"
    before = (admin / "HEAD").read_text()

    def lock_it() -> None:
        lock.write_text("ref: refs/heads/of-the-other-git\n")

    with at_event("open", lock_it, when=lambda path, *_: path == str(lock)) as met, pytest.raises(GitError) as refused:
        if act == "detach":
            git_admin_dir.detach_head(git, commit_id(repo))
        else:
            git_admin_dir.restore_head(git, "ref: refs/heads/main\n", "main")
    assert met and refused.value.code == "busy" and str(lock) in refused.value.sentence
    assert lock.read_text() == "ref: refs/heads/of-the-other-git\n"
    assert (admin / "HEAD").read_text() == before


def test_a_failed_change_of_head_leaves_no_lock(repo: Repo, admin: Path) -> None:
    git, before = open_git(repo).at(str(admin), None), (admin / "HEAD").read_text()

    def fail() -> None:
        raise OSError(28, "No space left on device")

    with at_event("os.rename", fail), pytest.raises(OSError, match="No space"):
        git_admin_dir.detach_head(git, commit_id(repo))
    assert not (admin / "HEAD.lock").exists()
    assert (admin / "HEAD").read_text() == before


class TestReftable:
    """Refs of a repository in a reftable: HEAD is a file that git does not read, so only git itself changes it.

    git 2.45 is the first with reftables. A program in its place records how it is called.
    """

    @pytest.fixture
    def calls(self, admin: Path, shim: Callable[[str], Path], tmp_path: Path) -> Callable[[], list[str]]:
        (admin / "reftable").mkdir()
        (admin / "HEAD").write_text("ref: refs/heads/.invalid\n")  # as git writes it then
        log = tmp_path / "calls"
        log.touch()
        shim(
            'case "$*" in *update-ref*|*symbolic-ref*) ;; *) exec "$real_git" "$@" ;; esac\n'
            'index=0; logs=; while [ "$index" -lt "$GIT_CONFIG_COUNT" ]; do\n'
            '  eval "key=\\$GIT_CONFIG_KEY_$index value=\\$GIT_CONFIG_VALUE_$index"\n'
            '  [ "$key" = core.logAllRefUpdates ] && logs=$value; index=$((index + 1)); done\n'
            f'while [ "$1" != update-ref ] && [ "$1" != symbolic-ref ]; do shift; done; echo "$* logs=$logs" >> {log}'
        )
        return lambda: log.read_text().splitlines()

    def test_head_is_detached_and_restored_by_git(
        self, repo: Repo, admin: Path, calls: Callable[[], list[str]]
    ) -> None:
        git, sha = open_git(repo).at(str(admin), None), commit_id(repo)
        git_admin_dir.detach_head(git, sha)
        git_admin_dir.restore_head(git, "ref: refs/heads/.invalid\n", "feat/x")
        assert calls() == [
            f"update-ref --no-deref HEAD {sha} logs=false",
            "symbolic-ref HEAD refs/heads/feat/x logs=false",
        ]
        assert (admin / "HEAD").read_text() == "ref: refs/heads/.invalid\n"

    def test_a_head_that_was_detached_stays_so(self, repo: Repo, admin: Path, calls: Callable[[], list[str]]) -> None:
        git = open_git(repo).at(str(admin), None)
        git_admin_dir.detach_head(git, None)
        git_admin_dir.restore_head(git, "ref: refs/heads/.invalid\n", None)
        assert calls() == []
        assert (admin / "HEAD").read_text() == "ref: refs/heads/.invalid\n"


def test_an_unborn_head_is_left_alone(repo: Repo, admin: Path) -> None:
    before = (admin / "HEAD").read_text()
    git_admin_dir.detach_head(open_git(repo).at(str(admin), None), None)
    assert (admin / "HEAD").read_text() == before
    assert os.listdir(admin).count("HEAD.lock") == 0


def test_a_folder_of_git_on_another_disk_is_copied_without_its_submodules(admin: Path) -> None:
    """There links are impossible, and the objects may be too much to copy."""
    (admin / "modules" / "lib").mkdir(parents=True)
    (admin / "modules" / "lib" / "big").write_text("x\n")
    (admin / "logs" / "more").mkdir(parents=True)
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK) or shared.stat().st_dev == admin.stat().st_dev:
        pytest.skip("no second file system here")
    with tempfile.TemporaryDirectory(prefix="imi-", dir=shared) as folder:
        git_admin_dir.copy_admin_dir(str(admin), f"{folder}/copy")
        copied = sorted(os.listdir(f"{folder}/copy"))
        assert "modules" not in copied and "logs" in copied and "HEAD" in copied
        shutil.rmtree(admin / "modules")
        git_admin_dir.copy_admin_dir(str(admin), f"{folder}/copy")  # a worktree without submodules has none
        assert contents(Path(folder, "copy")) == contents(admin)


@pytest.mark.parametrize("linked", [True, False], ids=["same disk", "another disk"])
@pytest.mark.parametrize("when", ["before", "at the last moment"])
def test_of_a_link_only_the_link_is_copied(admin: Path, tmp_path: Path, linked: bool, when: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not git's\n")
    source = admin / "ORIG_HEAD"
    source.write_text("x\n")

    def exchange() -> None:
        source.unlink(missing_ok=True)
        source.symlink_to(secret)
        if not linked:
            raise OSError(errno.EXDEV, "Invalid cross-device link")

    if when == "before":
        source.unlink()
        source.symlink_to(secret)
    with at_event("os.link", exchange, when=lambda path, *_: path == str(source)) as met:
        git_admin_dir.copy_admin_dir(str(admin), str(tmp_path / "copy"))
    copy = tmp_path / "copy" / "ORIG_HEAD"
    assert met and copy.is_symlink() and os.readlink(copy) == str(secret)


def test_a_file_that_git_deletes_meanwhile_is_not_missed(admin: Path, tmp_path: Path) -> None:
    lock = admin / "index.lock"
    lock.touch()
    with at_event("os.link", lock.unlink, when=lambda path, *_: path == str(lock)) as met:
        git_admin_dir.copy_admin_dir(str(admin), str(tmp_path / "copy"))
    assert met and contents(tmp_path / "copy") == contents(admin)


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder; the copy's own folders are private, those of git are not."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_a_record_says_of_itself(admin: Path) -> None:
    sha = "a" * 40
    parked = git_admin_dir.read_admin_files(str(admin))
    assert (parked.head, parked.locked) == ("ref: refs/heads/feat/x\n", None)
    assert git_admin_dir.read_pointer(str(admin)) == parked.gitdir
    assert not git_admin_dir.is_locked_by(str(admin), "imi trash ")
    git_admin_dir.lock(str(admin), "imi trash 1")
    assert git_admin_dir.is_locked_by(str(admin), "imi trash ") and not git_admin_dir.is_locked_by(str(admin), "imi x")
    assert not git_admin_dir.is_detached_at(str(admin), sha)
    assert not git_admin_dir.is_detached_at(str(admin), None)
    (admin / "HEAD").write_text(f"{sha}\n")
    assert git_admin_dir.is_detached_at(str(admin), sha) and not git_admin_dir.is_detached_at(str(admin), "b" * 40)
    (admin / "HEAD").unlink()
    assert not git_admin_dir.is_detached_at(str(admin), None)
    for name in ("index.lock", "HEAD.lock", "locked.imi-new", "a.lock.txt"):
        (admin / name).touch()
    assert git_admin_dir.list_lock_files(str(admin)) == ["HEAD.lock", "index.lock"]


def test_a_lock_of_its_user_comes_back(admin: Path) -> None:
    (admin / "locked").write_text("on a stick")
    parked = git_admin_dir.read_admin_files(str(admin))
    git_admin_dir.lock(str(admin), "imi trash 1")
    git_admin_dir.unlock(str(admin), parked, "imi trash ")
    assert (admin / "locked").read_text() == "on a stick"


def test_a_file_that_is_right_already_is_not_written(repo: Repo, admin: Path) -> None:
    """HEAD needs no lock then: undo works beside a git that has one, and in a folder that has become read-only."""
    before = [(admin / name).stat().st_ino for name in ("HEAD", "gitdir")]
    (admin / "HEAD.lock").touch()
    git_admin_dir.restore_head(open_git(repo).at(str(admin), None), (admin / "HEAD").read_text(), "feat/x")
    git_admin_dir.write_pointer(str(admin), (admin / "gitdir").read_text())
    assert [(admin / name).stat().st_ino for name in ("HEAD", "gitdir")] == before


def test_the_rest_of_a_crashed_write_is_overwritten(admin: Path) -> None:
    (admin / "gitdir.imi-new").write_text("a longer text of an earlier attempt " * 10)
    git_admin_dir.write_pointer(str(admin), "/elsewhere/.git\n")
    assert (admin / "gitdir").read_text() == "/elsewhere/.git\n"


def test_a_planted_head_lock_is_not_followed(repo: Repo, admin: Path, tmp_path: Path) -> None:
    (admin / "HEAD.lock").symlink_to(tmp_path / "new")
    with pytest.raises(GitError) as refused:
        git_admin_dir.detach_head(open_git(repo).at(str(admin), None), commit_id(repo))
    assert refused.value.code == "busy" and not (tmp_path / "new").exists()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["HEAD", "gitdir", "locked"])
def test_a_pipe_in_place_of_a_file_of_git_does_not_block(admin: Path, name: str) -> None:
    (admin / name).unlink(missing_ok=True)
    os.mkfifo(admin / name)
    found = git_admin_dir.read_admin_files(str(admin))
    assert {"HEAD": found.head, "gitdir": found.gitdir, "locked": found.locked}[name] == ""


def test_only_a_folder_is_flushed_as_a_folder(admin: Path) -> None:
    with pytest.raises(NotADirectoryError):
        git_admin_dir.fsync_folder(str(admin / "HEAD"))


def test_the_temporary_file_has_the_given_name(admin: Path, tmp_path: Path) -> None:
    """In a worktree every name is its user's."""
    (tmp_path / ".git.imi-new").write_text("mine\n")
    git_admin_dir.write_file(str(tmp_path / ".git"), "gitdir: x\n", by=str(admin / "gitfile"))
    assert (tmp_path / ".git").read_text() == "gitdir: x\n" and (tmp_path / ".git.imi-new").read_text() == "mine\n"
    assert not (admin / "gitfile").exists()
