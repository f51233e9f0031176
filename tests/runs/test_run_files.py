"""The files of runs: job logs, what agents fetch from the web, and reports that are saved."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.model.errors import Refused
from imi_monitor.runs import report_observer
from imi_monitor.runs.report_observer import ReportObserver
from imi_monitor.store import db, runs
from tests.helpers import wait_for
from tests.runs.run_kit import RunWorld, kill_followers, registry


def home(world: RunWorld) -> Path:
    return world.repo.path.parent / "app.worktrees"


def about(log: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(log.with_suffix(".json").read_text())
    return found


def test_a_job_has_a_log_and_a_json_file_that_name_its_end(world: RunWorld) -> None:
    # S4.10
    run = world.start("[[complain]] [[slow]]", "claude", "--model", "opus")
    row = world.wait(run, "works")
    log = Path(row["job_log"])
    assert log.parent == home(world) / "logs" / "running-jobs" and log.stem == about(log)["jobId"]
    wait_for(lambda: "word1" in log.read_text())
    running = about(log)
    assert (running["status"], running["pid"], running["endTime"]) == ("running", row["pid"], None)
    assert (running["targetRepo"], running["model"], running["type"]) == ("app", "opus", "engineering")
    kill_followers()
    world.imi("stop", run)
    world.wait(run, "cancelled")
    wait_for(lambda: "[EXIT]" in log.read_text())
    lines = log.read_text().splitlines()
    assert lines[-1] == "[EXIT] Process exited with code 0" and lines[-2] == ""
    assert lines[-3] == "[STDERR] the model is \\x1b[31mslow"
    assert all(line.startswith("[STDOUT] ") for line in lines[:-3])
    words = [line.rpartition(" ")[2] for line in lines if " word" in line]
    assert words == [f"word{number}" for number in range(len(words))], "once each, though its follower was killed"
    over = about(log)
    assert (over["status"], over["exitCode"], over["sessionId"]) == ("cancelled", 0, row["session"])


def test_infrastructure_and_orchestrated_runs_have_log_folders(
    world: RunWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    # S4.11 S4.20 S0.13
    outer = world.start("hi", "claude", "--label", "area=infrastructure")
    world.wait(outer, "idle")
    logs = home(world) / "logs"
    (session,) = (logs / "infrastructure-sessions").iterdir()
    assert (session / "infrastructure.log").resolve() == Path(world.run(outer)["job_log"])
    monkeypatch.setenv("IMI_RUN_ID", outer)
    inner = world.start("hi", "codex", "--in", "app", "--as", "backend")
    monkeypatch.delenv("IMI_RUN_ID")
    row = world.wait(inner, "idle")
    (session,) = (logs / "orchestrator-sessions").iterdir()
    assert (session / "orchestrator.log").resolve() == Path(world.run(outer)["job_log"])
    assert (session / "backend-orchestrated.log").resolve() == Path(row["job_log"])
    assert row["parent"] == outer and row["base"] == world.repo.git("rev-parse", "HEAD").strip()
    monkeypatch.setenv("IMI_RUN_ID", outer)
    failing = world.start("[[exit7]]", "codex", "--in", "app", "--as", "tester")
    monkeypatch.delenv("IMI_RUN_ID")
    row = world.wait(failing, "failed", "crashed")
    assert row["parent"] == outer and row["exit_code"] == 7
    for one in (inner, outer):
        world.imi("stop", one)
        assert world.wait(one, "completed")["exit_code"] is not None


def test_what_an_agent_fetches_is_kept_once(world: RunWorld) -> None:
    # S0.3 S0.7
    run = world.start("[[fetch]]")
    folder = Path(world.wait(run, "idle")["folder"]) / "search_results"
    wait_for(lambda: list(folder.glob("*.json")))
    kill_followers()
    world.imi("say", run, "hi")
    world.wait(run, "idle")
    (file,) = folder.iterdir()
    found = json.loads(file.read_text())
    assert file.name.startswith("https-a-org-b-c_") and (found["tool"], found["result"]) == ("WebFetch", "<p>page</p>")


def test_a_finished_report_is_saved_and_older_versions_are_kept(world: RunWorld) -> None:
    # S0.4 S0.8
    run = world.start("[[report]]")
    row = world.wait(run, "idle")
    saved = home(world) / "SAVED_REPORTS"
    wait_for(lambda: (saved / "report.md").exists())
    first = (saved / "report.md").read_text()
    world.imi("say", run, "[[report]]")
    wait_for(lambda: (saved / "report.md").read_text() == 2 * first)
    kill_followers()
    other = world.start("[[report]]", "codex", "--in", "app")
    world.wait(other, "idle")
    wait_for(lambda: world.imi("events", "--json").out.count("artifact.saved") == 2)
    names = sorted(one.name for one in saved.iterdir())
    assert len(names) == 2 and names[0] == "report.md", names  # the other run's has the content of the first
    assert (saved / names[1]).read_text() == first
    assert (Path(row["folder"]) / "work_products" / "report.md").read_text() == 2 * first


def test_what_cannot_be_saved_is_an_event_and_nothing_is_overwritten(
    world: RunWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = world.start("hi")
    row = world.wait(run, "idle")
    world.imi("stop", run)
    world.wait(run, "completed")
    products = Path(row["folder"]) / "work_products"
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (products / "link.md").symlink_to(secret)
    os.mkfifo(products / "pipe.md")
    (products / "big.md").write_text("too big")
    (products / "sub").mkdir()
    monkeypatch.setattr(report_observer, "_MOST_BYTES", 3)
    connection = db.connect(registry(), create=False)
    stored = runs.by_id(connection, run)
    assert stored is not None
    observer = ReportObserver(stored)
    observer.look(connection)
    observer.look(connection)
    observer.look(connection)
    with sqlite3.connect(f"file:{registry()}?mode=ro", uri=True) as reader:
        found = reader.execute("SELECT type, data FROM events WHERE type LIKE 'artifact.%'").fetchall()
    assert [(kind, json.loads(data)["file"]) for kind, data in found] == [("artifact.failed", "big.md")]
    assert list((home(world) / "SAVED_REPORTS").iterdir()) == []


def test_versions_never_take_the_place_of_another(tmp_path: Path) -> None:
    source, folder = tmp_path / "report.md", tmp_path / "saved"
    for number in range(4):
        source.write_text(f"version {number}")
        os.utime(source, (1_700_000_000, 1_700_000_000))
        assert report_observer.save(str(source), str(folder)) == str(folder / "report.md")
        assert report_observer.save(str(source), str(folder)) is None
    names = sorted(one.name for one in folder.iterdir())
    at = "report_20231114_221320"
    assert names == ["report.md", f"{at}.md", f"{at}_2.md", f"{at}_3.md"]
    assert (folder / "report.md").read_text() == "version 3"
    with pytest.raises((OSError, Refused)):
        report_observer.save(str(tmp_path / "gone.md"), str(folder))
