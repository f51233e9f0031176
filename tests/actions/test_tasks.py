"""`imi tasks`, `imi stats --by` and `imi agents describe`. # S4.4-S4.8 S4.31"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from imi_monitor import config, host
from imi_monitor.model import session_record, times
from imi_monitor.model.agent import COMPLETED, FAILED, RUNNING, Agent, AgentEvent, SessionFacts, Truth
from imi_monitor.model.snapshot import Key
from imi_monitor.store import db, retention, session_writer
from tests.helpers import Repo, imi


@pytest.fixture
def registry(repo: Repo) -> Iterator[sqlite3.Connection]:
    for name in ("feat-x", "feat-y"):
        repo.worktree(name)
    assert imi("list", cwd=repo.path).code == 0
    with closing(db.connect(config.database_path(None))) as connection:
        yield connection


def claim(repo: Repo, name: str, agent: str, task: str | None) -> None:
    words = () if task is None else ("--task", task)
    assert imi("claim", name, "--agent", agent, *words, cwd=repo.path).code == 0


def release(repo: Repo, name: str, agent: str, *more: str) -> None:
    done = imi("release", name, "--agent", agent, *more, cwd=repo.path)
    assert done.code == 0, done.err


def turn(connection: sqlite3.Connection, repo: Repo, name: str, session: str, ended: str, cli: str = "claude") -> None:
    """A session in the worktree that was asked something, came to this and was left."""
    for state in (RUNNING, ended):
        now = times.now()
        kind = {COMPLETED: "completed", FAILED: "failed", RUNNING: "prompt"}[state]
        act = AgentEvent(kind, f"{session}-{kind}", times.stamp(now), "x")
        truth = Truth(state, times.stamp(now), "registry", "exact")
        one = Agent(
            f"{cli}:{session}",
            cli,
            cli,
            Key(host.hostname(), "app", name),
            str(repo.path.parent / name),
            session,
            None,
            None,
            truth,
            SessionFacts(ended_at=None if state == RUNNING else times.stamp(now)),
        )
        seen = session_record.session_state(one, host.hostname(), host.boot(), now)
        made = session_record.session_record(seen, None, [act], now, lambda path, root: None)
        db.transact(connection, session_writer.record, [made])


def tasks(repo: Repo, *words: str) -> list[dict[str, Any]]:
    done = imi("tasks", *words, "--json", cwd=repo.path)
    assert done.code == 0, done.err
    assert done.data["count"] == len(done.data["tasks"])
    return list(done.data["tasks"])


def ids(repo: Repo, *words: str) -> list[tuple[str, str]]:
    return [(one["task_id"], one["outcome"]) for one in tasks(repo, *words)]


def a_day(connection: sqlite3.Connection, repo: Repo) -> None:
    """claude-1 completed T-1, failed T-2 and works on T-3; codex-1 released T-4 with unknown outcome."""
    claim(repo, "feat-x", "claude-1", "T-1")
    turn(connection, repo, "feat-x", "aaaa-1", COMPLETED)
    release(repo, "feat-x", "claude-1")
    claim(repo, "feat-x", "claude-1", "T-2")
    turn(connection, repo, "feat-x", "bbbb-2", FAILED)
    release(repo, "feat-x", "claude-1")
    claim(repo, "feat-x", "claude-1", "T-3")
    claim(repo, "feat-y", "codex-1", "T-4")
    release(repo, "feat-y", "codex-1")
    claim(repo, "feat-y", "codex-1", None)


def test_tasks_are_filtered_by_agent_team_session_and_outcome(registry: sqlite3.Connection, repo: Repo) -> None:
    assert "no tasks yet" in imi("tasks", cwd=repo.path).out
    a_day(registry, repo)
    everything = [("T-4", "unknown"), ("T-3", "open"), ("T-2", "failed"), ("T-1", "completed")]
    assert ids(repo) == everything
    assert ids(repo, "--failed", "--agent", "claude-1") == [("T-2", "failed")]  # S4.4
    assert ids(repo, "--failed", "--since", "7d") == [("T-2", "failed")]  # S4.7
    assert ids(repo, "--agent", "codex") == ids(repo, "--worktree", "y") == [("T-4", "unknown")]
    assert ids(repo, "--state", "open") == [("T-3", "open")]
    assert ids(repo, "-n", "1") == everything[:1]
    assert ids(repo, "--session", "bbbb") == [("T-2", "failed")], (
        "the one that it worked on, not all of its agent"
    )  # S4.6
    later = times.stamp(times.now() + timedelta(seconds=1))
    assert ids(repo, "--since", later) == [("T-3", "open")], "what is going on is there still"
    (two,) = tasks(repo, "--failed")
    assert (two["ended"], two["outcome_from"], two["agent"]["name"]) == ("released", "sessions", "claude-1")
    assert [(one["id"], one["state"]) for one in two["sessions"]] == [("claude:bbbb-2", "failed")]
    assert (two["agent"]["emoji"], two["agent"]["team"], two["taken_by"]) == (None, None, None)
    shown = imi("tasks", cwd=repo.path).out
    assert "T-2   claude-1  feat-x    failed" in shown and "bbbb-2" in shown


def test_stats_by_team_without_teams_say_how_to_make_one(repo: Repo) -> None:
    assert "imi agents describe AGENT --team NAME" in imi("stats", "--by", "team", cwd=repo.path).out
    assert "describe" not in imi("stats", "--by", "agent", cwd=repo.path).out


def test_stats_count_tasks_by_agent_and_team(registry: sqlite3.Connection, repo: Repo) -> None:  # S4.5
    a_day(registry, repo)
    assert imi("agents", "describe", "claude-1", "--team", "web", cwd=repo.path).code == 0
    told = imi("stats", "--by", "agent", "--json", cwd=repo.path).data
    by_agent = {group["agent_id"]: group for group in told["groups"]}
    names = ("tasks", "tasks_completed", "tasks_failed", "tasks_open", "tasks_unknown", "team")
    assert [by_agent["claude-1"][name] for name in names] == [3, 1, 1, 1, 0, "web"]
    assert [by_agent["codex-1"][name] for name in names] == [1, 0, 0, 0, 1, None]
    assert by_agent["codex-1"]["sessions"] == 0, "its work was not observed; its tasks are counted all the same"
    assert told["total"]["tasks"] == 4
    by_team = imi("stats", "--by", "team", "--json", cwd=repo.path).data["groups"]
    assert sorted((str(group["team"]), group["tasks"]) for group in by_team) == [("None", 1), ("web", 3)]
    shown = imi("stats", cwd=repo.path).out
    assert "3, 1 failed     1" in shown
    assert "Team" in imi("stats", "--by", "team", cwd=repo.path, env={"COLUMNS": "50"}).out, "it is what the lines are"
    assert imi("stats", "--by", "mood", cwd=repo.path).code == 2


def test_release_can_report_the_outcome_of_its_task(registry: sqlite3.Connection, repo: Repo) -> None:
    claim(repo, "feat-x", "claude-1", "T-1")
    turn(registry, repo, "feat-x", "aaaa-1", COMPLETED)
    release(repo, "feat-x", "claude-1", "--outcome", "failed", "--reason", "tests are red")
    (one,) = tasks(repo)
    assert (one["outcome"], one["outcome_from"], one["reason"]) == ("failed", "told", "tests are red")
    assert "released: tests are red" in imi("tasks", cwd=repo.path, env={"COLUMNS": "200"}).out
    assert '"outcome":"failed"' in imi("events", "--json", cwd=repo.path).out.replace(" ", "").replace("\\", "")
    claim(repo, "feat-x", "claude-1", None)
    wrong = imi("release", "feat-x", "--agent", "claude-1", "--outcome", "great", cwd=repo.path)
    assert wrong.code == 2 and "use one of completed, failed, cancelled" in wrong.err
    without = imi("release", "feat-x", "--agent", "claude-1", "--outcome", "failed", cwd=repo.path)
    assert without.code == 2 and "was claimed without one" in without.err
    assert "\nfeat-x" in imi("claims", cwd=repo.path).out, "nothing was given back"


def test_a_renewed_claim_can_start_another_task(registry: sqlite3.Connection, repo: Repo) -> None:
    claim(repo, "feat-x", "claude-1", None)
    claim(repo, "feat-x", "claude-1", "T-1")
    turn(registry, repo, "feat-x", "aaaa-1", COMPLETED)
    claim(repo, "feat-x", "claude-1", "T-2")
    claim(repo, "feat-x", "claude-1", "T-2")
    claim(repo, "feat-x", "claude-1", None)
    assert ids(repo) == [("T-2", "open"), ("T-1", "completed")]
    assert [one["ended"] for one in tasks(repo)] == [None, "next_task"]
    claim(repo, "feat-x", "claude-1", "T-1")
    assert sorted(ids(repo, "--state", "open")) == [("T-1", "open")], "it was taken up again"
    release(repo, "feat-x", "claude-1", "--outcome", "completed", "--reason", "merged")
    told = {one["task_id"]: (one["outcome"], one["ended"], one["reason"]) for one in tasks(repo)}
    assert told["T-1"] == ("completed", "released", "merged")
    assert told["T-2"] == ("unknown", "next_task", None), "what is said of the last one is not said of those before"


def test_tasks_show_how_another_ended_their_claim(registry: sqlite3.Connection, repo: Repo) -> None:
    claim(repo, "feat-x", "claude-1", "T-1")
    assert imi("claim", "feat-x", "--agent", "ann", "--force", "--reason", "mine", cwd=repo.path).code == 0
    (one,) = tasks(repo)
    assert (one["outcome"], one["ended"], one["taken_by"], one["reason"]) == ("unknown", "forced", "ann", "mine")
    claim(repo, "feat-y", "claude-1", "T-2")
    assert imi("remove", "feat-y", "--agent", "claude-1", cwd=repo.path).code == 0
    assert tasks(repo, "--worktree", "feat-y")[0]["ended"] == "worktree_removed"
    assert imi("undo", cwd=repo.path).code == 0
    assert ids(repo, "--worktree", "feat-y") == [("T-2", "unknown")]
    assert imi("rename", "feat-y", "feat-z", cwd=repo.path).code == 0
    assert ids(repo, "--worktree", "feat-z") == [("T-2", "unknown")], "its history goes with the worktree"


def test_a_removal_that_is_refused_leaves_one_task(registry: sqlite3.Connection, repo: Repo) -> None:
    from imi_monitor.store import claims

    claim(repo, "feat-x", "claude-1", "T-1")
    before = claims.current(registry, "app", "feat-x")
    epoch = db.transact(registry, claims.reserve, "app", "feat-x", expect_epoch=before.epoch, by="remove:1")
    assert [(one["outcome"], one["ended"]) for one in tasks(repo)] == [("unknown", "reserved")]
    db.transact(registry, claims.restore, before, epoch)
    (one,) = tasks(repo)
    assert (one["outcome"], one["ended"], one["started_at"]) == ("open", None, before.claimed_at)
    release(repo, "feat-x", "claude-1", "--outcome", "completed")
    assert ids(repo) == [("T-1", "completed")]


def test_outcomes_survive_the_deletion_of_their_sessions(registry: sqlite3.Connection, repo: Repo) -> None:
    a_day(registry, repo)
    registry.execute("UPDATE sessions SET ended_at = seen_at")
    while retention.are_sessions_due(registry, 0):
        db.transact(registry, retention.trim_sessions, 0)
    assert registry.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
    assert ids(repo) == [("T-4", "unknown"), ("T-3", "open"), ("T-2", "failed"), ("T-1", "completed")]
    assert [one["sessions"] for one in tasks(repo, "--failed")] == [[]]


def test_agents_describe_sets_and_shows_a_description(
    registry: sqlite3.Connection, repo: Repo
) -> None:  # S4.6 S4.8 S4.31
    a_day(registry, repo)
    done = imi("agents", "describe", "claude-1", "--emoji", "🦊", "--role", "reviewer", "--team", "web", cwd=repo.path)
    assert (done.code, done.out) == (0, "claude-1: 🦊 reviewer, team web\n")
    assert imi("agents", "describe", "claude-1", "--json", cwd=repo.path).data["role"] == "reviewer"
    assert ids(repo, "--team", "web") == ids(repo, "--agent", "claude-1")
    (one,) = tasks(repo, "--session", "bbbb")
    assert one["agent"] == {
        "name": "claude-1",
        "kind": "claude",
        "host": host.hostname(),
        "emoji": "🦊",
        "role": "reviewer",
        "team": "web",
    }
    shown = imi("tasks", cwd=repo.path, env={"COLUMNS": "120"}).out
    assert "claude-1 🦊  reviewer  web" in shown and "codex-1 " in shown
    begin = {line.index("feat-") + line.count("🦊") for line in shown.splitlines()[1:]}
    assert len(begin) == 1, "a wide sign moves no column"
    assert (
        imi("agents", "describe", "claude-1", "--emoji", "", "--team", "", cwd=repo.path).out == "claude-1: reviewer\n"
    )
    assert ids(repo, "--team", "web") == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--emoji", "\x1b[31m"), "contains control or invisible characters"),
        (("--emoji", "👩‍💻"), "a sequence of several emoji"),
        (("--emoji", "🦊🦊"), "is 4 columns wide: at most two"),
        (("--role", "a\nb"), "contains control or invisible characters"),
        (("--role", "x\u202ey"), "contains control or invisible characters"),
        (("--team", "x" * 41), "is 41 characters long: at most 40"),
    ],
)
def test_descriptions_refuse_text_that_is_unsafe_in_a_terminal(
    registry: sqlite3.Connection, repo: Repo, words: tuple[str, str], why: str
) -> None:
    claim(repo, "feat-x", "claude-1", None)
    refused = imi("agents", "describe", "claude-1", *words, cwd=repo.path)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert why in refused.err and "\x1b" not in refused.err and "\u202e" not in refused.err
    assert registry.execute("SELECT emoji, role, team FROM agents").fetchall() == [(None, None, None)]


def test_an_emoji_has_the_same_width_in_every_terminal(registry: sqlite3.Connection, repo: Repo) -> None:
    claim(repo, "feat-x", "claude-1", None)
    done = imi("agents", "describe", "claude-1", "--emoji", "⚙️", "--json", cwd=repo.path)
    assert done.data["emoji"] == "⚙", "without the mark that asks for colours"


def test_an_unknown_agent_cannot_be_described(registry: sqlite3.Connection, repo: Repo) -> None:
    claim(repo, "feat-x", "claude-1", None)
    refused = imi("agents", "describe", "claud-1", "--team", "web", cwd=repo.path)
    assert (refused.code, refused.err) == (1, "imi: no agent is called 'claud-1': did you mean claude-1?\n")


def test_hostile_text_in_the_registry_steers_no_terminal(registry: sqlite3.Connection, repo: Repo) -> None:
    claim(repo, "feat-x", "claude-1", "\x1b]0;owned\x07T")
    evil = "\x1b[2J\u202e"
    registry.execute("UPDATE agents SET emoji = ?, role = ?, team = ?", (evil, evil, evil))
    for words in (("tasks",), ("stats",), ("agents", "describe", "claude-1")):
        shown = imi(*words, cwd=repo.path)
        assert shown.code == 0 and "\x1b" not in shown.out and "\u202e" not in shown.out, words


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--state", "great"), "use one of open, completed"),
        (("--failed", "--state", "open"), "exclude each other"),
        (("--since", "soon"), "is not a time"),
    ],
)
def test_senseless_task_options_are_refused(repo: Repo, words: tuple[str, ...], why: str) -> None:
    refused = imi("tasks", *words, cwd=repo.path)
    assert refused.code == 2 and why in refused.err
