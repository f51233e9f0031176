"""The trash folder and its entries: where they are made, what belongs to them, and each move repeated from any point."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from imi_monitor.actions import worktree_lookup as targets
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import trash_folder
from imi_monitor.actions.removal.trash_folder import TrashedWorktree
from imi_monitor.git import git_admin_dir
from imi_monitor.model.errors import Refused
from imi_monitor.store import trash
from tests.actions.removal_kit import remove, undo
from tests.audit_events import at_event, fail
from tests.git.git_kit import open_git
from tests.helpers import Repo, git, tree_hash


@pytest.fixture
def tree(repo: Repo) -> Repo:
    return repo.worktree("feat-x")


@pytest.fixture
def trashed(repo: Repo, tree: Repo) -> TrashedWorktree:
    """`feat-x` in the trash."""
    remove(repo, "feat-x")
    with Context(str(repo.path)) as context:
        (entry,) = trash.list_kept(context.connection)
    return TrashedWorktree.of(entry.data)


def admin(trashed: TrashedWorktree, name: str) -> Path:
    return Path(trashed.admin_dir, name)


def place(trashed: TrashedWorktree, *, in_trash: bool, taken: bool) -> None:
    """Put the folder into the trash or aside, and something or nothing in its old place."""
    folder, aside, path = Path(trashed.folder), Path(trashed.path + "-aside"), Path(trashed.path)
    if path.exists():
        path.rmdir()
    if in_trash != folder.exists():
        aside.rename(folder) if in_trash else folder.rename(aside)
    if taken:
        path.mkdir()


OURS, THEIRS = "imi trash {id}: imi undo brings it back\n", "on a portable disk\n"


def test_a_record_of_git_is_ours_by_its_pointer_or_its_lock(trashed: TrashedWorktree) -> None:
    """git gives the name of a deleted record to the next worktree, which must not be changed. A record that is gone was ours."""
    original, elsewhere = trashed.gitdir, "/elsewhere/feat-x/.git\n"
    for pointer, lock, in_trash, taken, ours in (
        (None, None, True, True, True),
        (trashed.pointer, None, True, True, True),  # unlocked by hand
        (trashed.pointer, THEIRS, True, False, True),
        (trashed.pointer.replace("/app/", "/moved/"), None, True, False, True),  # the repository was moved
        (original, OURS, True, False, True),  # killed before the pointer was written
        (original, None, True, False, True),
        (original, OURS, True, True, True),
        (original, None, True, True, False),  # a new worktree in the same place
        (original, THEIRS, True, True, False),
        (original, None, False, True, True),  # it is back
        (elsewhere, None, True, False, False),
        (elsewhere, THEIRS, True, False, False),
        (elsewhere, None, False, False, False),
        (elsewhere, OURS, True, False, True),  # `git worktree move` does not take the lock off
        (elsewhere, OURS.replace("{id}", "0123456789"), True, False, False),
    ):
        for name, text in (("gitdir", pointer), ("locked", lock)):
            admin(trashed, name).unlink(missing_ok=True)
            if text is not None:
                admin(trashed, name).write_text(text.replace("{id}", trashed.id))
        place(trashed, in_trash=in_trash, taken=taken)
        assert trashed.is_recorded == ours, (pointer, lock, in_trash, taken)


def test_a_restore_is_half_done_by_what_it_leaves(trashed: TrashedWorktree) -> None:
    """The folder is back, git's record still describes the trash: the pointer, or the lock with the detached HEAD."""
    detached = f"{trashed.sha}\n"
    for pointer, head, lock, in_trash, half in (
        (trashed.pointer, detached, OURS, True, False),  # in the trash
        (trashed.pointer, detached, OURS, False, True),
        (trashed.pointer, trashed.head, None, False, True),
        (trashed.gitdir, detached, OURS, False, True),
        (trashed.gitdir, detached, None, False, False),  # detached by its user
        (trashed.gitdir, detached, THEIRS, False, False),
        (trashed.gitdir, trashed.head, OURS, False, False),  # only the lock is left
    ):
        for name, text in (("gitdir", pointer), ("HEAD", head), ("locked", lock)):
            admin(trashed, name).unlink(missing_ok=True)
            if text is not None:
                admin(trashed, name).write_text(text.replace("{id}", trashed.id))
        place(trashed, in_trash=in_trash, taken=False)
        assert trash_folder.is_half_back(trashed) == half, (pointer, head, lock, in_trash)


