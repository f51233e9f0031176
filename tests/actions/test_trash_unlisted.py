"""M2: the trash without its registry. A registry that was set aside, replaced, damaged or made by a newer imi: every entry is
found by its note, restored from it byte for byte, and listed again."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import grace_period, trash_note
from imi_monitor.config import database_path
from imi_monitor.model.errors import Refused
from imi_monitor.store import claims, db, events, trash, worktrees
from tests import registry_faults
from tests.actions.removal_kit import (
    act,
    assert_same,
    fingerprint,
    note_of,
    register,
    remove,
    set_registry_aside,
    trash_root,
    undo,
)
from tests.helpers import Repo, git, imi, tree_hash


@pytest.fixture
def tree(repo: Repo) -> Repo:
    """A worktree with staged, changed, untracked and ignored work."""
    made = repo.worktree("feat-x")
    made.write("staged.py", "in the index alone\n")
    made.git("add", "staged.py")
    made.write("README.md", "changed\n")
    made.write(".env", "TOKEN=1\n")
    made.write("new.txt", "new\n")
    return made


def removed(repo: Repo, name: str = "feat-x", **values: Any) -> str:
    return str(remove(repo, name, force=True, **values).data["trash_id"])


def new_registry(folder: Path) -> None:
    set_registry_aside(folder)


def damaged(_: Path) -> None:
    with open(database_path(None), "r+b") as file:
        file.write(b"garbagegarbage!!")


def newer(_: Path) -> None:
    with closing(sqlite3.connect(database_path(None))) as connection:
        connection.execute("PRAGMA user_version = 9999")
        connection.commit()


def older_copy(folder: Path) -> None:
    """The copy that `copied` made before the removal."""
    set_registry_aside(folder)
    shutil.copy(folder / "copy.db", database_path(None))


@pytest.fixture
def copied(tmp_path: Path, tree: Repo) -> Path:
    """A folder with a copy of the registry from before the removal, which has a row for the worktree."""
    folder = tmp_path / "kept"
    folder.mkdir()
    with Context(str(tree.path)) as context:
        register(context, Repo(tmp_path / "app"), tree)
        context.connection.execute("VACUUM INTO ?", (str(folder / "copy.db"),))
    return folder


def vanished(_: Path) -> None:
    registry_faults.delete_registry(Path(database_path(None)))


READABLE = [new_registry, older_copy]
ANY = [*READABLE, damaged, newer, vanished]


@pytest.mark.parametrize("lose", ANY)
def test_undo_restores_from_the_note_alone(
    repo: Repo, tree: Repo, copied: Path, lose: Callable[[Path], None]
) -> None:  # R8
    before = fingerprint(repo, tree.path)
    identity = removed(repo)
    lose(copied)
    listed = imi("trash", "list", cwd=repo.path)
    assert listed.code == 0 and listed.out.startswith(identity) and "NOT IN THE REGISTRY" in listed.out, listed
    (entry,) = imi("trash", "list", "--json", cwd=repo.path).data["entries"]
    assert (entry["id"], entry["worktree_name"], entry["listed"], entry["restorable"]) == (
        identity,
        "feat-x",
        False,
        True,
    )
    ran = imi("undo", cwd=repo.path)
    assert ran.code == 0 and ran.out.splitlines()[-1] == str(tree.path), ran
    assert_same(fingerprint(repo, tree.path), before)
    assert not (repo.path / ".git" / "imi").exists()
    assert imi("trash", "list", cwd=repo.path).out == "the trash is empty\n"


@pytest.mark.parametrize("lose", READABLE)
def test_row_and_event_are_written(repo: Repo, tree: Repo, copied: Path, lose: Callable[[Path], None]) -> None:  # R8
    identity = removed(repo, agent="claude-1")
    lose(copied)
    undo(repo)
    with Context(str(repo.path)) as context:
        row = worktrees.get(context.connection, "app", "feat-x")
        assert row is not None
        assert (row.active, row.type, row.branch, row.base_branch, row.pr_number, row.path) == (
            True,
            "feat",
            "feat/x",
            "main",
            7,
            str(tree.path),
        )
        entry = trash.get(context.connection, identity)
        assert entry is not None and entry.restored_at is not None and entry.removed_by == "claude-1"
        found = [event for event in events.list_events(context.connection) if identity in event.data]
        assert [event.type for event in found] == ["worktree.adopted", "worktree.restored"]
        assert json.loads(found[0].data)["removed_by"] == "claude-1"


def test_a_new_registry_lists_it_by_repair(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    before = fingerprint(repo, tree.path)
    identity = removed(repo)
    set_registry_aside(tmp_path)
    dry = imi("repair", "--dry-run", "--json", cwd=repo.path)
    assert [finding["kind"] for finding in dry.data["mended"]] == ["unlisted"]
    assert imi("trash", "list", "--json", cwd=repo.path).data["entries"][0]["listed"] is False, (
        "a dry run changes nothing"
    )
    assert f"`imi undo {identity}`" in imi("repair", cwd=repo.path).out
    (entry,) = imi("trash", "list", "--json", cwd=repo.path).data["entries"]
    assert (entry["listed"], entry["restorable"], entry["branch"]) == (True, True, "feat/x")
    assert "nothing to repair" in imi("repair", cwd=repo.path).out
    undo(repo)
    assert_same(fingerprint(repo, tree.path), before)


def test_prune_and_doctor_name_it(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    identity = removed(repo)
    set_registry_aside(tmp_path)
    (kept,) = imi("prune", "--json", cwd=repo.path).data["kept"]
    assert (kept["kind"], kept["name"]) == ("unlisted", "feat-x") and identity in kept["keep"]
    found = {check["name"]: check for check in imi("doctor", "--json", cwd=repo.path).data["checks"]}
    assert found["trash"]["state"] == "warn" and "feat-x" in found["trash"]["says"]
    undo(repo)
    found = {check["name"]: check for check in imi("doctor", "--json", cwd=repo.path).data["checks"]}
    assert found["trash"]["state"] == "ok"


def test_registered_repositories_are_searched_from_anywhere(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    identity = removed(repo)
    set_registry_aside(tmp_path)
    imi("claim", "app", "--repo", str(repo.path), cwd=tmp_path)  # registers the repository in the new registry
    assert identity in imi("trash", "list", cwd=tmp_path).out
    assert imi("undo", identity, cwd=tmp_path).code == 0
    assert tree.path.is_dir()


def test_among_several_the_user_chooses(repo: Repo, tmp_path: Path) -> None:
    """The times in notes are only claims, so none of them decides which was the last."""
    for name in ("feat-a", "feat-b"):
        repo.worktree(name)
    first, second = removed(repo, "feat-a"), removed(repo, "feat-b")
    set_registry_aside(tmp_path)
    with pytest.raises(Refused, match=f"give one of {second} .feat-b., {first} .feat-a."):
        undo(repo)
    assert undo(repo, first[:6]).data["worktree_name"] == "feat-a"
    assert undo(repo, "b").data["worktree_name"] == "feat-b"


def test_an_entry_of_the_registry_comes_before_one_of_a_note(repo: Repo, tmp_path: Path) -> None:
    for name in ("feat-a", "feat-b"):
        repo.worktree(name)
    removed(repo, "feat-a")
    set_registry_aside(tmp_path)
    removed(repo, "feat-b")
    assert undo(repo).data["worktree_name"] == "feat-b"
    assert undo(repo).data["worktree_name"] == "feat-a"


def test_epochs_never_fall_back(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    """A holder of before must not act with its old epoch."""
    for _ in range(3):
        imi("claim", "feat-x", "--agent", "old", cwd=repo.path)
        imi("release", "feat-x", "--agent", "old", "--dirty-ok", cwd=repo.path)
    removed(repo)
    connection = db.connect(database_path(None))
    last = claims.current(connection, "app", "feat-x").epoch
    connection.close()
    set_registry_aside(tmp_path)
    undo(repo)
    claimed = imi("claim", "feat-x", "--agent", "new", "--json", cwd=repo.path)
    assert claimed.data["epoch"] > last


def test_an_older_copy_of_the_registry_ends_the_claim(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    """The copy says that feat-x is active and claimed; the removal ended both."""
    imi("claim", "feat-x", "--agent", "old", cwd=repo.path)
    with closing(db.connect(database_path(None))) as connection:
        connection.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
    removed(repo, agent="old")
    older_copy(tmp_path)
    assert imi("repair", cwd=repo.path).code == 0
    with closing(db.connect(database_path(None))) as connection:
        row = worktrees.get(connection, "app", "feat-x")
        assert row is not None and (row.active, row.closed_how) == (False, "removed")
        assert claims.current(connection, "app", "feat-x").agent_id is None


def test_the_grace_period_begins_anew(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    """Nothing proves what a note says about the past, so no purge may rely on it."""
    identity = removed(repo)
    data = json.loads(note_of(repo, identity).read_text())
    data["removed_at"] = data["began_at"] = "2020-01-01T00:00:00+00:00"
    data["worktree"]["uptime"] = 0.0
    note_of(repo, identity).write_text(json.dumps(data))
    set_registry_aside(tmp_path)
    act("repair", cwd=repo.path)
    with Context(str(repo.path)) as context:
        (entry,) = trash.list_kept(context.connection)
        assert entry.removed_at.startswith("2020")
        assert grace_period.proven_age(entry) < 60
    assert act("trash purge", cwd=repo.path, which=[], yes=True).data["purged"] == []


@pytest.mark.parametrize("lose", ANY)
def test_an_unlisted_entry_is_purged_if_it_is_named(
    repo: Repo, tree: Repo, copied: Path, lose: Callable[[Path], None]
) -> None:
    tree.git("switch", "-q", "--detach")
    own = tree.commit("own")
    identity = removed(repo)
    lose(copied)
    for words in (("--all",), ("--older-than", "3650"), ()):
        imi("trash", "purge", "--yes", *words, cwd=repo.path)
        assert trash_root(repo).exists(), words
    shown = imi("trash", "purge", "feat-x", "--json", cwd=repo.path).data
    assert (shown["purged"], shown["would_purge"]) == ([], [identity])
    done = imi("trash", "purge", identity, "--yes", "--wait", "--json", cwd=repo.path)
    assert (done.code, done.data["purged"]) == (0, [identity]), done
    assert not trash_root(repo).exists() and "feat-x" not in git("worktree", "list", cwd=repo.path)
    assert own in git("for-each-ref", "refs/imi/kept", cwd=repo.path), "its own commits are kept"
    assert imi("trash", "list", cwd=repo.path).out == "the trash is empty\n"


def test_an_unusable_entry_is_not_purged(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    identity = removed(repo)
    note_of(repo, identity).write_text("{")
    set_registry_aside(tmp_path)
    with pytest.raises(Refused, match="is not purged: its note"):
        act("trash purge", cwd=repo.path, which=[identity], yes=True)
    assert (trash_root(repo) / identity).exists()


def test_restored_without_the_registry_and_recorded_later(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    identity = removed(repo)
    aside = set_registry_aside(tmp_path)
    Path(database_path(None)).write_bytes(b"garbage" * 1000)
    ran = imi("undo", cwd=repo.path)
    assert ran.code == 0 and "run `imi repair` once it can be used" in ran.err, ran
    for path in Path(database_path(None)).parent.iterdir():
        path.unlink()
    for path in aside.iterdir():
        path.rename(Path(database_path(None)).parent / path.name)
    assert "RESTORED without the registry" in imi("trash", "list", cwd=repo.path).out
    repaired = imi("repair", "--json", cwd=repo.path)
    assert [finding["kind"] for finding in repaired.data["mended"]] == ["restored"]
    assert imi("trash", "list", cwd=repo.path).out == "the trash is empty\n"
    with closing(db.connect(database_path(None))) as connection:
        entry = trash.get(connection, identity)
        assert entry is not None and entry.restored_at is not None
        assert events.list_events(connection)[-1].type == "worktree.restored"


def test_an_entry_of_an_imi_without_notes_gets_one(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    identity = removed(repo)
    note_of(repo, identity).unlink()
    with Context(str(repo.path)) as context:
        entries = trash.list_kept(context.connection)
        trash_note.write_missing_notes(context, entries)
    before = note_of(repo, identity).read_bytes()
    with Context(str(repo.path)) as context:
        trash_note.write_missing_notes(context, entries)
    assert note_of(repo, identity).read_bytes() == before
    set_registry_aside(tmp_path)
    assert undo(repo).data["trash_id"] == identity


def test_after_the_machine_was_renamed(repo: Repo, tree: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are recorded under the host's name; under another name the trash seemed empty."""
    identity = removed(repo)
    monkeypatch.setenv("IMI_HOST", "renamed")
    assert identity in imi("trash", "list", cwd=repo.path).out
    assert undo(repo).data["trash_id"] == identity


