"""Archives of run folders, job logs that are cut, compressed and searched, media, and how long a trace is kept."""

from __future__ import annotations

import gzip
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.model import times
from imi_monitor.model.agent import AgentEvent, ToolCall
from imi_monitor.runs import job_log, run_archive, run_files, run_upkeep
from imi_monitor.store import db, retention, runs
from imi_monitor.store.runs import RunRow
from tests.helpers import wait_for
from tests.runs.run_kit import RunWorld, kill_followers, registry


@pytest.fixture
def over(world: RunWorld) -> str:
    """A run that is over, with a report."""
    run = world.start("[[complain]] [[report]]")
    world.wait(run, "idle")
    world.imi("stop", run)
    world.wait(run, "completed")
    wait_for(lambda: world.folder(run).has_mark("settled"))
    return run


@contextmanager
def stored(run: str) -> Iterator[tuple[Any, RunRow]]:
    connection = db.connect(registry(), create=False)
    row = runs.by_id(connection, run)
    assert row is not None
    yield connection, row
    db.close(connection)


def content(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        held = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, held)
    return found


@pytest.mark.parametrize("later", [False, True])
def test_an_archived_folder_comes_back_as_it_was(world: RunWorld, over: str, later: bool) -> None:
    # S0.16
    folder = Path(world.run(over)["folder"])
    (folder / "work_products" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "work_products" / "run.sh").chmod(0o750)
    (folder / "media" / "umläut \n name").symlink_to("/nowhere")
    said = world.imi("logs", over).out
    packed = world.imi("runs", "archive", over, "--json")
    assert packed.code == 0, packed.err
    archive = Path(packed.data["archive"])
    assert archive.parent == folder.parent.parent / "SAVED_REPORTS" / "archive" and not folder.exists()
    assert world.imi("logs", over).out == said and "the model is" in world.imi("logs", over, "--errors").out
    assert world.imi("logs", over, "--path").out == f"{archive}\n"
    assert "is packed already" in world.imi("runs", "archive", over).err
    moved = folder.parent / ".removed" / folder.name
    before = content(moved)
    if later:
        with stored(over) as (_, row):
            run_archive.purge(row, 30)
            assert moved.exists(), "not old enough"
            os.utime(moved, (1, 1))
            run_archive.purge(row, 30)
        assert not moved.exists()
    assert world.imi("runs", "restore", over).code == 0
    assert content(folder) == before and "prompt.txt" in before and "output.jsonl.gz" in before
    assert "is not archived" in world.imi("runs", "restore", over).err
    assert archive.exists() and world.imi("resume", over).code == 0


def test_what_an_archive_cannot_hold_stays_in_its_place(world: RunWorld, over: str) -> None:
    folder = Path(world.run(over)["folder"])
    place = os.getcwd()
    os.chdir(folder)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
    os.chdir(place)
    refused = world.imi("runs", "archive", over)
    assert refused.code == 1 and "such as sockets" in refused.err and folder.exists()
    assert list((folder.parent.parent / "SAVED_REPORTS" / "archive").iterdir()) == []
    run = world.start("hi", "codex", "--in", "app")
    assert "is not over" in world.imi("runs", "archive", run).err


def test_old_runs_are_archived_by_the_setting_and_lost_folders_are_noted(world: RunWorld, over: str) -> None:
    with stored(over) as (connection, row):
        run_upkeep.archive_old(connection, 7, 30)
        assert os.path.isdir(row.folder), "not old enough"
        connection.execute("UPDATE runs SET ended_at = '2026-01-01T00:00:00.000000Z'")
        run_upkeep.archive_old(connection, 0, 30)
        assert os.path.isdir(row.folder), "0: never"
        run_upkeep.archive_old(connection, 7, 30)
        assert not os.path.isdir(row.folder) and os.path.exists(run_archive.path_of(row))
        run_archive.restore(row)
        runs.set_archive(connection, row, None)
        shutil.rmtree(row.folder)
        run_upkeep.archive_old(connection, 0, 30)
        gone = runs.by_id(connection, over)
        assert gone is not None and gone.archive == ""


