"""Agents in a window: the fake program in a real tmux, a real Zellij and a real dtach, through the whole of a run."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor import host
from tests.helpers import imi_argv, wait_for
from tests.mux.multiplexer_kit import RunTmux, tmux_server
from tests.mux.zellij_kit import MISSING, WHY, touch, zellij_session
from tests.runs.run_kit import RunWorld, family, install, kill_followers
from tests.runs.test_limits import configure
from tests.ui.pty_kit import Terminal


@pytest.fixture
def tmux(world: RunWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunTmux]:
    with tmux_server(tmp_path, monkeypatch) as run:
        yield run


def window(tmux: RunTmux) -> str:
    """What the second window shows."""
    return tmux("capture-pane", "-p", "-t", ":1")


def test_a_window_of_tmux_is_the_default_there(world: RunWorld, tmux: RunTmux) -> None:
    before = tmux("display-message", "-p", "#{window_index}")
    run = world.start("hi; there", "claude")
    row = world.wait(run, "idle")
    assert (row["way"], row["holder"], row["session"]) == ("window", "tmux", run)
    assert tmux("list-windows", "-F", "#{window_name}").splitlines()[1:] == ["feat-x"]
    assert tmux("display-message", "-p", "#{window_index}") == before, "the focus stays where it was"
    assert "Hello." in window(tmux)
    assert world.imi("claims", "--json").data["claims"][0]["pid"] == row["pid"]
    hooks = [json.loads(line)["hook"] for line in Path(world.folder(run).file("out")).read_text().splitlines()]
    assert [one["hook_event_name"] for one in hooks] == ["SessionStart", "UserPromptSubmit", "Stop"]
    assert hooks[1]["prompt"] == "hi; there"
    assert world.imi("attach", run).code == 0
    assert tmux("display-message", "-p", "#{window_index}") == "1"
    assert world.start("hi", "claude", "--way", "task", "--in", "app")
    assert len(tmux("list-windows").splitlines()) == 2


@pytest.mark.parametrize(("answer", "said"), [("yes", "allowed"), ("no", "denied")])
def test_its_question_is_answered_by_the_hook(world: RunWorld, tmux: RunTmux, answer: str, said: str) -> None:
    run = world.start("[[ask]]")
    row = world.wait(run, "asks")
    assert [one["text"] for one in row["asks"]] == ["permission for Bash touch x"]
    refused = world.imi("say", run, "more")
    assert refused.code == 1 and "a text would answer" in refused.err
    assert world.imi("answer", run, answer).code == 0
    assert world.wait(run, "idle")["asks"] == []
    assert said in window(tmux)
    logged = [json.loads(line) for line in world.imi("logs", run, "--json").out.splitlines()]
    assert [one["kind"] for one in logged][:3] == ["prompt", "tool_started", "waits"], logged
    assert [(one["kind"], one["text"]) for one in logged][-2:] == [("message", "Hello."), ("completed", None)]
    assert [one["at"] for one in logged] == sorted(one["at"] for one in logged) and logged[0]["text"] == "[[ask]]"
    assert logged[0]["at"] < logged[-1]["at"], "each line has the time of its hook"
    late = world.imi("answer", run, "yes")
    assert late.code == 1 and "asks nothing" in late.err


def test_an_answer_in_the_window_closes_the_question(world: RunWorld, tmux: RunTmux) -> None:
    run = world.start("[[ask]] [[ask]]")
    first = world.wait(run, "asks")["asks"][0]["id"]
    tmux("send-keys", "-t", ":1", "y")

    def second_is_open() -> bool:
        asks = world.run(run)["asks"]
        return len(asks) == 1 and asks[0]["id"] != first

    wait_for(second_is_open)
    late = world.imi("answer", run, "yes", "--ask", first)
    assert late.code == 1 and "too late" in late.err
    assert world.imi("answer", run, "no").code == 0
    world.wait(run, "idle")
    assert "allowed" in window(tmux) and "denied" in window(tmux)
    wait_for(lambda: not any("run-hook" in word for word in command_lines(run)))


def test_a_window_is_interrupted_when_its_money_is_used_up(world: RunWorld, tmux: RunTmux, own_home: Path) -> None:
    refused = world.imi("start", "claude", "--prompt", "x", "--budget", "5")
    assert refused.code == 2 and "does not report what it costs in a window" in refused.err
    configure(own_home, '[runs.prices]\nfake = "1 10 0.5"\n')  # a turn: 1.0 M fresh, 0.1 M out, 0.1 M cached: 2.05
    run = world.start("hi", "claude", "--budget", "3")
    world.wait(run, "idle")
    assert world.imi("say", run, "[[slow]]").code == 0
    wait_for(lambda: world.events("run.interrupted"))
    assert world.events("run.interrupted")[0] | {"run": ""} == {"run": "", "unit": "usd", "used": 4.1, "budget": 3.0}
    wait_for(lambda: window(tmux).rstrip().splitlines()[-1].startswith("word"))
    world.imi("stop", run)
    assert world.run(run)["used"]["usd"] == 4.1


@pytest.mark.parametrize("program", ["codex", "opencode"])
def test_a_program_with_a_server_is_followed_and_answered_beside_its_screen(
    world: RunWorld, tmux: RunTmux, tmp_path: Path, program: str
) -> None:
    install(tmp_path / "bin", "opencode")
    run = world.start("[[ask]]", program)
    row = world.wait(run, "asks")
    assert (row["way"], row["holder"]) == ("window", "tmux") and row["session"]
    assert [one["text"].lower() for one in row["asks"]] == ["permission for bash touch x"]
    wait_for(lambda: "May it run" in window(tmux))
    assert world.imi("answer", run, "yes").code == 0
    assert world.wait(run, "idle")["asks"] == []
    wait_for(lambda: "allowed" in window(tmux))
    assert world.imi("say", run, "[[ask]]").code == 0
    first = world.wait(run, "asks")["asks"][0]["id"]
    tmux("send-keys", "-t", ":1", "n")
    world.wait(run, "idle")
    wait_for(lambda: "denied" in window(tmux))
    late = world.imi("answer", run, "yes", "--ask", first)
    assert late.code == 1 and "too late" in late.err
    tmux("send-keys", "-t", ":1", "-l", "[[slow]]\n")
    world.wait(run, "works")
    assert world.imi("interrupt", run).code == 0
    world.wait(run, "idle")
    assert world.imi("stop", run).code == 0
    assert not family(run) and len(tmux("list-windows").splitlines()) == 1
    world.wait(run, "completed", "cancelled")
    again = str(world.imi("resume", run, "--prompt", "hi", "--json").data["id"])
    assert world.wait(again, "idle")["session"] == row["session"]


def test_a_program_that_reports_nothing_is_seen_by_imis_readers_and_answered_by_keys(
    world: RunWorld, tmux: RunTmux, tmp_path: Path
) -> None:
    install(tmp_path / "bin", "copilot")
    run = world.start("[[ask]]", "copilot")
    row = world.wait(run, "asks")
    (asked,) = row["asks"]
    assert asked["text"] == "touch x Do you want to run it?" and row["session"] == run
    refused = world.imi("answer", run, "perhaps")
    assert refused.code == 2 and "1 (Yes)" in refused.err
    assert world.imi("answer", run, "yes").code == 0
    assert world.wait(run, "idle")["asks"] == []
    assert "allowed" in window(tmux)
    assert world.imi("say", run, "[[ask]]").code == 0
    first = world.wait(run, "asks")["asks"][0]["id"]
    kill_followers()  # so that the answer in the window is not recorded yet
    tmux("send-keys", "-t", ":1", "2")
    wait_for(lambda: "denied" in window(tmux))
    late = world.imi("answer", run, "yes", "--ask", first)
    assert late.code == 1 and "too late" in late.err
    world.imi("stop", run)
    assert not family(run)


def test_a_screen_that_is_closed_ends_its_server(world: RunWorld, tmux: RunTmux) -> None:
    run = world.start("[[ask]]", "codex")
    world.wait(run, "asks")
    place = next(Path(word.removeprefix("unix://")) for word in command_lines(run) if word.startswith("unix://"))
    screen = next(pid for pid in family(run) if b"--remote" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))
    os.kill(screen, signal.SIGTERM)
    world.wait(run, "crashed", "failed", "cancelled")
    wait_for(lambda: not family(run))
    assert not place.parent.exists()


def command_lines(run: str) -> list[str]:
    """All words of the command lines of a run's processes."""
    found = (Path(f"/proc/{pid}/cmdline") for pid in family(run))
    return [word for path in found if path.exists() for word in path.read_text().split("\0")]


