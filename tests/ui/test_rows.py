"""Rows of panels: hostile text at every width, aligned columns, and no drawing without a change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from rich.cells import cell_len
from textual.content import Content
from textual.pilot import Pilot

from imi_monitor.model import times
from imi_monitor.model.agent import STATES, Agent, Evidence, RejectedEvidence, ToolCall, Truth
from imi_monitor.model.agent import SessionFacts as AgentFacts
from imi_monitor.model.change import Change
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.model.repository_names import RepositoryNames
from imi_monitor.model.snapshot import (
    Collision,
    Commit,
    DiskUse,
    FileState,
    GitState,
    Intent,
    Key,
    RegistryEvent,
    SinkState,
    Snapshot,
    SourceFailure,
    SourceHealth,
    Waiter,
    Worktree,
)
from imi_monitor.ui import cells, header, worktree_columns, worktree_row
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.preferences import Preferences
from imi_monitor.ui.snapshot_facts import SnapshotFacts
from imi_monitor.ui.worktree_columns import WorktreeColumns
from tests.helpers import set_clock
from tests.ui import sample_agents, snapshot_builder
from tests.ui.pilot_kit import record_terminal_writes, screen_text

HOSTILE = [
    "[/nope]",
    "[red]a[/b]x",
    "\x1b]52;c;aGk=\x07",
    "\x1b[31m\x9b2J",
    "ev\u202eil\u2066",
    "日本👍" * 30,
    "x" * 10_000,
    "a\u0301" * 40,
    "new\nline\ttab",
    "\udcff\udcfe",
    "@click=app.quit",
    "👨‍👩‍👧‍👦" * 5,
]


class Fed:
    """An engine that says what it is told to."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self.given = list(snapshots)
        self.more = asyncio.Event()

    def refresh(self) -> None:
        """There is nothing to look at again."""

    def measure(self, *, disk_use: bool, unread: bool) -> None:
        """There is nothing to measure."""

    def publish(self, snapshot: Snapshot) -> None:
        self.given.append(snapshot)
        self.more.set()

    async def snapshots(self) -> Any:
        while True:
            while self.given:
                yield self.given.pop(0)
            self.more.clear()
            await self.more.wait()


def fed(
    play: Any, *snapshots: Snapshot, size: tuple[int, int] = (140, 40), preferences: Preferences | None = None
) -> None:
    async def main() -> None:
        engine = Fed(*snapshots)

        @asynccontextmanager
        async def live() -> Any:
            yield engine

        def nowhere(_: str | None) -> Any:
            from imi_monitor.actions.context import Context

            return Context()

        app = ImiApp(live, nowhere, preferences=preferences)
        async with app.run_test(size=size, notifications=True) as pilot:
            for _ in range(200):
                await pilot.pause(0.02)
                if app.home.shown is not None:
                    break
            await play(app, pilot, engine)

    asyncio.run(main())


def hostile_agent(text: str, key: Key | None, state: str) -> Agent:
    seen = Evidence(text, text, text, text, text, ToolCall(text, text), or_else=frozenset({text}))
    truth = Truth(state, text, text, text, text, ToolCall(text, text), (seen,), (RejectedEvidence(seen, text),))
    told = dict.fromkeys(
        (
            "version",
            "model",
            "title",
            "branch",
            "started_at",
            "turn_at",
            "prompt",
            "last_message",
            "parent",
            "tmux",
            "zellij",
            "format_note",
        ),
        text,
    )
    facts = AgentFacts(files=(text, text), subagents=3, context_used=3, context_size=2, tokens_in=3, **told)  # type: ignore[arg-type]
    return Agent(f"{text}{key}{state}", text, text, key, text, text, 7, text, truth, facts, text, "other", text)


def hostile_world(*texts: str) -> Snapshot:
    """A snapshot in which each of `texts` is every field of two worktrees, their agents, changes, events and collisions."""
    worlds = [_hostile_parts(text) for text in texts]
    joined = snapshot_builder.world(*(tree for world in worlds for tree in world.worktrees))
    parts = ("changes", "events", "waiting", "agents", "collisions", "health")
    return replace(joined, **{part: tuple(one for world in worlds for one in getattr(world, part)) for part in parts})


