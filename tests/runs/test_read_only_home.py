"""What only reads runs works in a home that cannot be written, with and without a log beside the registry."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests import registry_faults
from tests.runs.run_kit import RunWorld, kill_runs, registry


@pytest.fixture
def read_only_home(own_home: Path) -> Iterator[Path]:
    yield own_home
    registry_faults.allow_writing(own_home)


@pytest.mark.parametrize("with_log", [True, False])
def test_runs_logs_and_checkpoints_are_read_in_a_read_only_home(
    world: RunWorld, own_home: Path, read_only_home: Path, tmp_path: Path, with_log: bool
) -> None:
    run = world.start("hello", "claude", "--way", "task")
    world.wait(run, "idle")
    world.imi("stop", run)
    world.wait(run, "completed")
    kill_runs(str(own_home))
    with closing(sqlite3.connect(registry())) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if with_log:  # as after a kill: the log stays
            connection.execute("UPDATE runs SET prompt = 'from the log'")
            connection.commit()
            kept = tmp_path / "kept"
            shutil.copytree(Path(registry()).parent, kept)
    if with_log:
        shutil.copytree(kept, Path(registry()).parent, dirs_exist_ok=True)
    assert Path(f"{registry()}-wal").exists() == with_log
    before = {path: path.stat().st_mtime_ns for path in own_home.rglob("*")}
    registry_faults.write_protect(read_only_home)
    for words, wanted in (
        (("runs",), "from the log" if with_log else "hello"),
        (("logs", run), "> hello"),
        (("checkpoints", run), "turn"),
    ):
        ran = registry_faults.imi_without_privilege(*words, cwd=world.tree.path)
        assert ran.code == 0 and wanted in ran.out, ran
        assert "what was recorded so far is shown: the registry" in ran.err and ran.err.count("\n") == 1, ran.err
    assert {path: path.stat().st_mtime_ns for path in own_home.rglob("*")} == before, "nothing is written"
    refused = registry_faults.imi_without_privilege("stop", run, cwd=world.tree.path)
    assert refused.code == 1 and "is read-only" in refused.err, refused


def test_a_read_only_registry_of_another_schema_is_refused(
    world: RunWorld, own_home: Path, read_only_home: Path
) -> None:
    assert world.imi("runs").code == 0
    with closing(sqlite3.connect(registry())) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA user_version = 3")
    registry_faults.write_protect(read_only_home)
    ran = registry_faults.imi_without_privilege("runs", cwd=world.tree.path)
    assert ran.code == 1 and "is read-only" in ran.err and ran.err.count("\n") == 1, ran
