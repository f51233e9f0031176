"""`imi context show|save|resume|list`: what belongs to a terminal, through crashes and restarts."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.notes import terminal_context
from imi_monitor.actions.notes.terminal_context import ContextStory
from imi_monitor.model import terminal_layout, times
from imi_monitor.model.columns import Column, table
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.mux import terminal_place
from imi_monitor.store import contexts, db, notes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.contexts import ContextRow

_ID = Argument("id", "the beginning of a context's id, as `imi context list` shows it", optional=True)
_COLUMNS = (
    Column("Id"),
    Column("Terminal", least=8),
    Column("State"),
    Column("Changed", right=True),
    Column("Panes", right=True, rank=2),
    Column("Intent", least=10),
    Column("Folder", least=8, rank=1),
)
_SHARED = (Column("Of", least=8), Column("Key", least=10), Column("Ends", right=True, rank=1), Column("Says", least=10))


class ContextShowAction(Action):
    words = ("context show", "context")
    group = "Agents"
    label = "Context"
    help = "show the intent, milestones, panes and agents of this terminal, or of the one that it continues"
    arguments = (_ID,)
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        row = _named(context, request) or _present(context)
        if row is None:
            return Outcome(["nothing is recorded for this terminal: `imi intent TEXT` begins"], {"context": None})
        story = db.read(context.connection, ContextStory, row)
        place = terminal_place.find()
        if place is not None and row.place != place.text and row.settled_at is None:
            line = f"this terminal can continue it: `imi context resume {row.id[:8]}`"
            return Outcome([*story.lines(), line], {"context": story.data(), "resumable": True})
        return Outcome(story.lines(), {"context": story.data(), "resumable": False})


class ContextSaveAction(Action):
    words = ("context save",)
    group = "Agents"
    label = "Save the context"
    help = "record the tabs and panes of this terminal as they are now"
    more = """A dashboard in Zellij or tmux does it by itself, and so do `imi intent` and `imi milestone`. Command lines are kept
    redacted; with context.commands = false they are not kept."""

    def run(self, context: Context, request: Request) -> Outcome:
        place = terminal_place.find()
        if place is None:
            raise Refused("this is no terminal: save it in one", code="no-terminal")
        changed = terminal_context.save(context, place)
        warning = _send(context)
        row = db.read(context.connection, contexts.find, place.text)
        layout = terminal_layout.decode(row.layout) if row is not None else None
        what = layout.size if layout is not None and layout.tabs else "this terminal has no panes that imi can list"
        line = what if row is None or changed is not None else f"unchanged: {what}"
        data: dict[str, object] = {"id": row.id if row is not None else None, "changed": changed is not None}
        return Outcome([line], data, warnings=[warning] if warning else [])


class ContextResumeAction(Action):
    words = ("context resume",)
    group = "Agents"
    label = "Resume the context"
    help = "bring back the intent, tabs and panes of a terminal that has ended"
    more = """Where Zellij itself can bring the session back, it does. Else tabs, panes, folders and geometry are built again in
    the session around you, or in a new one. Programs wait behind Enter in their panes: none is started."""
    arguments = (_ID,)
    options = (Option("dismiss", "do not offer it again, and bring nothing back"),)
    dialog_options = ("dismiss",)

    def consequences(self, context: Context, request: Request) -> list[str]:
        return db.read(context.connection, ContextStory, self._row(context, request)).lines()

    def run(self, context: Context, request: Request) -> Outcome:
        row = self._row(context, request)
        if request.flag("dismiss"):
            db.transact(context.connection, contexts.settle, row.id)
            return Outcome(["it is not offered again; `imi context list` keeps it"], {"id": row.id, "dismissed": True})
        story = db.read(context.connection, ContextStory, row)
        problems, screen = terminal_context.resume(context, row)
        data: dict[str, object] = {"id": row.id, "context": story.data(), "problems": problems}
        return Outcome(story.lines(), data, warnings=problems, screen=screen)

    def _row(self, context: Context, request: Request) -> ContextRow:
        row = _named(context, request)
        place = terminal_place.find()
        if row is None and place is not None:
            row = db.read(context.connection, terminal_context.offered, place, context.cwd)
        if row is None:
            raise Refused(
                "no earlier context of this terminal is open: `imi context list` shows all", code="no-context"
            )
        if place is not None and row.place == place.text:
            raise Refused("that is the context of this terminal: it needs no resuming", code="present")
        return row


class ContextListAction(Action):
    words = ("context list",)
    group = "Agents"
    label = "Contexts"
    help = "list the contexts of terminals"
    more = "With --shared: what imi, zellij-driver and Jelmore keep on the team's Redis."
    options = (Option("shared", "what is on the team's Redis, of all machines; it is only read"),)
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        if request.flag("shared"):
            return _shared(context)
        found = db.read(context.connection, contexts.list_contexts)
        place = terminal_place.find()
        stories = [db.read(context.connection, ContextStory, row) for row in found]
        rows = [_columns(one, place.text if place is not None else None) for one in stories]
        from imi_monitor.actions.status.status_action import terminal_width

        lines = table(_COLUMNS, rows, terminal_width()) or ["no terminal has a context yet: `imi intent TEXT` begins"]
        return Outcome(lines, {"contexts": [one.data() for one in stories], "count": len(stories)})


def _columns(story: ContextStory, here: str | None) -> list[str]:
    row, layout = story.row, story.layout
    over = terminal_place.is_over(row.place)
    state = (
        "settled"
        if row.settled_at
        else "this one"
        if row.place == here
        else "ended"
        if over
        else "open"
        if over is False
        else "?"
    )
    panes = sum(len(tab.panes) for tab in layout.tabs) if layout is not None else 0
    return [
        row.id[:8],
        f"{row.kind} {safe(row.name or '', 60)}".rstrip(),
        state,
        times.age_of(row.changed_at),
        str(panes) if panes else "",
        safe(story.intent.text, 200) if story.intent is not None else "",
        safe(row.folder or "", 200),
    ]


def _shared(context: Context) -> Outcome:
    from imi_monitor.actions.status.status_action import terminal_width
    from imi_monitor.actions.team import published_homes

    prefix = context.settings.text("context.prefix")

    async def read(link):  # type: ignore[no-untyped-def]
        from imi_monitor.links.context_store import ContextStore

        return await ContextStore(link, prefix).list_entries()

    found = published_homes.with_redis(context, read)
    rows = [[one.kind, one.name, "never" if one.seconds is None else times.age(one.seconds), one.text] for one in found]
    data = [{"of": one.kind, "key": one.name, "seconds_left": one.seconds, "says": one.text} for one in found]
    lines = table(_SHARED, rows, terminal_width()) or ["nothing about terminals is on the team's Redis"]
    return Outcome(lines, {"entries": data, "count": len(data)})


def _named(context: Context, request: Request) -> ContextRow | None:
    word = request.text("id")
    if word is None:
        return None
    known = db.read(context.connection, contexts.list_contexts, limit=1000)
    hits = [one for one in known if one.id.startswith(word)]
    if len(hits) != 1 or len(word) < 4:
        why = "may be several" if hits else "is no context"
        raise Refused(f"{safe(word, 60)!r} {why}: `imi context list` shows their ids", code="no-context")
    return hits[0]


def _present(context: Context) -> ContextRow | None:
    """The context of this terminal, else the one that it can continue."""
    place = terminal_place.find()
    if place is None:
        return None
    row = db.read(context.connection, contexts.find, place.text)
    if row is not None and (row.layout or notes.list_logged(context.connection, context=row.id, limit=1)):
        return row
    return db.read(context.connection, terminal_context.offered, place, context.cwd) or row


def _send(context: Context) -> str | None:
    """Send what the team's Redis has not, unless a process with the duties does; returns what went wrong."""
    from imi_monitor.store.duty_lock import DutyLock

    if not context.settings.text("servers.redis_url") or DutyLock(context.database).is_held():
        return None
    from imi_monitor.actions.notes import context_sender
    from imi_monitor.model.errors import ImiError

    try:
        return context_sender.send_unsent(context)
    except ImiError as error:
        return error.sentence


ACTIONS = (ContextShowAction(), ContextSaveAction(), ContextResumeAction(), ContextListAction())
