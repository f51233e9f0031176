"""R7: what lies in the trash was exchanged (an agent can do that). Nothing but the removed folder itself is ever restored, and
the entry stays in the list."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from imi_monitor import actions
from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from imi_monitor.config import database_path
from imi_monitor.model.errors import Refused
from imi_monitor.store import db, trash
from tests.actions.removal_kit import act, assert_same, fingerprint, remove, trash_root, undo
from tests.audit_events import at_event
from tests.helpers import Repo, imi, tree_hash


@pytest.fixture
def tree(repo: Repo) -> Repo:
    made = repo.worktree("feat-x")
    made.write("work.py", "x\n")
    made.commit("work")
    made.write("README.md", "changed\n")
    return made


def entry_of(repo: Repo) -> Path:
    return next(iter(trash_root(repo).iterdir()))


def still_listed(repo: Repo) -> None:
    listed = act("trash list", cwd=repo.path)
    assert [entry["worktree_name"] for entry in listed.data["entries"]] == ["feat-x"]  # type: ignore[attr-defined]
    connection = db.connect(database_path(None))
    assert len(trash.list_kept(connection)) == 1
    assert connection.execute("SELECT count(*) FROM operations").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize("what", ["link", "file", "folder"])
def test_an_exchanged_folder_is_not_restored(repo: Repo, tree: Repo, tmp_path: Path, what: str) -> None:  # R7
    before = fingerprint(repo, tree.path)
    remove(repo, "feat-x", force=True)
    folder, real = entry_of(repo) / "worktree", entry_of(repo) / "real"
    folder.rename(real)
    if what == "link":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    elif what == "file":
        folder.write_text("x\n")
    else:
        shutil.copytree(real, folder)
    with Context(str(repo.path)) as context:
        action = actions.find("undo")
        assert action is not None
        preview = action.preview(context, Request("undo", {}))
    assert preview.refusal is not None and preview.refusal.code == "exchanged"
    ran = imi("undo", cwd=repo.path)
    assert (ran.code, ran.out) == (1, "") and str(entry_of(repo)) in ran.err, ran
    assert not os.path.lexists(tree.path)
    still_listed(repo)
    shutil.rmtree(folder) if what == "folder" else folder.unlink()
    real.rename(folder)
    undo(repo)
    assert_same(fingerprint(repo, tree.path), before)
    assert not trash_root(repo).exists()


@pytest.mark.parametrize("which", ["entry", "root", "imi"])
def test_an_exchanged_trash_folder_is_not_followed(repo: Repo, tree: Repo, tmp_path: Path, which: str) -> None:
    """The same mistake one level up: a link in place of a folder above the worktree."""
    remove(repo, "feat-x", force=True)
    entry = entry_of(repo)
    folder = {"entry": entry, "root": entry.parent, "imi": entry.parent.parent}[which]
    folder.rename(tmp_path / "aside")
    folder.symlink_to(tmp_path / "aside")
    with pytest.raises(Refused, match="is not a folder any more but a link"):
        undo(repo)
    assert not os.path.lexists(tree.path)
    still_listed(repo)
    folder.unlink()
    (tmp_path / "aside").rename(folder)
    undo(repo)


@pytest.mark.parametrize("when", ["at the rename", "after the rename"])
def test_exchanged_during_the_restore(repo: Repo, tree: Repo, tmp_path: Path, when: str) -> None:  # R7
    """The effect is read back before the registry says that the worktree is restored."""
    remove(repo, "feat-x", force=True)
    folder = entry_of(repo) / "worktree"
    (tmp_path / "elsewhere").mkdir()

    def exchange() -> None:
        place = folder if when == "at the rename" else tree.path
        place.rename(tmp_path / "aside")
        place.symlink_to(tmp_path / "elsewhere")

    renaming = at_event("os.rename", exchange, when=lambda source, *_: source == str(folder))
    unlocking = at_event("os.remove", exchange, when=lambda path, *_: str(path).endswith("/locked"))
    with renaming if when == "at the rename" else unlocking as met, pytest.raises(Refused) as refused:
        undo(repo)
    assert met and refused.value.code in ("changed", "exchanged")
    assert list((tmp_path / "elsewhere").iterdir()) == [], "nothing was written through the link"
    with Context(str(repo.path)) as context:
        assert len(trash.list_kept(context.connection)) == 1
    assert (tmp_path / "aside" / "work.py").exists()


def test_exchanged_during_the_removal(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    """A link in place of the trash entry: the worktree is not moved out of the trash by it."""
    (tmp_path / "elsewhere").mkdir()
    before = tree_hash(tree.path)

    def exchange() -> None:
        entry = entry_of(repo)
        entry.rename(tmp_path / "aside")
        entry.symlink_to(tmp_path / "elsewhere")

    with (
        at_event("os.rename", exchange, when=lambda source, *_: source == str(tree.path)) as met,
        pytest.raises(Refused, match="was exchanged during the move: it was put back"),
    ):
        remove(repo, "feat-x", force=True)
    assert met and list((tmp_path / "elsewhere").iterdir()) == []
    assert tree_hash(tree.path) == before
    (line,) = act("trash list", cwd=repo.path).lines
    assert "it is a link and not a folder of the trash" in line


@pytest.mark.parametrize("name", ["admin", "gitfile"])
def test_odd_files_of_the_entry_do_not_stop_the_restore(repo: Repo, tree: Repo, tmp_path: Path, name: str) -> None:
    """A link in place of imi's own files in the entry: `discard_entry` failed on it after the worktree was back."""
    before = fingerprint(repo, tree.path)
    remove(repo, "feat-x", force=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("x\n")
    target = entry_of(repo) / name
    if name == "admin":
        shutil.rmtree(target)
    target.symlink_to(tmp_path / "elsewhere")
    undo(repo)
    assert_same(fingerprint(repo, tree.path), before)
    assert (tmp_path / "elsewhere" / "precious").read_text() == "x\n"
    assert not trash_root(repo).exists()


def test_without_any_record_of_git_the_folder_stays(repo: Repo, tree: Repo) -> None:
    remove(repo, "feat-x", force=True)
    shutil.rmtree(entry_of(repo) / "admin")
    shutil.rmtree(repo.path / ".git" / "worktrees" / "feat-x")
    with pytest.raises(Refused, match="and so is its copy"):
        undo(repo)
    assert (entry_of(repo) / "worktree" / "work.py").exists()
    still_listed(repo)