def test_an_entry_of_another_registry_stays_there(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    assert imi("remove", "feat-x", "--force", "--db", str(other), cwd=repo.path).code == 0
    ran = imi("undo", "feat-x", cwd=repo.path)
    assert ran.code == 1 and f"use `--db {other}`" in ran.err, ran
    assert imi("trash", "list", cwd=repo.path).code == 0
    assert imi("undo", "--db", str(other), cwd=repo.path).code == 0
    assert tree.path.is_dir()


def test_an_entry_of_another_registry_is_listed_here_when_told(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    assert imi("remove", "feat-x", "--force", "--db", str(other), cwd=repo.path).code == 0
    assert "is listed in the trash again" in imi("repair", str(trash_root(repo)), cwd=repo.path).out
    assert undo(repo).data["worktree_name"] == "feat-x"


def test_after_the_repository_was_moved(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    before = tree_hash(tree.path, skip=[".git"])
    removed(repo)
    set_registry_aside(tmp_path)
    moved = Repo(repo.path.rename(repo.path.parent / "elsewhere"))
    act("undo", cwd=moved.path)
    assert tree_hash(tree.path, skip=[".git"]) == before
    assert "feat-x" in moved.git("worktree", "list")
    assert "M README.md" in git("status", "--porcelain", cwd=tree.path)


def test_after_the_repository_was_copied(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    """A copy has other inodes, as an exchanged folder has: it is accepted when the user says so."""
    identity = removed(repo)
    before = tree_hash(trash_root(repo) / identity / "worktree")
    set_registry_aside(tmp_path)
    shutil.copytree(repo.path, tmp_path / "copy", symlinks=True)
    shutil.rmtree(repo.path)
    (tmp_path / "copy").rename(repo.path)
    root = str(trash_root(repo))
    ran = imi("undo", "feat-x", cwd=repo.path)
    assert ran.code == 1 and f"`imi repair {root}/{identity}` accepts it" in ran.err, ran
    assert imi("repair", root, cwd=repo.path).code == 0
    undo(repo)
    assert tree_hash(tree.path) == before


def test_a_copied_repository_with_its_registry(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    identity = removed(repo)
    shutil.copytree(repo.path, tmp_path / "copy", symlinks=True)
    shutil.rmtree(repo.path)
    (tmp_path / "copy").rename(repo.path)
    with pytest.raises(Refused, match="is another folder than the removed one"):
        undo(repo)
    assert "accepts it" in imi("repair", cwd=repo.path).out
    assert "is accepted" in imi("repair", str(trash_root(repo) / identity), cwd=repo.path).out
    undo(repo)
    assert (tree.path / ".env").read_text() == "TOKEN=1\n"


def test_a_place_far_from_the_others_needs_a_word(repo: Repo, tmp_path: Path) -> None:
    far = tmp_path / "far" / "away" / "feat-x"
    repo.git("worktree", "add", "-q", "-b", "feat/x", str(far))
    before = fingerprint(repo, far)
    removed(repo)
    set_registry_aside(tmp_path)
    ran = imi("undo", cwd=repo.path)
    assert ran.code == 1 and f"`imi repair {far.parent}` allows it" in ran.err, ran
    assert imi("repair", cwd=repo.path).code == 0 and not far.exists()
    assert "is listed in the trash again" in imi("repair", str(tmp_path / "far"), cwd=repo.path).out
    undo(repo)
    assert_same(fingerprint(repo, far), before)


def test_a_running_removal_is_not_taken_for_a_lost_one(repo: Repo, tree: Repo) -> None:
    """Its note names a living process; here the registry of the removal is another one."""
    from tests.audit_events import at_event

    seen: list[object] = []

    def look() -> None:
        with Context(str(repo.path), database=str(repo.path.parent / "other.db")) as context:
            from imi_monitor.actions.removal import unlisted_entries

            seen.append(unlisted_entries.find_unlisted(context))

    with at_event("os.rename", look, when=lambda source, *_: source == str(tree.path)) as met:
        removed(repo)
    assert met and seen == [[]]


def test_the_note_is_private_and_complete(repo: Repo, tree: Repo) -> None:
    identity = removed(repo, agent="claude-1")
    note = note_of(repo, identity)
    assert note.stat().st_mode & 0o777 == 0o600
    data = json.loads(note.read_text())
    assert data["registry"]["path"] == os.path.realpath(database_path(None)) and data["registry"]["id"]
    assert (data["state"], data["process"], data["host"]) == ("removed", None, os.uname().nodename)
    assert data["began_at"] <= data["removed_at"]
    described = data["worktree"]
    assert (described["name"], described["branch"], described["path"]) == ("feat-x", "feat/x", str(tree.path))
    assert described["sha"] == repo.git("rev-parse", "feat/x")


def test_a_note_that_cannot_be_completed_does_not_undo_the_removal(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    from tests.audit_events import at_event

    def full() -> None:
        raise OSError(28, "No space left on device")

    renamed = 0

    def second(_: object, target: object, *__: object) -> bool:
        nonlocal renamed
        renamed += str(target).endswith("/note.json")
        return renamed == 2

    before = fingerprint(repo, tree.path)
    with at_event("os.rename", full, when=second) as met:
        identity = removed(repo)
    assert met and json.loads(note_of(repo, identity).read_text())["state"] == "moving"
    set_registry_aside(tmp_path)
    note = note_of(repo, identity)
    os.utime(note, (1, 1))  # the clock was set meanwhile
    with pytest.raises(Refused, match="trash is empty"):
        undo(repo)  # this very process began the removal, lives, and may still be at it
    noted = json.loads(note.read_text())
    noted["worktree"]["uptime"] -= 1000
    note.write_text(json.dumps(noted))
    undo(repo)
    assert_same(fingerprint(repo, tree.path), before)


def test_the_preview_of_undo_says_where_it_comes_from(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    from imi_monitor import actions
    from imi_monitor.actions.action import Request

    removed(repo)
    set_registry_aside(tmp_path)
    action = actions.find("undo")
    assert action is not None
    with Context(str(repo.path)) as context:
        preview = action.preview(context, Request("undo", {}))
    assert preview.refusal is None and str(tree.path) in preview.lines[1]
    assert "its note says this" in preview.lines[-1]
