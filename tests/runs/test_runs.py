"""Started agents from end to end: the real command, keeper and follower on fake programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.actions.context import Context
from imi_monitor.runs import run_stop, run_upkeep
from imi_monitor.store import db, runs
from tests.helpers import imi_argv, wait_for
from tests.limits import LIMIT
from tests.runs.run_kit import RunWorld, family, has_ended, install, registry

PROGRAMS = pytest.mark.parametrize("program", ["claude", "codex", "gemini"])


@PROGRAMS
def test_an_agent_asks_is_answered_is_interrupted_and_stopped(world: RunWorld, program: str) -> None:
    # S2.15 S2.16 S2.17 S3.7
    run = world.start("[[ask]] please", program)
    asked = world.wait(run, "asks")
    assert asked["worktree_name"] == "feat-x"
    assert asked["asks"][0]["tool"] == "Bash" and "touch x" in asked["asks"][0]["text"]
    claim = world.imi("claims", "--json").data["claims"][0]
    assert (claim["agent_id"], claim["pid"]) == (asked["agent_id"], asked["pid"])
    answered = world.imi("answer", run, "yes", "--json")
    assert answered.data["ask"] == asked["asks"][0]["id"]
    world.wait(run, "idle")
    assert world.messages(run) == ["allowed", "Hello."]
    assert world.imi("answer", run, "yes").err.startswith(f"imi: {run[:8]} asks nothing")
    late = world.imi("answer", run, "yes", "--ask", asked["asks"][0]["id"])
    assert late.code == 1 and late.err.startswith("imi: too late: permission for Bash touch x is answered by human:")
    world.imi("say", run, "[[slow]] go")
    world.wait(run, "works")
    assert world.imi("interrupt", run).code == 0
    world.wait(run, "idle")
    processes = family(run)
    assert processes
    assert world.imi("stop", run).code == 0
    wait_for(has_ended(processes))
    assert world.wait(run, "cancelled")["ended_at"] is not None
    assert world.imi("claims", "--json").data["claims"] == []


@PROGRAMS
def test_a_run_has_a_folder_a_row_events_and_a_log(world: RunWorld, program: str) -> None:
    # S0.1 S0.2 S0.5 S0.9 S0.12 S0.13 S2.12 S3.9
    run = world.start("[[ask]] please", program)
    world.wait(run, "asks")
    world.imi("answer", run, "no")
    row = world.wait(run, "idle")
    folder = Path(row["folder"])
    assert re.fullmatch(r"session_\d{8}_\d{6}_" + run[:8], folder.name)
    assert folder.parent == world.repo.path.parent / "app.worktrees" / "AGENT_RUN_WORKSPACES"
    assert {one.name for one in folder.iterdir() if one.is_dir()} == {
        "search_results",
        "work_products",
        "workbench_activity",
        "media",
    }
    log = (folder / "workbench_activity" / "log.txt").read_text()
    assert "$ touch x" in log and log.count("$") == 1
    world.imi("stop", run)
    world.wait(run, "completed")
    wait_for(lambda: json.loads((folder / "run.json").read_text())["status"] == "completed")
    events = [one["type"] for one in map(json.loads, world.imi("events", "--json").out.splitlines()) if "type" in one]
    if not events:
        events = [one["type"] for one in world.imi("events", "--json").data["events"]]
    for kind in ("worktree.claimed", "session.started", "session.progress", "session.ended", "worktree.released"):
        assert events.count(kind) >= 1, (kind, events)
    session = world.imi("session", "show", row["session"], "--json")
    assert session.code == 0 and "denied" in session.out


def test_the_output_is_followed_while_it_is_written(world: RunWorld) -> None:
    # S2.17
    run = world.start("[[flood]]")
    world.wait(run, "idle")
    said = world.messages(run)
    assert said == [*(f"line {number}" for number in range(3000)), "Hello."]


@PROGRAMS
def test_two_answers_at_once_give_one_answer(world: RunWorld, program: str) -> None:
    run = world.start("[[ask]] please", program)
    ask = world.wait(run, "asks")["asks"][0]["id"]
    codes = sorted(world.imi("answer", run, "yes", "--ask", ask).code for _ in range(2))
    assert codes == [0, 1]
    world.wait(run, "idle")
    answers = [one for one in world.sent(run) if "result" in one or "response" in one]
    assert len(answers) == 1


def test_an_allowed_command_that_runs_for_long_is_work_and_no_question(world: RunWorld) -> None:
    run = world.start("[[long]]")
    ask = world.wait(run, "asks")["asks"][0]["id"]
    assert world.imi("answer", run, "yes").code == 0
    row = world.wait(run, "works")
    assert row["asks"] == [] and row["detail"] == "Bash touch x"
    late = world.imi("answer", run, "yes", "--ask", ask)
    assert late.code == 1 and "too late" in late.err
    assert world.imi("interrupt", run).code == 0
    world.wait(run, "idle")


def test_a_refusal_reaches_the_agent_with_its_reason(world: RunWorld) -> None:
    run = world.start("[[ask]] please")
    world.wait(run, "asks")
    world.imi("answer", run, "not", "now")
    world.wait(run, "idle")
    response = next(one["response"]["response"] for one in world.sent(run) if "response" in one)
    assert response == {"behavior": "deny", "message": "not now"} and "denied" in world.messages(run)


@PROGRAMS
def test_stop_leaves_no_process_of_the_family(world: RunWorld, program: str) -> None:
    run = world.start("[[tool]]", program)
    wait_for(lambda: len(family(run)) == 2)
    processes = family(run)
    stopped = world.imi("stop", run, "--json").data
    wait_for(has_ended(processes))
    assert stopped["killed"] == 1 and stopped["how"] in ("asked", "terminated")
    assert world.wait(run, "cancelled")["detail"].startswith("stopped by human:")


def test_an_agent_without_work_is_asked_to_end_and_its_run_is_completed(world: RunWorld) -> None:
    run = world.start("hello")
    world.wait(run, "idle")
    with Context(str(world.tree.path)) as context:
        row = next(one for one in runs.list_open_here(context.connection) if one.id == run)
    assert run_stop.ask_to_end(row)
    assert world.wait(run, "completed")["exit_code"] == 0


def test_a_program_that_ignores_everything_is_killed(world: RunWorld) -> None:
    run = world.start("[[deaf]]", "codex")
    wait_for(lambda: "deaf" in world.messages(run))
    assert world.imi("stop", run, "--json").data["how"] == "killed"
    assert world.wait(run, "cancelled")["exit_code"] == -9


@pytest.mark.parametrize(("mark", "code"), [("die", -9), ("exit7", 7), ("torn", -9)])
def test_an_end_without_a_result_is_a_crash_and_its_claim_stays(world: RunWorld, mark: str, code: int) -> None:
    # S2.21
    run = world.start(f"[[{mark}]]")
    row = world.wait(run, "crashed")
    assert row["exit_code"] == code and "in the middle of its work" in row["detail"]
    assert world.imi("claims", "--json").data["claims"][0]["agent_id"] == row["agent_id"]
    sessions = world.imi("sessions", "--json").data["sessions"]
    assert [one["state"] for one in sessions] == ["interrupted"]


@PROGRAMS
def test_a_crashed_run_is_resumed_with_its_session(world: RunWorld, program: str) -> None:
    # S2.22
    run = world.start("[[die]]", program)
    before = world.wait(run, "crashed")
    again = world.imi("start", "--continue", run[:8], "--prompt", "go on", "--json")
    assert again.code == 0, again.err
    row = world.wait(again.data["id"], "idle")
    assert (row["session"], row["resumed_from"], row["agent_id"]) == (before["session"], run, before["agent_id"])
    assert row["folder"] != before["folder"] and world.messages(row["id"]) == ["Hello."]
    assert world.imi("resume", row["id"]).err.startswith(f"imi: {row['id'][:8]} is not over (idle)")


def test_a_run_is_resumed_in_its_renamed_worktree(world: RunWorld) -> None:
    run = world.start("[[die]]")
    world.wait(run, "crashed")
    world.imi("release", "feat-x", "--force", "--reason", "crashed", env={"IMI_AGENT_ID": "me"})
    renamed = world.imi("rename", "feat-x", "login", cwd=world.repo.path)
    assert renamed.code == 0, renamed.err
    again = world.imi("resume", run, "--json", cwd=world.repo.path)
    assert again.code == 0, again.err
    assert again.data["worktree_name"] == "feat-login" and again.data["cwd"].endswith("/feat-login")


def test_what_an_agent_left_behind_is_named_and_ended_before_a_resume(world: RunWorld) -> None:
    run = world.start("[[leave]] [[die]]")
    world.wait(run, "crashed")
    left = world.run(run)["left_behind"]
    assert [name for _, name in left] == ["sleep"]
    refused = world.imi("resume", run)
    assert refused.code == 1 and f"sleep ({left[0][0]})" in refused.err
    assert world.imi("stop", run).out == f"ended 1 process that {run[:8]} left behind\n"
    wait_for(lambda: host.start_time(left[0][0]) is None)
    assert world.imi("resume", run).code == 0


def test_runs_over_the_limit_wait_in_the_queue_and_start_in_turn(world: RunWorld, own_home: Path) -> None:
    config = own_home / ".config" / "iMi" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("[runs]\nat_once = 1\n")
    outside = own_home / "elsewhere"
    outside.mkdir()
    first = world.start("[[slow]]")
    second, third = (world.start("hi", "codex", "--in", "app") for _ in range(2))
    assert [world.run(one)["place"] for one in (second, third)] == [1, 2]
    assert "waits in the queue: its agent does not run yet" in world.imi("say", second, "x").err
    assert world.imi("stop", second).code == 0
    assert world.run(third)["place"] == 1
    world.imi("interrupt", first)  # its process goes on, its place is free
    world.wait(third, "idle")
    assert world.run(first)["shown_state"] == "idle"
    assert world.run(second)["shown_state"] == "cancelled" and not os.path.exists(
        world.folder(second).file("born.json")
    )


def test_a_claimed_worktree_is_refused_and_nothing_is_left(world: RunWorld) -> None:
    world.imi("claim", "feat-x", "--agent", "other-1")
    refused = world.imi("start", "claude", "--prompt", "x")
    assert refused.code == 1 and refused.err.startswith("imi: feat-x ") and "by other-1" in refused.err
    assert world.imi("runs", "--json").data["runs"] == []
    assert list((world.repo.path.parent / "app.worktrees" / "AGENT_RUN_WORKSPACES").iterdir()) == []


def test_an_agent_works_under_the_claim_of_the_caller(world: RunWorld) -> None:
    world.imi("claim", "feat-x", "--agent", "me")
    run = world.imi("start", "claude", "--prompt", "hi", "--json", env={"IMI_AGENT_ID": "me"}).data["id"]
    world.wait(run, "idle")
    world.imi("stop", run)
    world.wait(run, "completed")
    assert world.imi("claims", "--json").data["claims"][0]["agent_id"] == "me"


def test_a_new_worktree_is_made_for_the_agent(world: RunWorld) -> None:
    run = world.imi("start", "claude", "--new", "feat/login", "--prompt", "hi", "--json").data
    assert run["worktree_name"] == "feat-login" and Path(run["cwd"]).is_dir()
    world.wait(run["id"], "idle")


@pytest.mark.parametrize("moment", ["before its run", "with its run"])
def test_a_new_worktree_goes_again_if_nothing_starts_in_it(
    world: RunWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, moment: str
) -> None:
    if moment == "before its run":
        config = tmp_path / "config.toml"
        config.write_text('[runs]\nhome = "/dev/null/no"\n')
        monkeypatch.setenv("IMI_CONFIG", str(config))
    else:
        (tmp_path / "bin" / "claude").write_text("#!/nowhere\n")
    world.imi("feat", "kept")
    (world.repo.path.parent / "app.worktrees" / "feat-kept" / "work.txt").write_text("mine")
    for name, stays in (("feat/login", False), ("feat/kept", True)):
        refused = world.imi("start", "claude", "--new", name, "--prompt", "hi")
        folder = world.repo.path.parent / "app.worktrees" / name.replace("/", "-")
        assert (refused.code, folder.exists()) == (1, stays), refused.err
        assert ("is removed again; `imi undo " in refused.err) != stays
        assert (world.repo.git("branch", "--list", name).strip() != "") == stays
    assert world.imi("claims", "--json").data["claims"] == []


def test_a_new_worktree_with_files_stays_and_the_refusal_says_so(
    world: RunWorld, tmp_path: Path, own_home: Path
) -> None:
    (tmp_path / "bin" / "claude").write_text("#!/nowhere\n")
    config = own_home / ".config" / "iMi" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('[repositories.app]\npost_create = ["echo x > made.txt"]\n')
    world.imi("trust")
    refused = world.imi("start", "claude", "--new", "feat/login", "--prompt", "hi")
    assert refused.code == 1 and "feat-login was made for it and stays: " in refused.err
    assert (world.repo.path.parent / "app.worktrees" / "feat-login" / "made.txt").exists()


def test_a_start_without_room_for_its_launch_folder_says_so_and_leaves_nothing(
    world: RunWorld, small_disk: tuple[str, ...], own_home: Path, tmp_path: Path
) -> None:
    state = own_home / ".local" / "state"
    shutil.rmtree(state, ignore_errors=True)
    state.parent.mkdir(parents=True, exist_ok=True)
    state.symlink_to(tmp_path / "small")
    fill = f"mkdir -p {state}/imi/runs; cat /dev/zero > {state}/fill 2>/dev/null"
    script = f'{fill}; "$@"; echo "status $?"; ls -A {state}/imi/runs'
    command = [*small_disk, "sh", "-c", script, "sh", *imi_argv("start", "claude", "--prompt", "hi", "--way", "task")]
    ran = subprocess.run(command, cwd=world.tree.path, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ran.stdout == "status 1\n", ran.stdout + ran.stderr
    assert ran.stderr.startswith(f"imi: the run cannot be prepared in {state}/imi/runs/"), ran.stderr
    assert ran.stderr.endswith(": No space left on device\n") and ran.stderr.count("\n") == 1


def test_a_run_outside_of_a_repository_works_in_its_folder(world: RunWorld, own_home: Path) -> None:
    from tests.helpers import imi

    ran = imi("start", "claude", "--prompt", "hi", "--json", cwd=own_home)
    assert ran.data["cwd"] == ran.data["folder"]
    assert ran.data["folder"].startswith(str(own_home / ".local" / "share" / "imi" / "AGENT_RUN_WORKSPACES"))
    world.wait(ran.data["id"], "idle")


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["start"], 2, "imi start needs a program: one of claude, codex"),
        (["start", "hal", "--prompt", "x"], 2, "imi cannot start 'hal': use one of claude, codex"),
        (["start", "claude"], 2, "give the agent something to do"),
        (["start", "claude", "--prompt", " "], 2, "the prompt is empty"),
        (["start", "claude", "--prompt-file", "missing"], 2, "the prompt file missing cannot be read"),
        (["start", "claude", "fix the bug"], 2, "imi start takes no argument 'fix the bug': quote the prompt"),
        (["start", "claude", "--prompt", "x", "--edits", "--plan"], 2, "give one of --edits, --plan"),
        (["start", "claude", "--prompt", "x", "--label", "a"], 2, "--label takes KEY=VALUE"),
        (["start", "claude", "--prompt", "x", "--new", "login"], 2, "--new takes TYPE/NAME"),
        (["start", "claude", "--prompt", "x", "--in", "nowhere"], 1, "no worktree 'nowhere'"),
        (["start", "claude", "--prompt", "x", "--way", "pipe"], 2, "--way 'pipe' is unknown: use one of window, task"),
        (["answer", "abc", "yes"], 1, "no run 'abc'"),
        (["say", "abc"], 2, "imi say needs a text"),
        (["interrupt", "abc"], 1, "no run 'abc'"),
        (["logs"], 1, "no agent was started yet"),
    ],
)
def test_a_wrong_request_is_one_sentence_and_leaves_nothing(
    world: RunWorld, words: list[str], status: int, sentence: str
) -> None:
    ran = world.imi(*words)
    assert (ran.code, ran.out) == (status, "") and ran.err.startswith(f"imi: {sentence}") and ran.err.count("\n") == 1
    assert not (world.repo.path.parent / "app.worktrees").exists()


def test_a_missing_program_is_refused_with_the_way_to_install_it(world: RunWorld, tmp_path: Path) -> None:
    (tmp_path / "bin" / "codex").unlink()
    path = ":".join(one for one in os.environ["PATH"].split(":") if not os.path.exists(os.path.join(one, "codex")))
    ran = world.imi("start", "codex", "--prompt", "x", env={"PATH": path})
    assert ran.code == 1 and "install it with `npm install -g @openai/codex`" in ran.err


def test_long_and_odd_prompts_reach_the_agent_unchanged(world: RunWorld, tmp_path: Path) -> None:
    odd = tmp_path / "odd.txt"
    odd.write_text("-x \"quoted\" 'single'\n$HOME `date`\nümläut " + "x" * 200_000)
    run = world.imi("start", "claude", "--prompt-file", odd, "--json").data["id"]
    world.wait(run, "idle")
    assert world.sent(run)[0]["message"]["content"][0]["text"] == odd.read_text()
    long = tmp_path / "long.txt"
    long.write_text("x" * 300_000)
    assert world.imi("start", "claude", "--prompt-file", long).code == 2
    nul = tmp_path / "nul.txt"
    nul.write_text("a\0b")
    assert "NUL" in world.imi("start", "claude", "--prompt-file", nul).err


def test_an_acp_program_takes_one_prompt_at_a_time_and_its_own_choices(world: RunWorld) -> None:
    run = world.start("[[ask]]", "gemini")
    assert world.wait(run, "asks")["asks"][0]["text"] == "permission for Bash touch x"
    assert "takes one prompt at a time" in world.imi("say", run, "more").err
    wrong = world.imi("answer", run, "maybe")
    assert wrong.code == 2 and "gemini takes yes, no, or one of: Allow, Always, Reject" in wrong.err
    assert world.imi("answer", run, "2").code == 0
    world.wait(run, "idle")
    assert world.sent(run)[-1]["result"] == {"outcome": {"outcome": "selected", "optionId": "always"}}


@pytest.mark.parametrize("words", [["opencode", "--plan"], ["opencode", "--model", "x"]])
def test_what_a_program_cannot_do_is_refused(world: RunWorld, tmp_path: Path, words: list[str]) -> None:
    install(tmp_path / "bin", "opencode")
    ran = world.imi("start", *words, "--prompt", "x")
    assert ran.code == 2 and ran.err.startswith("imi: opencode ") and world.imi("runs", "--json").data["runs"] == []


def test_a_program_asks_unless_its_user_says_otherwise(world: RunWorld, tmp_path: Path) -> None:
    install(tmp_path / "bin", "opencode")
    run = world.start("hi", "opencode")
    world.wait(run, "idle")
    environment = Path(f"/proc/{world.run(run)['pid']}/environ").read_bytes()
    assert b'OPENCODE_PERMISSION={"edit": "ask"' in environment


def test_dangerous_flags_are_passed_and_shown(world: RunWorld) -> None:
    ran = world.imi("start", "claude", "--prompt", "hi", "--", "--dangerously-skip-permissions")
    assert ran.code == 0 and "it may act without asking: --dangerously-skip-permissions" in ran.err
    assert "dangerous" in world.imi("runs").out


def test_the_environment_file_with_secrets_is_gone_once_the_agent_runs(world: RunWorld) -> None:
    run = world.imi("start", "claude", "--prompt", "hi", "--json", env={"MY_SECRET": "s3cr3t-value"}).data["id"]
    world.wait(run, "idle")
    folder = Path(world.folder(run).path)
    assert folder.stat().st_mode & 0o777 == 0o700 and not (folder / "env.json").exists()
    assert b"s3cr3t-value" not in b"".join(one.read_bytes() for one in folder.iterdir() if one.is_file())
    registry = Path(os.environ["HOME"]) / ".config" / "iMi"
    assert b"s3cr3t-value" not in b"".join(one.read_bytes() for one in registry.iterdir() if one.is_file())


def test_the_output_of_an_old_run_is_packed_into_its_folder(world: RunWorld) -> None:
    run, other = world.start("hi [[flood]]"), world.start("hi", "claude", "--in", "app")
    for one in (run, other):
        world.wait(one, "idle")
    world.imi("stop", run)
    row = world.wait(run, "completed")
    said = world.imi("logs", run, "-n", "100000").out
    launches = Path(world.folder(run).path).parent
    abandoned, foreign = launches / "abandoned", launches / "foreign"
    connection = db.connect(registry(), create=False)
    for folder, name in ((abandoned, run_upkeep.registry_of(connection)), (foreign, "/elsewhere/iMi.db")):
        folder.mkdir()
        (folder / "launch.json").write_text(json.dumps({"registry": name}))
        os.utime(folder, (1, 1))
    run_upkeep.pack_old(connection, 30)
    assert os.path.exists(world.folder(run).path), "it is not old enough"
    connection.execute("UPDATE runs SET ended_at = '2026-01-01T00:00:00.000000Z' WHERE id = ?", (run,))
    run_upkeep.pack_old(connection, 0)
    assert os.path.exists(world.folder(run).path), "0 days: never"
    run_upkeep.pack_old(connection, 30)
    assert not os.path.exists(world.folder(run).path) and not abandoned.exists()
    assert os.path.exists(world.folder(other).path) and foreign.exists()
    packed = Path(row["folder"]) / "output.jsonl.gz"
    assert world.imi("logs", run, "--path").out == f"{packed}\n"
    assert (packed.parent / "prompt.txt").read_text() == "hi [[flood]]"
    assert world.imi("logs", run, "-n", "100000").out == said
    packed.unlink()
    assert "its folder" in world.imi("logs", run).err
    assert world.imi("resume", run).code == 0


@pytest.mark.parametrize("program", ["claude", "codex"])
def test_a_program_without_a_login_is_refused_before_anything_is_made(
    world: RunWorld, own_home: Path, program: str
) -> None:
    (own_home / "logged-out").touch()
    ran = world.imi("start", program, "--prompt", "x", "--new", "feat/y")
    assert ran.code == 1 and f"{program} is not logged in, as `{program}" in ran.err
    assert world.imi("runs", "--json").data["runs"] == [] and "feat-y" not in world.imi("list").out
    (own_home / "logged-out").unlink()
    assert world.imi("start", program, "--prompt", "x").code == 0


def test_no_open_run_among_ended_ones_is_not_called_no_run_at_all(world: RunWorld) -> None:
    assert world.imi("runs", "--open").out.startswith("no agent was started yet")
    run = world.start("hi")
    world.imi("stop", run)
    world.wait(run, "completed", "cancelled")
    listed = world.imi("runs", "--open")
    assert listed.out == "no run is open: `imi runs` lists those that are over\n" and run[:8] in world.imi("runs").out


def test_more_runs_than_are_listed_are_counted(world: RunWorld) -> None:
    for _ in range(2):
        world.wait(world.start("[[exit7]]"), "failed", "crashed")
    one = world.imi("runs", "-n", "1")
    assert "1 of 2 runs: `imi runs -n 0` lists all" in one.out
    everything = world.imi("runs", "-n", "0", "--json").data
    assert (everything["count"], everything["total"]) == (2, 2)
