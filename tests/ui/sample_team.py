"""Teams for tests and pictures: what other homes publish, read by the product's own code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from imi_monitor.model.home import PROTOCOL, HomeDescription
from imi_monitor.model.home_rows import RowEncoder, describe
from imi_monitor.model.home_states import HomeStates, PublishedRows
from imi_monitor.model.snapshot import RegistryEvent, Snapshot, SourceHealth
from tests.ui import sample_agents, sample_snapshots
from tests.ui.sample_snapshots import HOST, REPO, ago, change, claim, files, git, snapshot, tree

SHOP = "github.com/acme/" + REPO
OWN = "0a1b"


def published(world: Snapshot, ident: str, host: str, user: str, age: int | None = 0) -> tuple[str, PublishedRows]:
    """A home's id and rows; `age`: seconds since its sign of life, None: it is gone."""
    home = HomeDescription(ident, host, user, "0.1.0", PROTOCOL, ago(7200), ago(40 if age is None else age))
    fields = RowEncoder("titles", lambda name: f"github.com/acme/{name}").rows(world)
    return ident, PublishedRows(describe(home), fields, age)


def with_homes(world: Snapshot, homes: Iterable[tuple[str, PublishedRows]], *, connected: bool = True) -> Snapshot:
    """The snapshot of a home that follows these others."""
    found = dict([published(world, OWN, HOST, "ada"), *homes])
    states = HomeStates(OWN, HOST).states(found, found.keys(), connected=connected)
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


def large_team(homes: int = 20) -> Snapshot:
    """Twenty homes of four worktrees and three agents each, one of them cut off."""
    kinds = (sample_agents.EDITS, sample_agents.ASKS, sample_agents.TESTS)
    names = ("feat-cart", "fix-login", "feat-search", "devops-ci")
    others = []
    for number in range(homes):
        trees = [
            tree(
                f"{name}-{number}",
                git=git(f"{name.replace('-', '/', 1)}-{number}", files((".M", f"src/{name}.ts")), up=(number % 4, 0)),
                claim=claim(f"{name}-{number}", f"claude-{number}") if number % 3 else None,
            )
            for name in names
        ]
        agents = [
            replace(kind, id=f"{kind.cli}:{number}-{index}", key=trees[index].key, session=f"{number}-{index}")
            for index, kind in enumerate(kinds)
        ]
        world = sample_agents.with_agents(snapshot(trees), *agents)
        others.append(published(world, f"{number:02}ff", f"host-{number:02}", "ada", 40 if number == 7 else 0))
    return with_homes(sample_agents.at_work(), others)
