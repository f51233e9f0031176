"""The sum of a day over all homes, and what counts as said."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from imi_monitor.model import day_work, home_rows, times
from imi_monitor.model.home import PROTOCOL, HomeDescription
from imi_monitor.model.home_states import HomeStates, PublishedRows
from imi_monitor.model.snapshot import HERE, OFFLINE, UNCONFIRMED, DayWork, HomeState
from imi_monitor.ui.views.agents_view import today_line
from tests.ui import sample_snapshots
from tests.ui.payloads import PAYLOADS, bad_characters

NOW = sample_snapshots.NOW
UNTIL = times.stamp(NOW + timedelta(hours=3))
SHOP, DOCS = "github.com/acme/app", "github.com/acme/docs"
WORK = (
    DayWork("", UNTIL),
    DayWork(SHOP, UNTIL, 2, 600, 60, 5000, 150, 3, 1),
    DayWork(DOCS, UNTIL, 1, 300, None, None, None, 1, 0),
)


def home(ident: str, state: str = HERE, day: tuple[DayWork, ...] = WORK, own: bool = False) -> HomeState:
    return HomeState(ident, ident, ident, "ada", "1", "", state, None, own, day=day)


def of_team(*homes: HomeState, wanted: str = "") -> day_work.TeamDay:
    own = DayWork("", UNTIL, 1, 60)
    return day_work.of_team(own, homes, lambda repo: wanted in ("", repo), NOW)


def test_all_homes_are_added_and_the_unknown_stays_unknown() -> None:
    team = of_team(home("own", own=True), home("b"), home("c"))
    assert (team.homes, team.said, team.silent, team.unknown) == (3, 3, 0, 0)
    assert team.work == DayWork("", UNTIL, 7, 60 + 2 * 900, 120, 10_000, 300, 8, 2)
    assert today_line(team).plain.startswith(
        "today on 3 hosts  7 sessions · worked 31m 00s · waited for you 2m 00s · 10k tokens"
    )
    docs = of_team(home("b"), wanted=DOCS)
    assert (docs.work.sessions, docs.work.tokens, docs.work.cents) == (2, None, None), "unknown is not zero"


@pytest.mark.parametrize(
    "day",
    [
        (),
        (replace(WORK[0], until=times.stamp(NOW)),),
        (replace(WORK[0], until=times.stamp(NOW - timedelta(hours=1))),),
        (replace(WORK[0], until=times.stamp(NOW + timedelta(days=2))),),
        (replace(WORK[0], until="soon"),),
    ],
    ids=["nothing", "over now", "yesterday", "later", "no moment"],
)
def test_a_home_without_figures_of_today_did_not_say(day: tuple[DayWork, ...]) -> None:
    team = of_team(home("b"), home("c", day=day), home("d", OFFLINE, ()))
    assert (team.homes, team.said, team.unknown) == (4, 2, 2) and team.work.sessions == 4
    line = today_line(team).plain
    assert line.startswith("today on 2 of 4 hosts  4 sessions") and line.endswith("2 hosts did not say"), line


def test_what_was_said_before_a_home_went_silent_is_counted_and_marked() -> None:
    team = of_team(home("b", UNCONFIRMED), home("c", OFFLINE))
    assert (team.said, team.silent, team.work.sessions) == (3, 2, 7)
    assert today_line(team).plain.startswith("today on 3 hosts, 2 silent  7 sessions")


def test_midnights_are_those_of_the_clock_on_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a day of 25 hours."""
    import time

    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        begin, end = day_work.bounds(datetime.fromisoformat("2026-10-25T20:00:00+00:00"))
        assert (begin.isoformat(), end.isoformat()) == ("2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00")
    finally:
        monkeypatch.undo()
        time.tzset()


# -- what a home publishes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", ["counts", "names", "titles", "prompts"])
def test_figures_are_the_same_at_each_level_and_come_back(share: str) -> None:
    encoder = home_rows.RowEncoder(share, str)
    fields = encoder.rows(sample_snapshots.empty(), WORK)
    assert set(fields) == {"d:", f"d:{SHOP}", f"d:{DOCS}"}
    description = HomeDescription("1f3a", "box", "ada", "9", PROTOCOL, UNTIL, UNTIL)
    found = home_rows.RowDecoder("box", description).read(fields)
    assert found.day == WORK and found.rejected == 0
    again = encoder.rows(sample_snapshots.empty(), WORK)
    assert all(again[field] is text for field, text in fields.items()), "what did not change is not made again"
    published = {"1f3a": PublishedRows(home_rows.describe(description), fields, None)}
    (state,) = HomeStates("own", "here").states(published, {"1f3a"})
    assert (state.state, state.day) == (OFFLINE, WORK), "what was done stays done"


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_figures_are_harmless(payload: str) -> None:
    import json

    text = PAYLOADS[payload]
    row = {
        "repo": text,
        "until": UNTIL,
        "sessions": text,
        "working": -1,
        "tokens": 1 << 60,
        "cents": True,
        "files": 1.5,
    }
    fields = {"d:": json.dumps(row), "d:1": text, "d:2": json.dumps({**row, "until": text})}
    description = HomeDescription("1f3a", "box", "ada", "9", PROTOCOL, "", "")
    found = home_rows.RowDecoder("box", description).read(fields)
    first, *others = found.day or (DayWork("", UNTIL),)  # a text that is too long is refused as a whole
    assert (first.sessions, first.working, first.tokens, first.cents, first.files) == (0, None, None, None, 0)
    assert not bad_characters(repr((first, *others)))
    assert len(found.day) + found.rejected == 3
