"""The contract of `note_check`: each single contradiction in a note is refused with its reason, and each place of a repository
allowed by itself. What the verbs do with a forged note is in `test_note_forged`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import paths
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import note_check, trash_note
from imi_monitor.actions.removal.trash_folder import TrashedWorktree
from imi_monitor.actions.removal.trash_note import NoteError
from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.git import layout
from imi_monitor.store import db, worktrees
from tests.helpers import Repo, git

IDENTITY, SHA = "0123456789", "a" * 40


class World:
    """A repository's git directory with one entry in its trash, and git's record of it."""

    def __init__(self, root: Path) -> None:
        self.common = root / "app" / ".git"
        self.folder = self.common / "imi" / "trash" / IDENTITY
        (self.folder / "worktree").mkdir(parents=True)
        self.record = self.common / "worktrees" / "feat-x"
        self.record.mkdir(parents=True)
        (self.record / "gitdir").write_text(f"{self.folder}/worktree/.git\n")
        self.path = root / "feat-x"
        self.repository = layout.Repository(str(self.common), str(root / "app"), False)

    def note(self, **changes: Any) -> trash_note.TrashNote:
        """The note as imi writes it, with these values changed."""
        worktree: dict[str, Any] = {
            "id": IDENTITY,
            "repo_name": "app",
            "name": "feat-x",
            "common_dir": str(self.common),
            "admin_dir": str(self.record),
            "path": str(self.path),
            "trash_dir": str(self.folder),
            "inode": 7,
            "gitfile": f"gitdir: {self.record}\n",
            "head": "ref: refs/heads/feat/x\n",
            "gitdir": f"{self.path}/.git\n",
            "locked": None,
            "branch": "feat/x",
            "sha": SHA,
            "agent": "me",
            "how": "removed",
            "overridden": [],
            "boot": "boot",
            "uptime": 1.0,
        }
        data: dict[str, Any] = {
            "format": 1,
            "state": "removed",
            "host": "here",
            "process": None,
            "registry": {"id": None, "path": "/nowhere"},
            "began_at": "2026-01-01T00:00:00+00:00",
            "removed_at": None,
            "epoch": 3,
            "claim": {"agent_id": "me", "epoch": 2, "task_id": None, "claimed_at": "2026-01-01T00:00:00+00:00"},
            "row": {"branch": "feat/x", "kind": "feat", "base_branch": "main", "pr_number": 7},
            "worktree": worktree,
        }
        for key, value in changes.items():
            (worktree if key in worktree else data)[key] = value
        (self.folder / "note.json").write_text(json.dumps(data))
        return trash_note.read_note(str(self.folder))

    def bind(self, **changes: Any) -> TrashedWorktree:
        return note_check.bind(self.note(**changes), self.repository, str(self.folder))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


CLAIM = {"agent_id": "me", "epoch": 2, "task_id": None, "claimed_at": None}
ROW = {"branch": "feat/x", "kind": "feat", "base_branch": None, "pr_number": None}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"claim": None},
        {"claim": CLAIM},
        {"row": None},
        {"row": ROW},
        {"row": {**ROW, "branch": "x" * 4096}},
        {"removed_at": "2026-01-02T00:00:00+00:00"},
        {"head": f"{SHA}\n", "branch": None},
        {"head": f"{SHA}\n"},  # its branch was checked out when the removal began
        {"head": "ref: refs/heads/feat/x", "sha": None},  # no commit yet
        {"head": "ref: refs/heads/.invalid\n"},  # beside a reftable
        {"head": "ref: refs/remotes/origin/x\n", "branch": None},
        {"head": "ref: refs/remotes/origin/x\n"},
        {"head": "ref: refs/heads/feat/x\n", "branch": None},
        {"head": "ref: refs/heads/" + "x" * 1008, "branch": "x" * 1008},
        {"name": "x" * 200},
    ],
    ids=str,
)
def test_what_imi_writes_is_accepted(world: World, changes: dict[str, Any]) -> None:
    bound = world.bind(**changes)
    assert (bound.common_dir, bound.admin_dir, bound.trash_dir, bound.path) == (
        str(world.common),
        str(world.record),
        str(world.folder),
        str(world.path),
    )


WORDS, HEAD, TIMES, OWNER = "names", "branch or commit", "times", "owner"


def contradictions(root: str) -> list[tuple[dict[str, Any], str]]:
    common, record, outside = f"{root}/app/.git", f"{root}/app/.git/worktrees/feat-x", f"{root}/outside"

    def at(path: str) -> dict[str, Any]:
        return {"path": path, "gitdir": f"{path}/.git\n"}

    def of(admin: str) -> dict[str, Any]:
        return {"admin_dir": admin, "gitfile": f"gitdir: {admin}\n"}

    return [
        ({"id": "9876543210"}, "belongs to another entry"),
        *(({key: "a\nb"}, f"damaged ({WORDS})") for key in ("name", "repo_name", "how")),
        *(({"row": {**ROW, key: "a\nb"}}, f"damaged ({WORDS})") for key in ("branch", "kind", "base_branch")),
        ({"row": {**ROW, "branch": "x" * 4097}}, f"damaged ({WORDS})"),
        ({"name": "x" * 4097}, f"damaged ({WORDS})"),
        *(({"name": name}, "a worktree that imi does not remove") for name in ("", "a/b", ".", "..", ".git", "sync")),
        *(({"agent": agent}, f"damaged ({OWNER})") for agent in ("", "a\nb", "x" * 201)),
        ({"claim": {**CLAIM, "agent_id": "a\nb"}}, f"damaged ({OWNER})"),
        ({"began_at": "soon"}, f"damaged ({TIMES})"),
        ({"removed_at": "soon"}, f"damaged ({TIMES})"),
        ({"claim": {**CLAIM, "claimed_at": "soon"}}, f"damaged ({TIMES})"),
        (of(f"{outside}/worktrees/feat-x"), "a record of git that is not in its repository"),
        (of(f"{common}/feat-x"), "a record of git that is not in its repository"),
        (of(f"{common}/worktrees/.."), "a record of git that is not in its repository"),
        (of(f"{common}/worktrees/."), "a record of git that is not in its repository"),
        (of(f"{common}/worktrees/"), "a record of git that is not in its repository"),
        ({"path": f"{root}/feat-y"}, "two places for the worktree"),
        ({"gitdir": f"{root}/feat-x/.git/more\n"}, "two places for the worktree"),
        ({"gitfile": f"gitdir: {common}/worktrees/feat-y\n"}, "two records of git"),
        ({"gitfile": f"path: {record}\n"}, "two records of git"),
        ({"gitfile": record}, "two records of git"),
        *(
            ({"head": head}, f"damaged ({HEAD})")
            for head in (
                "x\n",
                "A" * 40,
                f"{SHA[1:]}\n",
                "ref: HEAD\n",
                "ref: refs/heads/../../x\n",
                "ref: refs/heads/feat/y\n",
                "ref: refs/heads/a\nb\n",
                "ref: refs/heads/" + "x" * 1009,
            )
        ),
        ({"head": "ref: refs/heads/a\x07b\n", "branch": None}, f"damaged ({HEAD})"),
        ({"head": "ref: refs/heads/" + "x" * 1009, "branch": "x" * 1009}, f"damaged ({HEAD})"),
        ({"sha": "HEAD"}, f"damaged ({HEAD})"),
        ({"sha": "HEAD", "head": f"{SHA}\n"}, f"damaged ({HEAD})"),
        (
            {
                "path": "feat-x",
                "common_dir": "app/.git",
                "admin_dir": "app/.git/worktrees/feat-x",
                "gitdir": "../../../../feat-x/.git\n",
                "gitfile": "gitdir: ../app/.git/worktrees/feat-x\n",
            },
            "no full path",
        ),
        ({"path": "/", "gitdir": "/.git\n"}, "no full path"),
        ({"path": f"{root}/feat-x/", "gitdir": f"{root}/feat-x/.git\n"}, "no full path"),
        (at(f"{root}/a/../feat-x"), "two places"),
        (at(f"{root}/app/.git/hooks/feat-x"), "where no worktree can be"),
        (at(f"{root}/app/.git/feat-x"), "where no worktree can be"),
        (at(f"{root}/sync"), "where no worktree can be"),
    ]


@pytest.mark.parametrize("number", range(len(contradictions("/"))))
def test_a_single_contradiction_is_refused_with_its_reason(world: World, tmp_path: Path, number: int) -> None:
    changes, reason = contradictions(str(tmp_path))[number]
    with pytest.raises(NoteError) as refused:
        world.bind(**changes)
    assert reason in str(refused.value), changes


def test_an_id_is_ten_hexadecimal_digits() -> None:
    assert note_check.is_entry_id("0123456789") and note_check.is_entry_id("abcdef0123")
    assert not any(
        map(note_check.is_entry_id, ("", "012345678", "01234567890", "012345678g", "ABCDEF0123", "012345678/"))
    )


def test_a_folder_that_is_named_as_no_entry_of_imi_is_none(world: World) -> None:
    world.folder = world.folder.rename(world.folder.with_name("mine"))
    with pytest.raises(NoteError, match="belongs to another entry"):
        world.bind(id="mine")


def test_a_note_follows_its_repository(world: World, tmp_path: Path) -> None:
    """The repository was moved: the folders are those where the note lies, and the `.git` file names the new one."""
    old = "/old/app/.git"
    changes = {
        "common_dir": old,
        "admin_dir": f"{old}/worktrees/feat-x",
        "trash_dir": f"{old}/imi/trash/{IDENTITY}",
        "gitfile": f"gitdir: {old}/worktrees/feat-x\n",
    }
    bound = world.bind(**changes)
    assert (bound.common_dir, bound.admin_dir, bound.trash_dir) == (
        str(world.common),
        str(world.record),
        str(world.folder),
    )
    assert bound.gitfile == f"gitdir: {world.record}\n"


class TestRecord:
    """git's record of the noted name may belong to another worktree by now."""

    def test_of_another_worktree_it_is_refused(self, world: World) -> None:
        (world.record / "gitdir").write_text("/elsewhere/feat-x/.git\n")
        with pytest.raises(NoteError, match="the record of another worktree"):
            world.bind()

    def test_that_is_a_link_is_refused(self, world: World, tmp_path: Path) -> None:
        world.record.rename(tmp_path / "elsewhere")
        world.record.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(NoteError, match="the record of another worktree"):
            world.bind()

    def test_that_is_gone_is_no_contradiction(self, world: World) -> None:
        (world.record / "gitdir").unlink()
        world.record.rmdir()
        assert world.bind().admin_dir == str(world.record)

    def test_of_a_restored_worktree_is_its_own(self, world: World) -> None:
        """The entry is empty: the worktree is back, and its record names its place."""
        (world.folder / "worktree").rmdir()
        (world.record / "gitdir").write_text(f"{world.path}/.git\n")
        assert world.bind().path == str(world.path)

    @pytest.mark.parametrize(
        ("pointer", "locked", "ours"),
        [
            (f"/anywhere/{IDENTITY}/worktree/.git\n", None, True),
            (f"/anywhere/{IDENTITY}/worktree/.git", None, True),
            ("/anywhere/9876543210/worktree/.git\n", None, False),
            ("/anywhere/9876543210/worktree/.git\n", f"imi trash {IDENTITY}: x\n", True),
            ("/anywhere/9876543210/worktree/.git\n", "imi trash 9876543210: x\n", False),
            (None, None, False),
            (None, f"imi trash {IDENTITY}: x\n", True),
        ],
    )
    def test_is_ours_by_its_mark(self, world: World, pointer: str | None, locked: str | None, ours: bool) -> None:
        bound = world.bind()
        for name, text in (("gitdir", pointer), ("locked", locked)):
            (world.record / name).unlink(missing_ok=True)
            if text is not None:
                (world.record / name).write_text(text)
        assert note_check.is_ours(bound) == ours


