"""`imi sync`: links in every worktree that follow what is in sync/, and are verified. # S2.30 S2.31 S2.32 S2.33"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from imi_monitor import config
from imi_monitor.actions.context import Context
from imi_monitor.actions.sync import worktree_links
from imi_monitor.config import Settings
from imi_monitor.git import layout, shared_names
from imi_monitor.model.errors import Refused, RegistryError
from imi_monitor.store import events
from tests.actions.sync_world import World
from tests.helpers import Repo, git, imi, tree_hash
from tests.limits import LIMIT


@pytest.fixture
def world(cluster: Repo) -> World:
    return World.of(cluster)


def _events(world: World) -> list[events.Event]:
    with Context(str(world.trunk.path)) as context:
        return events.list_events(context.connection, kinds=("worktree.synced",))


def test_every_worktree_gets_relative_links(world: World, tmp_path: Path) -> None:
    world.share(".env")
    world.share(".vscode/settings.json", "{}\n")
    git("worktree", "add", "-q", "-b", "far", str(tmp_path / "elsewhere" / "far"), cwd=world.trunk.path)
    done = imi("sync", cwd=world.feat.path)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == "sync complete: 6 links in 3 worktrees verified (6 new)"
    assert os.readlink(world.trunk.path / ".env") == "../sync/repo/.env"  # the seed's own words
    assert os.readlink(world.feat.path / ".env") == "../sync/repo/.env"
    assert os.readlink(world.feat.path / ".vscode" / "settings.json") == "../../sync/repo/.vscode/settings.json"
    assert os.readlink(tmp_path / "elsewhere" / "far" / ".env") == "../../coolcode/sync/repo/.env"
    assert (tmp_path / "elsewhere" / "far" / ".env").read_text() == "shared\n"
    assert git("status", "--porcelain", cwd=world.trunk.path) == ""


def test_an_event_for_each_changed_worktree(world: World) -> None:
    world.share(".env")
    world.sync()
    assert [(e.worktree_name, json.loads(e.data)) for e in _events(world)] == [
        (name, {"linked": 1, "moved": 0, "removed": 0, "kept": 0, "conflicts": 0}) for name in ("trunk-main", "feat-a")
    ]
    world.sync()
    assert len(_events(world)) == 2, "nothing changed, nothing is told"
    (world.feat.path / ".env").unlink()
    world.sync()
    assert [event.worktree_name for event in _events(world)][2:] == ["feat-a"], "only where something changed"


def test_json_counts_and_lists(world: World) -> None:
    world.share(".env")
    world.share("x", folder="sync/global")
    (world.feat.path / "x").write_text("mine\n")
    done = imi("sync", "--json", cwd=world.trunk.path)
    data = done.json["data"]
    assert (done.code, done.json["success"], done.json["code"]) == (1, False, "sync-incomplete")
    assert (data["linked"], data["kept"], data["moved"], data["removed"]) == (3, 0, 0, 0)
    trunk, feat = data["worktrees"]
    assert (trunk["name"], trunk["linked"], trunk["conflicts"]) == ("trunk-main", [".env", "x"], [])
    assert (feat["linked"], [c["name"] for c in feat["conflicts"]]) == ([".env"], ["x"])
    assert data["sync_path"] == str(world.home / "sync")


def test_sources_are_followed(world: World) -> None:
    source = world.share(".env", "1\n")
    world.share("conf/a.json")
    world.sync()
    link = world.feat.path / ".env"

    replacement = world.home / "sync" / "repo" / "next"  # an editor saves by rename: nothing to do
    replacement.write_text("2\n")
    replacement.rename(source)
    assert link.read_text() == "2\n"
    assert world.sync().changed == 0

    world.share(".env", "3\n", folder="sync/global")  # it moved to another folder
    source.unlink()
    assert world.sync().total("moved") == 2
    assert (os.readlink(link), link.read_text()) == ("../sync/global/.env", "3\n")

    (world.home / "sync" / "repo" / "conf" / "a.json").unlink()  # gone
    assert world.sync().total("removed") == 2
    assert not (world.feat.path / "conf").exists(), "the folder made for it goes with it"
    assert b"conf" not in world.exclude.read_bytes()
    assert b"\n/.env\n" in world.exclude.read_bytes()


def test_the_first_folder_wins_and_it_is_said_once(world: World) -> None:
    for folder in ("user", "global", "local", "repo"):
        world.share("a", f"{folder}\n", f"sync/{folder}")
        if folder != "repo":
            world.share("b", f"{folder}\n", f"sync/{folder}")
        if folder in ("user", "global"):
            world.share("c", f"{folder}\n", f"sync/{folder}")
    done = imi("sync", cwd=world.trunk.path)
    assert [(world.feat.path / name).read_text().strip() for name in "abc"] == ["repo", "local", "global"]
    assert done.out.count("c: in sync/global and in sync/user, sync/global wins") == 1


def test_the_configured_folders_are_read(world: World) -> None:
    (world.home / ".iMi" / "config.toml").write_text('[sync_settings]\nlocal_sync_path = "shared/here"\n')
    world.share("a", folder="shared/here")
    world.sync()
    assert os.readlink(world.feat.path / "a") == "../shared/here/a"
    (world.home / "shared" / "here" / "a").unlink()
    assert world.sync().total("removed") == 2


def test_a_folder_and_a_file_of_one_name(world: World) -> None:
    world.share("conf", folder="sync/repo")
    world.share("conf/a", folder="sync/global")
    result = world.sync()
    assert world.report(result) == {"sync/global/conf/a": "sync/repo/conf is a file and comes first"}
    (world.home / "sync" / "repo" / "conf").unlink()
    assert world.report(world.sync()) == {}
    world.share("conf", folder="sync/user")
    assert world.report(world.sync()) == {
        "sync/user/conf": "sync/global/conf/a needs a folder of that name and comes first"
    }


def test_absolute_links_of_the_old_imi_become_relative(world: World) -> None:
    source = world.share(".env", folder="sync/local")
    (world.feat.path / ".env").symlink_to(source)
    (world.feat.path / ".jarad-config").symlink_to(world.home / "sync" / "local" / ".jarad-config")
    (world.home / ".iMi" / "config.toml").write_text(
        'symlink_files = [".env", ".jarad-config", "../x", ".git/config"]\n'
    )
    result = world.sync()
    assert (result.total("moved"), result.total("removed"), result.total("linked")) == (1, 1, 1)
    assert os.readlink(world.feat.path / ".env") == "../sync/local/.env"
    assert not os.path.lexists(world.feat.path / ".jarad-config")


def test_check_changes_nothing(world: World) -> None:
    world.share(".env")
    world.share("conf/a")
    before = tree_hash(world.home)
    done = imi("sync", "--check", cwd=world.feat.path)
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[0] == "imi: 4 problems: `imi sync` fixes what it can"
    assert "  feat-a: would link .env, conf/a" in done.err.splitlines()
    assert tree_hash(world.home) == before
    world.sync()
    done = imi("sync", "--check", cwd=world.feat.path)
    assert (done.code, done.out) == (0, "all 4 links in 2 worktrees are right\n")


def test_check_reports_each_problem(world: World) -> None:
    source = world.share(".env")
    world.sync()
    world.exclude.write_bytes(b"")
    assert world.sync(check=True).unlisted == [".env"]
    world.sync()
    (world.feat.path / ".env").unlink()
    assert world.sync(check=True).total("linked") == 1
    world.sync()
    source.unlink()
    assert world.sync(check=True).total("removed") == 2
    assert world.sync().total("removed") == 2


def test_nothing_to_sync(repo: Repo, world: World) -> None:
    done = imi("sync", cwd=repo.path)
    assert (done.code, done.err) == (0, "")
    assert (
        done.out
        == f"nothing to sync: create {repo.path}.worktrees/sync/repo and put the files there that all worktrees share\n"
    )
    assert imi("sync", "--check", "--json", cwd=repo.path).data["worktrees"] == []
    done = imi("sync", cwd=world.trunk.path)  # the folder is there, but empty
    assert (done.code, done.out) == (0, "sync complete: 0 links in 2 worktrees verified\n")


def test_a_plain_repository_shares_beside_its_worktrees(repo: Repo) -> None:
    shared = Path(f"{repo.path}.worktrees") / "sync" / "repo" / ".env"
    shared.parent.mkdir(parents=True)
    shared.write_text("1\n")
    repo.git("worktree", "add", "-q", "-b", "feat/x", f"{repo.path}.worktrees/feat-x")
    assert imi("sync", cwd=repo.path).code == 0
    assert os.readlink(repo.path / ".env") == "../app.worktrees/sync/repo/.env"
    assert os.readlink(f"{repo.path}.worktrees/feat-x/.env") == "../sync/repo/.env"


def test_another_repository_by_name_and_path(world: World, repo: Repo) -> None:
    world.share(".env")
    assert imi("sync", str(world.trunk.path), cwd=repo.path).code == 0
    assert imi("sync", "coolcode", "--check", cwd=repo.path).code == 0


def test_a_missing_worktree_is_left_out_and_its_names_stay(world: World) -> None:
    source = world.share(".env")
    world.sync()
    away = world.home.parent / "away"
    world.feat.path.rename(away)
    source.unlink()
    done = imi("sync", cwd=world.trunk.path)
    assert (done.code, "feat-a is missing on disk" in done.err) == (0, True)
    assert b"\n/.env\n" in world.exclude.read_bytes(), "the missing worktree may have the link"
    away.rename(world.feat.path)
    assert git("status", "--porcelain", cwd=world.feat.path) == ""
    world.sync()
    assert b"/.env" not in world.exclude.read_bytes()


def test_two_simultaneous_syncs_do_not_interleave(world: World) -> None:
    """Two at once: each link is made once, and no name is lost from info/exclude."""
    for number in range(20):
        world.share(f"file-{number}")
    import subprocess

    from tests.helpers import ROOT, imi_argv

    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen(imi_argv("sync"), cwd=world.trunk.path, env=env, stdout=-3, stderr=-3) for _ in range(4)
    ]
    assert [process.wait(LIMIT) for process in running] == [0, 0, 0, 0]
    assert world.sync(check=True).total("kept") == 40
    assert sum(json.loads(e.data)["linked"] for e in _events(world)) == 40


def test_a_sync_that_waited_for_another_one_takes_no_link_of_it_away(world: World) -> None:
    """It reads the shared files under the lock: with an earlier reading it would take a newer name for a former one."""
    world.share("early.cfg")
    common = str(world.trunk.path / ".git")
    with ThreadPoolExecutor(2) as threads:
        with shared_names.ExcludeBlock(common) as block:
            syncs = threads.submit(world.sync)
            links = threads.submit(worktree_links.link_shared_files, world.repository, str(world.feat.path), Settings())
            time.sleep(0.3)  # both have read what there is, and wait
            world.share("late.cfg")
            block.put({"late.cfg"})  # as the sync that has the lock does it
            (world.trunk.path / "late.cfg").symlink_to("../sync/repo/late.cfg")
        removed, linked = syncs.result(20).total("removed"), links.result(20)
    assert removed == 0 and set(linked.here) == {"early.cfg", "late.cfg"}
    for tree in (world.trunk, world.feat):
        assert (tree.path / "late.cfg").read_text() == "shared\n"


def test_a_cancelled_sync_leaves_complete_links_only(world: World) -> None:
    world.share(".env")
    from imi_monitor.actions.sync.sync_action import sync_worktrees

    asked: list[int] = []
    with Context(str(world.trunk.path), cancelled=lambda: len(asked) == 2 or bool(asked.append(1))) as context:
        asked.append(1)
        with pytest.raises(Refused, match="cancelled"):
            sync_worktrees(context, world.repository)
    assert os.path.islink(world.trunk.path / ".env")
    assert not os.path.lexists(world.feat.path / ".env")
    assert b"\n/.env\n" in world.exclude.read_bytes()
    assert [e.worktree_name for e in _events(world)] == ["trunk-main"]


class TestLinkInto:
    """What the creation of a worktree calls."""

    def test_a_new_worktree_and_again(self, world: World) -> None:
        world.share(".env")
        world.share("conf/deep/a")
        report = worktree_links.link_shared_files(world.repository, str(world.feat.path), config.load())
        assert (report.linked, report.kept, report.conflicts) == ((".env", "conf/deep/a"), (), ())
        again = worktree_links.link_shared_files(world.repository, str(world.feat.path), config.load())
        assert (again.linked, again.kept) == ((), (".env", "conf/deep/a"))

    def test_conflicts_are_no_errors(self, world: World) -> None:
        world.share("README.md")
        world.share("ok")
        (world.home / "sync" / "repo" / ".git").mkdir()
        report = worktree_links.link_shared_files(world.repository, str(world.feat.path), config.load())
        assert report.linked == ("ok",)
        assert [name for name, _ in report.conflicts] == ["sync/repo/.git", "README.md"]
        assert b"README.md" not in world.exclude.read_bytes(), "what is not linked is not hidden from git"

    def test_switched_off_or_nothing_shared(self, world: World, own_home: Path) -> None:
        assert worktree_links.link_shared_files(world.repository, str(world.feat.path), config.load()).linked == ()
        world.share(".env")
        settings = config.load()
        settings.set("sync.enabled", False, "test")
        assert worktree_links.link_shared_files(world.repository, str(world.feat.path), settings).linked == ()
        assert not os.path.lexists(world.feat.path / ".env")

    def test_other_folders_are_no_worktrees(self, world: World) -> None:
        world.share(".env")
        with pytest.raises(Refused, match="git does not list"):
            worktree_links.link_shared_files(world.repository, str(world.outside), config.load())
        assert not os.path.lexists(world.outside / ".env")


def test_events_and_registration_are_one_transaction(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.share(".env")
    recorded = events.record
    calls: list[str] = []

    def failing(connection: sqlite3.Connection, kind: str, *args: object, **more: object) -> str:
        calls.append(kind)
        if len(calls) == 2:
            raise sqlite3.OperationalError("disk I/O error")
        return recorded(connection, kind, *args, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, pytest.raises(RegistryError):
        patch.setattr(events, "record", failing)
        world.sync()
    with Context(str(world.trunk.path)) as context:
        assert events.list_events(context.connection) == []
        assert context.repo_name(layout.repository_at(str(world.trunk.path / ".git"))) is None
