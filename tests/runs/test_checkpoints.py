"""Checkpoints of runs, and new sessions that begin with the last one."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from imi_monitor.model.packet import packet
from tests.helpers import wait_for
from tests.runs.run_kit import RunWorld, family, install, kill_followers


def numbers(world: RunWorld, run: str) -> list[tuple[int, str]]:
    return [(one["number"], one["kind"]) for one in world.imi("checkpoints", run, "--json").data["checkpoints"]]


def test_a_checkpoint_is_made_every_n_messages_and_at_the_end_of_a_turn(world: RunWorld, own_home: Path) -> None:
    # S2.18 S0.15 S2.20
    config = own_home / ".config" / "iMi" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("[runs]\ncheckpoint_every = 5\n")
    run = world.start("[[slow]]")
    wait_for(lambda: [kind for _, kind in numbers(world, run)].count("messages") >= 2)
    kill_followers()  # the next one counts from the beginning
    wait_for(lambda: [kind for _, kind in numbers(world, run)].count("messages") >= 4)
    world.imi("interrupt", run)
    world.wait(run, "idle")
    wait_for(lambda: numbers(world, run)[-1][1] == "turn")
    found = world.imi("checkpoints", run, "--json").data["checkpoints"]
    assert [one["number"] for one in found] == list(range(1, len(found) + 1))
    due = [one["messages"] // 5 for one in found if one["kind"] == "messages"]
    assert due == sorted(set(due)), "one for each time that the count passes a multiple"
    assert all(one["position"] > 0 and one["prompt"] == "[[slow]]" for one in found)
    assert found[0]["head"] == world.repo.git("rev-parse", "HEAD").strip()
    progress = [one for one in world.events("session.progress") if one.get("checkpoint")]
    assert len(progress) == len(due)


def test_asking_and_writing_are_checkpoints_with_open_calls_and_files(world: RunWorld) -> None:
    run = world.start("[[write]] [[ask]]")
    world.wait(run, "asks")
    wait_for(lambda: any(kind == "asks" for _, kind in numbers(world, run)))
    last = world.imi("checkpoints", run, "--json").data["checkpoints"][-1]
    assert last["open"] == ["Bash touch x"] and last["state"] == "waiting_for_input"
    (file,) = last["files"]
    assert file == {"path": str(world.tree.path / "made.txt"), "size": 4, "sha256": sha256(b"made").hexdigest()}
    shown = world.imi("checkpoints", run).out
    assert "asks" in shown and last["head"][:10] in shown


def test_a_new_session_begins_with_the_checkpoint_where_the_old_one_is_lost(world: RunWorld, own_home: Path) -> None:
    # S2.22 S0.15
    run = world.start("fix it [[write]] [[tool]]")
    world.wait(run, "works")
    wait_for(lambda: len(family(run)) == 2)
    wait_for(lambda: world.imi("checkpoints", run, "--json").data["checkpoints"] != [])
    world.imi("stop", run)
    old = world.wait(run, "cancelled")
    (world.tree.path / "made.txt").write_text("changed")
    shutil.rmtree(own_home / ".claude" / "projects")
    new = world.imi("resume", run, "--prompt", "and test it", "--json").data
    assert new["resumed_from"] == run and new["session"] != old["session"]
    world.wait(new["id"], "works", "idle")
    prompt = world.folder(new["id"]).prompt()
    assert "Its task:\nfix it [[write]] [[tool]]" in prompt and prompt.endswith("and test it")
    assert f"- {world.tree.path}/made.txt (changed since)" in prompt and "Uncommitted now:\n- made.txt" in prompt


def test_a_transcript_without_a_message_is_no_session(world: RunWorld, own_home: Path) -> None:
    # S2.22
    run = world.start("fix it")
    old = world.wait(run, "idle")
    world.imi("stop", run)
    world.wait(run, "completed")
    (transcript,) = (own_home / ".claude" / "projects").rglob("*.jsonl")
    transcript.write_text('{"type":"mode","mode":"normal"}\n')  # as Claude leaves it that is killed early
    ran = world.imi("resume", run, "--json")
    assert ran.data["session"] != old["session"] and "claude has no record of it" in ran.out + ran.err
    assert "Its task:\nfix it" in world.folder(ran.data["id"]).prompt()


@pytest.mark.parametrize(("program", "sessions"), [("codex", ".codex/fake"), ("gemini", ".acp-fake")])
def test_a_new_session_begins_with_the_checkpoint_where_the_program_refuses_the_old_one(
    world: RunWorld, own_home: Path, tmp_path: Path, program: str, sessions: str
) -> None:
    # S2.22
    install(tmp_path / "bin", "gemini")
    run = world.start("fix it", program, "--way", "task")
    old = world.wait(run, "idle")
    world.imi("stop", run)
    world.wait(run, "completed")
    shutil.rmtree(own_home / sessions)
    new = world.imi("resume", run, "--prompt", "and test it", "--json").data["id"]
    row = world.wait(new, "idle")
    assert row["resumed_from"] == run and row["session"] not in (None, old["session"])
    given = [json.dumps(one) for one in world.sent(new) if one["method"] in ("turn/start", "session/prompt")]
    assert len(given) == 1 and "Its task:\\nfix it" in given[0] and "The last it said:\\nHello." in given[0]
    assert given[0].count("and test it") == 1
    said = world.imi("session", "show", row["session"]).out
    assert (
        "its session could not be resumed (no " in said
        and "a new one begins with what the last checkpoint says" in said
    )
    world.imi("stop", new)
    world.wait(new, "completed")
    again = world.imi("resume", new, "--json").data["id"]  # the new one is there
    assert world.wait(again, "idle")["session"] == row["session"]
    shutil.rmtree(own_home / sessions)
    world.imi("stop", again)
    world.wait(again, "completed")
    third = world.imi("resume", again, "--json").data["id"]
    world.wait(third, "idle")
    assert "Its task:\nfix it" in world.folder(third).packet(), (
        "the task of the first run, not what told the last to go on"
    )


def test_fresh_begins_a_new_session_although_the_old_one_is_there(world: RunWorld) -> None:
    run = world.start("hi")
    old = world.wait(run, "idle")
    world.imi("stop", run)
    world.wait(run, "completed")
    new = world.imi("resume", run, "--fresh", "--json").data
    assert new["session"] != old["session"]
    prompt = world.folder(new["id"]).prompt()
    assert "Its task:\nhi" in prompt and "The last it said:\nHello." in prompt
    world.wait(new["id"], "idle")
    world.imi("stop", new["id"])
    world.wait(new["id"], "completed")
    again = world.imi("resume", new["id"], "--json").data
    assert again["session"] == new["session"]


def test_a_packet_names_everything_a_new_session_needs() -> None:
    state: dict[str, object] = {
        "prompt": "and the tests",
        "plan": "1. a\n2. b",
        "message": "a is done",
        "open": ["Bash make"],
        "files": [{"path": "a.py"}, {"path": "b.py"}],
        "head": "abc",
    }
    text = packet("do a and b", state, changed=["b.py"], uncommitted=[f"f{one}" for one in range(60)], head="def")
    for part in (
        "Its task:\ndo a and b",
        "The last prompt it got:\nand the tests",
        "Its plan:\n1. a\n2. b",
        "- Bash make",
        "- a.py\n- b.py (changed since)",
        "HEAD was abc and is def now.",
        "- f49\n… and 10 more",
    ):
        assert part in text, part
    assert json.dumps(text).count("f5") == 1, "no more than fifty"
    short = packet("do a", {}, changed=[], uncommitted=[], head=None)
    assert short.count("\n\n") == 2
