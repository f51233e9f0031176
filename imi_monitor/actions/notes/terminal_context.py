"""The context of the terminal around the caller: capture its tabs and panes, find the one it continues, build it again."""

from __future__ import annotations

import os

from imi_monitor.model import terminal_layout
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.text import safe
from imi_monitor.mux import terminal_place
from imi_monitor.store import contexts, db, notes, sessions
from imi_monitor.store.sessions import SessionFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.model.terminal_layout import TerminalLayout
    from imi_monitor.mux.terminal_place import TerminalPlace
    from imi_monitor.store.contexts import ContextRow
    from imi_monitor.store.notes import NoteRow

_MOST_SESSIONS = 8


def save(context: Context, place: TerminalPlace) -> ContextRow | None:
    """Store the tabs and panes of the terminal as they are now; None if they are stored already."""
    layout = _capture(place, commands=context.settings.flag("context.commands"))

    def put(connection: sqlite3.Connection) -> ContextRow | None:
        ident = contexts.at_place(connection, place.text, place.kind, name=place.name, folder=context.cwd)
        name = layout.session if layout is not None else None
        text = layout.encode() if layout is not None else ""
        changed = contexts.save_layout(connection, ident, name=name, folder=context.cwd, layout=text)
        return contexts.get(connection, ident) if changed else None

    return db.transact(context.connection, put)


def _capture(place: TerminalPlace, *, commands: bool) -> TerminalLayout | None:
    if place.kind == terminal_place.TMUX:
        from imi_monitor.mux import tmux_session

        return tmux_session.capture(place.server, place.pane, commands=commands)
    if place.kind == terminal_place.ZELLIJ:
        from imi_monitor.mux import zellij_layout

        return zellij_layout.capture(place.name or "", commands=commands)
    return None


def offered(connection: sqlite3.Connection, place: TerminalPlace, folder: str) -> ContextRow | None:
    """The earlier context of this terminal that ended unexpectedly: it has an open intent, or the machine was restarted.

    In a multiplexer it is that of the session with this name; in a plain terminal the one of this folder.
    """
    known = contexts.list_contexts(connection)
    present = next((one for one in known if one.place == place.text), None)
    for one in known:
        if one.place == place.text or one.settled_at is not None or one.kind != place.kind:
            continue
        if not _is_same(one, place, present, folder) or not terminal_place.is_over(one.place):
            continue
        if notes.current_intent(connection, context=one.id) is not None or _was_restarted(one, place):
            return one
    return None


def _is_same(one: ContextRow, place: TerminalPlace, present: ContextRow | None, folder: str) -> bool:
    if place.kind == terminal_place.PLAIN:
        return one.folder == folder
    name = place.name or (present.name if present is not None else None)
    return terminal_place.is_same(one.place, place.text) and (name is None or one.name in (None, name))


def _was_restarted(one: ContextRow, place: TerminalPlace) -> bool:
    return bool(one.layout) and one.place.split("|")[1:2] != place.text.split("|")[1:2]


