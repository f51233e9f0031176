"""The repository of `imi demo` at a fixed moment of its script, with a fixed clock and fixed hashes.

Pictures of screens and dialogs that read git or the registry are taken over it.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache

import pytest

from imi_monitor import engine, host
from imi_monitor.actions.context import Context
from imi_monitor.cli.demo_world import DemoAgentLife, DemoWorld
from imi_monitor.engine import Engine
from imi_monitor.git import layout, turn_start
from imi_monitor.git.runner import Git
from imi_monitor.model import session_record, times
from imi_monitor.model.agent import EXACT, RUNNING, Agent, SessionFacts, Truth
from imi_monitor.model.change import Change
from imi_monitor.model.run import RunVerdict
from imi_monitor.model.snapshot import Key, Snapshot, Worktree
from imi_monitor.sources.files import change_coalescer
from imi_monitor.store import claim_queue, db, events, runs, session_writer
from tests.helpers import set_clock
from tests.limits import LIMIT
from tests.ui import sample_snapshots

SHOWN = "/home/ada/code/ws"  # in place of the real folder, which has as many characters
_OPENED = timedelta(hours=2)
_TURNS = "012" * 11 + "22"  # whose step is next: half an hour of work, ever faster, until two seconds ago

_WRITTEN = "2026-01-27T12:00:00+00:00"  # in place of the file system's times, which are those of the day of the test
_TURN_BEGINS = 6  # steps before the end


@dataclass(frozen=True)
class Shop:
    """The demonstration's world, and the engine's snapshot at its last moment."""

    world: DemoWorld
    snapshot: Snapshot

    def open_context(self, where: str | None) -> Context:
        return Context(database=self.world.database, repo=where or self.world.trunk)

    def named(self, picture: str) -> str:
        """The picture with a usual folder name in place of the temporary one."""
        return picture.replace(self.world.folder, SHOWN)


@lru_cache(1)
def shop() -> Shop:
    """The demonstration, made once in a process because it takes seconds; `stand_still` must be in effect."""
    folder = tempfile.mkdtemp(prefix="imi-", dir="/tmp")
    assert len(folder) == len(SHOWN)
    world = DemoWorld(folder)
    with _clock() as clock:
        clock.ago(_OPENED.total_seconds())
        world.build()
        clock.ago(3000)
        world.act("remove", name="feat-search")
        world.act("release", name="feat-ui", agent="gemini-2")
        clock.ago(2400)
        world.act("claim", name="feat-ui", agent="gemini-2", task="T-9 dark theme")
        _wait(world, "codex-2", "feat-api")
        made = Shop(world, asyncio.run(_lived(world, clock)))
        _start_together(world, clock)
        return made


def closed() -> None:
    """Delete the demonstration's folder."""
    if shop.cache_info().currsize:
        shutil.rmtree(shop().world.folder, ignore_errors=True)
        shop.cache_clear()


def _start_together(world: DemoWorld, clock: _Clock) -> None:
    """Three runs with one prompt in the registry, one of which failed; for the view that compares them."""
    places = (("claude", "feat-api"), ("codex", "fix-bug"), ("gemini", "feat-ui"))
    with Context(world.trunk, database=world.database) as context:
        for number, (program, tree) in enumerate(places, 1):
            clock.ago(900)
            values: dict[str, object] = {
                "id": f"{number}{'a' * 7}-run",
                "program": program,
                "way": "task",
                "agent_id": f"{program}-{number}",
            }
            values |= {"user": "ada", "session": f"s{number}", "repo_name": "shop", "worktree_name": tree}
            values |= {"cwd": world.trunk, "folder": world.folder, "prompt": "let people pay by card"}
            launch: dict[str, object] = {"group": "feat/payments", "mode": "ask", "model": None}
            row = db.transact(context.connection, runs.insert, values, launch)
            clock.ago(880)
            ended = RunVerdict("failed" if program == "gemini" else "completed")
            db.transact(context.connection, _begin, row)
            clock.ago(900 - 240 * number)
            db.transact(context.connection, runs.end, row, ended, 0)


def _begin(connection: sqlite3.Connection, row: runs.RunRow) -> None:
    taken = runs.take_next(connection, 9)
    assert taken is not None and runs.mark_alive(connection, taken, 1, "1", "boot")
    key = Key(row.host, str(row.repo_name), str(row.worktree_name))
    truth = Truth(RUNNING, times.stamp(), "run", EXACT)
    facts = SessionFacts(
        tokens_in=31_000 * row.seq, tokens_out=4_000, cost_usd=0.42 if row.program == "claude" else None
    )
    agent = Agent(
        f"{row.program}:{row.session}", row.program, row.agent_id, key, None, row.session, 1, "1", truth, facts
    )
    state = session_record.session_state(agent, row.host, "boot", times.now())
    record = session_record.session_record(state, None, (), times.now(), lambda path, inside: None)
    session_writer.record(connection, [record])
    status = 1 if row.program == "codex" else 0
    data: dict[str, object] = {"name": "test", "line": "make test", "status": status, "seconds": 20}
    events.record(connection, "command.ended", row.repo_name, row.worktree_name, data=data)


