"""Teams for tests and pictures: what other homes publish, read by the product's own code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta

from imi_monitor.model import times
from imi_monitor.model.home import PROTOCOL, HomeDescription
from imi_monitor.model.home_rows import RowEncoder, describe
from imi_monitor.model.home_states import HomeStates, PublishedRows
from imi_monitor.model.snapshot import DayWork, RegistryEvent, Snapshot, SourceHealth
from tests.ui import sample_agents, sample_snapshots
from tests.ui.sample_snapshots import HOST, REPO, ago, change, claim, files, git, snapshot, tree

SHOP = "github.com/acme/" + REPO
OWN = "0a1b"


def published(
    world: Snapshot,
    ident: str,
    host: str,
    user: str,
    age: int | None = 0,
    day: Iterable[DayWork] = (),
    *,
    protocol: int = PROTOCOL,
) -> tuple[str, PublishedRows]:
    """A home's id and rows; `age`: seconds since its sign of life, None: it is gone."""
    home = HomeDescription(ident, host, user, "0.1.0", protocol, ago(7200), ago(40 if age is None else age))
    fields = RowEncoder("titles", lambda name: f"github.com/acme/{name}").rows(world, day)
    return ident, PublishedRows(describe(home), fields, age)


def with_homes(world: Snapshot, *readings: Iterable[tuple[str, PublishedRows]], connected: bool = True) -> Snapshot:
    """The snapshot of a home that has read these others, one reading after the other."""
    followed = HomeStates(OWN, HOST)
    for homes in readings:
        found = dict([published(world, OWN, HOST, "ada"), *homes])
        states = followed.states(found, found.keys(), connected=connected)
    health = (*world.health, SourceHealth("team", ago(1), None, None))
    return replace(world, homes=states, identities=((REPO, SHOP),), health=health)


def team() -> Snapshot:
    """Three homes: one works on the same branch and file, one does not answer, one is gone."""
    here = sample_agents.at_work()
    there = sample_agents.with_agents(
        snapshot(
            [
                tree(
                    "feat-api",
                    git=git("feat/api", files((".M", "src/api.ts"), ("??", "src/more.ts")), up=(2, 0)),
                    claim=claim("feat-api", "claude-7"),
                    last_change=change("feat-api", "src/api.ts", 12),
                ),
                tree("fix-login", "fix", git=git("fix/login", up=(1, 0)), claim=claim("fix-login", "codex-2")),
            ]
        ),
        replace(sample_agents.EDITS, key=sample_snapshots.key("feat-api"), session="r1", id="claude:r1"),
        replace(sample_agents.ASKS, key=sample_snapshots.key("fix-login"), session="r2", id="codex:r2"),
    )
    silent = snapshot([tree("devops-ci", "devops"), tree("feat-search", claim=claim("feat-search", "claude-3"))])
    gone = snapshot([tree("fix-cache", "fix")])
    world = with_homes(
        here,
        [
            published(there, "1f3a", "build-1", "bo"),
            published(silent, "2f3a", "ci-runner", "ci", 40),
            published(gone, "3f3a", HOST, "cy", None),
        ],
    )
    events = (
        RegistryEvent(11, "worktree.claimed", ago(1500), SHOP, "feat-api", "claude-7", "{}", "build-1"),
        RegistryEvent(4, "worktree.created", ago(700), SHOP, "feat-search", "claude-3", "{}", "ci-runner"),
        RegistryEvent(12, "worktree.claimed", ago(60), SHOP, "fix-login", "codex-2", '{"task": "T-9"}', "build-1"),
    )
    return replace(world, team_events=events)


def large_team() -> Snapshot:
    """Twenty homes, one of them cut off."""
    return with_homes(sample_agents.at_work(), twenty_homes(40))


def returned_team() -> Snapshot:
    """The same when that one is back, with what changed there meanwhile."""
    return with_homes(sample_agents.at_work(), twenty_homes(40), twenty_homes(0, ahead=9))


def twenty_homes(age: int, ahead: int = 3) -> Iterator[tuple[str, PublishedRows]]:
    """Twenty homes of four worktrees and three agents each: host-07 with this age and these commits, host-12 without its day."""
    kinds = (sample_agents.EDITS, sample_agents.ASKS, sample_agents.TESTS)
    names = ("feat-cart", "fix-login", "feat-search", "devops-ci")
    until = times.stamp(sample_snapshots.NOW + timedelta(hours=5))
    for number in range(20):
        trees = [
            tree(
                f"{name}-{number}",
                git=git(
                    f"{name.replace('-', '/', 1)}-{number}",
                    files((".M", f"src/{name}.ts")),
                    up=(ahead if number == 7 else number % 4, 0),
                ),
                claim=claim(f"{name}-{number}", f"claude-{number}") if number % 3 else None,
            )
            for name in names
        ]
        agents = [
            replace(kind, id=f"{kind.cli}:{number}-{index}", key=trees[index].key, session=f"{number}-{index}")
            for index, kind in enumerate(kinds)
        ]
        world = sample_agents.with_agents(snapshot(trees), *agents)
        work = DayWork(SHOP, until, 3, 5400, 600, 150_000, 240, 12, number % 2)
        day = () if number == 12 else (DayWork("", until), work)
        yield published(world, f"{number:02}ff", f"host-{number:02}", "ada", age if number == 7 else 0, day)
