"""The files of a worktree are kept once for each turn of an agent there, at its beginning."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from imi_monitor.git import turn_start
from imi_monitor.git.runner import Git
from imi_monitor.model import times
from imi_monitor.model.agent import COMPLETED, RUNNING, WAITING, Agent, SessionFacts, Truth
from imi_monitor.model.snapshot import Key
from imi_monitor.sources.hints import AgentsRead, RosterRead
from imi_monitor.sources.turn_source import TurnSource
from tests.helpers import Repo
from tests.limits import LIMIT
from tests.sources.source_kit import RecordingReceiver, roster_entry, running, until

FIRST, SECOND = "2026-11-19T10:00:00+00:00", "2026-11-19T10:05:00+00:00"


def agent(key: Key, state: str, turn_at: str | None, ident: str = "1") -> Agent:
    truth = Truth(state, FIRST, "transcript", "exact")
    return Agent(
        f"claude:{ident}", "claude", f"claude-{ident}", key, None, ident, 7, "9", truth, SessionFacts(turn_at=turn_at)
    )


def test_each_turn_is_kept_once(repo: Repo) -> None:
    repo.worktree("feat-x")
    entry = roster_entry(repo.path.parent, "feat-x")

    async def main() -> None:
        source = TurnSource()
        async with running(source, RecordingReceiver()):
            source.handle_hint(RosterRead((entry,)))

            async def seen(*agents: Agent, kept: int) -> None:
                source.handle_hint(AgentsRead(agents))
                await until(lambda: source.kept == kept, LIMIT)

            await seen(agent(entry.key, COMPLETED, None), kept=0)
            await seen(agent(entry.key, RUNNING, FIRST), kept=1)
            for state in (RUNNING, WAITING, RUNNING, COMPLETED):
                await seen(agent(entry.key, state, FIRST), kept=1)
            await seen(agent(entry.key, RUNNING, SECOND), kept=2)
            found = turn_start.read(entry.admin_dir)
            assert found is not None and (found.name, found.began_at) == ("claude-1", SECOND)
            await seen(agent(Key("here", "app", "elsewhere"), RUNNING, SECOND, "2"), kept=2)
        async with running(TurnSource(), RecordingReceiver()):
            pass
        again = TurnSource()  # a restarted dashboard keeps nothing of a turn that is kept
        async with running(again, RecordingReceiver()):
            again.handle_hint(RosterRead((entry,)))
            again.handle_hint(AgentsRead((agent(entry.key, RUNNING, FIRST), agent(entry.key, RUNNING, SECOND, "2"))))
            again.handle_hint(AgentsRead((agent(entry.key, RUNNING, "2026-11-19T10:09:00+00:00", "3"),)))
            await until(lambda: again.kept == 1, LIMIT)
            found = turn_start.read(entry.admin_dir)
            assert found is not None and found.name == "claude-3"

    asyncio.run(asyncio.wait_for(main(), 2 * LIMIT))


def test_a_turn_that_began_before_is_rebuilt(repo: Repo) -> None:
    """What the agent wrote before the dashboard was opened belongs to its turn; here nothing recorded it but its time."""
    repo.worktree("feat-x").write("agent.py", "1\n")
    entry = roster_entry(repo.path.parent, "feat-x")
    began = times.stamp(times.now() - timedelta(seconds=60))

    async def main() -> None:
        source = TurnSource()
        async with running(source, RecordingReceiver()):
            source.handle_hint(RosterRead((entry,)))
            source.handle_hint(AgentsRead((agent(entry.key, RUNNING, began),)))
            await until(lambda: source.kept == 1, LIMIT)

    asyncio.run(asyncio.wait_for(main(), LIMIT))
    git = Git(entry.common_dir, entry.admin_dir, entry.path)
    found = turn_start.read(entry.admin_dir)
    assert found is not None and found.rebuilt
    assert [file.path for file in turn_start.read_turn_diff(git, found).files if file.state == "?"] == ["agent.py"]


def test_a_turn_without_a_recorded_beginning_counts_from_when_it_is_seen(repo: Repo, tmp_path: Path) -> None:
    repo.worktree("feat-x")
    entry = roster_entry(repo.path.parent, "feat-x")

    async def main() -> None:
        source = TurnSource()
        async with running(source, RecordingReceiver()):
            source.handle_hint(RosterRead((entry,)))
            source.handle_hint(AgentsRead((agent(entry.key, RUNNING, None),)))
            await until(lambda: source.kept == 1, LIMIT)
            found = turn_start.read(entry.admin_dir)
            assert found is not None and found.began_at == FIRST

    asyncio.run(asyncio.wait_for(main(), LIMIT))