class ContextStory:
    """A context with what people want to see of it: its intent, milestones, panes, and what agents did last in its worktrees."""

    __slots__ = ("agents", "intent", "layout", "notes", "row")

    def __init__(self, connection: sqlite3.Connection, row: ContextRow) -> None:
        self.row = row
        self.intent = notes.current_intent(connection, context=row.id)
        self.notes = notes.list_logged(connection, context=row.id, limit=30)
        self.layout = terminal_layout.decode(row.layout)
        self.agents = _agents(connection, self.notes)

    def lines(self) -> list[str]:
        from imi_monitor.actions.notes import logged_notes_action

        row = self.row
        lines = [f"{row.kind} {safe(row.name or '', 100)}".rstrip() + f" in {safe(row.folder or '?', 300)}"]
        lines.append(f"intent: {safe(self.intent.text, 1000)}" if self.intent is not None else "no open intent")
        lines += [f"  {logged_notes_action.line_of(one)}" for one in self.notes if one.kind != notes.INTENT]
        if self.agents:
            lines += ["agents:", *(f"  {one}" for one in self.agents)]
        if self.layout is not None and self.layout.tabs:
            lines += [f"{self.layout.size}:", *(f"  {line}" for line in self.layout.lines())]
        return lines

    def data(self) -> dict[str, object]:
        from imi_monitor.actions.notes import logged_notes_action

        row = self.row
        return {
            "id": row.id,
            "kind": row.kind,
            "name": row.name,
            "folder": row.folder,
            "began_at": row.began_at,
            "changed_at": row.changed_at,
            "saved_at": row.saved_at,
            "settled_at": row.settled_at,
            "over": terminal_place.is_over(row.place),
            "intent": self.intent.text if self.intent is not None else None,
            "notes": [logged_notes_action.data_of(one) for one in self.notes],
            "agents": self.agents,
            "tabs": len(self.layout.tabs) if self.layout is not None else None,
            "panes": sum(len(tab.panes) for tab in self.layout.tabs) if self.layout is not None else None,
        }


def _agents(connection: sqlite3.Connection, found: list[NoteRow]) -> list[str]:
    """Return what agents did last in the worktrees of these notes, the last first."""
    lines = []
    for repo, worktree in dict.fromkeys(
        (one.repo_name, one.worktree_name) for one in reversed(found) if one.worktree_name
    ):
        for one in sessions.find(connection, SessionFilter(repo, worktree), limit=3):
            detail = f": {safe(one.detail, 200)}" if one.detail else ""
            lines.append(f"{safe(one.agent_id, 60)} in {safe(worktree, 60)}: {one.state_word}{detail}")
    return lines[:_MOST_SESSIONS]


def rebuild(layout: TerminalLayout, place: TerminalPlace) -> list[str]:
    """Build the tabs and panes in the session around the caller; returns what could not be done."""
    if place.kind == terminal_place.TMUX:
        from imi_monitor.mux import tmux_session

        return tmux_session.rebuild(layout, place.server, place.pane)
    from imi_monitor.mux import zellij_layout

    return zellij_layout.rebuild(layout, place.name or "")


def reopen(layout: TerminalLayout) -> list[str]:
    """Start the session again from a plain terminal, where programs wait behind Enter; returns the command that shows it."""
    from imi_monitor import programs

    if layout.kind == terminal_place.ZELLIJ:
        from imi_monitor.mux import zellij_layout

        if not zellij_layout.can_resurrect(layout.session):
            zellij_layout.start_session(layout, layout.session)
        return [programs.find("zellij") or "zellij", "attach", layout.session]
    from imi_monitor.mux import tmux_session

    return tmux_session.start_session(layout)


def resume(context: Context, row: ContextRow) -> tuple[list[str], tuple[list[str], str] | None]:
    """Bring the context back into this terminal: problems, and the command to show it if it is another session."""
    place, layout = terminal_place.find(), terminal_layout.decode(row.layout)
    if place is None:
        raise Refused("this is no terminal: resume it in one", code="no-terminal")
    problems: list[str] = []
    screen = None
    if layout is not None and layout.tabs:
        try:
            if place.kind == layout.kind:
                problems = rebuild(layout, place)
            elif place.kind == terminal_place.PLAIN:
                screen = (reopen(layout), row.folder if row.folder and os.path.isdir(row.folder) else context.cwd)
            else:
                problems = [f"its panes are of {layout.kind}: resume it there to get them back"]
        except ImiError as error:
            problems = [f"its panes did not come back: {error.sentence}"]

    def put(connection: sqlite3.Connection) -> None:
        ident = contexts.at_place(connection, place.text, place.kind, name=place.name, folder=context.cwd)
        if screen is None and ident != row.id:
            contexts.continue_in(connection, row.id, ident)

    db.transact(context.connection, put)
    return problems, screen
