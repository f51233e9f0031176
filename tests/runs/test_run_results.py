"""What a run records of itself and leaves: labels, parents, commits, artifacts, in the events of its session."""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor.git import turn_start
from tests.helpers import wait_for
from tests.runs.run_kit import RunWorld


def test_an_agent_writes_and_commits_and_its_claim_is_released(world: RunWorld) -> None:
    # S2.12 S2.13 S2.20 S0.14
    base = world.repo.git("rev-parse", "HEAD").strip()
    run = world.start("[[commit]] [[report]]")
    world.wait(run, "idle")
    (world.tree.path / "left.txt").write_text("not committed")
    world.imi("stop", run)
    world.wait(run, "completed")
    commit = world.tree.git("rev-parse", "HEAD").strip()
    assert world.tree.git("log", "-1", "--format=%s").strip() == "feat: made by an agent" and commit != base
    (ended,) = world.events("session.ended")
    assert (ended["run"], ended["committed"], ended["uncommitted"]) == (run, [commit], 1)
    files = {one["path"]: (one["kind"], one["size"]) for one in ended["artifacts"]}
    folder = world.run(run)["folder"]
    assert files == {"made.txt": ("note", 4), f"{folder}/work_products/report.md": ("note", 9)}
    assert all(path in world.imi("session", "show", run).out for path in ("made.txt", "work_products/report.md"))
    assert world.imi("claims", "--json").data["claims"] == []
    wait_for(lambda: (Path(folder).parent.parent / "SAVED_REPORTS" / "report.md").exists())


def test_a_session_keeps_labels_user_and_parent_of_its_run(world: RunWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    # S3.1 S0.12 S0.13
    outer = world.start("hi", "claude", "--label", "team=core,area=docs")
    world.wait(outer, "idle")
    monkeypatch.setenv("IMI_RUN_ID", outer)
    inner = world.start("[[ask]]", "codex", "--in", "app", "--way", "task")
    monkeypatch.delenv("IMI_RUN_ID")
    row = world.wait(inner, "asks")
    started = {one["run"]: one for one in world.events("session.started")}
    assert started[outer]["labels"] == {"team": "core", "area": "docs"} and started[outer]["user"]
    sessions = {one["id"]: one for one in world.imi("sessions", "--json").data["sessions"]}
    parent, child = sessions[f"claude:{outer}"], sessions[f"codex:{row['session']}"]
    assert child["parent_id"] == f"claude:{outer}" and parent["parent_id"] is None
    assert parent["metadata"]["labels"] == {"team": "core", "area": "docs"} and parent["metadata"]["origin"] == "imi"


def test_the_last_turn_of_a_started_agent_is_kept_without_a_dashboard(world: RunWorld) -> None:
    admin_dir = world.tree.git("rev-parse", "--absolute-git-dir").strip()
    world.tree.write("mine.txt", "before the turn\n")
    run = world.start("[[ask]] [[write]]")
    world.wait(run, "asks")
    wait_for(lambda: turn_start.read(admin_dir) is not None)
    world.imi("answer", run, "yes")
    world.wait(run, "idle")
    assert _changed_in_the_turn(world) == ["made.txt"]
    first = turn_start.read(admin_dir)
    world.imi("say", run, "[[ask]]")
    world.wait(run, "asks")
    wait_for(lambda: turn_start.read(admin_dir) != first)
    world.tree.write("mine.txt", "in the second turn\n")
    assert _changed_in_the_turn(world) == ["mine.txt"]


def _changed_in_the_turn(world: RunWorld) -> list[str]:
    return [one["path"] for one in world.imi("diff", "feat-x", "--turn", "--json").data["files"]]
