"""Usage limits of programs, places in the queue by work and memory, and two writers of one session."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from imi_monitor.model import times
from imi_monitor.runs import follower, run_limit
from imi_monitor.runs.run_ingest import RunIngest
from imi_monitor.store import db
from tests.helpers import wait_for
from tests.runs.run_kit import RunWorld, kill_followers, registry

PROGRAMS = pytest.mark.parametrize("program", ["claude", "codex", "gemini"])


def configure(home: Path, text: str) -> None:
    file = home / ".config" / "iMi" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@PROGRAMS
def test_a_program_at_its_limit_says_until_when_and_its_resume_is_offered_then(
    world: RunWorld, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = world.start("[[limit]]", program)
    row = world.wait(run, "limited")
    until = times.parse(row["limited_until"])
    assert until is not None and timedelta(minutes=58) < until - times.now() < timedelta(minutes=61)
    assert "limited until " in world.imi("runs").out and "resume" not in world.imi("runs").out
    kill_followers()
    later = times.clock() + 3660 * 10**9
    monkeypatch.setattr(times, "clock", lambda: later)
    ingest = RunIngest(db.connect(registry(), create=False))
    ingest.update()
    for _ in range(2):
        follower.offer_resumes(ingest.connection, ingest)
    assert [one["run"] for one in world.events("run.resumable")] == [run]
    monkeypatch.undo()


def test_a_claude_that_goes_on_by_itself_works_again_and_is_not_resumed(world: RunWorld, own_home: Path) -> None:
    run = world.start("[[pause]] [[ask]]")
    row = world.wait(run, "limited")
    assert row["limited_until"] is not None
    (own_home / "limit-over").touch()
    world.wait(run, "asks")
    assert "on it again" in world.messages(run) and "resume" not in world.imi("runs").out
    refused = world.imi("resume", run)
    assert refused.code == 1 and "is not over (asks)" in refused.err


@PROGRAMS
def test_a_run_gives_its_place_back_when_its_turn_is_over(world: RunWorld, own_home: Path, program: str) -> None:
    configure(own_home, "[runs]\nat_once = 1\n")
    first = world.start("hi", program)
    second = world.start("[[ask]]", "codex", "--in", "app")
    world.wait(second, "asks")
    assert world.run(first)["shown_state"] == "idle" and world.run(first)["ended_at"] is None
    third = world.start("hi", program, "--in", "app")
    assert world.run(third)["place"] == 1, "one that asks has work"
    assert "starts when one of those that work" in world.imi("start", program, "--prompt", "x", "--in", "app").out


@pytest.mark.parametrize(
    ("free_megabytes", "settled", "places"),
    [(0, 0, 2), (0, 5, 5), (512 + 1200, 0, 3), (512 + 1200, 4, 7), (64_000, 0, 16), (64_000, 20, 16)],
)
def test_the_number_at_once_follows_from_the_free_memory(free_megabytes: int, settled: int, places: int) -> None:
    assert run_limit.by_memory(free_megabytes << 20, settled) == places


def test_two_processes_never_write_to_one_session(world: RunWorld) -> None:
    run = world.start("[[die]]", "codex")
    world.wait(run, "crashed")
    again = world.imi("resume", run, "--prompt", "[[ask]]", "--json").data["id"]
    world.wait(again, "asks")
    refused = world.imi("resume", run)
    assert refused.code == 1 and f"goes on in {again[:8]} (asks)" in refused.err
    wait_for(lambda: "codex:" in world.imi("sessions", "--json").out)
    db_file = db.connect(registry(), create=False)
    db_file.execute("UPDATE runs SET status = 'crashed' WHERE id = ?", (again,))
    kill_followers()
    refused = world.imi("resume", run)
    assert refused.code == 1 and "is open in process" in refused.err


def test_an_agent_whose_claim_was_lost_is_interrupted_and_never_killed(world: RunWorld) -> None:
    run = world.start("[[slow]]")
    row = world.wait(run, "works")
    taken = world.imi("claim", "feat-x", "--agent", "other", "--force", "--reason", "mine now")
    assert taken.code == 0, taken.err
    wait_for(lambda: world.events("run.claim_lost"))
    after = world.wait(run, "idle")
    assert after["pid"] == row["pid"] and world.events("run.claim_lost")[0]["by"] == "other"


def test_a_claim_that_is_lost_in_the_queue_keeps_the_gate_shut(world: RunWorld, own_home: Path) -> None:
    configure(own_home, "[runs]\nat_once = 1\n")
    first = world.start("[[slow]]", "codex", "--in", "app")
    second = world.start("hi")
    taken = world.imi("claim", "feat-x", "--agent", "other", "--force", "--reason", "mine now")
    assert taken.code == 0, taken.err
    world.imi("interrupt", first)
    row = world.wait(second, "failed")
    assert row["detail"] == "it could not be started: other has claimed feat-x meanwhile" and row["pid"] is not None
    assert world.folder(second).birth() is None


def test_a_program_that_is_not_logged_in_says_so_in_the_list(world: RunWorld) -> None:
    run = world.start("[[login]]")
    world.wait(run, "failed")
    assert "Invalid API key · Please run /login" in world.imi("runs", env={"COLUMNS": "200"}).out


@pytest.mark.parametrize("variable", ["XDG_STATE_HOME", "XDG_DATA_HOME"])
def test_a_home_that_cannot_be_written_is_one_sentence_and_leaves_nothing(
    world: RunWorld, own_home: Path, tmp_path: Path, variable: str
) -> None:
    (tmp_path / "file").write_text("no folder")
    before = world.imi("claims", "--json").data["claims"]
    ran = world.imi("start", "claude", "--prompt", "hi", env={variable: str(tmp_path / "file")}, cwd=own_home)
    assert ran.code == 1 and ran.err.count("\n") == 1, ran.err
    assert "the run cannot be prepared in " in ran.err and "Not a directory" in ran.err
    assert world.imi("runs", "--json").data["runs"] == [] and world.imi("claims", "--json").data["claims"] == before
    assert not list(tmp_path.rglob("session_*")) and not list((own_home / ".local").rglob("launch.json"))


def test_a_task_is_started_as_often_as_its_user_allows(world: RunWorld) -> None:
    for number in range(2):
        run = world.start("hi", "codex", "--in", "app", "--task", "T-1", "--attempt-limit", "2")
        world.wait(run, "idle")
        assert number < 2
    refused = world.imi("start", "codex", "--prompt", "hi", "--in", "app", "--task", "T-1", "--attempt-limit", "2")
    assert refused.code == 1 and "T-1 was started 2 times before, and --attempt-limit is 2" in refused.err
    assert "--attempt-limit needs --task" in world.imi("start", "codex", "--prompt", "x", "--attempt-limit", "2").err
