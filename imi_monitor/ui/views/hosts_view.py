"""The homes of the team: who publishes, since when, with how many worktrees, claims and agents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

from textual import on
from textual.app import ComposeResult
from textual.content import Content

from imi_monitor.model import columns, state_words, times
from imi_monitor.model.home_states import STATE_WORDS
from imi_monitor.model.snapshot import HERE, NEWER, OFFLINE, UNCONFIRMED, HomeState, Snapshot
from imi_monitor.model.state_words import ASKS, counted
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.snapshot_facts import SnapshotFacts
from imi_monitor.ui.views.view import View
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp

_NARROW = 80  # cells below which a row has two lines
_SIGNS = {
    HERE: ("●", "$success"),
    UNCONFIRMED: ("?", "$warning"),
    OFFLINE: ("○", cells.MUTED),
    NEWER: ("!", "$warning"),
}


class HostsView(View):
    word = "hosts"
    opening_key = "C"
    label = "Hosts"
    help = "the homes of the team: who is there, since when, with which agents and claims"

    def body(self) -> ComposeResult:
        yield RowList(id="hosts")

    def on_mount(self) -> None:
        self.query_one(RowList).focus()

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        homes = snapshot.homes
        here = sum(home.state == HERE for home in homes)
        behind = f"  {here} of {len(homes)} online" if homes else ""
        self.set_title(Content.styled("Hosts", "bold").append(Content.styled(behind, cells.MUTED)))
        lines = self.query_one(RowList)
        width = max(20, lines.size.width)
        facts = SnapshotFacts(snapshot, now)
        found = [_texts(home, facts, now) for home in homes]
        widths = tuple(max(map(columns.cell_width, texts)) for texts in zip(*found, strict=True))
        rows = [_row(home, texts, widths, width) for home, texts in zip(homes, found, strict=True)]
        rows = rows or [message_row(_why_empty(snapshot))]
        lines.show(rows, 2 if width < _NARROW else 1)

    @on(RowList.RowChosen)
    def _narrow(self, event: RowList.RowChosen) -> None:
        """Show the worktrees of the home alone."""
        event.stop()
        app = cast("ImiApp", self.app)
        self.action_leave()
        app.call_after_refresh(app.home.action_narrow, f"host:{event.key}")


def _texts(home: HomeState, facts: SnapshotFacts, now: datetime) -> tuple[str, ...]:
    """The columns of a home: label, user and state, then what it has and what it is."""
    what = (f"imi {safe(home.version, 20)}", f"up {times.age_of(home.since, now)}")
    trouble = f"{count(home.rejected, 'row')} could not be read" if home.rejected else ""
    if home.state == NEWER:
        trouble = "upgrade this one to see its rows"
    return (safe(home.label), safe(home.user), _state_text(home, now), *_amounts(home, facts), *what, trouble)


def _row(home: HomeState, texts: tuple[str, ...], widths: tuple[int, ...], width: int) -> ListRow:
    """One line, or two in a narrow view: each column as wide as its longest text, the last ones left out where all do not fit."""
    sign, style = _SIGNS.get(home.state, ("?", "$warning"))
    label, user, state, *rest = texts
    label_room = min(widths[0], max(12, width - 4 - widths[1] - widths[2] - 2))
    head = [
        Content.styled(f"{sign} ", style),
        cells.fixed_name(label, label_room, "bold"),
        cells.fixed(f"  {user}", widths[1] + 2, cells.MUTED),
        cells.fixed(f"  {state}", widths[2] + 2, style),
    ]
    first = Content("").join(head)
    if home.state == NEWER:  # nothing else is known of it
        rest, widths = [rest[-1]], (*widths[:3], columns.cell_width(rest[-1]))
    if width < _NARROW:
        second = Content(" ").append(_as_fits(rest, widths[3:], width - 1))
        return ListRow(home.label, (first.truncate(width, ellipsis=True), second))
    return ListRow(home.label, (first.append(_as_fits(rest, widths[3:], width - first.cell_length)),))


def _as_fits(texts: Sequence[str], widths: Sequence[int], room: int) -> Content:
    """The columns that fit, each behind a gap; one that no home fills is left out."""
    parts = []
    for text, width in zip(texts, widths, strict=True):
        if width and width + 2 > room:
            break
        if width:
            parts.append(f"  {cells.fit(text, width)}")
            room -= width + 2
    return Content.styled("".join(parts).rstrip(), cells.MUTED)


def _amounts(home: HomeState, facts: SnapshotFacts) -> Sequence[str]:
    """Worktrees, claims, agents, and how many of these ask: empty without any. Of a newer imi they are not known."""
    if home.state == NEWER:
        return ["", "", "", ""]
    snapshot = facts.snapshot
    if home.own:
        trees = [tree for tree in snapshot.worktrees if facts.home_of(tree) is None]
        agents = [agent for agent in snapshot.agents if facts.home_of_agent(agent) is None and not agent.truth.ended]
    else:
        trees, agents = list(home.worktrees), list(home.agents)
    claims = sum(tree.claim is not None and bool(tree.claim.agent) for tree in trees)
    asking = sum(state_words.of_status(agent.state) == ASKS for agent in agents)
    amounts = [count(len(trees), "worktree"), count(claims, "claim"), count(len(agents), "agent")]
    return [*amounts, counted(asking, ASKS) if asking else ""]


def _state_text(home: HomeState, now: datetime) -> str:
    if home.own:
        return "this one"
    silence = f" for {times.age_of(home.seen, now)}" if home.seen and home.state != NEWER else ""
    return STATE_WORDS.get(home.state, home.state) + silence


def _why_empty(snapshot: Snapshot) -> str:
    team = next((one for one in snapshot.health if one.source == "team"), None)
    if team is None:
        return "this home has no team: set servers.redis_url in the config file to see other machines here"
    if team.failure is not None:
        return f"the team cannot be read: {safe(team.failure.why, 300)}"
    return "looking for the homes of the team…"


VIEW = HostsView