def described(**changes: object) -> TrashedWorktree:
    data: dict[str, object] = {
        "id": "0123456789",
        "repo_name": "app",
        "name": "feat-x",
        "common_dir": "/old/app/.git",
        "admin_dir": "/old/app/.git/worktrees/feat-x",
        "path": "/old/feat-x",
        "trash_dir": "/old/app/.git/imi/trash/0123456789",
        "inode": 7,
        "gitfile": "gitdir: /old/app/.git/worktrees/feat-x\n",
        "head": "ref: refs/heads/feat/x\n",
        "gitdir": "/old/feat-x/.git\n",
        "locked": None,
        "branch": "feat/x",
        "sha": "0" * 40,
        "agent": "me",
        "how": "removed",
        "overridden": ["untracked"],
        "boot": "boot",
        "uptime": 1.0,
    }
    return TrashedWorktree.of({**data, **changes})


def test_after_a_move_of_the_repository_only_the_paths_inside_of_it_are_others() -> None:
    one = described()
    moved = one.under("/new/.git")
    assert (moved.common_dir, moved.admin_dir) == ("/new/.git", "/new/.git/worktrees/feat-x")
    assert moved.trash_dir == "/new/.git/imi/trash/0123456789"
    assert moved.gitfile == "gitdir: /new/.git/worktrees/feat-x\n"
    assert (moved.path, moved.gitdir, moved.head) == (one.path, one.gitdir, one.head)
    beside = described(trash_dir="/old/.imi-trash/0123456789", gitfile="gitdir: ../app/.git/worktrees/feat-x\n")
    moved = beside.under("/new/.git")
    assert (moved.trash_dir, moved.gitfile) == (beside.trash_dir, beside.gitfile)
    odd = described(gitfile="gitdir:/old/app/.git/worktrees/feat-x")
    assert odd.under("/old/app/.git") == odd, "nothing was moved: not a byte changes"


def test_a_description_survives_the_registry_as_json() -> None:
    one = described()
    assert TrashedWorktree.of(one.data()) == one
    assert one.overridden == ("untracked",) and one.data()["overridden"] == ["untracked"]


def test_only_a_head_on_a_branch_is_detached() -> None:
    assert described().detach_to == "0" * 40
    assert described(branch=None).detach_to is None
    assert described(sha=None).detach_to is None


@pytest.mark.parametrize(
    ("where", "roots"),
    [
        ("feat-x", 2),
        ("app/feat-x", 1),
        ("app/deep/feat-x", 1),
        ("feat-other/feat-x", 1),
        ("feat-other/deep/feat-x", 1),
        ("feat-other-2/feat-x", 2),
    ],
)
def test_no_work_tree_of_the_repository_holds_the_trash(repo: Repo, tmp_path: Path, where: str, roots: int) -> None:
    """git would list it there as untracked."""
    repo.worktree("feat-other")
    repo.git("worktree", "add", "-q", "-b", "feat/x", str(tmp_path / where))
    with Context(str(repo.path)) as context:
        found = list(trash_folder.trash_roots(targets.find_worktree(context, "feat-x")))
    assert len(found) == roots and found[0] == f"{repo.path}/.git/imi/trash"
    assert found[1:] == [f"{(tmp_path / where).parent}/.imi-trash"] * (roots - 1)


def test_beside_the_worktrees_of_a_bare_repository_is_room_for_a_trash(repo: Repo, tmp_path: Path) -> None:
    git("clone", "-q", "--bare", str(repo.path), str(tmp_path / "cluster" / ".bare"), cwd=tmp_path)
    bare = Repo(tmp_path / "cluster" / ".bare")
    bare.git("worktree", "add", "-q", "-b", "feat/x", str(tmp_path / "cluster" / "feat-x"))
    with Context(str(bare.path)) as context:
        found = list(trash_folder.trash_roots(targets.find_worktree(context, "feat-x")))
    assert found == [f"{bare.path}/imi/trash", f"{tmp_path}/cluster/.imi-trash"]


