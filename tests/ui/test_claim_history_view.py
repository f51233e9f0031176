"""Claim history and queue views over a real registry."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor import host, paths
from imi_monitor.store import claim_requests, db, repositories
from imi_monitor.store.claims import ClaimRequest
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.panels.worktrees_panel import WorktreesPanel
from tests.helpers import Repo, imi, imi_argv
from tests.limits import LIMIT
from tests.ui.pilot_kit import run_dashboard, screen_text, wait_until


@contextmanager
def waiting(repo: Repo, name: str, *agents: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Agents that stand in line, in this order."""
    processes = []
    try:
        for place, agent in enumerate(agents, 1):
            argv = imi_argv("claim", name, "--agent", agent, "--wait", "100", "--task", f"T-{place}")
            quiet = subprocess.DEVNULL
            processes.append(subprocess.Popen(argv, cwd=repo.path, stdin=quiet, stdout=quiet, stderr=quiet))
            while len(imi("--json", "queue", cwd=repo.path).data["queue"]) < place:
                pass
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait(LIMIT)


def select(app: ImiApp, name: str) -> None:
    lines = app.home.query_one(WorktreesPanel).lines
    lines.select(next(row.key for row in lines.rows if row.key.endswith(f"\0{name}")))


@pytest.mark.parametrize("size", [(140, 40), (60, 20)])
def test_claim_history_and_line_of_one_worktree(repo: Repo, size: tuple[int, int]) -> None:
    repo.worktree("feat-api")
    repo.worktree("fix-bug")
    imi("claim", "feat-api", "--agent", "claude-1", "--task", "T-7", cwd=repo.path)
    imi("release", "feat-api", "--agent", "claude-1", cwd=repo.path)
    imi("claim", "feat-api", "--agent", "codex-1", cwd=repo.path)
    imi("claim", "feat-api", "--agent", "boss", "--force", "--reason", "went astray", cwd=repo.path)
    imi("claim", "fix-bug", "--agent", "elsewhere", cwd=repo.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: app.home.selected is not None)
        select(app, "feat-api")
        await pilot.press("H")
        await wait_until(pilot, lambda: "3 claims" in screen_text(app))
        text = screen_text(app)
        for word in (
            "claude-1",
            "T-7",
            "released",
            "codex-1",
            "taken by force by boss",
            "went astray",
            "holds it",
            "gemini-1",
        ):
            assert word in text, word
        assert "elsewhere" not in text
        assert text.index("gemini-1") < text.index("holds it") < text.index("went astray") < text.index("T-7"), (
            "newest first"
        )
        await asyncio.to_thread(imi, "release", "feat-api", "--agent", "boss", cwd=repo.path)
        await wait_until(pilot, lambda: "4 claims" in screen_text(app))

    with waiting(repo, "feat-api", "gemini-1"):
        run_dashboard(repo, play, size)


def test_claim_history_of_a_worktree_without_claims(repo: Repo) -> None:
    repo.worktree("feat-api")

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: app.home.selected is not None)
        select(app, "feat-api")
        await pilot.press("H")
        await wait_until(pilot, lambda: "it was never claimed" in screen_text(app))

    run_dashboard(repo, play)


@pytest.mark.parametrize("size", [(140, 40), (60, 20)])
def test_the_queue_is_live(repo: Repo, size: tuple[int, int]) -> None:
    repo.worktree("feat-api")
    imi("claim", "feat-api", "--agent", "claude-1", cwd=repo.path)

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("Q")
        await wait_until(pilot, lambda: "2 agents wait for 1 worktree" in screen_text(app))
        text = screen_text(app)
        assert text.index("1. gemini-1") < text.index("2. codex-1")
        assert "claude-1 has held it for" in text
        await asyncio.to_thread(imi, "release", "feat-api", "--agent", "claude-1", cwd=repo.path)
        await wait_until(
            pilot, lambda: "gemini-1 has held it for" in screen_text(app) and "1. codex-1" in screen_text(app)
        )

    with waiting(repo, "feat-api", "gemini-1", "codex-1"):
        run_dashboard(repo, play, size)


def test_an_empty_queue_view_says_so(repo: Repo) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await pilot.press("Q")
        await wait_until(pilot, lambda: "no agent is in line" in screen_text(app))

    run_dashboard(repo, play)


@pytest.mark.parametrize("payload", ["[/b]", "\x1b]52;c;x\x07", "ev\u202eil", "日" * 40, "x" * 10_000, "line\nbreak"])
def test_hostile_agents_and_reasons_in_claim_views(repo: Repo, payload: str) -> None:  # T2
    """Another program may have written anything into the registry."""
    repo.worktree("feat-api")
    imi("claim", "feat-api", "--agent", "one", cwd=repo.path)
    connection = db.connect(paths.default_database())
    name = repositories.list_repositories(connection)[0].name
    wanted = ClaimRequest(payload, host.identify_process(None), task=payload, force=True, reason=payload)
    for _ in range(2):
        db.transact(connection, claim_requests.claim, name, "feat-api", wanted)
        wanted.agent = f"{payload} again"
    connection.close()

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: app.home.selected is not None)
        select(app, "feat-api")
        for key, word in (("H", "3 claims"), ("Q", "1 agent")):
            await pilot.press(key)
            await wait_until(pilot, lambda: word in screen_text(app))  # noqa: B023
            assert not any(char in screen_text(app) for char in ("\x1b", "\x07", "\u202e"))
            await pilot.press("escape")

    with waiting(repo, "feat-api", "gemini-1"):
        run_dashboard(repo, play)
