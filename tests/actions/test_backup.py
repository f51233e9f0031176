"""`imi backup` and `imi backup restore`: a consistent copy beside writers, restored without losing what is newer on disk."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tarfile
import time
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor import host, paths
from imi_monitor.actions.housekeeping import backup_file
from imi_monitor.model.errors import ImiError
from imi_monitor.store import db, registry_copy, registry_identity
from tests.helpers import ROOT, Repo, imi, use_temporary_folder
from tests.limits import LIMIT


@pytest.fixture
def registry(own_home: Path) -> Path:
    return own_home / ".config" / "iMi" / "iMi.db"


@pytest.fixture
def tree(repo: Repo) -> Repo:
    return repo.worktree("feat-one")


def owner(repo: Repo, name: str = "feat-one") -> object:
    claims = imi("claims", "--json", cwd=repo.path).data["claims"]
    return next((one["agent_id"] for one in claims if one["worktree_name"] == name), None)


def test_a_backup_is_private_and_restores_registry_and_config(tree: Repo, repo: Repo, registry: Path) -> None:
    config = Path(paths.config_file())
    assert imi("claim", "one", "--agent", "a", cwd=repo.path).code == 0
    assert imi("release", "one", "--agent", "a", cwd=repo.path).code == 0
    config.write_text("[sync_settings]\nenabled = false\n")
    done = imi("backup", "copy.tar.gz", cwd=repo.path)
    assert done.code == 0, done
    file = repo.path / "copy.tar.gz"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = imi("backup", "copy.tar.gz", cwd=repo.path)
    assert (again.code, again.err) == (1, f"imi: {file} exists: name another file\n")

    for suffix in ("", "-wal", "-shm"):
        Path(f"{registry}{suffix}").unlink(missing_ok=True)
    for left in registry.parent.iterdir():
        left.unlink()
    restored = imi("backup", "restore", str(file), cwd=repo.path)
    assert restored.code == 0, restored
    assert config.read_text() == "[sync_settings]\nenabled = false\n"
    history = imi("claims", "--history", "--json", cwd=repo.path).out
    assert '"a"' in history
    assert stat.S_IMODE(registry.stat().st_mode) == 0o600
    assert not [one for one in registry.parent.iterdir() if "backup" in one.name], "nothing is left"


def test_claims_are_not_lost_unless_forced_and_no_old_epoch_acts(tree: Repo, repo: Repo, registry: Path) -> None:
    file = str(repo.path.parent / "copy.tar.gz")
    assert imi("list", cwd=repo.path).code == 0
    assert imi("backup", file, cwd=repo.path).code == 0
    for agent in ("a", "b", "c"):
        assert imi("claim", "one", "--agent", agent, cwd=repo.path).code == 0
        if agent != "c":
            assert imi("release", "one", "--agent", agent, cwd=repo.path).code == 0
    refused = imi("backup", "restore", file, cwd=repo.path)
    assert refused.code == 1 and "1 worktree is claimed (feat-one)" in refused.err and owner(repo) == "c"
    assert imi("backup", "restore", file, "--force", cwd=repo.path).code == 2, "a reason is needed"
    assert not list(registry.parent.glob("*.replaced-*"))

    done = imi("backup", "restore", file, "--force", "--reason", "test", "--json", cwd=repo.path).data
    assert owner(repo) is None
    (kept,) = done["kept_as"]
    with closing(sqlite3.connect(kept)) as connection:
        assert connection.execute("SELECT agent_id, epoch FROM claims").fetchall() == [("c", 3)]
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600
    assert imi("heartbeat", "one", "--agent", "c", "--epoch", "3", cwd=repo.path).code == 1
    assert imi("claim", "one", "--agent", "d", "--json", cwd=repo.path).data["epoch"] == 4
    events = imi("events", "--json", cwd=repo.path).out
    assert '"registry.restored"' in events and '"reason":"test"' in events.replace(": ", ":")


def test_an_open_connection_has_the_restored_content(tree: Repo, repo: Repo, registry: Path) -> None:
    file = str(repo.path.parent / "copy.tar.gz")
    assert imi("claim", "one", "--agent", "a", cwd=repo.path).code == 0
    assert imi("backup", file, cwd=repo.path).code == 0
    assert imi("release", "one", "--agent", "a", cwd=repo.path).code == 0
    with closing(db.connect(str(registry))) as connection:
        identity = registry_identity.registry_id(connection), registry_identity.generation(connection) + 1
        before = db.data_version(connection), os.stat(registry).st_ino
        assert imi("backup", "restore", file, cwd=repo.path).code == 0
        assert db.data_version(connection) != before[0] and os.stat(registry).st_ino == before[1]
        assert connection.execute("SELECT agent_id FROM claims").fetchall() == [("a",)]
        assert (registry_identity.registry_id(connection), registry_identity.generation(connection)) == identity
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert imi("verify-lock", "one", "--agent", "a", cwd=repo.path).code == 0


def test_a_new_registry_takes_over_the_traces_of_the_one_it_restores(
    tree: Repo, repo: Repo, registry: Path, own_home: Path
) -> None:
    file = str(repo.path.parent / "copy.tar.gz")
    assert imi("claim", "one", "--agent", "a", cwd=repo.path).code == 0
    assert imi("backup", file, cwd=repo.path).code == 0
    other = str(own_home / "other" / "iMi.db")
    assert imi("list", "--db", other, cwd=repo.path).code == 0
    assert imi("backup", "restore", file, "--db", other, cwd=repo.path).code == 0
    with closing(db.connect(str(registry))) as here, closing(db.connect(other)) as there:
        assert registry_identity.predecessors(there) == (registry_identity.registry_id(here),)
        assert there.execute("SELECT agent_id FROM claims").fetchall() == [("a",)]


def test_what_was_removed_since_the_backup_stays_in_the_trash(tree: Repo, repo: Repo) -> None:
    file = str(repo.path.parent / "copy.tar.gz")
    assert imi("list", cwd=repo.path).code == 0
    assert imi("backup", file, cwd=repo.path).code == 0
    assert imi("remove", "one", cwd=repo.path).code == 0
    assert imi("backup", "restore", file, cwd=repo.path).code == 0
    assert imi("undo", cwd=repo.path).code == 0 and (tree.path / "README.md").exists()


def test_a_damaged_registry_is_replaced_and_kept(tree: Repo, repo: Repo, registry: Path) -> None:
    file = str(repo.path.parent / "copy.tar.gz")
    assert imi("claim", "one", "--agent", "a", cwd=repo.path).code == 0
    assert imi("backup", file, cwd=repo.path).code == 0
    for suffix in ("-wal", "-shm"):
        Path(f"{registry}{suffix}").unlink(missing_ok=True)
    registry.write_bytes(b"garbage " * 1000)
    refused = imi("backup", "restore", file, cwd=repo.path)
    assert refused.code == 1 and "--force --reason" in refused.err and registry.read_bytes() == b"garbage " * 1000
    done = imi("backup", "restore", file, "--force", "--reason", "damaged", "--json", cwd=repo.path).data
    assert Path(done["kept_as"][0]).read_bytes() == b"garbage " * 1000
    assert owner(repo) == "a"


def test_a_log_without_its_registry_is_not_applied_to_the_copy(tree: Repo, repo: Repo, registry: Path) -> None:
    file = str(repo.path.parent / "copy.tar.gz")
    assert imi("list", cwd=repo.path).code == 0
    assert imi("backup", file, cwd=repo.path).code == 0
    with closing(db.connect(str(registry))):  # the log stays while the file is open
        assert imi("claim", "one", "--agent", "a", cwd=repo.path).code == 0
        assert Path(f"{registry}-wal").stat().st_size > 0
        log = Path(f"{registry}-wal").read_bytes()
    for left in registry.parent.iterdir():
        left.unlink()
    Path(f"{registry}-wal").write_bytes(log)
    done = imi("backup", "restore", file, "--json", cwd=repo.path).data
    assert [Path(path).read_bytes() for path in done["kept_as"]] == [log]
    assert owner(repo) is None
    with closing(db.connect(str(registry))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_what_is_no_backup_changes_nothing(tree: Repo, repo: Repo, registry: Path, tmp_path: Path) -> None:
    assert imi("claim", "one", "--agent", "a", cwd=repo.path).code == 0
    assert imi("release", "one", "--agent", "a", cwd=repo.path).code == 0
    (tmp_path / "text").write_text("not an archive")
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "text", "registry.db")
    (tmp_path / "zeros").write_bytes(b"\0" * 4096)
    backup_file.write(str(tmp_path / "damaged.tar.gz"), {"format": 1}, str(tmp_path / "text"), {})
    for name in ("missing", "text", "other.tar.gz", "zeros", "damaged.tar.gz"):
        refused = imi("backup", "restore", str(tmp_path / name), cwd=repo.path)
        assert refused.code == 1 and refused.err.count("\n") == 1, (name, refused)
    assert imi("claims", "--history", cwd=repo.path).out.count("a") > 0
    assert not list(registry.parent.glob("*.replaced-*")) and not list(registry.parent.glob(".imi-backup*"))


def test_a_backup_beside_writers_is_one_consistent_state(
    tree: Repo, repo: Repo, registry: Path, tmp_path: Path
) -> None:
    assert imi("list", cwd=repo.path).code == 0
    script = (
        "import sys; from imi_monitor.store import db, events\n"
        "connection = db.connect(sys.argv[1])\n"
        "def two(c):\n"
        "    events.append_row(c, 'test.a'); events.append_row(c, 'test.b')\n"
        "while True: db.transact(connection, two)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    writers = [subprocess.Popen([sys.executable, "-c", script, str(registry)], env=env) for _ in range(2)]
    try:
        for number in range(5):
            registry_copy.copy_registry(str(registry), str(tmp_path / f"{number}.db"))
    finally:
        for writer in writers:
            writer.kill()
            writer.wait(LIMIT)
    for number in range(5):
        with closing(sqlite3.connect(tmp_path / f"{number}.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            counts = dict(connection.execute("SELECT type, count(*) FROM events GROUP BY type"))
            assert counts.get("test.a") == counts.get("test.b")


def test_a_backup_can_be_cancelled(tree: Repo, repo: Repo, registry: Path, tmp_path: Path) -> None:
    assert imi("list", cwd=repo.path).code == 0
    with pytest.raises(ImiError, match="cancelled"):
        registry_copy.copy_registry(str(registry), str(tmp_path / "copy.db"), lambda: True)


UNTIL_IT_IS_NAMED = """
import os, signal, sys
from imi_monitor.cli import command_runner
number = int(sys.argv[1])
def stop(event, args):
    if event == "os.link":
        os.kill(os.getpid(), number)
