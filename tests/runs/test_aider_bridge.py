"""aider, which reports nothing: one prompt without a terminal, read from its chat history."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from imi_monitor.sources.agents.aider.stream import AiderStream
from tests.helpers import wait_for
from tests.runs.run_kit import RunWorld, family, has_ended, install


@pytest.fixture
def aider(world: RunWorld, tmp_path: Path) -> RunWorld:
    install(tmp_path / "bin", "aider")
    return world


def test_it_takes_one_prompt_and_its_history_is_the_report(aider: RunWorld) -> None:
    run = aider.start("please [[edit]]\nsoon", "aider", "--edits", "--model", "fake")
    row = aider.wait(run, "completed")
    assert (row["mode"], row["worktree_name"], row["used"]["tokens"]) == ("edits", "feat-x", 30)
    assert aider.messages(run) == ["I change it.", "Hello."]
    assert (aider.tree.path / "made.py").read_text() == "x = 2\n"
    kinds = [json.loads(line)["kind"] for line in aider.imi("logs", run, "--json").out.splitlines()]
    assert kinds == ["prompt", "message", "tool_finished", "message", "completed"]
    session = aider.imi("session", "show", row["session"], "--json")
    assert session.code == 0 and "made.py" in session.out
    words = Path(aider.folder(run).file("bridge.json")).read_text()
    assert all(one in words for one in ("--yes-always", "--no-auto-commits", "--model", "--no-analytics"))
    assert aider.imi("claims", "--json").data["claims"] == []


@pytest.mark.parametrize("start", ["/", "!"])
def test_a_prompt_is_never_a_command(aider: RunWorld, start: str) -> None:
    run = aider.start(f"{start}touch x", "aider", "--plan")
    aider.wait(run, "completed")
    assert Path(aider.folder(run).file("message.txt")).read_text() == f"Prompt:\n{start}touch x"
    argv = json.loads(Path(aider.folder(run).file("bridge.json")).read_text())["argv"]
    assert argv[argv.index("--chat-mode") + 1] == "ask"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--way", "task"], "aider asks only on its own screen: start it with --edits or --plan, or --way window"),
        (["--way", "window", "--prompt", "x" * 20_000], "the prompt is too long to be typed into aider's window"),
        (["--edits", "--sandbox", "write"], "imi cannot keep aider inside of a wall"),
    ],
)
def test_what_it_cannot_do_is_refused(
    aider: RunWorld, words: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", "/nowhere,1,0")
    ran = aider.imi("start", "aider", "--prompt", "x", *words)
    assert ran.code == 2 and ran.err.startswith(f"imi: {sentence}") and ran.err.count("\n") == 1
    assert aider.imi("runs", "--json").data["runs"] == []


def test_it_is_interrupted_by_a_signal_and_takes_no_second_prompt(aider: RunWorld) -> None:
    run = aider.start("[[slow]]", "aider", "--edits")
    wait_for(lambda: "word1" in aider.messages(run))
    assert "aider takes one prompt: when it has ended, `imi resume" in aider.imi("say", run, "more").err
    assert f"`imi resume {run[:8]}` goes on" in aider.imi("interrupt", run).out
    row = aider.wait(run, "cancelled")
    assert (row["detail"], row["exit_code"]) == ("interrupted", 0)


def test_stop_leaves_no_process_of_the_family(aider: RunWorld) -> None:
    run = aider.start("[[tool]]", "aider", "--edits")
    aider.wait(run, "works")
    wait_for(lambda: len(family(run)) >= 3)  # bridge, aider, its command
    processes = family(run)
    assert aider.imi("stop", run).code == 0
    wait_for(has_ended(processes))
    aider.wait(run, "cancelled")


@pytest.mark.parametrize(("mark", "code"), [("die", 137), ("exit7", 7)])
def test_an_end_in_the_middle_is_a_crash_and_a_new_chat_goes_on(aider: RunWorld, mark: str, code: int) -> None:
    run = aider.start(f"hello [[{mark}]]", "aider", "--edits")
    row = aider.wait(run, "crashed")
    assert row["exit_code"] == code
    resumed = aider.imi("resume", run, "--prompt", "go on", "--json")
    assert resumed.code == 0 and "aider has no record of it" in resumed.out
    again = aider.wait(resumed.data["id"], "completed", "crashed")
    assert again["resumed_from"] == run
    packet = Path(aider.folder(again["id"]).file("message.txt")).read_text()
    assert "go on" in packet and "hello" in packet


def test_a_killed_bridge_leaves_an_aider_that_is_named(aider: RunWorld) -> None:
    run = aider.start("[[slow]]", "aider", "--edits")
    wait_for(lambda: "word0" in aider.messages(run) and aider.run(run)["session"])
    bridge = aider.run(run)["pid"]
    os.kill(bridge, signal.SIGKILL)
    aider.wait(run, "crashed")
    assert "left" in aider.imi("resume", run).err
    processes = family(run)
    aider.imi("stop", run)
    wait_for(has_ended(processes))


def test_an_answer_that_is_missing_or_refused_is_a_failure(aider: RunWorld) -> None:
    silent = aider.wait(aider.start("[[silent]]", "aider", "--edits"), "failed")
    assert silent["detail"] == "it ended without an answer"
    refused = aider.wait(aider.start("[[limit]]", "aider", "--edits"), "failed")
    assert refused["detail"].startswith("litellm.RateLimitError")


def test_without_a_key_it_is_ended_and_says_so(aider: RunWorld) -> None:
    Path(os.environ["HOME"], "logged-out").touch()
    row = aider.wait(aider.start("hi", "aider", "--edits"), "failed")
    assert row["detail"].startswith("it knows no model and no API key")


def test_words_of_a_linter_are_no_failure(aider: RunWorld) -> None:
    run = aider.start("[[lint]]", "aider", "--edits")
    aider.wait(run, "completed")
    assert "! " not in aider.imi("logs", run).out


def test_a_started_chat_is_one_session_with_the_found_one(aider: RunWorld) -> None:
    run = aider.start("[[slow]]", "aider", "--edits")
    wait_for(lambda: "word0" in aider.messages(run) and aider.run(run)["session"])
    found = aider.imi("agents", "--json").data["agents"]
    assert [(one["cli"], one["session"]) for one in found] == [("aider", aider.run(run)["session"])]


def test_the_stream_survives_what_it_does_not_know() -> None:
    stream = AiderStream()
    for line in (b'{"chat": 7}', b'{"exit": "x"}', b"torn {", b'{"folder": null}', b'{"session": {}}'):
        stream.add(line, 0, "2026-01-01T00:00:00Z")
    assert (stream.state, stream.detail, stream.session, stream.turn_over) == (None, None, None, False)
