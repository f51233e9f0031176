"""Agents on the dashboard: rows, next, peek, explain and the lead's view, driven by keys."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.actions.context import Context
from imi_monitor.actions.history.session_timeline import TimelineLine
from imi_monitor.model import agent as states
from imi_monitor.model.agent import SessionFacts, ToolCall
from imi_monitor.model.repository_names import RepositoryNames
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.mux import multiplexer
from imi_monitor.store import agents as registered
from imi_monitor.store import db
from imi_monitor.ui import agent_cells, agent_row, filters
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.panels.agents_panel import agent_of_row
from imi_monitor.ui.preferences import Preferences
from imi_monitor.ui.views.agents_view import AgentsView
from imi_monitor.ui.views.explain_view import ExplainView, explanation_lines
from imi_monitor.ui.views.peek_view import PeekView, drawn_line
from imi_monitor.ui.widgets.key_bar import KeyBar
from imi_monitor.ui.widgets.row_list import RowList
from tests.helpers import ROOT
from tests.ui import sample_agents as made
from tests.ui import sample_snapshots, snapshot_builder
from tests.ui.payloads import PAYLOADS, bad_characters
from tests.ui.pilot_kit import screen_text, toasts, wait_until
from tests.ui.sample_snapshots import ago
from tests.ui.snapshot_kit import stand_still

Play = Callable[[ImiApp, Pilot[Any], sample_snapshots.FakeEngine], Awaitable[None]]


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_still(monkeypatch)
    for name in ("TMUX", "ZELLIJ"):
        monkeypatch.delenv(name, raising=False)


def played(
    play: Play,
    world: Snapshot,
    database: str | None = None,
    size: tuple[int, int] = (140, 40),
    preferences: Preferences | None = None,
) -> None:
    feed = sample_snapshots.FakeEngine(world)

    async def main() -> None:
        app = ImiApp(
            sample_snapshots.live_from(feed), lambda _where: Context(database=database), preferences=preferences
        )
        app.animation_level = "none"
        async with app.run_test(size=size, notifications=True) as pilot:
            await wait_until(pilot, lambda: app.home.shown is world)
            await play(app, pilot, feed)

    asyncio.run(main())


def selected(app: ImiApp) -> str:
    return app.home.selected.worktree if app.home.selected else ""


def said(app: ImiApp) -> list[str]:
    return toasts(app)


def head(app: ImiApp) -> str:
    return screen_text(app).splitlines()[0]


# -- rows -----------------------------------------------------------------------------------------------------------


def test_agents_that_need_attention_are_on_top_of_both_lists() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        names = [tree.key.worktree for tree in app.home.worktrees.listed]
        assert names[:3] == ["review-123", "feat-ui", "devops-ci"], (
            "the longest waiting agent, then others that wait, then failed ones"
        )
        shown = [agent_of_row(row.key) for row in app.home.panel(3).lines.rows]
        assert shown[:4] == ["codex:asks", made.ASKS.id, made.INTRUDER.id, made.FAILED.id]
        assert None in shown[len(app.home.shown.agents) :], "waiters come last"  # type: ignore[union-attr]
        for words in ("2 ask", "1 intrudes", "1 failed", "3 work"):
            assert words in head(app)

    played(play, made.trouble())


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (
            (140, 40),
            [
                "(codex-2)",
                "asks: Bash npm test",
                "codex-3 intrudes",
                "failed: API Error",
                "idle: All 12",
                "claude-1 +1",
                "(claude-2) +1",
                "12k tok",
                "? aider-1",
            ],
        ),
        (
            (60, 20),
            [
                "(codex-2, unclaimed)",
                "asks: question 11m",
                "codex-3 intrudes",
                "(claude-1 +1)",
                "failed: API Error: 529",
            ],
        ),
    ],
)
def test_a_worktree_row_shows_its_agent_and_activity(size: tuple[int, int], words: list[str]) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await wait_until(pilot, lambda: all(wanted in screen_text(app) for wanted in words))

    played(play, made.trouble(), size=size)


def test_a_claim_without_an_agent_is_shown_below_and_one_with_an_agent_is_not_shown_twice() -> None:
    world = made.with_agents(sample_snapshots.busy(), made.EDITS)

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        rows = [row.lines[0].plain for row in app.home.panel(3).lines.rows]
        assert [row.split()[1] for row in rows[:3]] == ["claude-1", "codex-1", "gemini-2"]
        assert "holds" in rows[1] and "works" in rows[0] and "waits for feat-api, first in line" in rows[3]

    played(play, world)


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (made.EDITS, "Edit src/api.ts +2 subagents"),
        (made.ASKS, "asks: Bash npm test -- --watch=false · permission prompt"),
        (
            replace(
                made.ASKS,
                truth=replace(
                    made.ASKS.truth, detail="permission for Bash npm test: it writes", tool=ToolCall("Bash", "npm test")
                ),
            ),
            "asks: Bash npm test · permission: it writes",
        ),
        (replace(made.ASKS, truth=replace(made.ASKS.truth, tool=None, detail=None)), "asks: something"),
        (made.UNCLAIMED, "planning · review this pull request"),
        (made.GUESSED, "unknown: nothing tells what it does"),
        (
            replace(made.GUESSED, facts=SessionFacts(format_note="unknown (format) claude 9.9.9: a record")),
            "unknown: (format) claude 9.9.9: a record",
        ),
        (made.FAILED, "failed: API Error: 529 overloaded, limit reached"),
        (made.DEAD, "dead: its process is gone, in bash cargo test"),
        (made.DONE, "idle: All 12 tests pass; the change log has an entry."),
        (
            replace(made.DONE, truth=replace(made.DONE.truth, detail=states.NOTHING_ASKED), facts=SessionFacts()),
            "ready",
        ),
        (made.ENDED, "done"),
        (
            replace(made.EDITS, truth=replace(made.EDITS.truth, state=states.CANCELLED, tool=None, detail="Esc")),
            "idle: Esc",
        ),
        (replace(made.TESTS, truth=replace(made.TESTS.truth, confidence=states.GUESS)), "~Bash pytest -q"),
        (replace(made.TESTS, truth=replace(made.TESTS.truth, confidence=states.GUESS, tool=None)), "~works"),
        (replace(made.INTRUDER, name="codex", claim="other", claimed_by="x"), "codex intrudes · apply_patch src/db.ts"),
    ],
)
def test_activity_of_an_agent_in_a_row(agent: states.Agent, words: str) -> None:
    assert agent_cells.activity(agent, short=True).plain == words


SEVERAL = RepositoryNames((("app", "app"), ("web", "web")))


@pytest.mark.parametrize("room", [36, 40, 51, 52, 60, 80, 120, 200])
def test_agent_rows_fit_and_their_columns_are_aligned(room: int) -> None:
    agents = [*made.trouble().agents, replace(made.ASKS, name="日本" * 20, key=None)]
    for lead in (False, True):
        plan = agent_row.plan_columns(
            room, [one.name for one in agents], [one.key for one in agents], SEVERAL, all_columns=lead
        )
        drawn = [agent_row.agent_lines(one, plan, sample_snapshots.NOW) for one in agents]
        assert all(line.cell_length <= room for lines in drawn for line in lines)
        assert len({len(lines) for lines in drawn}) == 1
        if not plan.stacked:
            assert {line.cell_length for (line,) in drawn} == {room}


def test_activity_of_the_worktree_is_drawn_only_where_it_has_a_column() -> None:
    busy = replace(snapshot_builder.tree("feat-ui"), activity=((int(sample_snapshots.NOW.timestamp() // 60), 3),))
    agent = replace(made.ASKS, key=busy.key)
    for room in (80, 200):
        plan = agent_row.plan_columns(room, [agent.name], [agent.key], RepositoryNames(), all_columns=True)
        (line,) = agent_row.agent_lines(agent, plan, sample_snapshots.NOW, busy)
        assert ("█" in line.plain) == bool(plan.spark) == (room == 200), (room, plan)


def test_an_agent_without_counted_tokens_has_their_room_for_what_it_does() -> None:
    asked = replace(made.ASKS, facts=replace(made.ASKS.facts, tokens_in=0, tokens_out=0))
    counted = replace(asked, facts=replace(asked.facts, tokens_in=9_000))
    words = agent_cells.activity(asked).plain
    plan = replace(agent_row.plan_columns(110, [asked.name], [asked.key], RepositoryNames()), source=0, tokens=8)
    plan = replace(plan, activity=len(words) - 4)
    (without,), (beside,) = (agent_row.agent_lines(one, plan, sample_snapshots.NOW) for one in (asked, counted))
    assert words in without.plain and "tok" not in without.plain
    assert words not in beside.plain and beside.plain.rstrip().endswith("9.0k tok")


def test_a_narrow_agent_row_cuts_no_name_that_fits() -> None:
    names = ["claude-2ca9f3e0", "codex-1"]
    agents = [replace(agent, name=name) for agent, name in zip(made.trouble().agents, names, strict=False)]
    plan = agent_row.plan_columns(46, names, [one.key for one in agents], RepositoryNames())
    for agent, name in zip(agents, names, strict=True):
        line = agent_row.agent_lines(agent, plan, sample_snapshots.NOW)[0].plain
        assert name in line and agent.key is not None and agent.key.worktree in line, line


def test_agents_have_two_lines_where_one_is_narrow_and_the_list_has_room_for_two() -> None:
    agents = made.trouble().agents
    names, keys = [one.name for one in agents], [one.key for one in agents]

    def plan(room: int, lines: int) -> agent_row.AgentColumns:
        return agent_row.plan_columns(room, names, keys, RepositoryNames(), lines=lines, rows=len(agents))

    assert not plan(59, len(agents) * 2 - 1).stacked and plan(59, len(agents) * 2).stacked
    assert not plan(120, 100).stacked and plan(48, 1).stacked
    asks = next(one for one in agents if one.name == "gemini-2")
    assert "permission prompt" in agent_row.agent_lines(asks, plan(59, 100), snapshot_builder.NOW)[1].plain


def test_unchanged_agent_rows_are_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    real = agent_row.agent_lines
    monkeypatch.setattr(agent_row, "agent_lines", lambda one, *rest: drawn.append(one.id) or real(one, *rest))

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await wait_until(pilot, lambda: "gemini-2" in screen_text(app) and drawn)
        drawn.clear()
        for _ in range(3):
            app.tick()
            await pilot.pause()
        assert drawn == []
        feed.publish(replace(made.at_work(), seq=2))  # other objects, the same agents
        await wait_until(pilot, lambda: app.home.shown is not None and app.home.shown.seq == 2)
        assert drawn == []

    played(play, made.at_work())


def test_the_key_bar_follows_the_selected_agent() -> None:
    """At once, and not with the next second: nothing else has to happen."""

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        def can_peek() -> bool:
            return next(hint for hint in app.query_one(KeyBar).hints if hint.label == "Peek").enabled

        app.stop_clock()
        await pilot.press("end")
        await wait_until(pilot, lambda: not can_peek())
        app.home.panel(3).lines.focus()
        await wait_until(pilot, can_peek)
        app.home.worktrees.lines.focus()
        await wait_until(pilot, lambda: not can_peek())

    played(play, made.at_work())


def test_keymap_settings_apply_in_agent_views() -> None:
    def chosen(app: ImiApp) -> object:
        return getattr(app.screen, "agent_id", None)

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("A")
        await wait_until(pilot, lambda: isinstance(app.screen, AgentsView) and chosen(app) == "codex:asks")
        await pilot.press("w", "space")
        await pilot.pause()
        assert isinstance(app.screen, AgentsView) and chosen(app) == "codex:asks", "these keys are others now"
        assert "ctrl+g Peek" in screen_text(app).splitlines()[-1], "the key that is shown is the one that does it"
        await pilot.press("W")
        await wait_until(pilot, lambda: chosen(app) == made.ASKS.id)
        await pilot.press("ctrl+g")
        await wait_until(pilot, lambda: isinstance(app.screen, PeekView))
        await pilot.press("ctrl+g")
        await wait_until(pilot, lambda: isinstance(app.screen, AgentsView))

    played(play, made.trouble(), preferences=Preferences(keymap={"next": "W", "peek": "ctrl+g"}))


# -- w --------------------------------------------------------------------------------------------------------------


def test_w_visits_waiting_agents_longest_first_and_wraps_around() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("end")
        seen = []
        for _ in range(6):
            await pilot.press("w")
            await pilot.pause()
            seen.append(selected(app))
        assert seen[:2] == ["review-123", "feat-ui"]
        assert set(seen[2:5]) == {"devops-ci", "feat-api", "fix-bug"}, "failed, intruding, colliding"
        assert seen[5] == "review-123"

    played(play, made.trouble())


def test_w_reports_that_no_agent_waits_or_that_the_filter_hides_it() -> None:
    calm = made.with_agents(
        sample_snapshots.snapshot([sample_snapshots.tree("feat-api"), sample_snapshots.tree("feat-ui")]), made.EDITS
    )

    async def without_agents(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("w")
        await wait_until(pilot, lambda: "nothing here needs you" in said(app))

    async def hidden(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("slash", *"trunk", "enter")
        await wait_until(pilot, lambda: len(app.home.worktrees.listed) == 1 and app.home.worktrees.lines.has_focus)
        await pilot.press("w")
        await wait_until(pilot, lambda: "nothing here needs you; 3 worktrees outside the list need you" in said(app))

    played(without_agents, calm)
    played(hidden, made.at_work())


def test_the_key_bar_starts_with_next_while_an_agent_waits() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        assert screen_text(app).splitlines()[-1].startswith(" w Next")
        feed.publish(sample_snapshots.busy())
        await wait_until(pilot, lambda: screen_text(app).splitlines()[-1].startswith(" ⏎ Open"))

    played(play, made.at_work())


# -- a peek ---------------------------------------------------------------------------------------------------------


def test_space_opens_a_live_peek_and_esc_closes_it(tmp_path: Path) -> None:
    database, world = str(tmp_path / "iMi.db"), made.at_work()
    made.keep(database, world, told=made.acts()[:3])

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("down", "space")
        await wait_until(pilot, lambda: isinstance(app.screen, PeekView) and "how tokens are kept" in screen_text(app))
        assert "may it run npm test?" not in screen_text(app)
        await asyncio.to_thread(made.keep, database, world, told=made.acts()[3:9])
        await wait_until(pilot, lambda: "may it run npm test?" in screen_text(app) and "… 3m" in screen_text(app))
        await asyncio.to_thread(made.keep, database, world, told=made.acts()[9:])
        await wait_until(pilot, lambda: "✗ 40s" in screen_text(app))
        assert screen_text(app).count("npm test -- auth") == 1, "a call that ends takes the place of its beginning"
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    played(play, world, database)


def test_peek_keys_go_to_other_and_waiting_agents(tmp_path: Path) -> None:
    database, world = str(tmp_path / "iMi.db"), made.trouble()
    made.keep(database, world)

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("space")
        await wait_until(
            pilot, lambda: "◆ codex-2 · review-123" in screen_text(app) and "asks: question" in screen_text(app)
        )
        await pilot.press("w")
        await wait_until(pilot, lambda: "◆ gemini-2 · feat-ui" in screen_text(app))
        await pilot.press("right")
        await wait_until(pilot, lambda: "⚠ codex-3 · feat-api" in screen_text(app))
        await pilot.press("left", "left")
        await wait_until(pilot, lambda: "◆ codex-2 · review-123" in screen_text(app))
        await pilot.press("E")
        await wait_until(pilot, lambda: isinstance(app.screen, ExplainView) and "Believed" in screen_text(app))
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(app.screen, PeekView))
        await pilot.click(offset=(3, 3))
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    played(play, world, database)


def test_peek_without_a_recorded_session_shows_the_agents_screen_state(tmp_path: Path) -> None:
    database = str(tmp_path / "iMi.db")

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("down", "space")
        await wait_until(pilot, lambda: "The refresh works. Now its tests." in screen_text(app))
        feed.publish(replace(sample_snapshots.busy(), seq=5))
        await wait_until(pilot, lambda: "this agent is not visible any more" in screen_text(app))
        await pilot.press("escape", "space")
        await wait_until(pilot, lambda: "no agent works in feat-api" in said(app) and len(app.screen_stack) == 1)

    played(play, made.at_work(), database)


def test_peek_shows_a_sentence_when_the_registry_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "iMi.db").write_bytes(b"no database at all, but long enough to be looked at as one" * 40)

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("space")
        await wait_until(
            pilot,
            lambda: isinstance(app.screen, PeekView) and "? " in screen_text(app).partition("gemini-2 · feat-ui")[2],
        )
        await pilot.press("escape")

    played(play, made.at_work(), str(tmp_path / "iMi.db"))


@pytest.mark.parametrize("width", [34, 58, 120])
def test_the_longest_words_of_a_session_are_not_cut(width: int) -> None:
    for word in ("interrupted", "process gone"):
        for text in ("", "by a person", "by a person " * 20):
            drawn = drawn_line(TimelineLine(3, "2026-07-30T10:00:00Z", "interrupted", word, text), width)
            assert word in drawn[0].plain and all(line.cell_length <= width for line in drawn)


@pytest.mark.parametrize("payload", list(PAYLOADS), ids=str)
@pytest.mark.parametrize("width", [34, 58, 120])
def test_session_lines_in_the_peek_fit_and_are_harmless(payload: str, width: int) -> None:
    text = PAYLOADS[payload]
    line = TimelineLine(3, text, "tool_finished", text, text, text, 3.0, text, text, text)
    for drawn in (*drawn_line(line, width), *drawn_line(replace(line, outcome=None), width)):
        assert bad_characters(drawn.plain) == []
        assert drawn.cell_length <= width


# -- explain --------------------------------------------------------------------------------------------------------


def test_explain_shows_used_and_rejected_evidence() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("down", "E")
        await wait_until(pilot, lambda: isinstance(app.screen, ExplainView) and "Believed" in screen_text(app))
        told = (
            "▸ claude-1 · feat-api",
            "registry (exact)",
            "sessions/4711.json says busy",
            "works or asks",
            "it holds feat-api",
            "Stop was the last hook",
            "└ something newer, or a better source, says otherwise",
            "2.1.326",
            "48k read, 13k written, 912k from cache",
            "59%  118k of 200k",
            "$1.37",
            "2 files",
            "src/db.ts",
        )
        for words in told:
            assert words in screen_text(app), words
        await pilot.press("right")
        await wait_until(pilot, lambda: "claude-2 · review-123" in screen_text(app))
        await pilot.press("w")
        await wait_until(pilot, lambda: "◆ gemini-2 · feat-ui" in screen_text(app) and "likely" in screen_text(app))
        await pilot.press("E", "escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    played(play, made.at_work())


def test_keys_apply_to_the_agent_selected_in_its_panel() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("3", "end", "up")
        await pilot.press("E")
        await wait_until(pilot, lambda: "? aider-1 · devops-ci" in screen_text(app) and "a guess" in screen_text(app))
        assert "aider-1, unclaimed" not in screen_text(app)
        await pilot.press("escape", "1", "home", "E")
        await wait_until(pilot, lambda: "◆ gemini-2 · feat-ui" in screen_text(app) and "Believed" in screen_text(app))

    played(play, made.at_work())


@pytest.mark.parametrize("width", [36, 60, 140])
def test_explanation_fits_its_width_without_losing_words(width: int) -> None:
    told = "one " * 60 + "last"
    agent = replace(
        made.EDITS, facts=replace(made.EDITS.facts, prompt=told, format_note="unknown (format) claude 9.9.9")
    )
    lines = explanation_lines(agent, sample_snapshots.NOW, width)
    assert all(line.cell_length <= width for line in lines)
    text = re.sub(r"\s+", " ", " ".join(line.plain for line in lines))
    for words in (
        "one last",
        "unknown (format) claude 9.9.9",
        "sessions/4711.json says busy",
        "better source, says otherwise",
    ):
        assert words in text


def test_unknown_facts_are_left_out_of_an_explanation() -> None:
    bare = replace(made.GUESSED, facts=SessionFacts(), pid=None, session=None, seen_at=None)
    text = "\n".join(line.plain for line in explanation_lines(bare, sample_snapshots.NOW, 100))
    assert "unknown is not idle" in text and "devops-ci has no claim" in text
    for word in ("tokens", "context", "model", "since", "wrote", "cost"):
        assert f"  {word} " not in text


# -- the lead's view ------------------------------------------------------------------------------------------------


def test_leads_view_groups_all_agents_and_sums_up_today(tmp_path: Path) -> None:
    database, world = str(tmp_path / "iMi.db"), made.trouble()
    made.keep(database, world, told=made.acts())

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("A")
        await wait_until(pilot, lambda: isinstance(app.screen, AgentsView) and "waited for you" in screen_text(app))
        text = screen_text(app)
        places = [
            text.index(f"\n {group} ")
            for group in (
                "asks 2",
                "intrudes 1",
                "failed 1",
                "newest death 1",
                "works 2",
                "unknown 1",
                "idle 1",
                "done 1",
            )
        ]
        assert places == sorted(places)
        assert "10 agents in 6 worktrees" in text and "10 sessions" in text and "worked 4m" in text
        feed.publish(replace(made.at_work(), seq=3))
        await wait_until(
            pilot, lambda: "5 agents in 5 worktrees" in screen_text(app) and "newest death" not in screen_text(app)
        )
        await pilot.press("escape")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1)

    played(play, world, database)


def test_deaths_do_not_push_down_what_is_alive_and_one_key_marks_all_as_seen(tmp_path: Path) -> None:
    deaths = [
        replace(
            made.DEAD,
            id=f"dead:{age}",
            name=f"dead-{age}",
            key=made.key(place),
            truth=replace(made.DEAD.truth, since=ago(age)),
        )
        for age, place in ((900, "devops-ci"), (30, "feat-ui"), (500, "review-123"))
    ]
    world = made.with_agents(sample_snapshots.busy(), *deaths, made.EDITS)

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await wait_until(pilot, lambda: "3 dead" in screen_text(app))
        assert app.home.facts is not None
        needing = {tree.key.worktree for tree in app.home.worktrees.listed if app.home.facts.needs_attention(tree)}
        assert "feat-ui" in needing and not {"devops-ci", "review-123"} & needing
        await pilot.press("A")
        await wait_until(pilot, lambda: isinstance(app.screen, AgentsView) and "newest death 1" in screen_text(app))
        keys = [row.key for row in app.screen.query_one(RowList).rows]
        order = ["group\0newest death", "dead:30", "group\0works", made.EDITS.id, "group\0dead"]
        assert [key for key in keys if key in order] == order and set(keys[-2:]) == {"dead:500", "dead:900"}
        await pilot.press("full_stop")
        await wait_until(pilot, lambda: "3 agents marked as seen" in screen_text(app))
        assert sorted(feed.looked_at_them) == sorted(one.id for one in deaths)
        feed.publish(
            made.with_agents(sample_snapshots.busy(), *(replace(one, looked_at=True) for one in deaths), made.EDITS)
        )
        await wait_until(pilot, lambda: "dead 3" in screen_text(app) and "newest death" not in screen_text(app))

    played(play, world, str(tmp_path / "iMi.db"))


def test_the_leads_view_groups_by_team_and_by_worktree(tmp_path: Path, own_home: Path) -> None:
    database = str(tmp_path / "iMi.db")
    with closing(db.connect(database)) as connection:
        db.transact(connection, registered.mark_seen, "codex-2", "here", ago(0))
        db.transact(connection, registered.describe, "codex-2", {"team": "web\x1b"})

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("A")
        await wait_until(pilot, lambda: isinstance(app.screen, AgentsView) and "0 sessions" in screen_text(app))
        await pilot.press("b")
        await wait_until(pilot, lambda: "by team" in screen_text(app) and "without a team 9" in screen_text(app))
        assert "web\\x1b 1" in screen_text(app)
        await pilot.press("b")
        await wait_until(pilot, lambda: "by worktree" in screen_text(app) and "feat-api 2" in screen_text(app))
        await pilot.press("b")
        await wait_until(pilot, lambda: "asks 2" in screen_text(app) and "by worktree" not in screen_text(app))

    played(play, made.trouble(), database)


def test_keys_of_the_leads_view(tmp_path: Path) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("A")
        await wait_until(pilot, lambda: isinstance(app.screen, AgentsView) and app.screen.agent_id == "codex:asks")
        await pilot.press("w")
        assert app.screen.agent_id == made.ASKS.id  # type: ignore[attr-defined]
        await pilot.press("space")
        await wait_until(pilot, lambda: isinstance(app.screen, PeekView) and "gemini-2 · feat-ui" in screen_text(app))
        await pilot.press("space", "E")
        await wait_until(
            pilot, lambda: isinstance(app.screen, ExplainView) and "gemini-2 · feat-ui" in screen_text(app)
        )
        await pilot.press("escape", "slash", *"is:dead")
        await wait_until(pilot, lambda: "1 of 10" in screen_text(app) and "codex" not in screen_text(app))
        await pilot.press("enter", "escape")
        await wait_until(pilot, lambda: "10 agents" in screen_text(app) and len(app.screen_stack) == 2)
        await pilot.press("slash", *"zzz")
        await wait_until(pilot, lambda: "no agent matches zzz" in screen_text(app))
        await pilot.press("escape", "home", "w", "enter")
        await wait_until(pilot, lambda: len(app.screen_stack) == 1 and selected(app) == "review-123")

    played(play, made.trouble(), str(tmp_path / "iMi.db"))


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("is:asks", {"codex-2", "gemini-2"}),
        ("is:waiting @gem", {"gemini-2"}),
        ("is:intruder", {"codex-3"}),
        ("is:dead", {"opencode-1"}),
        ("is:done", {"gemini-1"}),
        ("is:unknown", {"aider-1"}),
        ("is:suspended", set()),
        ("!is:asks !is:works @c !is:intrudes", {"claude-2", "opencode-1", "copilot-1"}),
        ("opus", {"claude-1"}),
        ("feat-api", {"claude-1", "codex-3"}),
        ("PYTEST", set()),
        ("pytest", {"codex-1"}),
        ("!", {one.name for one in made.trouble().agents}),
    ],
)
def test_filter_of_the_leads_view(words: str, names: set[str]) -> None:
    assert {agent.name for agent in made.trouble().agents if filters.agent_matches(agent, words)} == names


def test_leads_view_waits_for_the_first_reading_of_agents() -> None:
    unread = replace(sample_snapshots.busy(), health=())

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("A")
        await wait_until(pilot, lambda: "looking for agents…" in screen_text(app))
        feed.publish(replace(made.with_agents(sample_snapshots.busy()), seq=3))
        await wait_until(pilot, lambda: "no agent is seen" in screen_text(app))

    played(play, unread)


# -- enter ----------------------------------------------------------------------------------------------------------


def test_enter_goes_to_the_agents_own_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[tuple[str, str]] = []

    def open_agent(around: str, agent: states.Agent, path: str, name: str, *, layout: str = "") -> str:
        gone.append((around, agent.id))
        return f"{agent.name}: its own pane"

    def open_in(around: str, path: str, name: str, command: tuple[str, ...] = (), *, layout: str = "") -> str:
        gone.append((around, name))
        return f"{name}: a new window"

    monkeypatch.setenv("TMUX", "/nowhere,1,0")
    monkeypatch.setattr(multiplexer, "open_agent", open_agent)
    monkeypatch.setattr(multiplexer, "open_worktree", open_in)

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await pilot.press("down", "enter")  # claude-1, which has told its pane
        await wait_until(pilot, lambda: gone == [("tmux", made.EDITS.id)] and "its own pane" in screen_text(app))
        await pilot.press("home", "enter")  # gemini has not
        await wait_until(pilot, lambda: gone[1:] == [("tmux", "feat-ui")])
        await pilot.press("3", "home", "enter")
        await wait_until(pilot, lambda: selected(app) == "feat-ui")
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: gone[2:] == [("tmux", made.EDITS.id)])
        await pilot.press("A")
        await wait_until(pilot, lambda: isinstance(app.screen, AgentsView) and app.screen.agent_id == made.ASKS.id)
        for _ in range(len(made.at_work().agents)):
            if app.screen.agent_id != made.EDITS.id:
                await pilot.press("down")
        await pilot.press("enter")
        await wait_until(pilot, lambda: gone[3:] == [("tmux", made.EDITS.id)])
        await pilot.press("escape", "1", "home", "down", "colon", *"shell")
        await wait_until(pilot, lambda: "even when its agent has a pane" in screen_text(app))
        await pilot.press("enter")
        await wait_until(pilot, lambda: gone[4:] == [("tmux", "feat-api")])

    played(play, made.at_work())


def test_an_ended_agent_has_no_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", "/nowhere,1,0")
    assert multiplexer.may_have_pane(made.EDITS)
    assert not multiplexer.may_have_pane(replace(made.EDITS, truth=replace(made.EDITS.truth, ended=True)))
    assert not multiplexer.may_have_pane(replace(made.EDITS, facts=replace(made.EDITS.facts, tmux=None)))
    monkeypatch.setenv("ZELLIJ", "0")
    assert not multiplexer.may_have_pane(made.EDITS), "a pane of tmux is none of Zellij"


def test_a_tool_without_a_target_is_shown_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = replace(made.TESTS, truth=replace(made.TESTS.truth, tool=ToolCall("Bash")))
    assert agent_cells.activity(agent).plain == "Bash"


_LOADED = """
import asyncio, sys
from imi_monitor.ui.app import ImiApp
from tests.ui import sample_agents, sample_snapshots, snapshot_builder

