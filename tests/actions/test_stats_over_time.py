"""`imi stats --by day`, `--by repo` and `--format`: from the metrics that each end of a session leaves."""

from __future__ import annotations

import csv
import io
import os
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from imi_monitor.actions.action import Outcome, Request
from imi_monitor.actions.context import Context
from imi_monitor.actions.history import stats_action, stats_over_time
from imi_monitor.actions.history.stats_action import StatsAction
from imi_monitor.model import day_work, times
from imi_monitor.model.agent import COMPLETED
from imi_monitor.store import db, metrics
from imi_monitor.ui.views.agents_view import today_line
from tests.helpers import Repo, imi, set_clock
from tests.store import session_kit
from tests.store.session_kit import NOON


@pytest.fixture
def world(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A registry in which one session ended and is deleted, and one still runs."""
    assert imi("claims", cwd=repo.path).code == 0
    set_clock(monkeypatch, NOON + timedelta(hours=2))
    path = Path(os.environ["HOME"]) / ".config" / "iMi" / "iMi.db"
    with closing(db.connect(str(path))) as connection:
        call = session_kit.act("tool_finished", "t", 30, "no", tool="Bash", call="c", ok=False)
        session_kit.record_observation(connection, session_kit.agent(started_at=session_kit.at(0)), call, now=60)
        over = session_kit.agent(COMPLETED, 600, ended=True, cost_usd=0.5, tokens_in=900, started_at=session_kit.at(0))
        session_kit.record_observation(connection, over, now=700)
        session_kit.record_observation(connection, session_kit.agent(session="s2"), now=700)
        db.transact(connection, lambda inner: inner.execute("DELETE FROM sessions WHERE id = 'claude:s1'"))
        (end,) = db.read(connection, metrics.list_ends)
        assert (end.seconds, end.failures, end.tools, end.cost_usd, end.tokens_out) == (600.0, 1, 1, 0.5, None)
    return repo


def stats(world: Repo, **values: object) -> Outcome:
    """In this process, whose clock is set."""
    with Context(str(world.path)) as context:
        return StatsAction().run(context, Request("stats", {"all": True, **values}))


def test_days_are_counted_from_what_each_end_left(world: Repo) -> None:  # S4.32
    today = times.now().astimezone().date().isoformat()
    shown = "\n".join(stats(world, by="day").lines)
    assert f"{today}  " in shown and "$0.50" in shown and "█" in shown
    (period,) = stats(world, by="week").data["periods"]  # type: ignore[misc]
    assert (period["sessions"], period["cost_usd"], period["tokens_out"]) == (1, 0.5, None)
    assert stats(world, by="day", agent="ada").lines == ["no session has ended in this time"]
    (group,) = stats(world, by="repo").data["groups"]  # type: ignore[misc]
    assert group["sessions"] == 1


def test_the_last_days_are_bars_in_the_leads_view(world: Repo) -> None:
    with Context(str(world.path)) as context:
        bars, found = stats_over_time.working_bars(context, None), db.read(context.connection, stats_action.today)
    assert [one.repo for one in found] == ["", "app"], "what is outside of repositories is said, also if it is nothing"
    done = day_work.of_team(day_work.add(found), (), lambda _: True, times.now())
    line = today_line(done, f" {bars}").plain
    assert bars == "█" and "2 days  █" in line
    assert line.startswith("today  1 session · worked ") and "hosts" not in line, line
    for by in ("agent", "team", "worktree", "repo"):
        assert stats(world, by=by).data["groups"], by


def test_other_programs_read_the_export(world: Repo) -> None:
    table = imi("stats", "--format", "csv", "--by", "agent", "--all", cwd=world.path).out
    assert [(row["agent"], row["sessions"], row["tokens_out"]) for row in csv.DictReader(io.StringIO(table))] == [
        ("claude", "1", "")
    ]
    text = imi("stats", "--format", "openmetrics", "--all", cwd=world.path).out
    assert text.endswith("# EOF\n") and "imi_seconds_total{" in text and "} 600\n" in text
    wrong = imi("stats", "--format", "xml", cwd=world.path)
    assert wrong.code == 2 and "use csv or openmetrics" in wrong.err