class TestEntry:
    @pytest.mark.parametrize("root", ["git/imi/trash", "work/.imi-trash"])
    def test_only_folders_of_imi_become_private(self, tmp_path: Path, root: str) -> None:
        above = tmp_path / Path(root).parts[0]
        above.mkdir(mode=0o755)
        above.chmod(0o755)
        entry = tmp_path / root / "0123456789"
        trash_folder.prepare_entry(str(entry))
        assert [folder.stat().st_mode & 0o777 for folder in (entry, entry.parent)] == [0o700, 0o700]
        assert above.stat().st_mode & 0o777 == 0o755
        assert (above / "imi").exists() == ("imi" in Path(root).parts)
        if "imi" in Path(root).parts:
            assert (above / "imi").stat().st_mode & 0o777 == 0o700

    def test_a_private_trash_is_used_where_no_mode_can_be_changed(self, tmp_path: Path) -> None:
        """As on a mounted Windows disk."""
        root = tmp_path / "imi" / "trash"
        trash_folder.prepare_entry(str(root / "first"))
        with at_event("os.chmod", fail(errno.EPERM)):
            trash_folder.prepare_entry(str(root / "second"))
        assert (root / "second").is_dir()

    def test_another_removal_may_delete_the_empty_trash_meanwhile(self, tmp_path: Path) -> None:
        entry = tmp_path / "imi" / "trash" / "0123456789"
        deleting = at_event("os.mkdir", entry.parent.rmdir, when=lambda path, *_: path == str(entry))
        with deleting as met:
            trash_folder.prepare_entry(str(entry))
        assert met and entry.is_dir()

    def test_a_trash_that_is_deleted_again_and_again_is_an_error(self, tmp_path: Path) -> None:
        entry = tmp_path / "imi" / "trash" / "0123456789"
        deleting = at_event("os.mkdir", entry.parent.rmdir, when=lambda path, *_: path == str(entry), once=False)
        with deleting as met, pytest.raises(FileNotFoundError):
            trash_folder.prepare_entry(str(entry))
        assert len(met) == 3 and not entry.exists()

    def test_what_imi_made_is_deleted_and_nothing_else(self, tmp_path: Path) -> None:
        entry = tmp_path / "imi" / "trash" / "0123456789"
        (entry / "admin" / "logs").mkdir(parents=True)
        for name in ("admin/logs/HEAD", "note.json", "note.json.imi-new", "gitfile"):
            (entry / name).write_text("x\n")
        trash_folder.discard_entry(str(entry))
        assert not (tmp_path / "imi").exists()
        (entry / "gitfile").mkdir(parents=True)
        for name in ("gitfile/mine", "note.json", "notes.txt", "admin"):
            (entry / name).write_text("x\n")
        trash_folder.discard_entry(str(entry))
        assert sorted(os.listdir(entry)) == ["gitfile", "notes.txt"] and (entry / "gitfile" / "mine").exists()

    @pytest.mark.parametrize("what", ["the entry", "the copy"])
    def test_nothing_is_deleted_through_a_link(self, tmp_path: Path, what: str) -> None:
        elsewhere = tmp_path / "elsewhere"
        (elsewhere / "admin").mkdir(parents=True)
        for name in ("admin/HEAD", "note.json", "gitfile"):
            (elsewhere / name).write_text("x\n")
        before, entry = tree_hash(elsewhere), tmp_path / "trash" / "0123456789"
        entry.parent.mkdir() if what == "the entry" else entry.mkdir(parents=True)
        (entry if what == "the entry" else entry / "admin").symlink_to(elsewhere)
        trash_folder.discard_entry(str(entry))
        assert tree_hash(elsewhere) == before
        assert os.path.lexists(entry) == (what == "the entry")

    def test_the_empty_folder_above_a_trash_beside_worktrees_stays(self, tmp_path: Path) -> None:
        root = tmp_path / "work" / ".imi-trash"
        root.mkdir(parents=True)
        trash_folder.remove_empty_root(str(root))
        assert not root.exists() and root.parent.exists()