sys.addaudithook(stop)
sys.exit(command_runner.main(sys.argv[2:]))
"""


def backup_that_gets(number: int, repo: Repo, *words: str) -> subprocess.Popen[bytes]:
    """A real backup that gets a signal just before its file gets its name."""
    argv = [sys.executable, "-c", UNTIL_IT_IS_NAMED, str(number), "backup", *words]
    return subprocess.Popen(argv, cwd=repo.path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL)


def test_what_a_killed_backup_left_is_deleted_by_the_next_and_nothing_of_a_living_one(
    tree: Repo, repo: Repo, registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    use_temporary_folder(monkeypatch, temporary)

    def leftovers() -> list[str]:
        places = (temporary, repo.path, Path(paths.state_dir()) / "backups")
        return sorted(
            path.name.partition("-")[0]
            for place in places
            if place.exists()
            for path in place.iterdir()
            if path.name.startswith(".imi-backup-") or path.name.endswith("~")
        )

    assert imi("claim", "one", "--agent", "a", cwd=repo.path).code == 0
    for words in ((), ("copy.tar.gz",)):
        assert backup_that_gets(signal.SIGKILL, repo, *words).wait(LIMIT) == -signal.SIGKILL
    assert len(leftovers()) == 3, "a folder (the second backup deleted the first one's) and two files"
    living = backup_that_gets(signal.SIGSTOP, repo, "living.tar.gz")
    try:
        end = time.monotonic() + LIMIT
        while not host.is_suspended(living.pid):
            assert time.monotonic() < end and living.poll() is None
            time.sleep(0.01)
        for words in ((), ("copy.tar.gz",)):
            assert imi("backup", *words, cwd=repo.path).code == 0
        assert len(leftovers()) == 2, "the folder and the file of the living one"
        living.send_signal(signal.SIGCONT)
        assert living.wait(LIMIT) == 0
    finally:
        living.kill()
        living.wait(LIMIT)
    assert leftovers() == [] and (repo.path / "living.tar.gz").exists()
