"""The presence lock as a file: what is written for other programs, and what of theirs counts as an owner."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from imi_monitor import host, presence
from imi_monitor.store import claim_requests, db, registry_identity
from tests.store.claim_kit import REPO, claim_worktree, registry, request


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "presence" / "feat-x.lock"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "r.db"


@pytest.fixture
def connection(database: Path) -> Iterator[sqlite3.Connection]:
    made = registry(database, ["feat-x"])
    yield made
    made.close()


def update(connection: sqlite3.Connection, lock: Path, database: Path) -> str | None:
    return presence.update_presence_lock(connection, str(lock), REPO, "feat-x", str(database))


def release(connection: sqlite3.Connection, agent: str, epoch: int) -> None:
    assert db.transact(connection, claim_requests.release, REPO, "feat-x", agent, epoch)[0]


def owner(lock: Path, database: object = "r.db") -> tuple[str, str | None] | None:
    found = presence.foreign_owner(str(lock), str(database))
    return found and (found.agent, found.since)


def test_only_a_cluster_with_its_folder_has_locks(tmp_path: Path) -> None:
    def path(cluster: str | None) -> str | None:
        return presence.presence_lock_path(SimpleNamespace(cluster=cluster), "feat-x")  # type: ignore[arg-type]

    assert (path(None), path(str(tmp_path))) == (None, None)
    (tmp_path / ".iMi").mkdir()
    assert path(str(tmp_path)) == str(tmp_path / ".iMi" / "presence" / "feat-x.lock")


def test_without_a_lock_there_is_nothing_to_read_or_write(connection: sqlite3.Connection, database: Path) -> None:
    assert presence.foreign_owner(None, str(database)) is None
    assert presence.update_presence_lock(connection, None, REPO, "feat-x", str(database)) is None


def test_the_lock_names_claim_and_registry(connection: sqlite3.Connection, lock: Path, database: Path) -> None:
    claim = claim_worktree(connection, "feat-x", request("claude-1", task="T-1")).claim
    assert update(connection, lock, database) is None
    assert json.loads(lock.read_text()) == {
        "agent_id": "claude-1",
        "claimed_at": claim.claimed_at,
        "hostname": host.hostname(),
        "epoch": 1,
        "worktree": "feat-x",
        "task_id": "T-1",
        "registry": str(database),
        "registry_id": registry_identity.registry_id(connection),
    }
    assert lock.read_text().endswith("}\n")
    assert stat.S_IMODE(lock.stat().st_mode) & 0o700 == 0o600
    assert os.listdir(lock.parent) == ["feat-x.lock"]
    assert owner(lock, database) is None, "our own lock decides nothing"
    release(connection, "claude-1", 1)
    assert update(connection, lock, database) is None
    assert os.listdir(lock.parent) == []
    assert update(connection, lock, database) is None, "it is gone already"


def test_the_lock_is_written_once_and_is_on_disk_before_it_has_its_name(
    connection: sqlite3.Connection, lock: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_worktree(connection, "feat-x", request("claude-1"))
    acts: list[str] = []
    fsync, replace = os.fsync, os.replace

    def seen_fsync(handle: int) -> None:
        acts.append(f"synced {os.fstat(handle).st_size > 100}")
        fsync(handle)

    def seen_replace(source: str, target: str) -> None:
        acts.append("named")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "replace", seen_replace)
    open_before = len(os.listdir("/proc/self/fd"))
    assert update(connection, lock, database) is None
    assert acts == ["synced True", "named"]
    assert owner(lock, "other.db") is not None
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_what_a_killed_process_left_is_replaced(connection: sqlite3.Connection, lock: Path, database: Path) -> None:
    """Its number may be that of this process."""
    claim_worktree(connection, "feat-x", request("claude-1"))
    lock.parent.mkdir()
    Path(f"{lock}.{os.getpid()}~").write_text("x" * 5000)
    assert update(connection, lock, database) is None
    assert json.loads(lock.read_text())["agent_id"] == "claude-1"


def test_no_link_is_written_through(connection: sqlite3.Connection, lock: Path, database: Path, tmp_path: Path) -> None:
    claim_worktree(connection, "feat-x", request("claude-1"))
    lock.parent.mkdir()
    (tmp_path / "precious").write_text("keep")
    Path(f"{lock}.{os.getpid()}~").symlink_to(tmp_path / "precious")
    warning = update(connection, lock, database)
    assert warning is not None and warning.startswith(f"the presence lock {lock} could not be updated: ")
    assert (tmp_path / "precious").read_text() == "keep" and not lock.exists()
    lock.symlink_to(tmp_path / "precious")
    assert owner(lock) == ("?", None)


def test_the_lock_of_another_program_stays_when_ours_would_go(
    connection: sqlite3.Connection, lock: Path, database: Path
) -> None:
    lock.parent.mkdir()
    lock.write_text("old-1")
    assert update(connection, lock, database) is None
    assert lock.read_text() == "old-1"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"old-1", ("old-1", None)),
        (b"  old-1 \n more\n", ("old-1", None)),
        (b"", ("?", None)),
        (b" \n", ("?", None)),
        (b"a\xff", ("a\ufffd", None)),
        (b'["old-1"]', ('["old-1"]', None)),
        (b'{"agent_id": "old-1"}', ("old-1", None)),
        (b' {"agent_id": "old-1", "claimed_at": "2026-01-01"}\n', ("old-1", "2026-01-01")),
        (b'{"agent_id": "old-1", "claimed_at": 7}', ("old-1", None)),
        (b'{"agent_id": 7, "claimed_at": "2026-01-01"}', ("?", "2026-01-01")),
        (b'{"agent_id": ""}', ("?", None)),
        (b'{"claimed_at": "2026-01-01"}', ("?", "2026-01-01")),
        (b'{"agent_id": "old-1"', ("?", None)),
        (b'{"agent_id": "' + b"x" * 70_000 + b'"}', ("?", None)),
    ],
)
def test_the_owner_in_another_programs_lock(lock: Path, content: bytes, found: tuple[str, str | None]) -> None:
    lock.parent.mkdir()
    assert owner(lock) is None
    lock.write_bytes(content)
    open_before = len(os.listdir("/proc/self/fd"))
    assert owner(lock) == found
    assert len(os.listdir("/proc/self/fd")) == open_before


@pytest.mark.parametrize(
    ("registry", "hostname", "ours"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_our_own_lock_is_that_of_this_registry_on_this_machine(
    lock: Path, registry: bool, hostname: bool, ours: bool
) -> None:
    lock.parent.mkdir()
    content = {
        "agent_id": "a",
        "registry": "/home/me/r.db" if registry else "/home/me/other.db",
        "hostname": host.hostname() if hostname else "elsewhere",
    }
    lock.write_text(json.dumps(content, indent=2))
    assert owner(lock, "/home/me/r.db") == (None if ours else ("a", None))


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_what_is_no_file_never_means_free(lock: Path, kind: str) -> None:
    lock.parent.mkdir()
    lock.mkdir() if kind == "folder" else os.mkfifo(lock)
    assert owner(lock) == ("?", None)
