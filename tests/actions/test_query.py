"""`imi query`: the seeds' questions word for word, and nothing that writes, lasts or grows."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.model.errors import ImiError
from imi_monitor.store import query
from imi_monitor.store.query import QueryLimits
from tests.helpers import Repo, imi, imi_argv, tree_hash
from tests.limits import LIMIT

# word for word from the document that the user gave
FAILED = "SELECT * FROM tasks WHERE status = 'failed' AND agent_id = 'agent-backend';"
PERFORMANCE = """SELECT agent_id, COUNT(*) as total,
       SUM(CASE WHEN status = 'completed' THEN 1 ELSE 0 END) as completed
FROM tasks GROUP BY agent_id;"""
OF_SESSION = """SELECT t.*, a.name, a.emoji
FROM tasks t JOIN agents a ON t.agent_id = a.id
WHERE t.session_id = 'session-123';"""
WEEK = """SELECT * FROM tasks
WHERE status = 'failed'
  AND started_at > datetime('now', '-7 days');"""
TEAMS = """SELECT t.*, a.name, a.emoji, team.name as team_name
FROM tasks t
JOIN agents a ON t.agent_id = a.id
JOIN teams team ON a.team_id = team.id;"""


@pytest.fixture
def asked(repo: Repo) -> Repo:
    repo.worktree("feat-x")
    for title in ("one", "two", "three"):
        imi("item", "add", title, "--for", "agent-backend", cwd=repo.path)
    imi("claim", "feat-x", "--agent", "agent-backend", "--task", "item-1", cwd=repo.path)
    imi("agents", "describe", "agent-backend", "--emoji", "🦊", "--team", "web", cwd=repo.path)
    imi("release", "feat-x", "--agent", "agent-backend", "--outcome", "failed", "--reason", "no disk", cwd=repo.path)
    imi("item", "done", "2", cwd=repo.path)
    imi("claim", "feat-x", "--agent", "codex-1", "--task", "T-7", cwd=repo.path)
    path = Path.home() / ".config/iMi/iMi.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE items SET session_id = 'session-123' WHERE id = 'item-1'")
    return repo


def ask(repo: Repo, sql: str, *words: str) -> list[dict[str, Any]]:
    ran = imi("query", sql, *words, "--json", cwd=repo.path)
    assert ran.code == 0, ran
    return [dict(zip(ran.data["columns"], row, strict=True)) for row in ran.data["rows"]]


def test_the_five_questions_of_the_seed_word_for_word(asked: Repo) -> None:  # S4.4 S4.5 S4.6 S4.7 S4.8
    (failed,) = ask(asked, FAILED)
    assert (failed["description"], failed["error_message"], failed["retry_count"]) == ("one", "no disk", 0)
    performance = {row["agent_id"]: (row["total"], row["completed"]) for row in ask(asked, PERFORMANCE)}
    assert performance == {"agent-backend": (3, 1), "codex-1": (1, 0)}
    (of_session,) = ask(asked, OF_SESSION)
    assert (of_session["name"], of_session["emoji"], of_session["id"]) == ("agent-backend", "🦊", "item-1")
    assert [row["id"] for row in ask(asked, WEEK)] == ["item-1"]
    with_teams = ask(asked, TEAMS)
    assert {row["team_name"] for row in with_teams} == {"web"} and len(with_teams) == 3
    (claimed,) = ask(asked, "SELECT * FROM tasks WHERE id = 'T-7'")
    assert claimed["status"] == "in_progress", "an attempt without an item is a task too"


def test_the_named_queries_and_all_views_answer(asked: Repo) -> None:  # S4.9 S4.27 S4.32
    for name in ("failed", "performance", "week", "by-team", "by-session"):
        assert ask(asked, name) or name == "by-session"
        assert imi("query", name, cwd=asked.path).code == 0
    for view in ("sessions", "metrics", "campaigns", "integrations", "repositories", "main.items"):
        ask(asked, f"SELECT * FROM {view}")
    (total,) = ask(asked, "SELECT COUNT(*) n, SUM(value) s, AVG(value) a FROM metrics WHERE entity_type = 'task'")
    assert total["n"] >= 3
    with closing(sqlite3.connect(Path.home() / ".config/iMi/iMi.db")) as registry, registry:
        values = ("h", "claude:1", "2026-11-01T10:00:00+00:00", "claude-1", "claude", "completed", 60.0, 3, 1, 900, 0.5)
        columns = "host, session, ended_at, agent_id, cli, outcome, seconds, tools, failures, tokens_in, cost_usd"
        registry.execute(f"INSERT INTO metrics ({columns}) VALUES ({', '.join('?' * len(values))})", values)
    kept = ask(asked, "SELECT metric_name, value FROM metrics WHERE entity_id = 'claude:1'")
    assert {row["metric_name"]: row["value"] for row in kept} == {
        "duration_seconds": 60.0,
        "tool_calls": 3,
        "tool_failures": 1,
        "tokens_in": 900,
        "cost_usd": 0.5,
    }, "the figures of a session whose row is gone"
    out = imi("query", "SELECT 'a,b' AS x, 'c\"d' AS y, NULL AS z", "--csv", cwd=asked.path).out
    assert out == 'x,y,z\n"a,b","c""d",\n'
    assert "redis" in json.dumps(ask(asked, "SELECT * FROM integrations"))
    assert imi("query", cwd=asked.path).out.startswith("failed ")


def test_no_row_holds_large_text(repo: Repo) -> None:  # S4.1 S4.28
    """Rows are for what is asked: what a file says is cut there, and stays whole on the disk."""
    large = "word " * 4_000
    assert "write it to a file" in imi("item", "add", "large", "--text", large, cwd=repo.path).err
    state = repo.path.parent / "service" / ".compound-state" / "session-1770537842" / "backend.json"
    state.parent.mkdir(parents=True)
    about = {"status": "failed", "task": large, "startTime": "2026-02-08T08:05:00Z", "blockers": [{"message": large}]}
    state.write_text(json.dumps(about))
    assert imi("workspace", "watch", str(repo.path.parent / "service"), cwd=repo.path).code == 0
    with closing(sqlite3.connect(Path.home() / ".config/iMi/iMi.db")) as registry:
        tables = [row[0] for row in registry.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in registry.execute(f"SELECT * FROM {table}"):
                longest = max((len(str(value)) for value in row if value is not None), default=0)
                assert longest <= 4096, (table, longest)
        assert registry.execute("SELECT count(*) FROM items WHERE status = 'failed'").fetchone() == (1,)
    assert json.loads(state.read_text()) == about


WRONG = (
    "DELETE FROM items",
    "UPDATE items SET title = 'x'",
    "INSERT INTO items (id) VALUES ('x')",
    "DROP TABLE items",
    "CREATE TABLE x (y)",
    "CREATE TEMP TABLE x (y)",
    "ATTACH '/tmp/x.db' AS x",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA user_version = 7",
    "SELECT load_extension('/tmp/x.so')",
    "VACUUM INTO '/tmp/x.db'",
    "BEGIN",
    "SELECT * FROM pragma_table_info('items')",
    "WITH x AS (SELECT 1) DELETE FROM items",
    "SELECT 1; DELETE FROM items",
    "EXPLAIN QUERY PLAN DELETE FROM items",
    "nonsense",
    "SELECT * FROM nothing",
    "SELECT ?",
    "",
    "-- only a remark",
)


def test_what_writes_or_is_wrong_is_refused_in_one_sentence(asked: Repo) -> None:
    before = tree_hash(Path.home() / ".config" / "iMi")
    for sql in WRONG:
        ran = imi("query", sql, cwd=asked.path)
        assert ran.code in (1, 2) and ran.err.startswith("imi: ") and ran.err.count("\n") == 1, (sql, ran)
    changed = {name for name, value in tree_hash(Path.home() / ".config" / "iMi").items() if before.get(name) != value}
    assert {name for name in changed if not name.endswith(("-shm", "-wal"))} == set()
    assert imi("item", "list", "--json", cwd=asked.path).data["count"] == 3


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {} FROM n"


@pytest.mark.parametrize(
    ("sql", "limits", "why"),
    [
        (ENDLESS.format("count(*)"), QueryLimits(seconds=0.2), "it takes longer than 0.2 seconds"),
        (ENDLESS.format("hex(zeroblob(400000))"), QueryLimits(bytes=4 << 20), "it takes more than 4 MB"),
        ("SELECT length(zeroblob(900000000))", QueryLimits(bytes=4 << 20), "string or blob too big"),
        (
            f"SELECT group_concat(hex(randomblob(90000))) FROM ({ENDLESS.format('x')})",
            QueryLimits(0.3, bytes=8 << 20),
            "",
        ),
    ],
)
def test_a_query_has_an_end(tmp_path: Path, sql: str, limits: QueryLimits, why: str) -> None:
    path = str(tmp_path / "x.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE x (y)")
    with pytest.raises(ImiError, match="the query was stopped") as refused:
        query.ask(path, sql, own=False, limits=limits)
    assert why in refused.value.sentence
    answer = query.ask(path, ENDLESS.format("x"), own=False, limits=QueryLimits(rows=100))
    assert len(answer.rows) == 100 and answer.cut


def test_what_a_query_sorts_stays_in_its_memory(asked: Repo) -> None:
    sql = f"SELECT hex(randomblob(100000)) AS x FROM ({ENDLESS.format('x')} LIMIT 3000) ORDER BY x"
    ran = imi("query", sql, cwd=asked.path)
    assert ran.code == 1 and ran.err == "imi: the query was stopped: it takes more than 64 MB\n", ran


def test_ctrl_c_ends_a_query(asked: Repo) -> None:
    argv = imi_argv("query", ENDLESS.format("count(*)"))
    process = subprocess.Popen(argv, cwd=asked.path, stderr=subprocess.PIPE, text=True)
    try:
        process.communicate(timeout=1.5)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130 and "Traceback" not in err


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_foreign_database_is_read_without_a_trace(repo: Repo, tmp_path: Path, journal: str) -> None:  # S4.27
    folder = tmp_path / "service"
    folder.mkdir()
    path = folder / "agent-service.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("CREATE TABLE rewards (agent TEXT, points INTEGER)")
        connection.execute("INSERT INTO rewards VALUES ('backend', 7), (?, NULL)", ("\x1b[2J",))
    before = tree_hash(folder)
    os.chmod(folder, 0o500)
    try:
        for sql in ("SELECT * FROM rewards", "SELECT 1"):
            assert imi("query", sql, "--db", str(path), cwd=repo.path).code == 0
        assert "\x1b[2J" not in imi("query", "SELECT * FROM rewards", "--db", str(path), cwd=repo.path).out
        assert imi("query", "DELETE FROM rewards", "--db", str(path), cwd=repo.path).code == 1
        assert imi("query", "failed", "--db", str(path), cwd=repo.path).code == 2, "the names are for a registry"
    finally:
        os.chmod(folder, 0o700)
    assert tree_hash(folder) == before
    (folder / "text.db").write_text("no database " * 100)
    assert "cannot be read" in imi("query", "SELECT 1 FROM x", "--db", str(folder / "text.db"), cwd=repo.path).err
    assert "there is no database" in imi("query", "SELECT 1", "--db", str(folder / "no.db"), cwd=repo.path).err