def test_a_follow_up_is_typed_and_a_turn_interrupted(world: RunWorld, tmux: RunTmux) -> None:
    run = world.start("hi")
    world.wait(run, "idle")
    assert world.imi("say", run, "two\nlines;").code == 0
    hooks = [json.loads(line)["hook"] for line in Path(world.folder(run).file("out")).read_text().splitlines()]
    prompts = [one["prompt"] for one in hooks if one["hook_event_name"] == "UserPromptSubmit"]
    assert prompts[1:] == ["two\rlines;"]
    world.wait(run, "idle")
    assert world.imi("say", run, "[[slow]]").code == 0
    world.wait(run, "works")
    assert world.imi("interrupt", run).code == 0
    wait_for(lambda: window(tmux).rstrip().splitlines()[-1].startswith("word"))
    world.wait(run, "idle")  # no hook says it: the transcript does
    assert world.imi("say", run, "[[ask]]").code == 0
    world.wait(run, "asks")


def test_nothing_is_typed_into_a_window_that_shows_a_question(world: RunWorld, tmux: RunTmux) -> None:
    """Neither a follow-up nor a round of notes, which is one."""
    run = world.start("[[ask]]")
    (asked,) = world.wait(run, "asks")["asks"]
    shown = window(tmux)
    refused = world.imi("say", run, "yes")
    assert refused.code == 1 and "asks a question, which a text would answer" in refused.err
    assert window(tmux) == shown and world.wait(run, "asks")["asks"] == [asked]