@pytest.mark.parametrize("lost", ["lock", "pointer", "HEAD", "record"])
def test_a_move_into_the_trash_is_completed_from_any_point(repo: Repo, trashed: TrashedWorktree, lost: str) -> None:
    """Killed after the rename: recovery does the same again."""
    before = tree_hash(Path(trashed.admin_dir))
    if lost == "lock":
        admin(trashed, "locked").unlink()
    elif lost == "pointer":
        admin(trashed, "gitdir").write_text(trashed.gitdir)
    elif lost == "HEAD":
        admin(trashed, "HEAD").write_text(trashed.head)
    else:
        shutil.rmtree(trashed.admin_dir)
    trash_folder.move_to_trash(trashed, open_git(repo))
    assert tree_hash(Path(trashed.admin_dir)) == before


@pytest.mark.parametrize("left", ["lock", "pointer", "HEAD", "temporary files"])
def test_a_restore_is_completed_from_any_point(repo: Repo, trashed: TrashedWorktree, left: str) -> None:
    trash_folder.move_back(trashed, open_git(repo), head=trashed.head)
    before = tree_hash(Path(trashed.admin_dir))
    if left == "lock":
        admin(trashed, "locked").write_text(OURS.replace("{id}", trashed.id))
    elif left == "pointer":
        admin(trashed, "gitdir").write_text(trashed.pointer)
    elif left == "HEAD":
        admin(trashed, "HEAD").write_text(f"{trashed.sha}\n")
    else:
        admin(trashed, "gitdir.imi-new").write_text("half")
        admin(trashed, "locked.imi-new").write_text("half")
    trash_folder.move_back(trashed, open_git(repo), head=trashed.head)
    assert tree_hash(Path(trashed.admin_dir)) == before


def test_a_restore_whose_entry_is_deleted_leaves_the_git_file_alone(repo: Repo, trashed: TrashedWorktree) -> None:
    """Its user may have made the path relative since."""
    trash_folder.move_back(trashed, open_git(repo), head=trashed.head)
    trash_folder.discard_entry(trashed.trash_dir)
    relative = f"gitdir: {os.path.relpath(trashed.admin_dir, trashed.path)}\n"
    Path(trashed.path, ".git").write_text(relative)
    trash_folder.move_back(trashed, open_git(repo), head=trashed.head)
    assert Path(trashed.path, ".git").read_text() == relative