def _hostile_parts(text: str) -> Snapshot:
    now = times.stamp()
    key = Key("here", text, text)
    file = FileState(text, "M", "U", text, 3, 4)
    state = snapshot_builder.state(
        files=(file,),
        unstaged=1,
        upstream=text,
        ahead=1,
        behind=2,
        trunk=text,
        operation=text,
        branch=text,
        last_commit=Commit(text, text, text, now, by=text),
        stashes=2,
    )
    change = Change(text, text, "modified", text, now, by=text, count=3)
    bad = SourceFailure(text, text, now)
    one = snapshot_builder.tree(
        text,
        repo=text,
        git=state,
        path=text,
        branch=text,
        type=text,
        locked=text,
        pr=5,
        failure=bad,
        claim=snapshot_builder.claim(key, text, "dead", task=text, pid=7, process=text),
        last_change=change,
    )
    two = replace(
        one, failure=None, claim=snapshot_builder.claim(key, text, "held", task=text), key=Key("here", text, "two")
    )
    return replace(
        snapshot_builder.world(one, two),
        changes=(change,),
        events=(RegistryEvent(1, text, now, text, text, text, text),),
        waiting=(Waiter(key, text, now, 1),),
        agents=tuple(hostile_agent(text, key, state) for key in (one.key, two.key, None) for state in STATES),
        collisions=(snapshot_builder.conflict(one, two), snapshot_builder.conflict(one, None)),
        health=(SourceHealth(text, now, bad),),
    )


