"""`imi intent|milestone|note`: what an agent or person intends, has reached and has learned, for those who come later.

The registry has it first, with its event, in one transaction. Tabs and panes of the terminal, and the team's Redis, follow in a
process of their own, which the caller does not wait for.
"""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument, Option, Outcome, Tool
from imi_monitor.actions.claims import claim_options, ownership
from imi_monitor.model import times
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.mux import terminal_place
from imi_monitor.store import contexts, db, notes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.mux.terminal_place import TerminalPlace
    from imi_monitor.store.notes import NoteRow

_MOST_TEXT, _MOST_ARTIFACTS, _MOST_PATH = 1000, 20, 300
_TEXT = Argument("text", "the text; several words are joined by blanks; without it the list is shown", rest=True)
_WORKTREE = Option("worktree", "of this worktree (default: the one around you)", value="NAME")
_ARTIFACTS = Option("artifacts", "files or addresses that belong to it, separated by commas", value="PATHS")


class _LogAction(Action):
    """Adds a note of its kind to a worktree and to the terminal around the caller."""

    group = "Agents"
    arguments = (_TEXT,)
    dialog_options: tuple[str, ...] = ("text",)
    worktree_option = "worktree"
    in_menus = True
    hot = True
    tolerates = ("ui", "notify", "commands")

    def kind(self, request: Request) -> str:
        raise NotImplementedError

    def refuse(self, context: Context, request: Request) -> None:
        _text(request)
        _artifacts(request)
        claim_options.agent(context, request)

    def consequences(self, context: Context, request: Request) -> list[str]:
        target = _target(context, request)
        return [f"records it for {safe(target.name)}" if target else "records it for this terminal"]

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        kind, text = self.kind(request), _text(request)
        target, place = _target(context, request), _place(request)
        if text is None:
            return _listed(context, kind, target, place)
        if target is None and place is None:
            raise Refused(
                "there is neither a worktree nor a terminal here to record it for: cd into a worktree, or name one with"
                " --worktree",
                code="no-worktree",
            )
        author, artifacts = claim_options.agent(context, request), _artifacts(request)

        def put(connection: sqlite3.Connection) -> tuple[int, str, str | None]:
            repo_name = "" if target is None else target.repo_name or context.register(target.repository, connection)
            ident = _context_of(connection, context, place)
            name = target.name if target is not None else ""
            about = {"author": author, "text": text, "context": ident, "artifacts": artifacts}
            return notes.log(connection, kind, repo_name, name, **about), repo_name, ident  # type: ignore[arg-type]

        number, repo_name, ident = db.transact(context.connection, put)
        if ident is not None:
            _start_saving(context, place)
        where = safe(target.name) if target is not None else "this terminal"
        data: dict[str, object] = {
            "id": number,
            "kind": kind,
            "text": text,
            "repo_name": repo_name or None,
            "worktree_name": target.name if target is not None else None,
            "context": ident,
            "artifacts": artifacts,
        }
        return Outcome([f"{kind} of {where}: {safe(text, _MOST_TEXT)}"], data)


class IntentAction(_LogAction):
    words = ("intent",)
    label = "Intent"
    help = "set what is to be achieved in a worktree and in this terminal, or show it"
    more = "The newest intent counts, until `imi intent --done`."
    examples = (("imi intent make the parser accept empty files", "set it"), ("imi intent", "show it"))
    key = "I"
    options = (_WORKTREE, claim_options.AGENT, Option("done", "mark the present intent as achieved or given up"))
    dialog_options = ("text", "done")

    def kind(self, request: Request) -> str:
        return notes.INTENT

    def run(self, context: Context, request: Request) -> Outcome:
        if not request.flag("done"):
            return super().run(context, request)
        if _text(request) is not None:
            raise UsageError("imi intent takes a new text or --done, not both", code="bad-option")
        target, place = _target(context, request), _place(request)
        found, by = _current(context, target, place), claim_options.agent(context, request)
        if found is None:
            raise Refused("there is no intent here that is not done", code="no-intent")

        def finish(connection: sqlite3.Connection) -> None:
            notes.finish(connection, found.seq, by)
            if found.context is not None:
                contexts.mark_changed(connection, found.context)

        db.transact(context.connection, finish)
        return Outcome([f"done: {safe(found.text, _MOST_TEXT)}"], {"id": found.seq, "done": True, "text": found.text})


class MilestoneAction(_LogAction):
    words = ("milestone",)
    label = "Milestone"
    help = "record a milestone of a worktree and of this terminal, or list the milestones"
    examples = (("imi milestone the tests pass --artifacts report.html", "with a file that shows it"),)
    options = (_WORKTREE, _ARTIFACTS, claim_options.AGENT)
    tools = (
        Tool(
            "milestone",
            help="record that something is reached, in one sentence, for those who come later",
            needs=("text",),
        ),
    )
    dialog_options = ("text", "artifacts")

    def kind(self, request: Request) -> str:
        return notes.MILESTONE


