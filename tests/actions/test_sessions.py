"""`imi sessions`, `imi session show` and `imi stats`. # S3.2 S4.4-S4.8"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import config, host
from imi_monitor.actions.history import session_timeline
from imi_monitor.actions.time_format import span
from imi_monitor.model import session_record, session_status, times
from imi_monitor.model.agent import (
    COMPLETED,
    DEAD,
    FAILED,
    RUNNING,
    WAITING,
    Agent,
    AgentEvent,
    SessionFacts,
    ToolCall,
    Truth,
)
from imi_monitor.model.snapshot import Key
from imi_monitor.store import db, session_writer, sessions
from tests.helpers import ROOT, Repo, imi, imi_argv
from tests.limits import LIMIT, read_line

BEGAN = times.now() - timedelta(days=2)  # another day at every time of day, so each time is shown with its date
HOSTILE = "\x1b]0;owned\x07[red]‮x"


def at(seconds: float) -> str:
    return times.stamp(BEGAN + timedelta(seconds=seconds))


def act(kind: str, seconds: float, text: str | None = None, tool: ToolCall | None = None, **more: Any) -> AgentEvent:
    return AgentEvent(kind, f"{kind}-{seconds}", at(seconds), text, tool, **more)


@pytest.fixture
def registry(repo: Repo) -> Iterator[sqlite3.Connection]:
    """`feat-x` claimed by claude-1, with the folder of the repository around us."""
    repo.worktree("feat-x")
    repo.worktree("feat-y")
    assert imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0
    with closing(db.connect(config.database_path(None))) as connection:
        yield connection


def keep(connection: sqlite3.Connection, repo: Repo, state: str, since: float, *acts: AgentEvent, **more: Any) -> None:
    worktree, session, cli = (
        more.pop("worktree", "feat-x"),
        more.pop("session", "abcdef12-77"),
        more.pop("cli", "claude"),
    )
    ended = more.pop("ended", False)
    truth = Truth(state, at(since), "registry", "exact", more.pop("detail", None), ended=ended or state == DEAD)
    cwd = str(repo.path.parent / worktree)
    key = Key(host.hostname(), "app", worktree)
    one = Agent(f"{cli}:{session}", cli, cli, key, cwd, session, None, None, truth, SessionFacts(**more))
    now = times.now()
    seen = session_record.session_state(one, host.hostname(), host.boot(), now)
    made = session_record.session_record(seen, cwd, acts, now, lambda path, root: 7)
    db.transact(connection, session_writer.record, [made])


def a_day(connection: sqlite3.Connection, repo: Repo) -> None:
    pytest_ = ToolCall("Bash", "pytest -q", "c1")
    keep(
        connection,
        repo,
        COMPLETED,
        100,
        act("started", 0),
        act("prompt", 10, "make the API\nand test it"),
        act("tool_started", 20, "pytest -q", pytest_),
        act("waits", 30, "permission for Bash", pytest_),
        act("answered", 50, "yes", pytest_),
        act("tool_finished", 80, "3 passed", pytest_, ok=True),
        act(
            "tool_finished",
            90,
            None,
            ToolCall("Edit", "src/api.py", "c2"),
            ok=True,
            files=(str(repo.path.parent / "feat-x" / "src" / "api.py"),),
        ),
        act("message", 99, HOSTILE),
        act("completed", 100),
        act("prompt", 160, "more"),
        act("failed", 170, "API error 529"),
        started_at=at(0),
        prompt="more",
        tokens_in=1000,
        tokens_out=200,
        model="opus",
        title=HOSTILE,
        version="2.1",
    )
    keep(connection, repo, FAILED, 170, act("ended", 200), ended_at=at(200))
    keep(connection, repo, DEAD, 60, act("prompt", 5, "fix it"), session="cafe-1", cli="codex", worktree="feat-y")


def test_sessions_are_listed_and_filtered(registry: sqlite3.Connection, repo: Repo) -> None:
    a_day(registry, repo)
    shown = imi("sessions", cwd=repo.path).out
    assert "abcdef12" in shown and "claude-1" in shown and " failed " in shown and "1,200" in shown
    assert "cafe-1" in shown and "codex" in shown and "dead" in shown
    both = imi("sessions", "--json", cwd=repo.path).data["sessions"]
    one = next(each for each in both if each["cli"] == "claude")
    assert (one["agent_id"], one["state"], one["worktree_name"], one["ended_at"]) == (
        "claude-1",
        "failed",
        "feat-x",
        at(200),
    )
    assert (one["tokens_in"], one["tokens_cached"], one["cost_usd"]) == (1000, None, None), "null is not zero"

    def found(*words: str) -> list[str]:
        return [each["cli"] for each in imi("sessions", *words, "--json", cwd=repo.path).data["sessions"]]

    assert found("--state", "failed", "--agent", "claude-1") == ["claude"]  # S4.4
    assert found("--state", "failed", "--since", "7d") == ["claude"]  # S4.7
    assert found("--state", "interrupted") == found("--agent", "codex") == found("--worktree", "y") == ["codex"]
    assert found("--state", "live") == found("--worktree", "gone") == []
    assert found("-n", "1") != [] and len(found()) == 2
    assert found("--since", "10m") == []
    wrong = imi("sessions", "--state", "asleep", cwd=repo.path)
    assert wrong.code == 2 and "use one of works, asks" in wrong.err
    assert imi("sessions", "--since", "soon", cwd=repo.path).code == 2


def test_session_show_prints_one_session_from_its_start(registry: sqlite3.Connection, repo: Repo) -> None:
    a_day(registry, repo)
    shown = imi("session", "show", "abc", cwd=repo.path).out
    assert "\x1b" not in shown and "‮" not in shown and "\\x1b]0;owned\\x07[red]" in shown
    words = [line.split("  ")[1].split()[0] for line in shown.splitlines() if line[4:5] == "-" and line[13:14] == ":"]
    assert words == [
        "started",
        "prompt",
        "tool",
        "asks",
        "answer",
        "tool",
        "says",
        "finished",
        "prompt",
        "failed",
        "ended",
    ]
    assert "Bash pytest -q  1m 00s" in shown and "and test it" in shown and "API error 529" in shown
    assert "src/api.py" in shown
    head, *lines = [
        json.loads(line) for line in imi("session", "show", "claude:abcdef12-77", "--json").out.splitlines()
    ]
    assert head["session"]["id"] == "claude:abcdef12-77" and head["files"][0]["path"] == "src/api.py"
    assert [line["seq"] for line in lines] and next(one for one in lines if one["call"] == "c1")["seconds"] == 60.0
    assert imi("session", "show", "nope", cwd=repo.path).err.startswith("imi: no session 'nope' is recorded")
    ambiguous = imi("session", "show", "c", cwd=repo.path)
    assert ambiguous.code == 1 and "give more characters" in ambiguous.err
    assert imi("session", cwd=repo.path).out == imi("sessions", cwd=repo.path).out


def test_a_timeline_after_a_cursor_has_only_new_events(registry: sqlite3.Connection, repo: Repo) -> None:
    call = ToolCall("Bash", "make", "c1")
    keep(registry, repo, RUNNING, 1, act("prompt", 1, "go"), act("tool_started", 2, "make", call))
    one = sessions.find(registry, sessions.SessionFilter())[0]
    first = session_timeline.timeline(registry, one.seq)
    assert [(line.word, line.outcome) for line in first] == [("prompt", None), ("tool", "running")]
    assert (first[1].seconds or 0) > 3000, "it runs since then"
    behind = session_timeline.cursor(registry, one.seq)
    assert session_timeline.timeline(registry, one.seq, behind) == []
    keep(registry, repo, WAITING, 9, act("tool_finished", 8, "ok", call, ok=False), detail="a question")
    new = session_timeline.timeline(registry, one.seq, behind)
    assert [(line.word, line.outcome, line.call) for line in new] == [("tool", "failure", "c1"), ("asks", None, None)]
    assert len(session_timeline.timeline(registry, one.seq, limit=1)) == 1


def test_no_event_is_lost_between_new_lines_and_the_number_of_the_last(
    registry: sqlite3.Connection, repo: Repo
) -> None:
    """Another process writes just before the number is read."""
    keep(registry, repo, RUNNING, 1, act("prompt", 1, "go"))
    (one,) = db.read(registry, sessions.find_by_prefix, "abc")
    written: list[str] = []

    def write_once(statement: str) -> None:
        if "max(seq)" in statement and not written:
            written.append(statement)
            keep(registry, repo, RUNNING, 1, act("message", 5, "I look"))

    with closing(db.connect(config.database_path(None))) as reader:
        reader.set_trace_callback(write_once)
        lines, last = db.read(reader, session_timeline.read_new, one.seq)
        reader.set_trace_callback(None)
        more, _ = db.read(reader, session_timeline.read_new, one.seq, last)
    assert written and [line.text for line in (*lines, *more)] == ["go", "I look"]


def test_session_show_follow_prints_new_events(registry: sqlite3.Connection, repo: Repo) -> None:
    keep(registry, repo, RUNNING, 1, act("prompt", 1, "go"))
    reader = subprocess.Popen(
        imi_argv("session", "show", "abc", "--follow", "--json"),
        cwd=repo.path,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert reader.stdout is not None
    try:
        assert "session" in json.loads(read_line(reader.stdout))
        assert json.loads(read_line(reader.stdout))["text"] == "go"
        keep(registry, repo, RUNNING, 1, act("message", 5, "I look"))
        assert json.loads(read_line(reader.stdout))["text"] == "I look"
        keep(registry, repo, RUNNING, 1, act("message", 6, "I found"))
        assert json.loads(read_line(reader.stdout))["text"] == "I found"
    finally:
        reader.send_signal(signal.SIGINT)
        reader.communicate(timeout=LIMIT)
    assert reader.returncode == 0


def test_stats_add_up_known_figures(registry: sqlite3.Connection, repo: Repo) -> None:
    a_day(registry, repo)
    tree = Repo(repo.path.parent / "feat-x")
    tree.write("src/api.py", "x = 1\n")
    tree.commit("api")
    data = imi("stats", "--json", cwd=repo.path).data
    claude = next(group for group in data["groups"] if group["agent_id"] == "claude-1")  # S4.5
    assert (claude["working_seconds"], claude["waiting_seconds"]) == (30 + 50 - 10 + 10, 20)
    assert claude["idle_seconds"] == 60 + 30
    assert (claude["sessions"], claude["turns"], claude["turns_completed"], claude["turns_failed"]) == (1, 2, 1, 1)
    assert (claude["tools"], claude["files"], claude["commits"], claude["tokens_in"]) == (2, 1, 1, 1000)
    assert claude["cost_usd"] is None
    codex = next(group for group in data["groups"] if group["cli"] == "codex")
    assert (codex["interrupted"], codex["commits"], codex["tokens_in"]) == (1, None, None), "unknown is null"
    assert codex["working_seconds"] == 55
    assert data["total"]["sessions"] == 2
    shown = imi("stats", cwd=repo.path).out
    assert "claude-1" in shown and "1m 20s" in shown and "–" in shown and "all" in shown
    only = imi("stats", "--agent", "codex", "--json", cwd=repo.path).data
    assert [group["cli"] for group in only["groups"]] == ["codex"]
    assert imi("stats", "--since", "5m", "--json", cwd=repo.path).data["groups"] == []
    assert imi("stats", "--worktree", "feat-y", "--json", cwd=repo.path).data["total"]["sessions"] == 1


def test_commits_that_cannot_be_attributed_are_unknown(registry: sqlite3.Connection, repo: Repo) -> None:
    a_day(registry, repo)

    def commits() -> Any:
        return imi("stats", "--agent", "claude-1", "--json", cwd=repo.path).data["groups"][0]["commits"]

    assert commits() == 0 or commits() is None  # the trunk was made a moment ago: whose its commits are is not told
    tree = Repo(repo.path.parent / "feat-x")
    tree.write("a.py", "1\n")
    tree.commit("a")
    assert commits() == 1
    repo.git("merge", "-q", "feat/x")
    assert commits() is None, "it is part of the trunk now"
    repo.git("worktree", "remove", "--force", str(tree.path))
    repo.git("branch", "-D", "feat/x")
    assert commits() is None, "its branch is gone"


def test_session_time_is_cut_at_both_ends_and_unknown_is_none() -> None:
    told = [(at(0), "running"), (at(100), "waiting_for_input"), (at(150), "unknown"), (at(200), "running")]

    def spent(begin: float, end: float) -> session_status.SessionTime:
        return session_status.measure_session_time(
            told, BEGAN + timedelta(seconds=begin), BEGAN + timedelta(seconds=end)
        )

    assert (spent(0, 300).working, spent(0, 300).waiting, spent(0, 300).idle) == (200, 50, 0)
    assert (spent(90, 110).working, spent(90, 110).waiting) == (10, 10)
    assert spent(160, 190) == session_status.SessionTime(0, 0, 0)
    assert session_status.measure_session_time([], BEGAN, BEGAN) == session_status.SessionTime()
    twice = [(at(0), "running"), (at(5), "completed"), (at(6), "completed"), (at(7), "cancelled"), (at(8), "running")]
    ends = session_status.measure_session_time(twice, BEGAN, BEGAN + timedelta(seconds=9))
    assert (ends.completed, ends.failed, ends.cancelled) == (0, 0, 1), "one turn has one end"


def test_durations_are_printed_in_two_units() -> None:
    assert [span(each) for each in (None, 0, 59, 60, 3661, 90_000)] == ["–", "0s", "59s", "1m 00s", "1h 01m", "1d 1h"]


def test_no_recorded_sessions_are_reported(tmp_path: Path) -> None:
    assert imi("sessions", cwd=tmp_path).out.startswith("no sessions are recorded yet")
    assert imi("stats", cwd=tmp_path).out.startswith("no sessions and no tasks are recorded")


@pytest.mark.parametrize(("line", "good"), [("auto_claim = true", True), ("[claims]\nauto = true", True)])
def test_automatic_claims_can_be_set_by_two_keys(own_home: Path, line: str, good: bool) -> None:
    path = own_home / ".config" / "iMi" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n[sessions]\nkeep_days = 3\n" if "[" not in line else line + "\n")
    assert config.load().flag("claims.auto") is good


def test_a_clusters_config_cannot_shorten_retention(cluster: Repo) -> None:
    (cluster.path.parent / ".iMi" / "config.toml").write_text("[sessions]\nkeep_days = 0\n")
    assert "not allowed" in imi("config", cwd=cluster.path).err