@pytest.mark.parametrize("size", [(140, 40), (100, 30), (60, 20), (40, 12)], ids=str)
@pytest.mark.parametrize("first", range(0, len(HOSTILE), 3))
def test_hostile_text_is_harmless_in_every_panel(first: int, size: tuple[int, int]) -> None:  # T2
    """Each text by turns is first in its world, and so the selected one, at one of the sizes."""
    texts = HOSTILE[first : first + 3]
    turn = size[1] // 10 % 3

    async def play(app: ImiApp, pilot: Pilot[Any], engine: Fed) -> None:
        for keys in (
            "1",
            "2",
            "3",
            "4",
            "5",
            "escape",
            "b",
            "b",
            "b",
            "a",
            "escape",
            "y",
            "escape",
            "question_mark",
            "escape",
            "colon",
            "escape",
            "A",
            "escape",
            "E",
            "escape",
            "3",
            "end",
            "E",
            "escape",
            "1",
            "M",
            "R",
        ):
            await pilot.press(keys)
            shown = screen_text(app)
            assert not any((ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0 for char in shown)
            assert not any(char in shown for char in "\u202e\u2066\udcff")
            assert all(cell_len(line) == size[0] for line in shown.split("\n")), (
                "no line is longer or shorter than the screen"
            )
        assert app._exit is False

    fed(play, hostile_world(*texts[turn:], *texts[:turn]), size=size)


@pytest.mark.parametrize("room", range(36, 160, 3))
def test_every_row_fits_its_width(room: int) -> None:
    trees = [
        snapshot_builder.tree(
            "feat-a-rather-long-name-that-goes-on",
            by="an-agent-with-a-long-name",
            git=snapshot_builder.dirty(
                1200, trunk_ahead=4567, trunk_behind=12, upstream="o/x", ahead=12, behind=345, staged=99, untracked=1000
            ),
            changed=5,
        ),
        snapshot_builder.tree("feat-日本", by="x", how="dead"),
        snapshot_builder.tree("main"),
        snapshot_builder.tree("gone", missing=True, git=None),
        snapshot_builder.tree("fix-new", git=None),
    ]
    agents = {
        tree.key: (*sample_agents.trouble().agents, sample_agents.UNCLAIMED)[place : place + 3]
        for place, tree in enumerate(trees)
    }
    for here in ({}, agents):
        all_rows_fit(room, trees, here)


def planned(
    room: int, trees: list[Worktree], agents: Mapping[Key, tuple[Agent, ...]] | None = None, hits: int = 12
) -> WorktreeColumns:
    """The columns for these worktrees, as the list plans them."""
    here = agents or {}
    rows = [worktree_columns.row_widths(tree, here.get(tree.key, ()), hits, RepositoryNames()) for tree in trees]
    return worktree_columns.plan_columns(room, rows, RepositoryNames())


def in_one_line(part: worktree_row.WorktreeRowData, plan: WorktreeColumns) -> Content:
    return worktree_row.single_row(part, plan)[0]


def all_rows_fit(room: int, trees: list[Worktree], agents: dict[Key, tuple[Agent, ...]]) -> None:
    plan = planned(room, trees, agents)
    head = worktree_columns.column_titles(plan)
    for tree in trees:
        part = worktree_row.WorktreeRowData(tree, "59m", 12, True, snapshot_builder.NOW, agents.get(tree.key, ()))
        line = in_one_line(part, plan)
        assert line.cell_length == head.cell_length <= room
        assert line.plain.rstrip().endswith("59m"), "the age is the last thing to be cut"
        for stacked in worktree_row.stacked_row(part, plan):
            assert stacked.cell_length <= room


LONG_NAME = "feat-billing-invoices-of-customers-eu"


@pytest.mark.parametrize("room", [73, 96, 136, 196])
def test_no_text_is_cut_while_the_row_has_free_cells(room: int) -> None:
    """The number of collisions is never cut, an activity only where the row is full, a name from its middle."""
    short, long = snapshot_builder.tree("fix-a", changed=5), snapshot_builder.tree(LONG_NAME, by="claude-1")
    agent = replace(sample_agents.ASKS, key=long.key)
    agents = {long.key: (agent,)}
    plan = planned(room, [short, long], agents, hits=112)
    for tree in (short, long):
        part = worktree_row.WorktreeRowData(tree, "5s", 112, False, snapshot_builder.NOW, agents.get(tree.key, ()))
        line = in_one_line(part, plan).plain
        assert "⚡112" in line
        assert "…" not in line or plan.room < 130, line
        assert "feat-bill" in line and "eu " in line if tree is long else "src/x.py" in line
        assert plan.activity >= 24 or room < 96


def test_a_name_is_not_cut_for_cells_that_only_round_a_width() -> None:
    tree = snapshot_builder.tree("feat-billing-invoices-eu", git=snapshot_builder.state(trunk_ahead=4, trunk_behind=8))
    held = replace(tree, claim=snapshot_builder.claim(tree.key, "ada", task="T-17 invoices for the EU"))
    plan = planned(82, [held, snapshot_builder.tree("spike")], hits=0)
    part = worktree_row.WorktreeRowData(held, "5s", 0, False, snapshot_builder.NOW)
    assert "feat-billing-invoices-eu" in in_one_line(part, plan).plain and plan.hits == 0


@pytest.mark.parametrize(
    ("room", "said"),
    [(57, "• src/auth/valid/index.ts (5s ago)"), (50, "• …auth/valid/index.ts (5s ago)"), (36, "• …h/valid/index.ts")],
)
def test_a_narrow_row_shows_the_file_that_changed_where_its_name_fits(room: int, said: str) -> None:
    change = Change("app", "feat-a", "modified", "src/auth/valid/index.ts", snapshot_builder.ago(5))
    tree = replace(snapshot_builder.tree("feat-a"), last_change=change)
    full = replace(tree, git=snapshot_builder.dirty(12))

    def second(tree: Worktree) -> str:
        part = worktree_row.WorktreeRowData(tree, "5s", 2, False, snapshot_builder.NOW)
        return worktree_row.stacked_row(part, planned(room, [tree]))[1].plain

    assert said in second(tree) and "⚡2" in second(tree)
    assert ("•" in second(full)) == (room > 36), second(full)


@pytest.mark.parametrize("room", [36, 40, 44, 57])
def test_collisions_are_never_cut_from_a_row_of_two_lines(room: int) -> None:
    tree = snapshot_builder.tree("feat-api", git=snapshot_builder.dirty(4), by="claude-1", changed=2)
    agent = replace(sample_agents.EDITS, key=tree.key)
    part = worktree_row.WorktreeRowData(tree, "2s", 12, False, snapshot_builder.NOW, (agent,))
    second = worktree_row.stacked_row(part, planned(room, [tree], {tree.key: (agent,)}))[1].plain
    assert "⚡12" in second and "Edit" in second, second


@pytest.mark.parametrize("room", [52, 57, 70])
def test_what_an_agent_does_is_not_cut_while_its_line_has_free_cells(room: int) -> None:
    tree = snapshot_builder.tree("review-123")
    prompt = replace(sample_agents.EDITS.truth, tool=None, detail="word " * 40)
    agent = replace(sample_agents.EDITS, key=tree.key, truth=prompt)
    part = worktree_row.WorktreeRowData(tree, "3m", 0, False, snapshot_builder.NOW, (agent,))
    second = worktree_row.stacked_row(part, planned(room, [tree], {tree.key: (agent,)}))[1]
    assert room - 2 <= second.cell_length <= room, second.plain


def test_a_task_stands_in_one_column() -> None:
    tree = snapshot_builder.tree("feat-a")
    held = replace(tree, claim=snapshot_builder.claim(tree.key, "ada", task="T-17"))
    part = worktree_row.WorktreeRowData(held, "5s", 0, False, snapshot_builder.NOW)
    for room in (90, 190):
        assert in_one_line(part, planned(room, [held])).plain.count("T-17") == 1


def test_an_overlap_in_several_files_is_counted_where_their_names_would_be_cut() -> None:
    left, right = snapshot_builder.tree("feat-a").key, snapshot_builder.tree("feat-billing").key
    one = Collision(left, right, ("src/api.py", "src/new.py"), None)
    assert cells.collision_line(one, left, 60).plain == "⚡ overlaps with feat-billing: src/api.py and 1 more"
    assert cells.collision_line(one, left, 46).plain == "⚡ overlaps with feat-billing: 2 files"
    assert cells.collision_line(replace(one, files=one.files[:1]), left, 46).plain.endswith("feat-billing: src/api.py")


def test_the_git_panel_has_lines_for_a_pull_request_and_an_intent() -> None:
    tree = snapshot_builder.tree("feat-a")
    shown = replace(sample_agents.swarm(), worktrees=(tree,), agents=(), runs=(), collisions=())
    pull = PullRequest(7, "Add login", "alice", state="OPEN")
    meant = Intent("log in", "ada", snapshot_builder.ago(60))

    async def play(app: ImiApp, pilot: Pilot[Any], engine: Fed) -> None:
        kinds = (tree, replace(tree, pull=pull), replace(tree, intent=meant))
        needed = [app.home.panel(2).lines_needed(replace(shown, worktrees=(one,)), 80) for one in kinds]
        assert needed == [needed[0], needed[0] + 1, needed[0] + 1]

    fed(play, shown)


def test_the_git_panel_has_a_line_for_each_overlap_of_a_worktree() -> None:
    trees = [snapshot_builder.tree(name) for name in ("feat-a", "feat-b", "feat-c", "feat-d")]
    first, *others = (tree.key for tree in trees)
    one = replace(sample_agents.swarm(), worktrees=tuple(trees), agents=(), runs=(), collisions=())
    overlaps = tuple(Collision(first, other, ("src/a.ts",), None) for other in others)

    async def play(app: ImiApp, pilot: Pilot[Any], engine: Fed) -> None:
        panel = app.home.panel(2)
        needed = [panel.lines_needed(replace(one, collisions=overlaps[:number]), 80) for number in range(4)]
        assert needed == [
            needed[0],
            needed[0],
            needed[0],
            needed[0] + 1,
        ]  # one is included, one for "nothing uncommitted"

    fed(play, one)


def test_files_stand_above_the_overlaps_of_the_git_panel() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any], engine: Fed) -> None:
        rows = [row.lines[0].plain for row in app.home.panel(2).lines.rows]
        files = [index for index, row in enumerate(rows) if "src/a.ts" in row and "⚡" not in row[:3]]
        hits = [index for index, row in enumerate(rows) if row.startswith("⚡ conflicts with")]
        assert hits and max(files) < min(hits), rows
        assert all(row.endswith("src/a.ts") for row in rows[hits[0] :])

    fed(play, replace(sample_agents.swarm(), agents=()))