class NoteAction(_LogAction):
    words = ("note",)
    label = "Note"
    help = "record a lesson (or, with --kind, an intent or milestone) of a worktree, or list them"
    more = "`imi notes` is about notes on lines of a diff."
    examples = (("imi note the tests need a free port", "a lesson for those who work here later"),)
    options = (
        Option("kind", "what it is: lesson (default), intent or milestone", value="KIND", choices=notes.LOGGED),
        _WORKTREE,
        _ARTIFACTS,
        claim_options.AGENT,
    )
    dialog_options = ("text", "kind")

    def kind(self, request: Request) -> str:
        given = request.text("kind") or notes.LESSON
        if given not in notes.LOGGED:
            raise UsageError(
                f"--kind takes one of {', '.join(notes.LOGGED)}, not {safe(given, 40)!r}", code="bad-option"
            )
        return given


def _listed(context: Context, kind: str, target: Target | None, place: TerminalPlace | None) -> Outcome:
    """The notes of this kind: of the worktree, else of the terminal; of an intent the present one, lessons of the repository."""
    if kind == notes.INTENT:
        found = [one for one in [_current(context, target, place)] if one is not None]
    elif target is not None:
        name = None if kind == notes.LESSON else target.name
        repo_name = target.repo_name or ""
        found = db.read(context.connection, notes.list_logged, (kind,), repo_name=repo_name, worktree_name=name)
    else:
        here = _known(context, place)
        found = db.read(context.connection, notes.list_logged, (kind,), context=here) if here else []
    lines = [line_of(one) for one in found]
    return Outcome(lines or [f"no {kind} here yet"], {"kind": kind, "notes": [data_of(one) for one in found]})


def line_of(note: NoteRow) -> str:
    """`3m ago  claude-1  the tests pass  (report.html)`."""
    artifacts = ", ".join(safe(one, 100) for one in note.artifact_list)
    where = f"  {safe(note.worktree_name, 60)}" if note.worktree_name else ""
    return f"{times.age_of(note.made_at)} ago{where}  {safe(note.author, 60)}  {safe(note.text, _MOST_TEXT)}" + (
        f"  ({artifacts})" if artifacts else ""
    )


def data_of(note: NoteRow) -> dict[str, object]:
    return {
        "id": note.seq,
        "kind": note.kind,
        "text": note.text,
        "author": note.author,
        "made_at": note.made_at,
        "repo_name": note.repo_name or None,
        "worktree_name": note.worktree_name or None,
        "context": note.context,
        "artifacts": note.artifact_list,
        "done_at": note.done_at,
    }


def _current(context: Context, target: Target | None, place: TerminalPlace | None) -> NoteRow | None:
    if target is not None:
        return db.read(
            context.connection, notes.current_intent, repo_name=target.repo_name or "", worktree_name=target.name
        )
    here = _known(context, place)
    return db.read(context.connection, notes.current_intent, context=here) if here else None


def _place(request: Request) -> TerminalPlace | None:
    """The terminal around the caller, unless the request is about a worktree that it names: that may be anywhere."""
    return terminal_place.find() if request.text("worktree") is None else None


def _known(context: Context, place: TerminalPlace | None) -> str | None:
    found = db.read(context.connection, contexts.find, place.text) if place is not None else None
    return found.id if found is not None else None


def _target(context: Context, request: Request) -> Target | None:
    """The named worktree, else the one around the caller; None outside of a worktree."""
    name = request.text("worktree")
    if name is not None:
        from imi_monitor.actions.action import Request as Named

        return ownership.find(context, Named(request.verb, {"name": name}))
    place = context.place()
    if place is None or place.path is None:
        return None
    from imi_monitor.actions import worktree_lookup

    among = worktree_lookup.list_worktrees(context, place.repository)
    return next((one for one in among if one.path == place.path), None)


def _start_saving(context: Context, place: TerminalPlace | None) -> None:
    """Start `imi context save` in the background where there are panes to record, or a Redis to which none of us sends."""
    panes = place is not None and place.kind != terminal_place.PLAIN
    if not panes and not context.settings.text("servers.redis_url"):
        return
    import os
    import sys

    argv = [sys.executable, "-m", "imi_monitor", "--db", context.database, "context", "save", "--quiet"]
    silent = [(os.POSIX_SPAWN_OPEN, handle, os.devnull, os.O_RDWR, 0) for handle in (0, 1, 2)]
    try:
        os.posix_spawn(sys.executable, argv, os.environ, file_actions=silent)
    except OSError:
        return  # the next note, or the dashboard, does it


def _context_of(connection: sqlite3.Connection, context: Context, place: TerminalPlace | None) -> str | None:
    if place is None:
        return None
    return contexts.at_place(connection, place.text, place.kind, name=place.name, folder=context.cwd)


def _text(request: Request) -> str | None:
    """The checked text; None without one."""
    text = (request.text("text") or " ".join(request.rest("text"))).strip()
    if "\0" in text or len(text) > _MOST_TEXT:
        raise UsageError(f"a text has at most {_MOST_TEXT} characters, and no NUL", code="bad-text")
    return text or None


def _artifacts(request: Request) -> list[str]:
    found = [one.strip() for one in (request.text("artifacts") or "").split(",")]
    found = [one for one in found if one]
    if len(found) > _MOST_ARTIFACTS or any(len(one) > _MOST_PATH or "\0" in one for one in found):
        raise UsageError(
            f"--artifacts takes at most {_MOST_ARTIFACTS} names of {_MOST_PATH} characters", code="bad-option"
        )
    return found


ACTIONS = (IntentAction(), MilestoneAction(), NoteAction())