class TestPlace:
    """The places to which a note alone may restore a worktree."""

    def problem(self, repo: Repo, path: Path | str, *, root: str = "", allowed: tuple[str, ...] = ()) -> str | None:
        common = layout.repository_at(str(repo.path / ".git" if (repo.path / ".git").exists() else repo.path))
        trash_dir = f"{root or common.common_dir + '/imi/trash'}/{IDENTITY}"
        world = World(Path(tempfile.mkdtemp(prefix="imi-pattern-", dir=repo.path.parent)))
        trashed = replace(world.bind(), path=str(path), trash_dir=trash_dir)
        with Context(str(repo.path)) as context:
            return note_check.place_problem(context, common, trashed, allowed)

    def test_beside_the_repository(self, repo: Repo) -> None:
        assert self.problem(repo, repo.path.parent / "feat-x") is None

    def test_where_new_ones_are_made(self, repo: Repo, own_home: Path, tmp_path: Path) -> None:
        far = tmp_path / "trees" / "feat-x"
        assert "is not beside the worktrees" in str(self.problem(repo, far))
        settings = own_home / ".config" / "iMi" / "config.toml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(f'[worktrees]\npath_template = "{tmp_path}/trees/{{name}}"\n')
        assert self.problem(repo, far) is None

    def test_around_a_bare_repository(self, repo: Repo, tmp_path: Path) -> None:
        git("clone", "-q", "--bare", str(repo.path), str(tmp_path / "cluster" / ".bare"), cwd=tmp_path)
        (tmp_path / "cluster" / "trunk-main").mkdir()
        bare = Repo(tmp_path / "cluster" / ".bare")
        assert self.problem(bare, tmp_path / "cluster" / "feat-x") is None

    @pytest.mark.parametrize("standing", [True, False])
    def test_where_others_stand(self, repo: Repo, tmp_path: Path, standing: bool) -> None:
        """A record of git without its worktree proves nothing: an agent can write one."""
        other = tmp_path / "far" / "feat-y"
        repo.git("worktree", "add", "-q", "-b", "feat/y", str(other))
        if not standing:
            (other / ".git").unlink()
        assert (self.problem(repo, tmp_path / "far" / "feat-x") is None) == standing

    @pytest.mark.parametrize("listed", [True, False])
    def test_where_the_registry_has_had_one(self, repo: Repo, tmp_path: Path, listed: bool) -> None:
        with Context(str(repo.path)) as context:
            name = context.register(layout.repository_at(str(repo.path / ".git")))
            row = {"branch": "feat/y", "kind": "feat", "path": str(tmp_path / "far" / "feat-y")}
            if listed:
                db.transact(context.connection, worktrees.register, name, "feat-y", **row)
                db.transact(context.connection, worktrees.close, name, "feat-y", "removed")
        assert (self.problem(repo, tmp_path / "far" / "feat-x") is None) == listed

    def test_that_the_user_names(self, repo: Repo, tmp_path: Path) -> None:
        far = tmp_path / "far" / "deep" / "feat-x"
        assert f"`imi repair {far.parent}` allows it" in str(self.problem(repo, far))
        for allowed, fits in (
            ("far", True),
            ("far/deep", True),
            ("far/dee", False),
            ("far/deep/feat-x", False),
            ("other", False),
        ):
            found = self.problem(repo, far, allowed=("/nowhere", str(tmp_path / allowed)))
            assert (found is None) == fits, allowed

    @pytest.mark.parametrize(
        ("root", "fits"), [("far/.imi-trash", True), ("other/.imi-trash", False), ("far/trash", False)]
    )
    def test_beside_its_own_trash(self, repo: Repo, tmp_path: Path, root: str, fits: bool) -> None:
        found = self.problem(repo, tmp_path / "far" / "feat-x", root=str(tmp_path / root))
        assert (found is None) == fits

    def test_never_hidden_and_not_directly_in_the_home_folder(self, repo: Repo) -> None:
        assert "is a hidden folder" in str(self.problem(repo, repo.path.parent / ".config"))
        for path in (f"{paths.home()}/bin", "/feat-x"):
            assert "is directly in" in str(self.problem(repo, path)), path