def test_wide_rows_show_branch_task_and_last_commit() -> None:
    key = Key("here", "app", "feat-a")
    held = snapshot_builder.tree("feat-a", claim=snapshot_builder.claim(key, "ada", task="T-42"))
    part = worktree_row.WorktreeRowData(held, "5s", 0, False, snapshot_builder.NOW)
    wide = planned(196, [held])
    assert all(title in worktree_columns.column_titles(wide).plain for title in ("branch", "task", "last commit"))
    assert all(text in in_one_line(part, wide).plain for text in ("feat/a", "T-42", "one"))
    assert not planned(96, [held]).commit


def test_unknown_is_never_drawn_as_clean_or_level() -> None:
    for tree in (
        snapshot_builder.tree("a", git=None),
        snapshot_builder.tree("b", missing=True, git=snapshot_builder.dirty()),
    ):
        plan = planned(100, [tree])
        part = worktree_row.WorktreeRowData(tree, "", 0, False, snapshot_builder.NOW)
        text = in_one_line(part, plan).plain + "".join(line.plain for line in worktree_row.stacked_row(part, plan))
        assert "?" in text and "clean" not in text and "✎" not in text


def test_the_header_says_what_it_counts_and_fits_every_width() -> None:
    held, lost = snapshot_builder.tree("feat-a", by="x", changed=3), snapshot_builder.tree("fix-b", by="y", how="dead")
    quiet = snapshot_builder.tree("feat-c", by="z", how="stale")
    facts = snapshot_builder.facts(
        held, lost, quiet, snapshot_builder.tree("main"), collisions=(snapshot_builder.conflict(held, lost),)
    )
    badges = header.HeaderBadges(paused=True, read_only=True, marked=2)
    line = header.line(facts, badges, 140, snapshot_builder.NOW).plain
    for words in (
        "app",
        "4 worktrees",
        "1 collision",
        "1 dead",
        "1 stale",
        "1 changing",
        "3 claimed",
        "2 marked",
        "paused",
        "read-only",
    ):
        assert words in line
    for width in range(40, 200, 7):
        assert header.line(facts, badges, width, snapshot_builder.NOW).cell_length == width