class TestExchanged:
    """At moments at which only a process that runs beside imi can do it."""

    def test_before_a_repeated_move(self, repo: Repo, trashed: TrashedWorktree, tmp_path: Path) -> None:
        """A link in place of the entry would lead to another copy of git's record."""
        entry, elsewhere = Path(trashed.trash_dir), tmp_path / "elsewhere"
        shutil.copytree(entry, elsewhere, symlinks=True)
        (elsewhere / "admin" / "planted").write_text("x\n")
        admin(trashed, "commondir").unlink()
        before = tree_hash(Path(trashed.admin_dir))
        shutil.rmtree(entry)
        entry.symlink_to(elsewhere)
        with pytest.raises(Refused) as refused:
            trash_folder.move_to_trash(trashed, open_git(repo))
        assert refused.value.code == "exchanged"
        assert tree_hash(Path(trashed.admin_dir)) == before

    def test_while_the_move_is_completed(self, repo: Repo, trashed: TrashedWorktree) -> None:
        """The registry must not record a removal whose folder is another one."""
        admin(trashed, "HEAD").write_text(trashed.head)

        def exchange() -> None:
            os.rename(trashed.folder, trashed.path + "-aside")
            os.mkdir(trashed.folder)

        with (
            at_event("os.rename", exchange, when=lambda _, target, *__: target.endswith("/feat-x/HEAD")) as met,
            pytest.raises(Refused) as refused,
        ):
            trash_folder.move_to_trash(trashed, open_git(repo))
        assert met and refused.value.code == "exchanged"

    @pytest.mark.parametrize("what", ["the entry", "the records"])
    def test_between_the_question_and_the_restore(
        self, repo: Repo, tree: Repo, trashed: TrashedWorktree, tmp_path: Path, what: str
    ) -> None:
        """`imi undo` asks before; the move itself asks again."""
        entry = Path(trashed.trash_dir)
        if what == "the entry":
            entry.rename(tmp_path / "aside")
            entry.symlink_to(tmp_path / "aside")
        else:
            shutil.rmtree(entry / "admin")
            shutil.rmtree(trashed.admin_dir)
        with pytest.raises(Refused) as refused:
            trash_folder.move_back(trashed, open_git(repo), head=trashed.head)
        assert refused.value.code == ("exchanged" if what == "the entry" else "admin-gone")
        assert not tree.path.exists()

    def test_right_after_the_rename_nothing_is_written_into_it(
        self, repo: Repo, tree: Repo, trashed: TrashedWorktree, tmp_path: Path
    ) -> None:
        def exchange() -> None:
            tree.path.rename(tmp_path / "aside")
            tree.path.mkdir()

        def is_sync(path: object, *_: object) -> bool:
            return path == trashed.trash_dir and tree.path.exists()

        with at_event("open", exchange, when=is_sync) as met, pytest.raises(Refused) as refused:
            undo(repo)
        assert met and refused.value.code == "exchanged"
        assert list(tree.path.iterdir()) == []

    def test_a_git_file_that_is_changed_at_the_end_is_told(
        self, repo: Repo, tree: Repo, trashed: TrashedWorktree
    ) -> None:
        def tamper() -> None:
            (tree.path / ".git").write_text(f"gitdir: {repo.path}/.git\n")

        with (
            at_event("os.remove", tamper, when=lambda path, *_: str(path).endswith("/locked")) as met,
            pytest.raises(Refused) as refused,
        ):
            undo(repo)
        assert met and refused.value.code == "restore-broken"

    def test_a_planted_copy_is_not_used_for_a_broken_record(
        self, repo: Repo, trashed: TrashedWorktree, tmp_path: Path
    ) -> None:
        admin(trashed, "commondir").unlink()
        copy, elsewhere = Path(trashed.copy), tmp_path / "elsewhere"
        copy.rename(elsewhere)
        (elsewhere / "planted").write_text("x\n")
        copy.symlink_to(elsewhere)
        trash_folder.move_back(trashed, open_git(repo), head=trashed.head)
        assert not admin(trashed, "planted").exists()


def test_an_entry_unlocked_by_hand_comes_back(repo: Repo, tree: Repo, trashed: TrashedWorktree) -> None:
    repo.git("worktree", "unlock", trashed.folder)
    undo(repo)
    assert tree.git("status", "--porcelain") == ""


@pytest.mark.parametrize("moved", [False, True])
def test_beside_a_reftable_git_itself_restores_head(
    repo: Repo, trashed: TrashedWorktree, moved: bool, tmp_path: Path, shim: object
) -> None:
    """On its branch, or where it was when the branch has moved on since."""
    assert callable(shim)
    admin(trashed, "reftable").mkdir()
    log = tmp_path / "calls"
    log.touch()
    shim(f'case "$*" in *symbolic-ref*) echo "$*" >> {log} ;; *) exec "$real_git" "$@" ;; esac')
    head = f"{trashed.sha}\n" if moved else trashed.head
    before = admin(trashed, "HEAD").read_text()
    trash_folder.move_back(trashed, open_git(repo), head=head)
    assert log.read_text().strip().endswith("symbolic-ref HEAD refs/heads/feat/x") != moved
    assert bool(log.read_text()) != moved
    assert admin(trashed, "HEAD").read_text() == before
    assert not git_admin_dir.is_locked_by(trashed.admin_dir, "imi trash")
