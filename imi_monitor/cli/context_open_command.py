"""`imi context open`: a shell runs it when its terminal opens (`imi shell-init --ask`) and shows what that terminal continues."""

from __future__ import annotations

import sys

from imi_monitor.actions.action import Action, Outcome, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.mux.terminal_place import TerminalPlace
    from imi_monitor.store.contexts import ContextRow

_WHAT = "what is to be achieved in this terminal? (nothing: not now)"
_EARLIER = "r brings it back, d forgets it, or say what this terminal is for (nothing: not now)"


class ContextOpenAction(Action):
    words = ("context open",)
    group = "Agents"
    label = "Open the context"
    help = "show what this terminal continues and ask for its intent, once for each terminal"
    more = """A session of tmux or Zellij is one terminal: its other panes are not asked. Without a terminal nothing is shown or
    asked. `imi shell-init --ask` lets each shell call it when it starts."""
    hot = True

    def run(self, context: Context, request: Request) -> Outcome:
        from imi_monitor.actions.notes import terminal_context
        from imi_monitor.mux import terminal_place
        from imi_monitor.store import contexts, db

        place = terminal_place.find()
        if place is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return Outcome([], {"asked": False})
        if db.read(context.connection, contexts.find, place.text) is not None:
            return Outcome([], {"asked": False})
        row = db.read(context.connection, terminal_context.offered, place, context.cwd)
        answer = _ask(context, row)
        if row is not None and answer in ("r", "d"):
            return _resume(context, row, dismiss=answer == "d")
        if answer:
            from imi_monitor.actions.notes.logged_notes_action import IntentAction

            return IntentAction().run(context, Request("intent", {"text": answer}))
        _remember(context, place)
        return Outcome([], {"asked": True})


def _ask(context: Context, row: ContextRow | None) -> str:
    """Return the user's answer; empty for nothing, ctrl-c and ctrl-d."""
    from imi_monitor.cli import output

    if row is not None:
        from imi_monitor.actions.notes.terminal_context import ContextStory
        from imi_monitor.store import db

        for line in db.read(context.connection, ContextStory, row).lines():
            output.note(line)
    output.note(f"imi: {_WHAT if row is None else _EARLIER}")
    try:
        return sys.stdin.readline().strip()
    except KeyboardInterrupt:
        return ""


def _resume(context: Context, row: ContextRow, *, dismiss: bool) -> Outcome:
    from imi_monitor.actions.notes.context_action import ContextResumeAction

    return ContextResumeAction().run(context, Request("context resume", {"id": row.id, "dismiss": dismiss}))


def _remember(context: Context, place: TerminalPlace) -> None:
    """Record that this terminal was asked."""
    from imi_monitor.store import contexts, db

    def put(connection: sqlite3.Connection) -> None:
        contexts.at_place(connection, place.text, place.kind, name=place.name, folder=context.cwd)

    db.transact(context.connection, put)


ACTIONS = (ContextOpenAction(),)