def test_the_header_names_the_sink_that_is_farthest_behind() -> None:
    at = snapshot_builder.ago
    away = SinkState("amqp", 3204, at(7200), 0, 0, None, "RabbitMQ at h:5672 cannot be reached", at(7200))
    late = SinkState("history", 5, at(90_000), 0, 0, None, None, None)
    busy = SinkState("postgres", 900, at(5), 0, 0, None, None, None)
    for sinks, words in (((away, late), " RabbitMQ ⇡3,204 +1 "), ((late,), " history ⇡5 "), ((busy,), "")):
        facts = snapshot_builder.facts(snapshot_builder.tree("main"), sinks=sinks)
        line = header.line(facts, header.HeaderBadges(), 100, snapshot_builder.NOW)
        assert words in line.plain and ("⇡" in line.plain) == bool(words) and line.cell_length == 100


def test_the_header_never_looks_for_ever() -> None:
    """An empty repository has been read, and what cannot be read is not looked for any more."""
    trouble = SourceFailure("the registry", "it cannot be written", times.stamp(snapshot_builder.NOW))
    for health, words in (
        ((), "looking…"),
        ((SourceHealth("worktrees", "2026-03-01T12:00:00Z", None),), "no worktree yet"),
        ((SourceHealth("registry", None, trouble),), "nothing can be read"),
    ):
        line = header.line(snapshot_builder.facts(health=health), header.HeaderBadges(), 80, snapshot_builder.NOW)
        assert words in line.plain, line.plain


