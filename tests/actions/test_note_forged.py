"""A note in the trash is only a claim, because an agent can write there: whatever it says, nothing outside of the trash is
touched, nothing is overwritten, and nothing is restored to a place where the repository has no worktrees."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import paths
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import unlisted_entries
from imi_monitor.model.errors import ImiError
from tests.actions.removal_kit import (
    act,
    admin_of,
    assert_same,
    fingerprint,
    note_of,
    refs,
    remove,
    set_registry_aside,
    trash_root,
    undo,
)
from tests.helpers import Repo, imi, tree_hash


@pytest.fixture
def world(repo: Repo, tmp_path: Path) -> str:
    """A trash entry that the registry does not list, and a living worktree `feat-victim`; gives the entry's id."""
    victim = repo.worktree("feat-victim")
    victim.write("work.py", "work\n")
    tree = repo.worktree("feat-x")
    tree.write("README.md", "changed\n")
    identity = str(remove(repo, "feat-x", force=True).data["trash_id"])
    set_registry_aside(tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("x\n")
    return identity


def forge(repo: Repo, identity: str, **changes: Any) -> None:
    """Change values of the note: of the worktree's part, or of the note itself."""
    note = note_of(repo, identity)
    data = json.loads(note.read_text())
    for key, value in changes.items():
        (data["worktree"] if key in data["worktree"] else data)[key] = value
    note.write_text(json.dumps(data))


def unharmed(repo: Repo, tmp_path: Path) -> dict[str, Any]:
    """Everything that no note may change."""
    victim = fingerprint(repo, tmp_path / "feat-victim")
    main = tree_hash(repo.path, skip=[".git"])
    main = {name: content for name, content in main.items() if not name.startswith(".git/")}
    return {**victim, "main": main, "outside": tree_hash(tmp_path / "outside"), "names": sorted(os.listdir(tmp_path))}


def every_verb(repo: Repo, identity: str) -> list[str]:
    """Everything that reads notes, and what they said."""
    said = []
    for words in (
        ["trash", "list"],
        ["undo"],
        ["undo", identity],
        ["repair"],
        ["prune"],
        ["doctor"],
        ["trash", "list", "--json"],
    ):
        ran = imi(*words, cwd=repo.path)
        said.append(ran.out + ran.err)
    return said


def places(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Notes that lead elsewhere, by name: the changed values."""
    common, home = f"{tmp_path}/app/.git", paths.home()
    victim, admin = f"{tmp_path}/feat-victim", f"{common}/worktrees/feat-victim"

    def at(path: str) -> dict[str, Any]:
        return {"path": path, "gitdir": f"{path}/.git\n"}

    return {
        "in the home folder": at(f"{home}/bin"),
        "hidden in the home folder": at(f"{home}/.ssh"),
        "hidden beside the others": at(f"{tmp_path}/.config"),
        "in the git directory": at(f"{common}/hooks/feat-x"),
        "in the trash": at(f"{common}/imi/trash/feat-x"),
        "far away": at(f"{tmp_path}/outside/deep/feat-x"),
        "upwards": at(f"{tmp_path}/app/../outside/feat-x"),
        "relative": at("feat-x"),
        "the root": at("/"),
        "on a living worktree": at(victim),
        "on a file": at(f"{tmp_path}/outside/precious"),
        "another path than git's": {"path": f"{tmp_path}/feat-z"},
        "the record of a living worktree": {"admin_dir": admin, "gitfile": f"gitdir: {admin}\n"},
        "a living worktree as a whole": {"admin_dir": admin, "gitfile": f"gitdir: {admin}\n", **at(victim)},
        "a record elsewhere": {"admin_dir": f"{tmp_path}/outside", "gitfile": f"gitdir: {tmp_path}/outside\n"},
        "a record upwards": {"admin_dir": f"{common}/worktrees/..", "gitfile": f"gitdir: {common}/worktrees/..\n"},
        "another trash folder": {"trash_dir": f"{tmp_path}/outside"},
        "another repository": {"common_dir": f"{tmp_path}/outside"},
        "another id": {"id": "0123456789"},
        "a .git file elsewhere": {"gitfile": f"gitdir: {tmp_path}/outside\n"},
        "a .git file of two lines": {"gitfile": "gitdir: x\ngitdir: y\n"},
    }


PLACES = sorted(places(Path("/")))


@pytest.mark.parametrize("name", PLACES)
def test_a_note_leads_nowhere_else(repo: Repo, world: str, tmp_path: Path, name: str) -> None:  # R9
    before = unharmed(repo, tmp_path)
    forge(repo, world, **places(tmp_path)[name])
    for said in every_verb(repo, world):
        assert "\x1b" not in said
    after = unharmed(repo, tmp_path)
    if name == "another trash folder":  # what it says about its own place is not used
        assert (tmp_path / "feat-x" / "README.md").exists()
        after["names"].remove("feat-x")
        after["refs"], after["stash"] = before["refs"], before["stash"]
    else:
        assert (trash_root(repo) / world / "worktree" / "README.md").exists()
    assert_same(after, before)
    assert not os.path.lexists(f"{paths.home()}/bin") and not os.path.lexists(f"{paths.home()}/.ssh")


@pytest.mark.parametrize(
    "changes",
    [
        {"head": "ref: refs/heads/../../x\n"},
        {"head": "ref: /etc/passwd\n"},
        {"head": "x\n"},
        {"head": "ref: refs/heads/main\n"},
        {"branch": "--upload-pack=x"},
        {"sha": "HEAD"},
        {"sha": "0" * 39},
        {"name": "../x"},
        {"name": ""},
        {"name": "a\x1b[31m"},
        {"name": ".git"},
        {"agent": "x\n"},
        {"agent": ""},
        {"how": "\x07"},
        {"inode": -1},
        {"inode": "1"},
        {"inode": True},
        {"uptime": "x"},
        {"overridden": "x"},
        {"epoch": 1 << 62},
        {"epoch": None},
        {"path": "/a\0b"},
        {"path": "/\ud800"},
        {"path": 7},
        {"removed_at": "soon"},
        {"claim": []},
        {"claim": {"agent_id": "\n", "epoch": 1}},
        {"row": {"branch": "x"}},
        {"row": "x"},
        {"registry": None},
        {"registry": {"id": 1, "path": "/"}},
        {"process": {}},
        {"format": 2},
        {"worktree": None},
    ],
    ids=str,
)
def test_a_damaged_note_is_refused_with_the_reason(
    repo: Repo, world: str, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """The entry is listed with the place of its files."""
    before = unharmed(repo, tmp_path)
    forge(repo, world, **changes)
    folder = trash_root(repo) / world
    said = every_verb(repo, world)
    assert str(folder) in said[0] and "its note" in said[0], said[0]
    assert not any("restored feat-x" in each for each in said)
    assert (folder / "worktree" / "README.md").exists()
    assert_same(unharmed(repo, tmp_path), before)


@pytest.mark.parametrize(
    "what", ["missing", "empty", "half", "binary", "deep", "huge", "array", "link", "pipe", "folder"]
)
def test_what_is_no_note_at_all(repo: Repo, world: str, tmp_path: Path, what: str) -> None:
    note = note_of(repo, world)
    text = note.read_text()
    note.unlink()
    (tmp_path / "outside" / "note").write_text(text)
    before = unharmed(repo, tmp_path)
    if what == "link":
        note.symlink_to(tmp_path / "outside" / "note")
    elif what == "pipe":
        os.mkfifo(note)
    elif what == "folder":
        note.mkdir()
    elif what != "missing":
        content = {
            "empty": "",
            "half": text[:100],
            "deep": "[" * 200_000,
            "huge": " " * (2 << 20) + text,
            "array": "[]",
        }
        note.write_bytes(os.urandom(5000) if what == "binary" else content[what].encode())
    said = every_verb(repo, world)
    assert str(trash_root(repo) / world) in said[0] and "its note" in said[0]
    assert_same(unharmed(repo, tmp_path), before)
    assert (trash_root(repo) / world / "worktree" / "README.md").exists()


def test_a_place_that_is_taken_is_never_overwritten(repo: Repo, world: str, tmp_path: Path) -> None:  # R9
    (tmp_path / "feat-x").mkdir()
    before = unharmed(repo, tmp_path)
    ran = imi("undo", world, cwd=repo.path)
    assert ran.code == 1 and "feat-x exists: move" in ran.err, ran
    assert_same(unharmed(repo, tmp_path), before)
    (tmp_path / "feat-x").rmdir()
    (tmp_path / "feat-x").symlink_to(tmp_path / "outside")
    assert imi("undo", world, cwd=repo.path).code == 1
    assert (tmp_path / "feat-x").is_symlink() and os.listdir(tmp_path / "outside") == ["precious"]


def test_a_record_is_only_used_when_it_is_marked_for_the_entry(repo: Repo, world: str, tmp_path: Path) -> None:
    """A worktree of the user that is missing (an unmounted disk) has a record whose place is free."""
    missing = repo.worktree("feat-missing")
    record = admin_of(missing.path)
    kept = tree_hash(record)
    missing.path.rename(tmp_path / "outside" / "unmounted")
    path = str(missing.path)
    forge(repo, world, path=path, gitdir=f"{path}/.git\n", admin_dir=str(record), gitfile=f"gitdir: {record}\n")
    for words in ("undo", "repair", "trash list"):
        ran = imi(*words.split(), cwd=repo.path)
        assert "names the record of another worktree" in ran.out + ran.err or words == "undo"
    assert tree_hash(record) == kept and not missing.path.exists()


def test_a_living_worktree_is_not_taken_for_an_interrupted_move(repo: Repo, world: str, tmp_path: Path) -> None:
    """An entry without a folder whose note names a living worktree: its HEAD, branch and lock stay."""
    victim = tmp_path / "feat-victim"
    admin = admin_of(victim)
    repo.git("worktree", "lock", "--reason", "mine", str(victim))
    shutil.rmtree(trash_root(repo) / world / "worktree")
    forge(
        repo,
        world,
        path=str(victim),
        gitdir=f"{victim}/.git\n",
        admin_dir=str(admin),
        gitfile=f"gitdir: {admin}\n",
        inode=victim.stat().st_ino,
        head=repo.git("rev-parse", "main") + "\n",
        branch=None,
        locked="theirs\n",
        name="feat-victim",
    )
    before = unharmed(repo, tmp_path)
    every_verb(repo, world)
    assert_same(unharmed(repo, tmp_path), before)


def test_a_foreign_folder_as_git_record_is_not_copied(repo: Repo, world: str, tmp_path: Path) -> None:
    """git's record was pruned and its copy exchanged for a link: no file from there gets into the repository."""
    shutil.rmtree(repo.path / ".git" / "worktrees" / "feat-x")
    copy = trash_root(repo) / world / "admin"
    shutil.rmtree(copy)
    copy.symlink_to(tmp_path / "outside")
    (tmp_path / "outside" / "HEAD").write_text("ref: refs/heads/main\n")
    before = unharmed(repo, tmp_path)
    ran = imi("undo", world, cwd=repo.path)
    assert ran.code == 1 and "and so is its copy" in ran.err, ran
    assert_same(unharmed(repo, tmp_path), before)


@pytest.mark.parametrize("what", ["entry", "root"])
def test_links_in_the_trash_are_not_followed(repo: Repo, world: str, tmp_path: Path, what: str) -> None:
    folder = trash_root(repo) if what == "root" else trash_root(repo) / world
    folder.rename(tmp_path / "outside" / "moved")
    folder.symlink_to(tmp_path / "outside" / "moved")
    before = unharmed(repo, tmp_path)
    for said in every_verb(repo, world):
        assert "restored feat-x" not in said
    assert_same(unharmed(repo, tmp_path), before)


def test_an_entry_made_from_nothing_needs_a_place_of_the_repository(repo: Repo, tmp_path: Path) -> None:
    """An agent fills the trash itself: a folder of programs that wants to be `~/bin`, with a record marked for it."""
    identity, home = "abcdef0123", paths.home()
    entry, record = trash_root(repo) / identity, repo.path / ".git" / "worktrees" / "bin"
    (entry / "worktree").mkdir(parents=True)
    (entry / "worktree" / "ls").write_text("#!/bin/sh\n")
    (entry / "worktree" / ".git").write_text(f"gitdir: {record}\n")
    record.mkdir(parents=True)
    (record / "HEAD").write_text("ref: refs/heads/main\n")
    (record / "commondir").write_text("../..\n")
    (record / "gitdir").write_text(f"{entry}/worktree/.git\n")
    path = f"{home}/bin"
    worktree = {
        "id": identity,
        "repo_name": "app",
        "name": "bin",
        "common_dir": f"{repo.path}/.git",
        "admin_dir": str(record),
        "path": path,
        "trash_dir": str(entry),
        "inode": (entry / "worktree").stat().st_ino,
        "gitfile": f"gitdir: {record}\n",
        "head": "ref: refs/heads/main\n",
        "gitdir": f"{path}/.git\n",
        "locked": None,
        "branch": "main",
        "sha": repo.git("rev-parse", "main"),
        "agent": "x",
        "how": "removed",
        "overridden": [],
        "boot": "x",
        "uptime": 1.0,
    }
    note = {
        "format": 1,
        "state": "removed",
        "host": "x",
        "process": None,
        "registry": {"id": None, "path": str(tmp_path / "nowhere")},
        "began_at": "2026-01-01T00:00:00+00:00",
        "removed_at": None,
        "epoch": 0,
        "claim": None,
        "row": None,
        "worktree": worktree,
    }
    (entry / "note.json").write_text(json.dumps(note))
    with Context(str(repo.path)) as context:
        (found,) = unlisted_entries.find_unlisted(context)
    assert found.problem is not None and "is directly in" in found.problem
    with pytest.raises(ImiError, match="is directly in"):
        undo(repo)
    act("repair", cwd=repo.path, path=[])
    assert not os.path.lexists(path)


def test_a_branch_is_only_made_where_undo_would_make_it(repo: Repo, world: str) -> None:
    """The noted branch exists at another commit: nothing is moved."""
    before = refs(repo)
    forge(repo, world, sha=repo.git("rev-parse", "main~1"))
    imi("undo", world, cwd=repo.path)
    assert refs(repo) == before


def test_an_entry_goes_back_to_a_folder_that_holds_other_worktrees(repo: Repo, tmp_path: Path) -> None:
    """Nothing but git names the folder: the registry is aside, and the settings make worktrees elsewhere."""
    folder = tmp_path / "elsewhere"
    for name in ("one", "two"):
        repo.git("worktree", "add", "-q", "-b", name, str(folder / name))
    (folder / "two" / "work.py").write_text("work\n")
    identity = str(remove(repo, "two", force=True).data["trash_id"])
    set_registry_aside(tmp_path)
    undo(repo, identity)
    assert (folder / "two" / "work.py").read_text() == "work\n"
