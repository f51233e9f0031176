"""Which Claude sessions live, and in which process: the registry compared with running processes."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.model.agent import CANCELLED, COMPLETED, DEAD, EXACT, FAILED, GUESS, LIKELY, RUNNING, UNKNOWN, WAITING
from imi_monitor.sources.agents.agent_reader import AgentProcess
from imi_monitor.sources.agents.claude import live_registry as claude_places
from tests.sources.agents.claude_kit import Scene, a_dead_pid
from tests.sources.agents.fake_processes import running
from tests.sources.agents.fakes.claude import Claude, slug


def rewritten(claude: Claude, **fields: object) -> None:
    """Write the registry entry with other fields; None removes one."""
    with open(claude.entry) as file:
        entry = json.load(file)
    entry |= fields
    with open(claude.entry, "w") as file:
        json.dump({key: value for key, value in entry.items() if value is not None}, file)


def process(scene: Scene, *words: str, pid: int | None = None, age: float = 10.0) -> AgentProcess:
    number = os.getpid() if pid is None else pid
    started = host.start_time(number) or "0"
    return AgentProcess("claude", number, started, str(scene.worktree), ("claude", *words), scene.time - age)


def killed(scene: Scene, claude: Claude) -> None:
    """The state after kill -9: the entry stays, the process has ended."""
    pid, started = a_dead_pid()
    scene.read()
    here = claude.entry
    rewritten(claude, pid=pid, procStart=started)
    os.rename(here, claude.entry.replace(str(claude.pid), str(pid)))


def test_a_claude_killed_at_work_is_dead(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    claude.tool("Bash", command="make")
    assert scene.state() == RUNNING
    killed(scene, claude)
    truth = scene.agent().truth
    assert (truth.state, truth.ended, truth.source) == (DEAD, True, "process")
    assert truth.rejected, "what it said last is shown as rejected"


def test_kill_9_after_a_turn_leaves_the_turn_completed_and_the_session_ended(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    claude.finish("y")
    killed(scene, claude)
    truth = scene.agent(whole=True).truth
    assert (truth.state, truth.ended) == (COMPLETED, True)


def test_a_reused_pid_is_not_the_agent(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    rewritten(claude, procStart="1")
    assert scene.state() == DEAD


def test_a_normal_end_takes_the_entry_away(scene: Scene) -> None:
    with running(["sleep", "60"], scene.worktree) as program:
        claude = scene.claude(pid=program.pid)
        claude.start()
        claude.prompt("x")
        claude.finish("y")
        assert not scene.agent().truth.ended
        claude.leave()
        assert not scene.agent().truth.ended, "it is about to end, and has not yet"
    scene.wait(1)
    agent = scene.agent()
    assert (agent.state, agent.truth.ended, agent.facts.cost_usd) == (COMPLETED, True, 0.25)
    assert agent.facts.ended_at is not None
    again = scene.claude(claude.session)
    again.start()
    assert scene.agent().facts.ended_at is None, "resumed, it has not ended"


def test_a_session_that_was_closed_before_the_first_read(scene: Scene) -> None:
    """Esc while it tries again leaves no record, so the turn is open; the totals follow it when the session is closed."""
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    scene.wait(5)
    claude.leave()
    one = scene.agent(whole=True).truth
    assert (one.state, one.confidence, one.detail, one.ended) == (CANCELLED, LIKELY, "closed", True)


def test_a_session_that_vanished_before_the_first_read(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    os.unlink(claude.entry)
    agent = scene.agent(whole=True)
    assert (agent.state, agent.truth.ended) == (DEAD, True), "a version that lists itself, and is not listed, is gone"


def test_a_version_without_a_registry_is_not_shown_as_dead(scene: Scene) -> None:
    claude = scene.claude(registers=False, version="2.0.50")
    claude.prompt("x")
    assert scene.agent().truth.ended is False
    scene.wait(11 * 60)
    assert scene.state() == UNKNOWN, "no process is known and nothing was heard for long"


def test_an_old_version_is_found_by_its_process(scene: Scene) -> None:
    claude = scene.claude(registers=False, version="2.0.50")
    claude.prompt("x")
    (agent,) = scene.agents(processes=(process(scene),))
    assert (agent.session, agent.pid, agent.state) == (claude.session, os.getpid(), RUNNING)
    scene.wait(11 * 60)
    (agent,) = scene.agents(processes=(process(scene),))
    assert agent.state == RUNNING, "it lives, and a long tool takes its time"


def test_clear_ends_the_old_session_and_begins_a_new_one(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    claude.finish("y")
    old = claude.session
    scene.read()
    scene.wait(5)
    claude.clear()
    seen = {agent.session: agent for agent in scene.agents()}
    assert (seen[old].state, seen[old].truth.ended) == (COMPLETED, True)
    assert seen[claude.session].state == COMPLETED
    assert not seen[claude.session].truth.ended
    assert [one.kind for one in scene.events if one.kind in ("started", "ended")] == ["started", "ended", "started"]
    claude.prompt("anew")
    assert {agent.session: agent.state for agent in scene.agents()} == {old: COMPLETED, claude.session: RUNNING}


def test_what_was_left_open_by_clear_is_cancelled(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    claude.retry()
    old = claude.session
    scene.read()
    scene.wait(5)
    claude.clear()
    assert scene.agent(old).state == CANCELLED


def test_a_resumed_session_is_the_same_agent_in_another_process(scene: Scene) -> None:
    first = scene.claude()
    first.start()
    first.prompt("x")
    first.tool("Bash", command="make")
    identity = scene.agent().id
    killed(scene, first)
    assert scene.state() == DEAD
    scene.wait(60)
    again = scene.claude(first.session)
    again.start()
    agent = scene.agent()
    assert (agent.id, agent.pid, agent.truth.ended) == (identity, os.getpid(), False)
    assert agent.state == CANCELLED, "what the killed process had begun is not running, whatever its records say"
    again.prompt("go on")
    assert scene.state() == RUNNING
    again.finish("done")
    assert scene.state() == COMPLETED


@pytest.mark.parametrize("whole", [False, True])
def test_a_leftover_entry_beside_the_living_one(scene: Scene, whole: bool) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    scene.read()
    killed(scene, claude)
    scene.read()
    again = scene.claude(claude.session)
    again.start("busy")
    assert not scene.agent(whole=whole).truth.ended


def test_a_print_run_of_a_version_without_status(scene: Scene) -> None:
    claude = scene.claude(version="2.1.197", entrypoint="sdk-cli")
    claude.tells_status = False
    claude.start()
    agent = scene.agent()
    assert (agent.state, agent.truth.confidence) == (UNKNOWN, GUESS)
    claude.prompt("x", origin="sdk")
    assert scene.state() == RUNNING
    claude.tool("Bash", command="make")
    assert (scene.state(), str(scene.agent().truth.tool)) == (RUNNING, "Bash make")
    claude.finish("y")
    assert scene.state() == COMPLETED


def test_an_entry_of_another_container_proves_nothing(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    rewritten(claude, pid=999_999_999, pidDomain="linux:0123456789abcdef0123456789abcdef:pid:[4026532999]")
    agent = scene.agent(whole=True)
    assert (agent.state, agent.truth.ended) == (RUNNING, False), "it may live where we cannot look"
    scene.wait(11 * 60)
    assert scene.state() == UNKNOWN


def test_a_domain_with_a_living_process_is_this_machine(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    rewritten(claude, pidDomain="linux:whatever:pid:[1]")
    assert scene.state() == COMPLETED
    rewritten(claude, procStart="1", status="busy")
    assert scene.agent().truth.ended


@pytest.mark.parametrize("status", ["paused", "", 7, ["busy"], {"is": "busy"}])
def test_an_unknown_status_is_unknown_with_a_format_note(scene: Scene, status: object) -> None:
    claude = scene.claude()
    claude.start()
    rewritten(claude, status=status)
    agent = scene.agent()
    assert agent.state == UNKNOWN
    assert agent.facts.format_note is not None
    assert agent.facts.format_note.startswith("unknown (format) claude 2.1.326: ")


def test_a_newer_major_version_is_read_and_marked_as_unknown(scene: Scene) -> None:
    claude = scene.claude(version="9.9.9")
    claude.start("busy")
    agent = scene.agent()
    assert agent.state == RUNNING
    assert (agent.facts.format_note or "").startswith("unknown (format) claude 9.9.9: ")


@pytest.mark.parametrize("cut", [0, 1, 30, 200])
def test_an_entry_that_is_being_written(scene: Scene, cut: int) -> None:
    claude = scene.claude()
    claude.start("busy")
    assert scene.state() == RUNNING
    claude.register("idle")
    whole = Path(claude.entry).read_bytes()
    Path(claude.entry).write_bytes(whole[:cut])
    assert scene.state() == RUNNING, "what was known holds"
    Path(claude.entry).write_bytes(whole)
    scene.touched()
    assert scene.state() == COMPLETED, "it is read again although nothing tells that it changed"


def test_other_files_beside_the_registry_entries_are_ignored(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    for name in ("4242.0a1b2c3d.key", "x.json", "12.json.tmp", ".json", "13.json"):
        (scene.config / "sessions" / name).write_text('{"pid": 1}')
    (scene.config / "sessions" / "14.json").mkdir()
    assert scene.agent(whole=True).session == claude.session


def test_the_daemon_is_no_agent(scene: Scene) -> None:
    claude = scene.claude()
    claude.extra = {"kind": "daemon"}
    claude.start()
    assert scene.agents(whole=True) == []


def test_a_pane_of_tmux(scene: Scene) -> None:
    claude = scene.claude()
    claude.extra = {"tmux": "my work:@3.%17"}
    claude.start()
    assert scene.agent().facts.tmux == "%17"


# -- at the start -----------------------------------------------------------------------------------------------------


def test_an_unlisted_process_may_wait_in_a_dialog(scene: Scene) -> None:
    young = process(scene, age=1.0)
    (agent,) = scene.agents(whole=True, processes=(young,))
    assert agent.state == UNKNOWN, "it has hardly begun"
    scene.wait(1.5)
    (agent,) = scene.agents(processes=(young,))
    assert (agent.state, agent.truth.confidence, agent.pid) == (WAITING, GUESS, os.getpid())
    assert "dialog" in (agent.truth.detail or "")
    scene.claude().start()
    (agent,) = scene.agents(processes=(young,))
    assert (agent.state, agent.truth.confidence) == (COMPLETED, EXACT)


@pytest.mark.parametrize(
    "words",
    [("mcp", "serve"), ("update",), ("--version",), ("daemon", "run"), ("attach", "1a2b"), ("agents", "--json")],
)
def test_claude_commands_without_a_session_are_no_agents(scene: Scene, words: tuple[str, ...]) -> None:
    assert scene.agents(whole=True, processes=(process(scene, *words),)) == []


@pytest.mark.parametrize("words", [("-p", "do it"), ("--print", "x")])
def test_a_print_run_shows_no_dialogs(scene: Scene, words: tuple[str, ...]) -> None:
    (agent,) = scene.agents(whole=True, processes=(process(scene, *words),))
    assert agent.state == UNKNOWN


def test_without_a_registry_an_unlisted_process_is_unknown(scene: Scene) -> None:
    (scene.config / "sessions").rmdir()
    (agent,) = scene.agents(whole=True, processes=(process(scene, "update the docs"),))
    assert agent.state == UNKNOWN


# -- where ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["named", "xdg", "config"])
def test_every_configuration_folder_is_read(scene: Scene, tmp_path: Path, where: str) -> None:
    folder = {"named": tmp_path / "mine", "xdg": tmp_path / "xdg/claude", "config": scene.home / ".config/claude"}[
        where
    ]
    env = {"named": {"CLAUDE_CONFIG_DIR": str(folder)}, "xdg": {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}}.get(
        where, {}
    )
    scene.world = replace(scene.world, env=env)
    folder.mkdir(parents=True)
    one, other = Claude(str(folder), str(scene.worktree), pid=os.getpid()), scene.claude()
    one.start("busy")
    other.start("idle")
    assert {agent.session: agent.state for agent in scene.agents(whole=True)} == {
        one.session: RUNNING,
        other.session: COMPLETED,
    }
    assert str(folder.resolve() / "sessions") in scene.reader.watch_folders(scene.world)


def test_claude_sessions_outside_of_the_worktrees_are_ignored(scene: Scene, tmp_path: Path) -> None:
    """`/a/b-c` and `/a/b/c` share a folder of transcripts: the records decide."""
    other = scene.worktree.parent / "my-repo/wt-X"
    other.mkdir(parents=True)
    assert slug(str(other)).startswith(slug(str(scene.worktree)))
    stranger = Claude(str(scene.config), str(other), pid=os.getpid())
    stranger.start("busy")
    stranger.prompt("x")
    stranger.tool("Bash", command="make")
    assert scene.agents(whole=True) == []
    Path(stranger.entry).unlink()
    assert scene.agents(whole=True) == []


@pytest.mark.parametrize(
    ("path", "named"),
    [("/tmp/a--b__c..d", "-tmp-a--b--c--d"), ("/Ü/é", "----"), ("/😀", "---"), ("/" + "x" * 300, "-" + "x" * 199)],
)
def test_how_folders_of_transcripts_are_named(path: str, named: str) -> None:
    assert claude_places.slug(path) == named
    assert claude_places.may_hold(named + "-sub", [named])
    assert not claude_places.may_hold("-other", [named])


def test_a_link_to_the_worktree_and_a_folder_inside(scene: Scene, tmp_path: Path) -> None:
    link, inside = tmp_path / "link", scene.worktree / "Ünder/ne😀th"
    link.symlink_to(scene.worktree)
    inside.mkdir(parents=True)
    by_link = Claude(str(scene.config), str(link), pid=os.getpid(), registers=False, version="2.0.1")
    by_link.prompt("x")
    below = Claude(str(scene.config), str(inside), pid=os.getpid())
    below.start()
    below.prompt("in a folder with a name")
    seen = {agent.session: agent.facts.prompt for agent in scene.agents(whole=True)}
    assert seen == {by_link.session: "x", below.session: "in a folder with a name"}


def test_a_session_that_moved_follows_its_records(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    inside = scene.worktree / "sub"
    inside.mkdir()
    path = claude.transcript
    claude.cwd = str(inside)
    with open(path, "ab") as file:
        record = {"type": "user", "message": {"role": "user", "content": "y"}, "cwd": str(inside)}
        file.write(json.dumps(record).encode() + b"\n")
    assert scene.agent().cwd == str(inside)


def test_the_transcript_of_a_session_resumed_elsewhere_is_found(scene: Scene) -> None:
    claude = scene.claude()
    (scene.config / "projects/-elsewhere").mkdir()
    claude.start("busy")
    claude.prompt("x")
    claude.tool("Bash", command="make")
    os.rename(claude.transcript, scene.config / f"projects/-elsewhere/{claude.session}.jsonl")
    assert str(scene.agent(whole=True).truth.tool) == "Bash make"


def test_claude_sessions_of_the_day_before_are_forgotten(scene: Scene) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("x")
    claude.finish("y")
    killed(scene, claude)
    assert scene.state() == COMPLETED
    scene.wait(25 * 3600)
    assert scene.agents(whole=True) == []


# -- in the background ------------------------------------------------------------------------------------------------


def job(scene: Scene, claude: Claude, **fields: object) -> None:
    folder = scene.config / "jobs/d3c676d3"
    folder.mkdir(parents=True, exist_ok=True)
    state = {"sessionId": claude.session, "cwd": claude.cwd, "cliVersion": claude.version, "name": "tidy up"}
    state |= {"updatedAt": claude.stamp(), **fields}
    (folder / "state.json").write_text(json.dumps(state))


def test_a_background_job_shows_what_it_needs(scene: Scene) -> None:
    claude = scene.claude()
    claude.extra = {"kind": "bg", "jobId": "d3c676d3"}
    claude.start()
    claude.prompt("x")
    claude.tool("Bash", command="touch x")
    claude.ask()
    job(scene, claude, state="blocked", tempo="blocked", needs="approve Bash: touch x")
    agent = scene.agent(whole=True)
    assert (agent.state, agent.truth.detail) == (WAITING, "approve Bash: touch x")


@pytest.mark.parametrize(
    ("state", "then"), [("done", COMPLETED), ("failed", FAILED), ("stopped", CANCELLED), ("working", DEAD)]
)
def test_a_background_job_shows_how_it_ended(scene: Scene, state: str, then: str) -> None:
    claude = scene.claude()
    claude.start("busy")
    claude.prompt("x")
    scene.wait(3)
    job(scene, claude, state=state, detail="it broke")
    killed(scene, claude)
    agent = scene.agent(whole=True)
    assert (agent.state, agent.truth.ended) == (then, True)
    assert (agent.truth.detail == "it broke") == (state == "failed")


def test_a_background_job_without_registry_and_transcript(scene: Scene) -> None:
    job(scene, scene.claude(), state="done")
    agent = scene.agent(whole=True)
    assert (agent.state, agent.facts.title) == (COMPLETED, "tidy up")