def test_a_repository_without_a_commit_says_so() -> None:
    async def play(app: ImiApp, pilot: Pilot[Any], engine: Fed) -> None:
        rows = " ".join(row.lines[0].plain for row in app.home.panel(2).lines.rows)
        assert "no commit yet" in rows and "nothing uncommitted" not in rows, rows

    fed(
        play,
        snapshot_builder.world(snapshot_builder.tree("main", git=snapshot_builder.state(head=None, last_commit=None))),
    )


@pytest.mark.parametrize(
    ("git", "said"),
    [
        (snapshot_builder.state(), "nothing is uncommitted or has changed"),
        (snapshot_builder.dirty(2), "no file has changed since the start; 2 uncommitted files: 2 lists them"),
        (None, "no file has changed since the start"),
    ],
)
def test_the_changes_panel_never_contradicts_git(git: GitState | None, said: str) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any], engine: Fed) -> None:
        rows = app.home.panel(4).lines.rows
        assert " ".join(row.lines[0].plain for row in rows) == said
        assert len(rows) <= app.home.panel(4).lines.size.height, "the panel has a line for each"

    read = SourceHealth("files", times.stamp(snapshot_builder.NOW), None)
    fed(play, snapshot_builder.world(snapshot_builder.tree("main", git=git), health=(read,)))


def test_an_untracked_folder_gives_way_to_the_files_seen_in_it() -> None:
    at = snapshot_builder.ago(60)
    new = [Change("app", tree, "created", "new/", at, guessed=True) for tree in ("main", "feat")]
    seen = Change("app", "main", "created", "new/deep/file.py", snapshot_builder.ago(5))
    trees = (snapshot_builder.tree("main"), snapshot_builder.tree("feat"))
    world = snapshot_builder.world(*trees, earlier=tuple(new), changes=(seen,))

    async def play(app: ImiApp, pilot: Pilot[Any], engine: Fed) -> None:
        shown = app.home.panel(4).entries(world)
        assert [(one.worktree, one.path) for one in shown] == [("feat", "new/"), ("main", "new/deep/file.py")]

    fed(play, world)


