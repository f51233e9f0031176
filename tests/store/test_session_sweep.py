"""How long sessions are kept: by days, by room, in bites; what lives stays. The clock may be wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor.model import times
from imi_monitor.model.agent import COMPLETED, RUNNING
from imi_monitor.store import agents, db, retention
from tests.store.session_kit import NOON, act, agent, keep, registry

DAY = 86400.0


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    monkeypatch.setattr(retention, "_BITE", 20)
    with closing(registry(tmp_path / "iMi.db")) as connection:
        yield connection


def a_session(connection: sqlite3.Connection, name: str, day: float, acts: int = 5, ended: bool = True) -> None:
    then = day * DAY
    told = [act("message", f"m{n}", then, "x") for n in range(acts)]
    told += [act("tool_finished", "t", then, "ok", tool="Write", call="c", ok=True, files=("/w/feat-x/a",))]
    state = COMPLETED if ended else RUNNING
    keep(connection, agent(state, then, session=name, ended=ended), *told, now=then + 1)


def names(connection: sqlite3.Connection) -> list[str]:
    return [str(row[0]).removeprefix("claude:") for row in connection.execute("SELECT id FROM sessions ORDER BY seq")]


def sweep(connection: sqlite3.Connection, keep_days: int = 30) -> list[int]:
    bites = []
    while retention.are_sessions_due(connection, keep_days):
        bites.append(db.transact(connection, retention.trim_sessions, keep_days))
    assert db.transact(connection, retention.trim_sessions, keep_days) == 0
    return bites


def test_what_is_older_goes_with_all_that_belongs_to_it(kept: sqlite3.Connection) -> None:
    for name, day in (("old", 0), ("young", 20), ("new", 31)):
        a_session(kept, name, day)
    assert sweep(kept) and names(kept) == ["young", "new"]
    for table in ("session_events", "tool_calls", "artifacts"):
        owners = {row[0] for row in kept.execute(f"SELECT DISTINCT session FROM {table}")}
        assert owners == {row[0] for row in kept.execute("SELECT seq FROM sessions")}, table
    assert [one.name for one in agents.list_agents(kept)] == ["claude:new", "claude:young"]
    assert sweep(kept, 5) and names(kept) == ["new"]
    assert sweep(kept, 0) and names(kept) == [], "0 keeps nothing"


def test_it_goes_in_bites_and_what_was_begun_goes_on(kept: sqlite3.Connection) -> None:
    a_session(kept, "old", 0, acts=100)
    a_session(kept, "new", 40)
    bites = sweep(kept)
    assert len(bites) > 4 and max(bites) <= 21 and names(kept) == ["new"]


def test_what_is_not_over_stays_unless_nobody_saw_it_for_days(kept: sqlite3.Connection) -> None:
    a_session(kept, "silent", 0, ended=False)
    a_session(kept, "new", 1.5)
    assert sweep(kept, 1) == [] and names(kept) == ["silent", "new"]
    a_session(kept, "newer", 3)
    assert sweep(kept, 1) and names(kept) == ["newer"]


def test_a_clock_that_is_wrong_forgets_nothing(kept: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    a_session(kept, "one", 0)
    a_session(kept, "two", 1)
    for wrong in (NOON.replace(year=2090), NOON.replace(year=2001)):
        moment = int(wrong.timestamp() * 1e9)
        monkeypatch.setattr(times, "clock", lambda moment=moment: moment)
        assert not retention.are_sessions_due(kept, 30), wrong
    assert names(kept) == ["one", "two"]


def test_there_is_a_bound_whatever_the_days(kept: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "MOST_LINES", 60)
    for number in range(10):
        a_session(kept, f"s{number}", number, acts=10)
    sweep(kept)
    left = kept.execute("SELECT count(*) FROM session_events").fetchone()[0]
    assert left <= 60 and names(kept) == [f"s{number}" for number in range(10 - len(names(kept)), 10)] and names(kept)