async def main():
    app = ImiApp(sample_snapshots.live(sample_agents.trouble()), None)
    async with app.run_test(size=(140, 40)) as pilot:
        while app.home.shown is None or not app.home.panel(3).lines.rows:
            await pilot.pause(0.05)
        await pilot.pause(0.2)
        assert app.agent_commands.chosen is not None
        loaded = ("imi_monitor.ui.views.", "imi_monitor.actions.history.stats_action")
        print([name for name in sys.modules if name.startswith(loaded)])

asyncio.run(main())
"""


def test_the_first_picture_waits_for_no_view() -> None:
    done = subprocess.run([sys.executable, "-c", _LOADED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize("width", [140, 100, 60])
def test_a_suspended_agent_is_marked_in_every_view(tmp_path: Path, width: int) -> None:
    stopped = replace(made.EDITS, suspended=True)
    going_on = made.with_agents(sample_snapshots.busy(), made.EDITS)
    world = made.with_agents(sample_snapshots.busy(), stopped)

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        told = {140: "suspended: Edit", 100: "1 suspended", 60: "suspended: Edit"}[
            width
        ]  # at 100 a row has no such column
        await wait_until(
            pilot, lambda: told in screen_text(app) and "‖" in screen_text(app) and "1 works" not in screen_text(app)
        )
        feed.publish(going_on)
        await wait_until(
            pilot,
            lambda: app.home.shown is going_on and "suspended" not in screen_text(app) and "‖" not in screen_text(app),
        )
        feed.publish(world)
        await wait_until(pilot, lambda: told in screen_text(app))
        assert not toasts(app), "no person is needed for it"

    played(play, world, str(tmp_path / "iMi.db"), (width, 40))
    (row,) = agent_row.agent_lines(
        stopped, agent_row.plan_columns(120, [stopped.name], [stopped.key], RepositoryNames()), sample_snapshots.NOW
    )[:1]
    assert "‖" in row.plain and " suspended " in row.plain and "src/api" in row.plain
    told = "\n".join(line.plain for line in explanation_lines(stopped, sample_snapshots.NOW, 100))
    assert "suspended: Edit" in told and "suspended" not in "\n".join(
        line.plain for line in explanation_lines(made.EDITS, sample_snapshots.NOW, 100)
    )


@pytest.mark.parametrize("key", ["space", "E"])
def test_a_dead_agent_stays_on_top_until_it_was_looked_at(tmp_path: Path, key: str) -> None:
    dead = replace(made.DEAD, key=made.key("devops-ci"))
    world = made.with_agents(sample_snapshots.busy(), dead, made.EDITS)

    async def play(app: ImiApp, pilot: Pilot[Any], feed: sample_snapshots.FakeEngine) -> None:
        await wait_until(pilot, lambda: selected(app) == "devops-ci" and "1 dead" in screen_text(app))
        for wanted, looked_at in ((made.EDITS, []), (dead, [dead.id])):
            await pilot.press("home", *([] if wanted is dead else ["down"]), key)
            await wait_until(pilot, lambda: isinstance(app.screen, PeekView | ExplainView))
            assert app.screen.agent_id == wanted.id  # type: ignore[attr-defined]
            await pilot.press("escape")
            await wait_until(pilot, lambda: len(app.screen_stack) == 1)
            assert feed.looked_at_them == looked_at, "a working agent does not count as looked at"
        feed.publish(made.with_agents(sample_snapshots.busy(), replace(dead, looked_at=True), made.EDITS))
        await wait_until(
            pilot, lambda: "1 dead" not in screen_text(app) and app.home.worktrees.listed[0].key.worktree == "feat-api"
        )

    played(play, world, str(tmp_path / "iMi.db"))
