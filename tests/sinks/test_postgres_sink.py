"""PostgreSQL as a sink and for searches, on a real one: poison, no schema, a user without rights, a server that is gone."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import certificates
from tests.helpers import Repo, imi
from tests.postgres_server import PostgresServer
from tests.sinks.sink_kit import add_events, state


def registry() -> Path:
    return Path(os.environ["HOME"]) / ".config" / "iMi" / "iMi.db"


def configure(url: str, more: str = "") -> None:
    config = Path(os.environ["HOME"]) / ".config" / "iMi" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[servers]\npostgres_url = "{url}"\n[history]\nenabled = false\n{more}')


@pytest.fixture
def database(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A new database, named in the settings."""
    configure(database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def home(database: object, repo: Repo) -> Repo:
    repo.worktree("feat-x")
    assert imi("claim", "feat-x", "--agent", "claude-1", "--task", "T-77", cwd=repo.path).code == 0
    return repo


def test_events_are_archived_and_searched(home: Repo, database: psycopg.Connection[Any]) -> None:  # S2.28 S2.29 S2.51
    before = imi("archive", cwd=home.path)
    assert before.code == 1 and "has no schema imi: `imi archive --init` makes it" in before.out
    assert database.execute("SELECT to_regnamespace('imi')").fetchone() == (None,), "nothing is made without --init"
    done = imi("archive", "--init", cwd=home.path)
    assert done.code == 0 and "1 event delivered" in done.out, done
    assert imi("archive", "--init", cwd=home.path).code == 0
    row = database.execute("SELECT type, agent_id, data ->> 'task', words FROM imi.events").fetchone()
    assert row is not None and row[:3] == ("worktree.claimed", "claude-1", "T-77")
    found = imi("history", "T-77", "clai", "--json", cwd=home.path).data
    assert [one["sentence"] for one in found["entries"]] == ["claude-1 claimed feat-x for T-77"]
    assert found["source"].startswith("PostgreSQL at /tmp/imi-pg-")
    for words in (
        ("--agent", "nobody-1"),
        ("--since", "2999-01-01"),
        ("--type", "task"),
        ("--repo", "zzz"),
        ("%", "_"),
    ):
        assert imi("history", *words, "--json", cwd=home.path).data["count"] == (1 if words[0] == "%" else 0), words
    assert imi("history", "--type", "worktree", "--since", "1h", "--worktree", "feat-x", cwd=home.path).out.count(
        "T-77"
    )
    for hostile in ("a & | b", "'", "\\", "!*", "x:*"):
        assert imi("history", hostile, cwd=home.path).code == 0


def test_a_search_can_change_nothing(home: Repo, database: psycopg.Connection[Any]) -> None:
    from imi_monitor.links import postgres_link, server_url

    assert imi("archive", "--init", cwd=home.path).code == 0
    url = next(
        line for line in (registry().parent / "config.toml").read_text().split('"') if line.startswith("postgres")
    )
    database.execute("CREATE FUNCTION imi.write() RETURNS int LANGUAGE sql AS $$ DELETE FROM imi.events RETURNING 1 $$")
    with pytest.raises((psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.InsufficientPrivilege)):
        postgres_link.search(server_url.parse_postgres(url), "(SELECT imi.write()) IS NULL", (), 1)


def test_a_bad_event_is_parked_and_the_others_go_on(home: Repo, database: psycopg.Connection[Any]) -> None:
    assert imi("archive", "--init", cwd=home.path).code == 0
    add_events(registry(), 1, data={f"k{number}": "x" * 2000 for number in range(1000)})
    add_events(registry(), 1, data={"nul": "a\0b", "half": "\ud800", "deep": [[["x"]]]})
    add_events(registry(), 3)
    done = imi("archive", cwd=home.path)
    assert done.code == 0 and "1 event refused" in done.out and "larger than 64 KB" in done.out
    assert database.execute(
        "SELECT count(*), count(*) FILTER (WHERE data ->> 'nul' = 'ab') FROM imi.events"
    ).fetchone() == (5, 1)
    assert state(registry(), "postgres").parked == 1


def test_a_user_without_rights_is_told_what_to_grant(
    home: Repo, database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    assert imi("archive", "--init", cwd=home.path).code == 0
    user = f"u{uuid.uuid4().hex[:8]}"
    database.execute(f"CREATE ROLE {user} LOGIN")
    name = database.info.dbname
    configure(postgres.url(name, user))
    assert imi("release", "feat-x", "--agent", "claude-1", cwd=home.path).code == 0
    done = imi("archive", cwd=home.path)
    assert done.code == 1 and "does not allow what imi needs" in done.out and "grant this user USAGE" in done.out, done
    assert "1 event waits" in done.out and "Traceback" not in done.err
    assert "searched history.db instead" in imi("history", "x", cwd=home.path).err
    configure(postgres.url(name))
    assert imi("archive", cwd=home.path).code == 0


def test_a_database_that_is_away_loses_nothing_and_one_that_was_emptied_is_filled_again(
    home: Repo, database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    assert imi("archive", "--init", cwd=home.path).code == 0
    configure("postgresql://imi@/x?host=/nowhere")
    assert imi("release", "feat-x", "--agent", "claude-1", cwd=home.path).code == 0
    away = imi("archive", cwd=home.path)
    assert away.code == 1 and "PostgreSQL at /nowhere cannot be reached" in away.out
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        configure(f"postgresql://imi@127.0.0.1:{silent.getsockname()[1]}/x")
        slow = imi("archive", cwd=home.path)
        assert slow.code == 1 and "cannot be reached" in slow.out and "Traceback" not in slow.err
    configure(postgres.url(database.info.dbname))
    database.execute("TRUNCATE imi.events")
    assert imi("archive", cwd=home.path).code == 0
    assert database.execute("SELECT array_agg(seq ORDER BY seq) FROM imi.events").fetchone() == ([1, 2],)


@pytest.mark.soak
def test_a_database_that_is_too_slow_is_said(home: Repo, database: psycopg.Connection[Any]) -> None:
    assert imi("archive", "--init", cwd=home.path).code == 0
    assert imi("release", "feat-x", "--agent", "claude-1", cwd=home.path).code == 0
    with database.transaction():
        database.execute("LOCK TABLE imi.events IN ACCESS EXCLUSIVE MODE")
        slow = imi("archive", cwd=home.path)
        assert slow.code == 1 and "does not answer within 10 s" in slow.out and "1 event waits" in slow.out, slow
        assert "searched history.db instead" in imi("history", "x", cwd=home.path).err
    assert imi("archive", cwd=home.path).code == 0


def test_prompts_go_there_only_if_that_is_named(
    home: Repo, database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    from imi_monitor.model.agent import COMPLETED
    from imi_monitor.store import db
    from tests.store import session_kit

    assert imi("archive", "--init", cwd=home.path).code == 0
    for name, level in (("s1", "titles"), ("s2", "prompts")):
        configure(postgres.url(database.info.dbname), f'[team]\nshare = "{level}"\n')
        with closing(db.connect(str(registry()))) as connection:
            session_kit.record_observation(connection, session_kit.agent(session=name), now=5)
            over = session_kit.agent(COMPLETED, 10, session=name, ended=True, prompt=f"flaky {name}", title="Parser")
            session_kit.record_observation(connection, over, now=20)
        assert imi("archive", cwd=home.path).code == 0
    rows = database.execute(
        "SELECT data ->> 'title', data ->> 'prompt' FROM imi.events WHERE type = 'session.ended' ORDER BY seq"
    )
    assert rows.fetchall() == [("Parser", None), ("Parser", "flaky s2")]


def test_tls_and_passwords(home: Repo, database: psycopg.Connection[Any], postgres: PostgresServer) -> None:
    """Encrypted, verified and with SCRAM; anything else is one sentence, without the password."""
    certificates.skip_without()
    assert imi("archive", "--init", cwd=home.path).code == 0
    user = f"u{uuid.uuid4().hex[:8]}"
    database.execute(f"CREATE ROLE {user} LOGIN SUPERUSER PASSWORD 'right'")  # type: ignore[call-overload]
    place = f"127.0.0.1:{postgres.port}/{database.info.dbname}?sslmode=verify-full&sslrootcert="
    good, wrong = postgres.certificates.file("authority"), postgres.certificates.file("stranger")
    for url, code, says in (
        (f"postgresql://{user}:right@{place}{good}", 0, "1 event delivered, has every event"),
        (f"postgresql://{user}:hunter2@{place}{good}", 1, "refuses the user or password"),
        (f"postgresql://{user}:right@{place}{wrong}", 1, "no encryption that can be trusted"),
        (f"postgresql://{user}:right@{place}/none.pem", 1, "no encryption that can be trusted"),
        (
            f"postgresql://{user}:right@{place.replace('verify-full', 'disable')}{good}",
            1,
            "pg_hba.conf may ask for TLS",
        ),
    ):
        configure(url)
        add_events(registry(), 1)
        done = imi("archive", cwd=home.path)
        assert done.code == code and says in done.out, (url, done)
        assert "hunter2" not in done.out + done.err and "Traceback" not in done.err
    configure(f"postgresql://{user}:right@{place}{good}")
    assert imi("archive", cwd=home.path).code == 0
    assert database.execute("SELECT count(*) FROM imi.events").fetchone() == (6,), "nothing is lost"
    assert imi("history", "feat-x", cwd=home.path).err == ""
