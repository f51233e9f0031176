"""Events of other homes: read from the feed, each once, with the label of their home and the name that a repository has here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.model import event_text
from imi_monitor.model.event_text import ShownEvent
from imi_monitor.model.team_events import TeamFeed
from imi_monitor.model.team_rows import TeamRows
from imi_monitor.sinks import envelope
from imi_monitor.store import db, event_batches
from tests.helpers import Repo, imi
from tests.ui import sample_snapshots, sample_team
from tests.ui.payloads import PAYLOADS, bad_characters

OTHER = "a1f3" * 8


def entry(**changed: object) -> str:
    row = {
        "specversion": "1.0",
        "id": "0001",
        "source": f"//build-1/imi/{OTHER}",
        "type": "worktree.claimed",
        "time": "2026-01-01T12:00:00+00:00",
        "sequence": f"{7:020}",
        "subject": "app/feat-x",
        "repository": "github.com/acme/app",
        "agent": "claude-7",
        "data": {"epoch": 1},
    }
    return json.dumps({name: value for name, value in {**row, **changed}.items() if value is not None})


def test_events_of_other_homes_are_kept_once_and_own_ones_left_out() -> None:
    feed = TeamFeed("5" * 32)
    assert feed.add([entry(), entry(id="0002", source=f"//here/imi/{'5' * 32}")]) and not feed.add([entry()])
    (one,) = feed.events({OTHER: "build-1"})
    assert (one.seq, one.host, one.repo, one.worktree) == (7, "build-1", "github.com/acme/app", "feat-x")
    assert str(event_text.sentence(one)) == "claude-7 claimed build-1:feat-x"
    assert feed.events({})[0].host == OTHER[:8] and feed.rejected == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        "x" * (1 << 19),
        entry(specversion="2.0"),
        entry(source="//h/imi/../x"),
        entry(type="ü"),
        entry(type=["a"]),
        entry(time="yesterday"),
        entry(agent="a" * 999),
        entry(subject={"a": 1}),
        entry(repository=None),
        entry(id=None),
    ],
)
def test_a_wrong_event_is_counted_and_not_shown(text: str) -> None:
    feed = TeamFeed("5" * 32)
    assert not feed.add([text]) and feed.rejected == 1 and feed.events({}) == ()


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_texts_of_an_event_are_harmless(payload: str) -> None:
    text = PAYLOADS[payload]
    feed = TeamFeed("5" * 32)
    feed.add([entry(subject=f"app/{text}", agent=text, data={"task": text, text: text})])
    for one in feed.events({OTHER: text}):
        assert not bad_characters(str(event_text.sentence(one)))


def test_a_large_event_keeps_no_data() -> None:
    feed = TeamFeed("5" * 32)
    feed.add([entry(data={"a": "x" * 9000})])
    assert feed.events({})[0].data == "{}"


def test_repositories_have_the_name_that_they_have_here() -> None:
    feed = TeamFeed("5" * 32)
    feed.add([entry(), entry(id="0002", repository="github.com/acme/other")])
    world = replace(sample_team.team(), team_events=feed.events({OTHER: "build-1"}))
    world = replace(world, identities=((sample_snapshots.REPO, "github.com/acme/app"),))
    rows = TeamRows(every_repository=False)
    merged = rows.merge(world)
    assert [one.repo for one in merged.team_events] == [sample_snapshots.REPO]
    assert rows.merge(world).team_events is merged.team_events
    everywhere = TeamRows(every_repository=True).merge(world)
    assert [one.repo for one in everywhere.team_events] == [sample_snapshots.REPO, "other"]


def test_events_of_all_homes_are_in_the_order_of_their_times() -> None:
    feed = TeamFeed("5" * 32)
    feed.add([entry(id=f"000{n}", time=f"2026-01-01T12:00:0{n}+00:00", sequence=str(n)) for n in (1, 3)])
    there = [ShownEvent(one) for one in feed.events({OTHER: "build-1"})]
    here = [ShownEvent(replace(there[0].event, host=None, at="2026-01-01T12:00:02+00:00", seq=2))]
    assert [one.event.seq for one in event_text.with_other_homes(here, there)] == [1, 2, 3]
    assert event_text.with_other_homes(here, []) == here


def test_what_this_home_sends_is_read_by_others(repo: Repo) -> None:
    repo.git("remote", "add", "origin", "git@github.com:acme/App.git")
    repo.worktree("feat-x")
    assert imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0
    connection = db.connect(str(Path.home() / ".config" / "iMi" / "iMi.db"))
    sent = event_batches.read_batch(connection, "redis", 10, 0).events
    db.close(connection)
    feed = TeamFeed("5" * 32)
    feed.add(json.dumps(envelope.cloud_event(one, "names")) for one in sent)
    claimed = feed.events({})[-1]
    assert (claimed.repo, claimed.worktree, claimed.agent) == ("github.com/acme/app", "feat-x", "claude-1")