def test_a_trace_is_kept_as_long_as_the_folder_of_its_run(world: RunWorld, over: str) -> None:
    with stored(over) as (connection, row):
        old = times.stamp(times.now() - timedelta(days=90))
        connection.execute("UPDATE sessions SET seen_at = ?, ended_at = ?", (old, old))
        connection.execute(
            "INSERT INTO sessions (id, host, cli, agent_id, status, status_at, seen_at, ended_at, created_at, updated_at)"
            " SELECT 'codex:other', host, cli, agent_id, status, ?2, ?1, ?1, ?1, ?1 FROM sessions LIMIT 1",
            (old, old),
        )
        for name, days in (("codex:new", 0), ("codex:before", 2)):
            connection.execute(
                "INSERT INTO sessions (id, host, cli, agent_id, status, status_at, seen_at, created_at, updated_at)"
                " SELECT ?2, host, cli, agent_id, status, ?1, ?1, ?1, ?1 FROM sessions LIMIT 1",
                (times.stamp(times.now() - timedelta(days=days)), name),
            )

        def kept() -> set[str]:
            while retention.trim_sessions(connection, 30):
                pass
            return {one[0] for one in connection.execute("SELECT id FROM sessions")}

        assert kept() == {f"claude:{over}", "codex:new", "codex:before"}
        runs.set_archive(connection, row, "/archive")
        assert kept() == {"codex:new", "codex:before"}


def test_job_logs_are_cut_compressed_and_searched(world: RunWorld, over: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # S4.12
    with stored(over) as (connection, row):
        log = Path(job_log.path(row))
        whole = log.read_text()
        log.write_text("[STDOUT] first NEEDLE\n" * 10)
        os.truncate(log, 65 << 20)
        job_log.rotate(str(log))
        assert not log.exists() and gzip.decompress(Path(f"{log}.1.gz").read_bytes()).startswith(
            b"[STDOUT] first NEEDLE\n"
        )
        log.write_text("[STDOUT] second needle\n")
        job_log.rotate(str(log))
        assert log.exists(), "it is small"
        connection.execute("UPDATE runs SET ended_at = '2026-01-01T00:00:00.000000Z'")
        run_upkeep.compress_logs(connection, 0)
        assert log.exists(), "0: never"
        run_upkeep.compress_logs(connection, 30)
        assert [Path(one).name for one in job_log.parts(row)] == [f"{log.name}.1.gz", f"{log.name}.gz"]
        found = world.imi("logs", "--search", "needle", "-n", "2").out.splitlines()
        assert [line.partition("  ")[2] for line in found] == ["[STDOUT] first NEEDLE", "[STDOUT] second needle"]
        assert len(world.imi("logs", over, "--search", "first").out.splitlines()) == 10
        assert "no job log has 'nothing'" in world.imi("logs", "--search", "nothing").err
        run_files.write(row, [], anew=True)
        assert [Path(one).name for one in job_log.parts(row)] == [log.name] and whole


def test_media_of_a_call_are_kept(world: RunWorld, over: str, tmp_path: Path) -> None:
    # S0.6
    for name in ("talk.mp4", "temp_talk.mp4", "talk_part.mp3", "notes.txt"):
        (world.tree.path / name).write_bytes(b"media")
    (world.tree.path / "link.mp3").symlink_to(tmp_path / "secret.mp3")
    with stored(over) as (_, row):
        text = "saved 'talk.mp4', temp_talk.mp4, talk_part.mp3, notes.txt and link.mp3"
        made = AgentEvent(
            "tool_finished", "1:finished", times.stamp(), text, ToolCall("video_audio", None, "1"), ok=True
        )
        run_files.write(row, [made])
        run_files.write(row, [made])
        assert [one.name for one in (Path(row.folder) / "media").iterdir()] == ["talk.mp4"]


def test_failures_are_shown_alone(world: RunWorld) -> None:
    run = world.start("[[complain]] [[limit]]")
    world.wait(run, "limited")
    kill_followers()
    shown = world.imi("logs", run, "--errors").out.splitlines()
    assert len(shown) == 2 and " ! usage limit, resets " in shown[0] and "the model is" in shown[1]


def test_running_state_run_folder_and_registry_are_three_tiers(world: RunWorld, over: str) -> None:
    # S0.11
    launch, row = Path(world.folder(over).path), world.run(over)
    folder, before = Path(row["folder"]), world.imi("sessions", "--json").data
    assert launch.is_dir() and not {launch, folder} & set(Path(registry()).parents) and launch not in folder.parents
    said = world.messages(over)[-1]
    kill_followers()
    with stored(over) as (_, stored_row):
        run_upkeep.pack(stored_row)
    assert not launch.exists(), "what runs is forgotten with its end"
    assert world.messages(over)[-1] == said, "the files of the session tell it"
    for name in os.listdir(folder):
        shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
    folder.rmdir()
    assert world.run(over)["status"] == "completed" and world.imi("sessions", "--json").data == before