def test_an_allowed_command_that_runs_for_long_in_a_window_is_work_and_no_question(
    world: RunWorld, tmux: RunTmux
) -> None:
    run = world.start("[[long]]")
    world.wait(run, "asks")
    assert world.imi("answer", run, "yes").code == 0
    row = world.wait(run, "works")
    assert row["asks"] == [] and row["detail"] == "Bash touch x"
    assert world.imi("interrupt", run).code == 0
    world.wait(run, "idle")


def test_stop_ends_the_window_and_resume_opens_another(world: RunWorld, tmux: RunTmux) -> None:
    run = world.start("[[tool]]")
    world.wait(run, "works")
    wait_for(lambda: len(family(run)) >= 2)
    assert world.imi("stop", run).code == 0
    row = world.wait(run, "cancelled")
    assert not family(run) and len(tmux("list-windows").splitlines()) == 1
    again = str(world.imi("resume", run, "--json").data["id"])
    new = world.wait(again, "idle")
    assert new["session"] == row["session"] and new["resumed_from"] == run and new["way"] == "window"


def test_a_window_whose_program_refuses_the_session_goes_on_with_a_new_one(
    world: RunWorld, tmux: RunTmux, tmp_path: Path
) -> None:
    # S2.22
    install(tmp_path / "bin", "gemini")
    run = world.start("fix it", "gemini", "--way", "task")
    world.wait(run, "idle")
    world.imi("stop", run)
    world.wait(run, "completed")
    new = world.imi("resume", run, "--way", "window", "--json").data["id"]
    wait_for(lambda: "Its task:" in window(tmux))
    wait_for(lambda: world.run(new)["session"] == new)
    said = world.imi("session", "show", new).out
    assert "could not be resumed (gemini ended with exit status 42)" in said
    world.imi("stop", new)
    assert not family(new)


@pytest.mark.parametrize(
    ("killed", "program"),
    [("agent", "claude"), ("keeper", "claude"), ("server", "claude"), ("window", "claude"), ("window", "codex")],
)
def test_what_is_killed_is_seen(world: RunWorld, tmux: RunTmux, killed: str, program: str) -> None:
    # S2.21
    run = world.start("[[ask]]", program)
    world.wait(run, "asks")
    born = json.loads(Path(world.folder(run).file("born.json")).read_text())
    kill_followers()
    if killed == "window":
        tmux("kill-window", "-t", ":1")
    else:
        server = tmux("display-message", "-p", "#{pid}")
        pid = {"agent": born["pid"], "keeper": born["keeper"], "server": int(server)}[killed]
        os.kill(pid, signal.SIGKILL)
    row = world.wait(run, "crashed")
    assert row["asks"] == []
    wait_for(lambda: host.start_time(born["pid"]) != born["started"])
    world.imi("stop", run)
    assert not family(run)
    if killed == "server":
        tmux("new-session", "-d", "-s", "one", "-x", "80", "-y", "24")
    again = str(world.imi("resume", run, "--prompt", "hi", "--way", "task", "--json").data["id"])
    assert world.wait(again, "idle")["session"] == row["session"]