def _wait(world: DemoWorld, agent: str, worktree: str) -> None:
    """An agent waits in line, as `imi claim --wait` does while it runs."""
    with Context(world.trunk, database=world.database) as context:
        me = host.identify_process(os.getpid())
        db.transact(context.connection, claim_queue.join, "shop", worktree, agent, me, task="T-7", seconds=86_400.0)


class _Clock:
    def __init__(self) -> None:
        self.now = sample_snapshots.clock()

    def ago(self, seconds: float) -> None:
        self.now = sample_snapshots.clock() - int(seconds) * 1_000_000_000


@contextmanager
def _clock() -> Iterator[_Clock]:
    """Times are those of the script, and a file written twice within a real second counts as two changes."""
    clock = _Clock()
    with pytest.MonkeyPatch.context() as patch:
        set_clock(patch, lambda: clock.now)
        patch.setattr(change_coalescer, "QUIET", 0.0)
        patch.setattr(os, "urandom", random.Random(7).randbytes)  # of which ids are made
        yield clock


async def _lived(world: DemoWorld, clock: _Clock) -> Snapshot:
    """Run the script under the real engine, which sees each step before the next one begins."""
    lives = world.simulations()
    steps = [life.steps() for life in lives]
    async with engine.open_engine(world.database, [f"{world.trunk}/.git"]) as live:
        await _until(lambda: live.snapshot.complete and all(t.watched == "live" for t in live.snapshot.worktrees))
        for left, turn in zip(reversed(range(len(_TURNS))), map(int, _TURNS), strict=True):
            clock.ago(2 + 1.6 * left**2)
            if left == _TURN_BEGINS:
                await asyncio.to_thread(_keep_turn, world)
            life, step = lives[turn], next(steps[turn])
            await asyncio.to_thread(step)
            await _until(_seen(live, life, step.__name__))
        clock.ago(0)
        live.refresh()
        await _calm(live)
        shown = live.snapshot
        earlier = (_long_ago(one) for one in shown.earlier)
        trees = (
            replace(tree, last_change=tree.last_change and _long_ago(tree.last_change)) for tree in shown.worktrees
        )
        return replace(shown, earlier=tuple(earlier), worktrees=tuple(trees))


def _long_ago(change: Change) -> Change:
    """The change at a time before all others where its time is that of a file, and so of the real clock."""
    return replace(change, at=_WRITTEN) if change.guessed else change


def _keep_turn(world: DemoWorld) -> None:
    """Keep the files of one worktree, as the dashboard does when its agent's turn begins."""
    path = os.path.join(world.folder, "shop", "feat-api")
    place = layout.discover(path)
    assert place is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", world.folder)  # where the pictures look for it
        git = Git(place.repository.common_dir, place.admin_dir, path)
        turn_start.keep(git, "claude:1", "claude-1", times.stamp(), times.stamp())


def _seen(live: Engine, life: DemoAgentLife, step: str) -> Callable[[], object]:
    """A condition: the engine has seen what an agent did now."""
    moment = times.stamp()

    def tree() -> Worktree:
        return next(one for one in live.snapshot.worktrees if one.key.worktree == life.actor.worktree)

    def clean(where: str) -> bool:
        """Whether nothing is uncommitted in the folder ("tree") or staged ("index")."""
        git = tree().git
        return git is not None and all(getattr(file, where) in ".?" and file.index != "?" for file in git.files)

    def committed() -> bool:
        git = tree().git
        made = times.parse(git.last_commit.at) if git and git.last_commit else None
        return made is not None and times.stamp(made) == moment and clean("index") and recorded()

    def recorded() -> bool:
        """Whether the registry has the commit; recorded later, it would have the time of a later step."""
        return any(one.type == "worktree.commit" and one.at == moment for one in live.snapshot.events)

    seen = {
        "_edit": lambda: (change := tree().last_change) is not None and change.at == moment,
        "_stage": lambda: clean("tree"),
        "_commit": committed,
    }
    return seen.get(step, lambda: bool(live.snapshot.events) and live.snapshot.events[-1].at == moment)


async def _until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT):
        while not true():
            await asyncio.sleep(0.02)


async def _calm(live: Engine) -> Snapshot:
    """Wait until no snapshot comes for two seconds: then all status is read. Returns the last one, not one that comes later.

    The script ends with a collision. Until git has tried the merge, the files of both overlap.
    """
    seen, quiet = live.snapshot, 0
    async with asyncio.timeout(LIMIT):
        while quiet < 20:
            await asyncio.sleep(0.1)
            now = live.snapshot
            tried = now.collisions and all(one.conflicts for one in now.collisions)
            quiet = quiet + 1 if tried and now.seq == seen.seq else 0
            seen = now
    return seen
