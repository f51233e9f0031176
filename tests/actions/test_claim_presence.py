"""`.iMi/presence/<worktree>.lock`: written for other programs, read in both old formats, and never decisive for imi."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from imi_monitor import paths, presence
from imi_monitor.store import claim_requests, claims, db
from tests.helpers import ROOT, Repo, imi
from tests.limits import LIMIT
from tests.store.claim_kit import REPO, claim_worktree, registry, request


@pytest.fixture
def lock(cluster: Repo) -> Path:
    """Where the lock of the worktree `feat-x` belongs."""
    cluster.worktree("feat-x")
    return cluster.path.parent / ".iMi" / "presence" / "feat-x.lock"


def _claim(cluster: Repo, agent: str, *more: str) -> int:
    return imi("claim", "x", "--agent", agent, *more, cwd=cluster.path).code


def test_the_presence_lock_mirrors_the_claim_under_the_full_name(cluster: Repo, lock: Path) -> None:
    assert _claim(cluster, "claude-1") == 0
    content = json.loads(lock.read_text())
    assert (content["agent_id"], content["epoch"], content["hostname"]) == ("claude-1", 1, os.uname().nodename)
    assert content["claimed_at"].endswith("+00:00")
    assert _claim(cluster, "codex-1", "--force", "--reason", "r") == 0
    assert json.loads(lock.read_text())["agent_id"] == "codex-1"
    assert imi("release", "x", "--agent", "codex-1", cwd=cluster.path).code == 0
    assert os.listdir(lock.parent) == []


def test_presence_locks_exist_only_in_clusters_with_the_folder(cluster: Repo, repo: Repo, lock: Path) -> None:
    lock.parent.parent.rmdir()
    assert _claim(cluster, "claude-1") == 0
    assert not lock.parent.parent.exists()
    repo.worktree("feat-y")
    assert imi("claim", "feat-y", "--agent", "a", cwd=repo.path).code == 0
    assert not (repo.path.parent / ".iMi").exists()


_JSON = '{\n  "agent_id": "old-1",\n  "claimed_at": "2026-01-27T15:30:00+00:00",\n  "hostname": "elsewhere"\n}'


@pytest.mark.parametrize("content", [_JSON, "old-1", "old-1\n"], ids=["json", "bare", "bare-line"])
def test_a_lock_of_another_program_counts_as_a_claim(cluster: Repo, lock: Path, content: str) -> None:
    lock.parent.mkdir()
    lock.write_text(content)
    refused = imi("claim", "x", "--agent", "codex-1", cwd=cluster.path)
    assert (refused.code, "claimed by old-1" in refused.err, str(lock) in refused.err) == (1, True, True)
    assert lock.read_text() == content
    assert imi("verify-lock", "x", "--agent", "codex-1", cwd=cluster.path).code == 1
    assert _claim(cluster, "codex-1", "--takeover") == 1, "whether it is stale is unknown"
    taken = imi("claim", "x", "--agent", "codex-1", "--force", "--reason", "it crashed", "--json", cwd=cluster.path)
    assert taken.code == 0
    assert json.loads(lock.read_text())["agent_id"] == "codex-1"
    log = imi("events", "--type", "worktree.claimed", "--json", cwd=cluster.path).out
    assert '"forced_from": "old-1"' in log
    assert '"reason": "it crashed"' in log


def test_the_same_agent_may_claim_what_its_lock_says(cluster: Repo, lock: Path) -> None:
    lock.parent.mkdir()
    lock.write_text("old-1")
    assert _claim(cluster, "old-1") == 0


@pytest.mark.parametrize("kind", ["empty", "broken", "no-owner", "link", "folder", "fifo"])
def test_a_presence_lock_without_a_name_counts_as_a_claim(cluster: Repo, lock: Path, kind: str) -> None:
    lock.parent.mkdir()
    if kind == "link":
        lock.symlink_to("/etc/hostname")
    elif kind == "folder":
        lock.mkdir()
    elif kind == "fifo":
        os.mkfifo(lock)
    else:
        lock.write_text({"empty": "", "broken": "{not json", "no-owner": '{"agent_id": null}'}[kind])
    refused = imi("claim", "x", "--agent", "codex-1", cwd=cluster.path, timeout=90)
    assert (refused.code, "does not name" in refused.err) == (1, True)


def test_an_echo_of_this_registry_left_by_a_crash_decides_nothing(cluster: Repo, lock: Path) -> None:
    assert _claim(cluster, "claude-1") == 0
    left = lock.read_text()
    assert imi("release", "x", "--agent", "claude-1", cwd=cluster.path).code == 0
    lock.write_text(left)
    assert _claim(cluster, "codex-1") == 0
    assert json.loads(lock.read_text())["agent_id"] == "codex-1"


def test_an_echo_of_another_registry_is_another_programs_lock(cluster: Repo, lock: Path, tmp_path: Path) -> None:
    assert _claim(cluster, "claude-1") == 0
    refused = imi("--db", tmp_path / "other.db", "claim", "x", "--agent", "codex-1", cwd=cluster.path)
    assert (refused.code, "claude-1" in refused.err) == (1, True)


def test_a_lock_that_cannot_be_written_is_a_warning(cluster: Repo, lock: Path) -> None:
    lock.parent.write_text("a file where the folder belongs")
    done = imi("claim", "x", "--agent", "claude-1", "--force", "--reason", "r", cwd=cluster.path)
    assert (done.code, "warning" in done.err, "presence" in done.err) == (0, True, True)
    assert imi("verify-lock", "x", "--agent", "claude-1", cwd=cluster.path).code == 0


def test_a_foreign_lock_is_not_taken_away_by_our_release(cluster: Repo, lock: Path) -> None:
    assert _claim(cluster, "claude-1") == 0
    lock.write_text("old-1")
    assert imi("release", "x", "--agent", "claude-1", cwd=cluster.path).code == 0
    assert lock.read_text() == "old-1"


def test_a_lock_removed_too_late_is_written_again_for_the_next_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, path = paths.default_database(), str(tmp_path / "feat-x.lock")
    connection = registry(Path(database), ["feat-x"])
    claim_worktree(connection, "feat-x", request("a"))
    presence.update_presence_lock(connection, path, REPO, "feat-x", database)
    db.transact(connection, claim_requests.release, REPO, "feat-x", "a", 1)
    unlink = os.unlink

    def overtaken(file: str) -> None:
        if file == path and claims.current(connection, REPO, "feat-x").agent_id is None:
            claim_worktree(connection, "feat-x", request("b"))
            presence.update_presence_lock(connection, path, REPO, "feat-x", database)
        unlink(file)

    monkeypatch.setattr(os, "unlink", overtaken)
    assert presence.update_presence_lock(connection, path, REPO, "feat-x", database) is None
    assert json.loads(Path(path).read_text())["agent_id"] == "b"
    connection.close()


_FLIP = """
import sys
from imi_monitor import host
from imi_monitor import presence
from imi_monitor.store import claim_requests, db
from imi_monitor.store.claims import ClaimRequest
database, path, agent = sys.argv[1:]
connection = db.connect(database)
for _ in range(60):
    answer = db.transact(connection, claim_requests.claim, "app", "feat-x", ClaimRequest(agent, host.identify_process(None)))
    if answer.granted:
        presence.update_presence_lock(connection, path, "app", "feat-x", database)
        db.transact(connection, claim_requests.release, "app", "feat-x", agent, answer.claim.epoch)
    presence.update_presence_lock(connection, path, "app", "feat-x", database)
"""


def test_the_presence_lock_agrees_with_the_registry_after_fast_changes(tmp_path: Path) -> None:
    database, path = paths.default_database(), tmp_path / "presence" / "feat-x.lock"
    running = [
        subprocess.Popen([sys.executable, "-c", _FLIP, database, str(path), f"a{number}"], cwd=ROOT)
        for number in range(6)
    ]
    assert [process.wait(LIMIT) for process in running] == [0] * 6
    assert os.listdir(path.parent) == []
    assert presence.foreign_owner(str(path), database) is None
