"""Intents in the dashboard: in the panel of the selected worktree, in the lead's view, by time; and the terminal's context."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.actions.context import Context
from imi_monitor.model.snapshot import Intent, Snapshot
from imi_monitor.mux import terminal_place
from imi_monitor.store import contexts, db, notes
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.views.milestones_view import note_lines
from tests.helpers import Repo
from tests.ui import sample_agents, sample_snapshots
from tests.ui.pilot_kit import screen_text, wait_until
from tests.ui.snapshot_kit import no_context

NOW = "2026-11-19T21:00:00+00:00"


def with_intent() -> Snapshot:
    world = sample_agents.with_agents(sample_snapshots.busy(), sample_agents.EDITS, sample_agents.ASKS)
    intent = Intent("make it [b]work[/b]\x1b[2J", "claude-1", NOW, "it compiles", NOW)
    return replace(world, worktrees=tuple(replace(tree, intent=intent) for tree in world.worktrees))


def test_the_selected_worktrees_intent_is_in_its_panel_and_in_the_leads_view() -> None:
    async def main() -> None:
        app = ImiApp(sample_snapshots.live(with_intent()), no_context)
        async with app.run_test(size=(160, 40)) as pilot:
            await wait_until(pilot, lambda: "intent: make it [b]work[/b]" in screen_text(app))
            await pilot.press("A")
            await wait_until(pilot, lambda: "reached: it compiles" in screen_text(app))
            assert "\x1b" not in screen_text(app)

    asyncio.run(main())


def test_a_timeline_has_a_line_for_each_note_and_two_where_it_is_narrow(repo: Repo) -> None:
    with Context(cwd=str(repo.path)) as context:
        db.transact(
            context.connection, notes.log, "milestone", "app", "feat-x", author="a", text="done", artifacts=["r.html"]
        )
        (note,) = db.read(context.connection, notes.list_logged)
    assert [line.plain.rstrip() for line in note_lines(note, "14:02", 120)] == [
        "14:02  milestone  a                 done  (r.html)"
    ]
    assert len(note_lines(note, "14:02", 60)) == 2


def test_an_earlier_context_of_the_terminal_is_offered_at_the_start(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:  # S2.27
    monkeypatch.setenv("ZELLIJ_SESSION_NAME", "work")
    monkeypatch.setenv("ZELLIJ_PANE_ID", "1")
    here = terminal_place.find()
    assert here is not None
    gone = "|".join(["zellij", host.boot().partition("/")[0], "work", "4194300", "1", ""])

    def put(connection: object) -> str:
        ident = contexts.at_place(connection, gone, "zellij", name="work", folder=str(repo.path))  # type: ignore[arg-type]
        notes.log(connection, "intent", "", "", author="a", text="finish the parser", context=ident)  # type: ignore[arg-type]
        return ident

    with Context(cwd=str(repo.path)) as context:
        ident = db.transact(context.connection, put)

    def open_context(cwd: str | None = None) -> Context:
        return Context(cwd=cwd or str(repo.path))

    async def main() -> None:
        app = ImiApp(sample_snapshots.live(sample_snapshots.busy()), open_context)
        async with app.run_test(size=(120, 40)) as pilot:
            await wait_until(pilot, lambda: "intent: finish the parser" in screen_text(app))
            await pilot.press("enter")
            await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    asyncio.run(main())
    with Context(cwd=str(repo.path)) as context:
        row = db.read(context.connection, contexts.get, ident)
        present = db.read(context.connection, contexts.find, here.text)
        assert row is not None and row.settled_at is not None and present is not None
        intent = db.read(context.connection, notes.current_intent, context=present.id)
        assert intent is not None and intent.text == "finish the parser", "it goes on in this terminal"
