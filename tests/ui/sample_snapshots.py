"""Hand-written snapshots, and an engine that publishes only them: no git, no files, a fixed clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from imi_monitor.engine import Engine
from imi_monitor.model.agent import Agent
from imi_monitor.model.change import GIT, Change, Kind
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.model.snapshot import (
    ClaimState,
    Collision,
    Commit,
    FileState,
    ForgeState,
    GitState,
    Key,
    RegistryEvent,
    Snapshot,
    SourceFailure,
    SourceHealth,
    UnreadChanges,
    Waiter,
    Worktree,
)

NOW = datetime(2026, 1, 27, 14, 2, 11, tzinfo=UTC)
HOST, REPO = "desk", "app"
WELL = tuple(
    SourceHealth(name, NOW.isoformat(), None) for name in ("agents", "files", "registry", "status", "worktrees")
)


def clock() -> int:
    """For `model.times.clock`."""
    return int(NOW.timestamp()) * 1_000_000_000


class FakeEngine:
    """An engine that publishes the snapshots it is given."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self._given = list(snapshots)
        self._more = asyncio.Event()
        self.looked_at_them: list[str] = []

    def publish(self, snapshot: Snapshot) -> None:
        self._given.append(snapshot)
        self._more.set()

    def measure(self, *, disk_use: bool, unread: bool) -> None:
        """The snapshots have it, or not."""

    def mark_looked_at(self, agent: Agent) -> None:
        self.looked_at_them.append(agent.id)

    @property
    def snapshot(self) -> Snapshot:
        return self._given[-1]

    def refresh(self) -> None:
        """There is nothing to read again."""

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        while True:
            while self._given:
                yield self._given.pop(0)
            self._more.clear()
            await self._more.wait()


def live(*snapshots: Snapshot) -> Callable[[], AbstractAsyncContextManager[Engine]]:
    """What ImiApp takes instead of `engine.open_engine`."""
    return live_from(FakeEngine(*snapshots))