def test_a_long_prompt_and_an_odd_one_arrive_whole(world: RunWorld, tmux: RunTmux, tmp_path: Path) -> None:
    odd = "-x '$(touch owned)' `x` ü\n;"
    (tmp_path / "odd").write_text(odd)
    run = str(world.imi("start", "claude", "--prompt-file", str(tmp_path / "odd"), "--json").data["id"])
    world.wait(run, "idle")
    assert prompt(world, run) == odd
    (tmp_path / "long").write_text("x" * 200_000)
    long = str(
        world.imi("start", "claude", "--in", "app", "--prompt-file", str(tmp_path / "long"), "--json").data["id"]
    )
    world.wait(long, "idle")
    assert prompt(world, long) == f"Read {world.folder(long).file('prompt.txt')} and do what it says."
    assert Path(world.folder(long).file("prompt.txt")).read_text() == "x" * 200_000


def prompt(world: RunWorld, run: str) -> str:
    hooks = [json.loads(line)["hook"] for line in Path(world.folder(run).file("out")).read_text().splitlines()]
    return next(str(one["prompt"]) for one in hooks if one["hook_event_name"] == "UserPromptSubmit")


def test_a_window_that_cannot_be_opened_leaves_nothing(
    world: RunWorld, tmux: RunTmux, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMUX", f"{tmp_path}/gone,1,0")
    refused = world.imi("start", "claude", "--prompt", "hi", "--json").json
    assert refused["code"] == "not-started" and "tmux failed" in refused["error"]
    assert world.imi("claims", "--json").data["claims"] == []
    assert not Path(world.folder(refused["data"]["id"]).file("env.json")).exists()


def test_what_fails_at_its_start_can_be_read(world: RunWorld, tmux: RunTmux) -> None:
    run = world.start("[[exit7]]")
    assert world.wait(run, "crashed")["exit_code"] == 7
    wait_for(lambda: "ended with exit status 7; press enter" in window(tmux))
    tmux("send-keys", "-t", ":1", "Enter")
    wait_for(lambda: len(tmux("list-windows").splitlines()) == 1)


def test_a_task_is_taken_over_into_a_window(world: RunWorld, tmux: RunTmux) -> None:
    run = world.start("hi", "claude", "--way", "task")
    session = world.wait(run, "idle")["session"]
    refused = world.imi("attach", run)
    assert refused.code == 1 and "--take-over" in refused.err
    taken = world.imi("attach", run, "--take-over", "--json")
    new = world.wait(str(taken.data["id"]), "idle")
    assert (new["session"], new["way"], world.run(run)["status"]) == (session, "window", "completed")
    assert "UserPromptSubmit" not in Path(world.folder(str(new["id"])).file("out")).read_text()


def test_flags_that_only_a_screen_takes_leave_its_state_unknown(world: RunWorld, tmux: RunTmux) -> None:
    run = str(world.imi("start", "codex", "--prompt", "hi", "--json", "--", "--search").data["id"])
    assert world.wait(run, "unknown")["way"] == "window"
    refused = world.imi("say", run, "more")
    assert refused.code == 1 and "imi attach" in refused.err
    assert world.imi("stop", run).code == 0
    assert world.wait(run, "cancelled")["status"] == "cancelled"


@pytest.mark.skipif(shutil.which("dtach") is None, reason="dtach is not installed here")
def test_dtach_holds_a_window_without_a_multiplexer(world: RunWorld) -> None:
    run = world.start("hi", "claude", "--way", "window")
    assert world.wait(run, "idle")["holder"] == "dtach"
    assert world.imi("say", run, "[[ask]]").code == 0
    world.wait(run, "asks")
    with Terminal(imi_argv("attach", run), cwd=world.tree.path) as terminal:
        terminal.send(b"y")
        terminal.until(b"allowed")
        world.wait(run, "idle")
        terminal.send(b"\x1c")  # leaves it
        assert terminal.ended() == 0
    assert world.imi("stop", run).code == 0
    assert not family(run)


@pytest.mark.skipif(shutil.which("dtach") is None, reason="dtach is not installed here")
def test_the_dashboard_shows_a_window_and_comes_back(world: RunWorld) -> None:
    run = world.start("hi", "claude", "--way", "window", "--in", "feat-x")
    world.wait(run, "idle")
    with Terminal(imi_argv("monitor"), cwd=world.tree.path) as terminal:
        terminal.until(b"feat-x")
        terminal.send(b":")
        terminal.until(b"Commands")
        terminal.send(b"attach")
        terminal.until(b"go to the own screen")
        terminal.send(b"\r")
        terminal.until(b"shows the window of")
        terminal.mark = len(terminal.output)
        terminal.send(b"\r")
        terminal.until(lambda: b"\x1b[?1049l" in terminal.output[terminal.mark :])
        terminal.mark = len(terminal.output)
        terminal.send(b"two\r")
        terminal.until(lambda: b"Hello." in terminal.output[terminal.mark :])
        terminal.send(b"\x1c")
        terminal.until(lambda: b"\x1b[?1049h" in terminal.output[terminal.mark :])
        terminal.send(b"q")
        assert terminal.ended() == 0


def test_a_folder_that_claude_does_not_trust_is_refused_before_anything_is_made(
    world: RunWorld, tmux: RunTmux, own_home: Path
) -> None:
    known = own_home / ".claude.json"
    known.write_text(
        json.dumps({"projects": {"/elsewhere": {"hasTrustDialogAccepted": True}, str(world.repo.path): {}}})
    )
    refused = world.imi("start", "claude", "--prompt", "hi")
    assert refused.code == 1 and f"was never allowed to work in {world.tree.path}" in refused.err
    assert len(tmux("list-windows").splitlines()) == 1 and world.imi("runs", "--json").data["runs"] == []
    assert world.imi("claims", "--json").data["claims"] == []
    known.write_text(json.dumps({"projects": {str(world.repo.path): {"hasTrustDialogAccepted": True}}}))
    run = world.start("hi")  # a linked worktree of the trusted one
    world.wait(run, "idle")
    known.write_text("{")  # what it has decided is not known
    assert world.imi("start", "claude", "--in", "app", "--prompt", "hi").code == 0


def test_without_a_holder_a_window_is_refused(world: RunWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert world.run(world.start("hi"))["way"] == "task"
    if shutil.which("dtach") is None:
        refused = world.imi("start", "claude", "--prompt", "hi", "--way", "window")
        assert refused.code == 2 and "needs tmux or Zellij" in refused.err


@pytest.mark.skipif(MISSING, reason=WHY)
def test_a_tab_of_zellij_holds_it(world: RunWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zellij_session(tmp_path, monkeypatch) as zellij:
        touch(zellij)
        run = world.start("[[ask]]")
        row = world.wait(run, "asks")
        assert (row["way"], row["holder"]) == ("window", "zellij")
        assert zellij.tab_names() == ["Tab #1", "feat-x"] and zellij.active_tab() == "Tab #1"
        assert world.imi("answer", run, "yes").code == 0
        world.wait(run, "idle")
        assert world.imi("say", run, "--", "-two").code == 0
        world.wait(run, "idle")
        assert world.imi("attach", run).code == 0
        zellij.until(lambda: zellij.active_tab() == "feat-x")
        install(tmp_path / "bin", "copilot")
        other = world.start("[[ask]]", "copilot", "--in", "app")
        assert world.wait(other, "asks")["asks"][0]["text"] == "touch x Do you want to run it?"
        assert world.imi("answer", other, "yes").code == 0
        world.wait(other, "idle")
        born = json.loads(Path(world.folder(run).file("born.json")).read_text())
        zellij.kill_server()
        wait_for(lambda: host.start_time(born["pid"]) != born["started"])
        assert world.wait(run, "completed", "crashed")["exit_code"] is not None