@pytest.mark.parametrize(("status", "said"), [(0, "✓ make test 3.0 s"), (2, "✗ make test 2 after 3.0 s"), (None, None)])
def test_the_row_and_the_git_panel_say_how_the_last_command_ended(
    status: int | None, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.dumps({"line": "make test", "status": status or 0, "seconds": 3})
    ended = RegistryEvent(1, "command.ended", snapshot_builder.ago(120), "app", "main", None, data)
    made = RegistryEvent(2, "worktree.created", snapshot_builder.ago(60), "app", "main", None, "{}")

    async def play(app: ImiApp, pilot: Pilot[Any], engine: Fed) -> None:
        lines = [row.lines[0].plain for row in app.home.panel(2).lines.rows]
        assert [line for line in lines if "make test" in line] == ([f"{said}  2m"] if said else [])
        (row,) = app.home.panel(1).lines.rows
        shown = " ".join(line.plain for line in row.lines)
        assert (said in shown) if said else ("make test" not in shown)

    events = (ended, made) if status is None else (ended,)
    set_clock(monkeypatch, snapshot_builder.NOW)
    fed(play, snapshot_builder.world(snapshot_builder.tree("main"), events=events))


def stop_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = times.now()
    set_clock(monkeypatch, lambda: moment)


def drawn_rows(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The list to which the name of each worktree is added whose row is built from now on."""
    drawn: list[str] = []
    real = worktree_row.single_row
    monkeypatch.setattr(
        worktree_row, "single_row", lambda part, plan: drawn.append(part.tree.key.worktree) or real(part, plan)
    )
    return drawn


def test_unchanged_worktree_rows_are_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 1 Hz only what is new costs anything: 200 rows that look the same are not even built."""
    trees = tuple(snapshot_builder.tree(f"feat-{n:03}", by="x") for n in range(200))
    drawn = drawn_rows(monkeypatch)

    async def play(app: ImiApp, pilot: Pilot[Any], engine: Fed) -> None:
        app.stop_clock()
        await pilot.pause()
        drawn.clear()
        stop_the_clock(monkeypatch)
        app.draw()
        drawn.clear()
        app.draw()
        assert drawn == []
        changed = replace(trees[7], git=snapshot_builder.dirty(3))
        engine.publish(replace(snapshot_builder.world(*trees[:7], changed, *trees[8:]), seq=2))
        await pilot.pause()
        assert drawn == ["feat-007"]

    fed(play, snapshot_builder.world(*trees))


def test_only_rows_whose_age_changed_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = times.now()
    trees = [snapshot_builder.tree(f"feat-{n}", by="x") for n in range(3)]
    at = [times.stamp(now - timedelta(seconds=seconds)) for seconds in (3, 15, 3590)]
    trees = [
        replace(tree, last_change=Change("app", tree.key.worktree, "modified", "f", moment))
        for tree, moment in zip(trees, at, strict=True)
    ]
    drawn = drawn_rows(monkeypatch)

    def ages(app: ImiApp, after: float) -> list[str]:
        moment = times.parse(times.stamp(now + timedelta(seconds=after)))
        set_clock(monkeypatch, lambda: moment)
        app.draw()
        return [row.lines[0].plain.split()[-1] for row in app.home.worktrees.lines.rows]

    async def play(app: ImiApp, pilot: Pilot[Any], engine: Fed) -> None:
        app.stop_clock()
        assert ages(app, 0) == ["3s", "10s", "59m"]
        for after, shown, redrawn in (
            (4.5, ["7s", "10s", "59m"], {"feat-0"}),
            (5, ["8s", "20s", "59m"], {"feat-0", "feat-1"}),
            (10.5, ["10s", "20s", "1h"], {"feat-0", "feat-2"}),
            (1, ["4s", "10s", "59m"], {"feat-0", "feat-1", "feat-2"}),  # the clock was put back
        ):
            drawn.clear()
            assert ages(app, after) == shown
            assert set(drawn) == redrawn

    fed(play, snapshot_builder.world(*trees))


def test_nothing_is_written_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(app: ImiApp, pilot: Pilot[Any], engine: Fed) -> None:
        app.stop_clock()
        stop_the_clock(monkeypatch)
        app.draw()
        await pilot.pause()
        written = record_terminal_writes(app)
        for _ in range(5):
            app.tick()
            await pilot.pause()
        assert written == []

    fed(play, snapshot_builder.world(snapshot_builder.tree("feat-a", by="x", changed=3), snapshot_builder.tree("main")))


def test_ages_are_redrawn_only_when_they_read_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    start = times.now().replace(second=2, microsecond=0)
    moment = [start]
    set_clock(monkeypatch, lambda: moment[0])

    def changed(name: str, seconds: float) -> Worktree:
        at = times.stamp(start - timedelta(seconds=seconds))
        return replace(snapshot_builder.tree(name, by="x"), last_change=Change("app", name, "modified", "f", at))

    async def play(app: ImiApp, pilot: Pilot[Any], engine: Fed) -> None:
        app.stop_clock()
        drawn: list[float] = []
        real = app.draw
        app.draw = lambda: drawn.append((moment[0] - start).total_seconds()) or real()  # type: ignore[method-assign]

        def ticks(*seconds: float) -> list[float]:
            drawn.clear()
            for second in seconds:
                moment[0] = start + timedelta(seconds=second)
                app.tick()
            return drawn

        assert ticks(1, 2, 4, 5, 6, 14, 15, 16) == [5.0, 15.0], "the ages of both, and one more"
        assert ticks(57, 58, 59) == [58.0], "the clock of the top line"
        assert ticks(10) == [10.0], "the clock was put back"
        engine.publish(replace(snapshot_builder.world(changed("a", 0.5), changed("b", 3000)), seq=2))
        moment[0] = start
        await pilot.pause()
        assert ticks(0.2, 0.4, 0.5, 0.6, 1.4, 1.5) == [0.5, 1.5], "seconds, below ten of them"

    fed(play, snapshot_builder.world(changed("a", 55), changed("b", 45)))


@pytest.mark.parametrize("paused", [False, True])
def test_resizing_and_back_draws_the_same_screen(monkeypatch: pytest.MonkeyPatch, paused: bool) -> None:
    """Another size is drawn at once: no second has to pass, and no age to go on."""

    async def play(app: ImiApp, pilot: Pilot[Any], engine: Fed) -> None:
        app.stop_clock()
        stop_the_clock(monkeypatch)
        if paused:
            await pilot.press("p")
        await pilot.pause()
        before = screen_text(app)
        for size in ((120, 40), (100, 30), (60, 20), (140, 15), (140, 40)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            tall = app.home.worktrees.size.height > 8
            assert app.home.worktrees.query_one("#columns").display == (tall and size[0] > 60), size
            for panel in app.home.panels:
                if panel.display and panel.lines.size.width:
                    assert panel._inputs is not None and panel._inputs[1] == panel.room, (size, panel.number)
        assert screen_text(app) == before

    fed(play, snapshot_builder.world(*(snapshot_builder.tree(f"feat-{n}", by="claude-1", changed=n) for n in range(9))))


def test_busy_worktrees_are_counted_until_they_stop() -> None:
    at = times.stamp(snapshot_builder.NOW - timedelta(seconds=50))
    facts = snapshot_builder.facts(
        replace(snapshot_builder.tree("a"), last_change=Change("app", "a", "modified", "f", at))
    )
    assert header.lasts_until(facts, snapshot_builder.NOW) == snapshot_builder.NOW + timedelta(seconds=10)
    assert header.lasts_until(None, snapshot_builder.NOW).second == 0


def test_snapshot_facts_are_computed_once() -> None:
    one, two = snapshot_builder.tree("a"), snapshot_builder.tree("b")
    facts = snapshot_builder.facts(one, two, collisions=(snapshot_builder.conflict(one, two),))
    assert facts.conflicts == {one.key: 1, two.key: 1}
    assert facts.at(snapshot_builder.NOW + timedelta(seconds=5)).conflicts is facts.conflicts
    assert isinstance(facts, SnapshotFacts) and not facts.at(snapshot_builder.NOW).is_busy(one)


@pytest.mark.parametrize(
    ("size", "unreadable", "shown"),
    [
        (0, 0, "0B"),
        (999, 0, "999B"),
        (4096, 0, "4.1k"),
        (999_499, 0, "999k"),
        (999_500, 0, "1.0M"),
        (9_950_000, 0, "10M"),
        (7_000_000_000, 3, "7.0G+"),
        (999 * 10**9, 1, "999G+"),
        (10**15, 0, "1000T"),
        (None, 0, "?"),
    ],
)
def test_disk_use_takes_five_cells_at_most(size: int | None, unreadable: int, shown: str) -> None:
    assert cells.disk_size(DiskUse(Key("here", "app", "feat-x"), size, unreadable)) == shown and len(shown) <= 5
    assert cells.disk_size(None) == "…"


@pytest.mark.parametrize(
    ("fields", "doing", "summary"),
    [
        ({}, "", "✓ clean"),
        ({"merged": True}, "merged", "✓ merged"),
        ({"branch": None}, "detached at abcdef12", "✓ clean, detached"),
        ({"branch": None, "trunk_ahead": 2, "upstream": None}, "detached at abcdef12", "✓ 2 commits ahead, detached"),
        ({"branch": None, "head": None}, "", "✓ clean"),
    ],
)
def test_a_list_says_that_a_branch_is_merged_or_none_is_checked_out(
    fields: dict[str, object], doing: str, summary: str
) -> None:
    state = snapshot_builder.state(**{"head": "abcdef1234", "files": (), "trunk_ahead": 0, **fields})
    tree = snapshot_builder.tree("feat-x", git=state)
    assert cells.activity(tree).plain == doing
    assert cells.git_summary(tree).plain == summary