def live_from(feed: FakeEngine) -> Callable[[], AbstractAsyncContextManager[Engine]]:
    """The same with an engine that can be given more snapshots."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Engine]:
        yield cast(Engine, feed)

    return opened


# -- parts --------------------------------------------------------------------------------------------------------------


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat(timespec="microseconds")


def key(name: str, repo: str = REPO) -> Key:
    return Key(HOST, repo, name)


def files(*listed: tuple[str, str]) -> tuple[FileState, ...]:
    """(letters, path): `M.` staged, `.M` changed, `??` new."""
    return tuple(
        FileState(path, letters[0], letters[1], added=12 * number, removed=number)
        for number, (letters, path) in enumerate(listed, 1)
    )


def git(branch: str, changed: Iterable[FileState] = (), *, up: tuple[int, int] = (0, 0), **other: Any) -> GitState:
    changed = tuple(changed)
    state = GitState(
        read_at=ago(2),
        branch=branch,
        head="a1b2c3d4" * 5,
        upstream=f"origin/{branch}",
        ahead=up[0],
        behind=up[1],
        trunk="origin/main",
        trunk_ahead=up[0],
        trunk_behind=up[1],
        files=changed,
        staged=sum(one.index not in ".?" for one in changed),
        unstaged=sum(one.tree not in ".?" for one in changed),
        untracked=sum(one.index == "?" for one in changed),
        conflicted=0,
        operation=None,
        stashes=0,
        last_commit=Commit("a1b2c3d4" * 5, "feat: token refresh", "Ada", ago(180), None),
        added=40,
        removed=3,
    )
    return replace(state, **other)


def claim(name: str, agent: str, *, state: str = "held", since: float = 900, **other: Any) -> ClaimState:
    made = ClaimState(key(name), agent, state, 3, ago(since), ago(5), "T-42", 4711, "claude")
    return replace(made, **other)


def change(name: str, path: str, seconds: float, kind: Kind = "modified", by: str | None = None) -> Change:
    return Change(REPO, name, kind, path, ago(seconds), 1234, by)


def tree(name: str, kind: str = "feat", **other: Any) -> Worktree:
    branch = name.replace("-", "/", 1)
    made = Worktree(
        key=key(name),
        path=f"/home/ada/code/{REPO}/{name}",
        type=kind,
        branch=branch,
        is_main=False,
        missing=False,
        locked=None,
        pr=None,
        claim=None,
        git=git(branch),
        failure=None,
        watched="live",
        watched_why=None,
    )
    return replace(made, **other)


def snapshot(trees: Iterable[Worktree], **other: Any) -> Snapshot:
    made = Snapshot(1, ago(0), HOST, tuple(trees), health=WELL, complete=True, repositories=(REPO,))
    return replace(made, **other)


_MINUTE = int(NOW.timestamp()) // 60
_WORK = tuple((_MINUTE - minute, (minute * 7) % 11 + 1) for minute in range(20, -1, -2))


# -- worlds -------------------------------------------------------------------------------------------------------------


def busy() -> Snapshot:
    """Five worktrees at work, two of which collide."""
    api = (("M.", "src/api.ts"), ("MM", "src/db.ts"), (".M", "src/auth/token.ts"), ("??", "src/new.ts"))
    changes = (
        change("devops-ci", "Makefile", 3600),
        change("feat-ui", "src/App.tsx", 7, "created", "gemini-2"),
        change("fix-bug", "src/bug.rs", 3, "deleted", "codex-1"),
        change("feat-api", "src/api.ts", 2, by="claude-1"),
    )
    trees = (
        tree(
            "feat-api",
            claim=claim("feat-api", "claude-1"),
            git=git("feat/api", files(*api), up=(3, 1)),
            last_change=changes[3],
            activity=_WORK,
        ),
        tree(
            "feat-ui",
            claim=claim("feat-ui", "gemini-2", since=120),
            git=git("feat/ui", files(("M.", "src/App.tsx")), up=(1, 0)),
            last_change=changes[1],
            activity=_WORK[4:],
        ),
        tree(
            "fix-bug",
            "fix",
            claim=claim("fix-bug", "codex-1", since=4000, task=None),
            git=git("fix/bug", files((".D", "src/bug.rs"), (".M", "src/api.ts"))),
            last_change=changes[2],
        ),
        tree("review-123", "review", pr=123, branch="feature/auth", git=git("feature/auth", up=(2, 0))),
        tree("devops-ci", "devops", git=git("devops/ci", files((".M", "Makefile"))), last_change=changes[0]),
        tree("trunk-main", "trunk", is_main=True, branch="main", git=git("main", up=(0, 1))),
    )
    return snapshot(
        trees,
        changes=changes,
        collisions=(Collision(key("feat-api"), key("fix-bug"), ("src/api.ts",), ("src/api.ts",), ago(30)),),
        waiting=(Waiter(key("feat-api"), "codex-2", ago(40), 1),),
        events=(
            RegistryEvent(1, "worktree.created", ago(5000), REPO, "feat-api", None, "{}"),
            RegistryEvent(2, "worktree.claimed", ago(4000), REPO, "fix-bug", "codex-1", '{"epoch": 1}'),
            RegistryEvent(3, "worktree.claimed", ago(900), REPO, "feat-api", "claude-1", '{"epoch": 3}'),
            RegistryEvent(4, "worktree.claimed", ago(120), REPO, "feat-ui", "gemini-2", '{"epoch": 1}'),
        ),
    )


def reviewed() -> Snapshot:
    """Pull requests beside their worktrees; the forge has not answered for a while."""
    shown = busy()
    known = {
        "feat-api": PullRequest(118, "Refresh tokens", "claude-1", state="OPEN", ci="pending", review="needed"),
        "feat-ui": PullRequest(120, "Empty states", "gemini-2", state="OPEN", ci="failed", review="changes"),
        "fix-bug": PullRequest(121, "Rounding", "codex-1", state="MERGED", ci="passed", review="approved"),
        "review-123": PullRequest(
            123, "Add login with a code by mail", "alice", state="OPEN", ci="passed", review="approved"
        ),
    }
    trees = tuple(replace(one, pull=known.get(one.key.worktree)) for one in shown.worktrees)
    forge = ForgeState(REPO, "gh", ago(260), "github.com cannot be reached", ago(200))
    ended = (("review-123", "tests", 0, 41.5), ("devops-ci", "lint", 2, 3.2))
    events = []
    for number, (worktree, name, status, seconds) in enumerate(ended):
        data = json.dumps({"name": name, "status": status, "seconds": seconds})
        events.append(RegistryEvent(90 + number, "command.ended", ago(100 - number), REPO, worktree, None, data))
    return replace(shown, worktrees=trees, forges=(forge,), events=(*shown.events, *events))


def unread() -> Snapshot:
    """How much of each worktree a person has not read yet; one is not counted yet, another one cannot be read."""
    shown = reviewed()
    counts = {
        "feat-api": (3, 12),
        "feat-ui": (7, 7),
        "fix-bug": (0, 4),
        "review-123": (18, 240),
        "devops-ci": (None, None),
    }
    keys = {one.key.worktree: one.key for one in shown.worktrees}
    found = tuple(UnreadChanges(keys[name], *count, name == "review-123") for name, count in counts.items())
    return replace(shown, unread=found)


def needy() -> Snapshot:
    """What needs a person: a dead holder, a silent one, a conflict, a missing folder."""
    conflict = git("fix/bug", files(("UU", "src/api.ts")), conflicted=1, operation="rebase")
    return snapshot(
        (
            tree("feat-api", claim=claim("feat-api", "claude-1", state="dead", process=None)),
            tree("feat-ui", claim=claim("feat-ui", "gemini-2", state="stale")),
            tree("fix-bug", "fix", git=conflict),
            tree("feat-gone", missing=True, git=None),
            tree("feat-kept", locked="on a stick"),
            tree("trunk-main", "trunk", is_main=True, branch="main", git=git("main")),
        )
    )


def failing() -> Snapshot:
    """Sources that cannot answer, and a worktree that git cannot read."""
    registry = SourceHealth(
        "registry", ago(95), SourceFailure("the registry", "database is locked by another program", ago(60))
    )
    polling = SourceHealth("files", ago(1), None, "polling 2 worktrees: the system's limit of watches is reached")
    trees = (
        tree("feat-api", failure=SourceFailure("git status", "fatal: index file corrupt", ago(30)), watched="polling"),
        tree("feat-ui", git=None, watched="starting"),
        tree("trunk-main", "trunk", is_main=True, branch="main", git=git("main")),
    )
    health = (polling, registry, *(one for one in WELL if one.source in ("agents", "status", "worktrees")))
    return snapshot(trees, health=health)


def empty() -> Snapshot:
    return snapshot(())


def nothing_yet() -> Snapshot:
    """Before any source has spoken."""
    return Snapshot(0, ago(0), HOST)


def many(number: int = 200) -> Snapshot:
    trees = []
    for index in range(number):
        name = f"feat-{index:03d}"
        trees.append(
            tree(
                name,
                claim=claim(name, f"claude-{index}") if index % 3 == 0 else None,
                git=git(f"feat/{index:03d}", files((".M", f"src/f{index}.py")) if index % 2 else (), up=(index % 5, 0)),
                last_change=change(name, f"src/f{index}.py", 30 * index) if index % 2 else None,
                activity=_WORK if index % 4 == 0 else (),
            )
        )
    return snapshot(trees, changes=tuple(one.last_change for one in reversed(trees) if one.last_change))


def quiet() -> Snapshot:
    """Twelve worktrees on a day without agents: five with uncommitted work, of which two changed lately."""
    work = {
        "feat-billing-invoices-eu": (("M.", "src/invoices/eu.ts"), (".M", "src/invoices/rates.ts")),
        "feat-user-auth": ((".M", "src/auth/token.ts"),),
        "fix-login-loop": ((".M", "src/auth/login.ts"), ("??", "tests/login.test.ts")),
        "feat-search": (("??", "src/search/rank.ts"),),
        "devops-ci": ((".M", ".github/workflows/ci.yml"),),
    }
    still = ("feat-inventory-sync", "feat-reports-export", "fix-timezone-rounding", "review-123", "aiops-triage")
    trees = [
        tree(
            name,
            name.partition("-")[0],
            git=git(name.replace("-", "/", 1), files(*changed), up=(place, 2 * place)),
            last_change=change(name, changed[0][1], 60 + 4000 * place) if place < 2 else None,
            claim=claim(name, "ada", task="T-17 invoices for the EU") if not place else None,
        )
        for place, (name, changed) in enumerate(work.items())
    ]
    trees += [tree(name, name.partition("-")[0], pr=123 if "123" in name else None) for name in still]
    trees += [
        tree("spike", "unknown", branch=None, git=replace(git("spike"), branch=None, upstream=None)),
        tree("trunk-main", "trunk", is_main=True, branch="main", git=git("main", up=(0, 1))),
    ]
    events = tuple(
        RegistryEvent(number, "worktree.created", ago(9000 - 60 * number), REPO, name, "human:ada", "{}")
        for number, name in enumerate(work, 1)
    )
    earlier = [
        replace(change(name, path, 200 + 3000 * (len(work) - place)), guessed=True)
        for place, (name, changed) in enumerate(work.items())
        for _, path in changed
    ]
    checked_out = Change(REPO, "feat-search", "created", ".", ago(4000), by=GIT, count=1196)
    live = tuple(one.last_change for one in trees[1::-1] if one.last_change)
    return snapshot(
        trees, events=events, earlier=tuple(sorted(earlier, key=lambda one: one.at)), changes=(checked_out, *live)
    )


def taken_over() -> Snapshot:
    """The busy world a moment later: feat-api was taken from claude-1, gemini-2 died, and two more collide."""
    before = busy()
    trees = [
        replace(one, claim=claim("feat-api", "codex-2", epoch=4)) if one.key.worktree == "feat-api" else one
        for one in before.worktrees
    ]
    trees = [
        replace(one, claim=replace(one.claim, state="dead")) if one.claim and one.claim.agent == "gemini-2" else one
        for one in trees
    ]
    event = RegistryEvent(5, "worktree.released", ago(1), REPO, "feat-api", "claude-1", '{"epoch": 3, "by": "codex-2"}')
    hit = Collision(key("feat-ui"), key("devops-ci"), ("Makefile",), ("Makefile",), ago(1))
    return replace(before, worktrees=tuple(trees), events=(*before.events, event), collisions=(*before.collisions, hit))


def rich() -> Snapshot:
    """Everything that a snapshot can hold, at once: for texts that must not get through anywhere."""
    parts = (busy(), needy(), failing())
    return replace(
        parts[0],
        worktrees=tuple(
            replace(one, key=replace(one.key, worktree=f"{one.key.worktree}{number}"), locked="why", watched_why="why")
            for number, part in enumerate(parts)
            for one in part.worktrees
        ),
        health=failing().health,
        repositories=(REPO, "tool"),
    )


def fleet() -> Snapshot:
    """Two repositories."""
    mine = busy()
    other = tuple(replace(one, key=replace(one.key, repo="tool")) for one in mine.worktrees[:3])
    return replace(mine, worktrees=(*mine.worktrees, *other), repositories=(REPO, "tool"))


# -- hostile ------------------------------------------------------------------------------------------------------------

# Words of our own, and git's letters and hashes; everything else can be anything.
_OURS = {
    "state",
    "watched",
    "kind",
    "index",
    "tree",
    "host",
    "operation",
    "sha",
    "head",
    "claim",
    "confidence",
    "source",
}
_AGENTS_OWN = {"id", "claim"}


def hostile(value: Any, payload: str) -> Any:
    """The same, with every text from outside replaced by the payload."""
    if isinstance(value, tuple):
        return tuple(hostile(one, payload) for one in value)
    if isinstance(value, str):
        return payload
    if not is_dataclass(value) or isinstance(value, type):
        return value
    given = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Key):  # different worktrees must stay different
        return replace(value, worktree=f"{value.worktree}{payload}", repo=payload)
    if isinstance(value, Agent):
        given["id"] = f"{value.id}{payload}"
        return replace(
            value, **{name: one if name in _AGENTS_OWN else hostile(one, payload) for name, one in given.items()}
        )
    changed = {
        name: hostile(one, payload) for name, one in given.items() if name not in _OURS or not isinstance(one, str)
    }
    return replace(value, **changed)
