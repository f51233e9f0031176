"""`imi notes list|add|send|answer|done`: notes on lines of a worktree's diff, for the agent that works there."""

from __future__ import annotations

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.claims import claim_options
from imi_monitor.actions.notes import placed_notes
from imi_monitor.actions.notes.placed_notes import PlacedNote
from imi_monitor.actions.status import diff_action, worktree_git
from imi_monitor.model import diff_identity, note_place
from imi_monitor.model.advice import advised
from imi_monitor.model.diff import ONE_FILE_LIMITS
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.review_progress import storable
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, notes, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.model.diff import Diff, DiffLine
    from imi_monitor.store.notes import NoteRow
    from imi_monitor.store.runs import RunRow

_MOST_TEXT = 4000
_NAME = Argument("name", "the worktree, as `imi list` shows it")
_ID = Argument("id", "the number of a note, as `imi notes list` shows it")
_TEXT = Argument("text", "what the agent is to change or to explain", rest=True)


class NotesListAction(Action):
    words = ("notes list", "notes")
    group = "Agents"
    label = "Notes"
    help = "list the notes on a worktree's diff, with their lines and what became of them"
    arguments = (Argument("name", "the worktree (default: the one around you)", optional=True),)
    options = (Option("done", "also show the notes that are done"),)
    changes = False
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        target = worktree_git.named_worktree(context, request)
        found = placed_notes.list_placed(context, target, done=request.flag("done"))
        lines = [line for one in found for line in _described(one)]
        data: dict[str, object] = {"worktree_name": target.name, "notes": [one.data() for one in found]}
        return Outcome(lines or [f"no open notes on {safe(target.name)}"], data)


class NotesAddAction(Action):
    words = ("notes add",)
    group = "Agents"
    label = "Note on a line"
    help = "add a note on a line of a worktree's diff, for the agent that works there"
    more = """PLACE is FILE:LINE, counted in the file as it is now; with --old in the file as it was, for a line that is gone.
    The line's text is kept with the note: it is found again after edits and a rebase. `imi notes send` sends all at once."""
    examples = (("imi notes add feat-user-auth src/api.py:41 why not 429?", "a note on line 41"),)
    arguments = (_NAME, Argument("place", "FILE:LINE, from the worktree's top"), _TEXT)
    options = (Option("old", "the line is one that was removed"), claim_options.AGENT)
    dialog_options = ("text",)

    def consequences(self, context: Context, request: Request) -> list[str]:
        target = worktree_lookup.find_worktree(context, str(request.text("name")))
        path, number = _place(str(request.text("place")))
        side = note_place.OLD if request.flag("old") else note_place.NEW
        _, line = _line(context, target, path, number, side)
        return [
            f"{safe(path, 200)}:{number}  {safe(line.text.strip(), 200)}",
            "it waits until all notes are sent together",
        ]

    def run(self, context: Context, request: Request) -> Outcome:
        text = _text(request)
        target = worktree_lookup.find_worktree(context, str(request.text("name")))
        path, number = _place(str(request.text("place")))
        side = note_place.OLD if request.flag("old") else note_place.NEW
        part, line = _line(context, target, path, number, side)
        author = claim_options.agent(context, request)

        def put(connection: sqlite3.Connection) -> int:
            repo_name = context.register(target.repository, connection)
            about = {"path": storable(path), "part": part, "excerpt": note_place.excerpt_of(line)}
            return notes.add(
                connection, repo_name, target.name, author=author, text=text, side=side, line=number, **about
            )

        identity = db.transact(context.connection, put)
        line_text = f"note {identity} on {safe(path, 300)}:{number} of {safe(target.name)}"
        return Outcome([line_text], {"id": identity, "worktree_name": target.name, "path": path, "line": number})


class NotesSendAction(Action):
    words = ("notes send",)
    group = "Agents"
    label = "Send notes"
    help = "send all notes of a worktree that were not sent yet to its agent, as one numbered round"
    more = """An agent that imi runs there gets them as a follow-up. Without one the round is printed, and the dashboard copies
    it to the clipboard, for you to paste. No note is sent twice; --again prints the rounds that went out before."""
    arguments = (_NAME,)
    options = (Option("again", "print the open notes that were sent before, and send nothing"), claim_options.AGENT)
    in_menus = True

    def consequences(self, context: Context, request: Request) -> list[str]:
        target, waiting = _waiting(context, request)
        run = _run_in(context, target)
        to = f"sends {safe(run.agent_id)} ({run.short})" if run is not None else "copies, as imi runs no agent there,"
        listed = [line for one in placed_notes.place(context, target, waiting) for line in _described(one)[:1]]
        return [f"{to} {count(len(waiting), 'note')} as one round", *listed]

    def run(self, context: Context, request: Request) -> Outcome:
        target, waiting = _waiting(context, request)
        if request.flag("again"):
            text = placed_notes.round_text(target, placed_notes.place(context, target, waiting))
            return Outcome(text.split("\n"), {"worktree_name": target.name, "sent_to": None, "text": text})
        run = _run_in(context, target)
        to = run.agent_id if run is not None else "clipboard"
        by = claim_options.agent(context, request)
        sent = db.transact(context.connection, notes.begin_round, target.repo_name or "", target.name, to, by)
        text = placed_notes.round_text(target, placed_notes.place(context, target, sent))
        data: dict[str, object] = {"worktree_name": target.name, "ids": [one.seq for one in sent], "text": text}
        if run is None:
            return Outcome(text.split("\n"), {**data, "sent_to": None})
        _deliver(context, run, text, sent)
        line = f"sent {count(len(sent), 'note')} to {safe(run.agent_id)} ({run.short})"
        return Outcome([line], {**data, "sent_to": run.agent_id, "run": run.id})


class NotesAnswerAction(Action):
    words = ("notes answer",)
    group = "Agents"
    label = "Answer a note"
    help = "answer a note, for example with the reason against it"
    arguments = (_ID, _TEXT)
    options = (claim_options.AGENT,)
    dialog_options = ("text",)

    def run(self, context: Context, request: Request) -> Outcome:
        text, note = _text(request), _note(context, str(request.text("id")))
        by = claim_options.agent(context, request)
        if not db.transact(context.connection, notes.answer, note.seq, text, by):
            raise Refused(f"note {note.seq} is done: add another one", code="done")
        return Outcome([f"answered note {note.seq}"], {"id": note.seq, "answer": text, "by": by})


class NotesDoneAction(Action):
    words = ("notes done",)
    group = "Agents"
    label = "Note is done"
    help = "mark notes as handled"
    examples = (("imi notes done 12 13", "both are handled"),)
    arguments = (Argument("id", "numbers of notes, as `imi notes list` shows them", rest=True),)
    options = (claim_options.AGENT,)

    def run(self, context: Context, request: Request) -> Outcome:
        given = request.rest("id") or [word for word in (request.text("id") or "").split() if word]
        if not given:
            raise UsageError("name the notes that are done: imi notes done ID…", code="missing")
        found = [_note(context, word) for word in given]
        by = claim_options.agent(context, request)

        def put(connection: sqlite3.Connection) -> list[int]:
            return [one.seq for one in found if notes.finish(connection, one.seq, by)]

        done = db.transact(context.connection, put)
        already = [f"note {one.seq} was done already" for one in found if one.seq not in done]
        lines = [f"note {seq} is done" for seq in done]
        return Outcome(lines or ["nothing changed"], {"done": done, "by": by}, warnings=already)


def _waiting(context: Context, request: Request) -> tuple[Target, list[NoteRow]]:
    """The worktree and its notes that are to be sent; Refused without any."""
    target = worktree_lookup.find_worktree(context, str(request.text("name")))
    everything = db.read(context.connection, notes.list_notes, target.repo_name or "", target.name)
    again = request.flag("again")
    found = [one for one in everything if (one.round is not None) == again]
    if not found:
        name = safe(target.name)
        if again:
            raise Refused(f"no note on {name} was sent and is open", code="no-notes")
        text = f"no note on {name} waits to be sent"
        raise Refused(advised(text, "`imi notes add` adds one", "c in the diff adds one"), code="no-notes")
    return target, found


def _run_in(context: Context, target: Target) -> RunRow | None:
    """The open run in the worktree, if imi runs an agent there."""
    found = db.read(context.connection, runs.list_in_worktree, [target.name], target.repo_name)
    return next((one for one in found if one.is_open and one.status != "queued"), None)


def _deliver(context: Context, run: RunRow, text: str, sent: list[NoteRow]) -> None:
    from imi_monitor.actions.runs import message_actions

    try:
        message_actions.say(context, run, text)
    except (ImiError, OSError):
        db.transact(context.connection, notes.withdraw_round, sent)
        raise


def _described(one: PlacedNote) -> list[str]:
    note = one.note
    lines = [f"{note.seq:>4}  {note.state:<8}  {one.place}  {safe(note.text, 500)}"]
    if note.answer is not None:
        lines.append(f"      {safe(note.answered_by or '?', 40)}: {safe(note.answer, 500)}")
    return lines


def _place(text: str) -> tuple[str, int]:
    path, _, number = text.rpartition(":")
    if not path or not (number.isascii() and number.isdigit() and len(number) < 9):
        raise UsageError(f"{safe(text, 200)!r} is no place: give FILE:LINE", code="bad-place")
    return path, int(number)


def _line(context: Context, target: Target, path: str, number: int, side: str) -> tuple[str, DiffLine]:
    """The hunk's id and the line; it must be one of the diff, against the last commit or against the trunk."""
    for kind in ("all", "trunk"):
        try:
            diff = diff_action.read(context, target, kind, [path], ONE_FILE_LIMITS)
        except Refused:  # no trunk to compare with
            continue
        found = _in_diff(diff, path, number, side)
        if found is not None:
            return found
    raise Refused(
        f"{safe(path, 300)} has no {'removed ' if side == note_place.OLD else ''}line {number} in the diff: "
        "`imi diff` shows its lines",
        code="no-line",
    )


def _in_diff(diff: Diff, path: str, number: int, side: str) -> tuple[str, DiffLine] | None:
    for file in diff.files:
        for identity, hunk in zip(diff_identity.hunk_ids(file), file.hunks, strict=True):
            for line in hunk.lines:
                fits = note_place.side_of(line) == side or (line.sign == " " and side == note_place.OLD)
                if file.path == path and fits and note_place.number_of(line, side) == number:
                    return identity, line
    return None


def _text(request: Request) -> str:
    text = (request.text("text") or " ".join(request.rest("text"))).strip()
    if not text:
        raise UsageError(f"imi {request.verb} needs a text", code="missing")
    if "\0" in text or len(text) > _MOST_TEXT:
        raise UsageError(f"a note has at most {_MOST_TEXT} characters, and no NUL", code="bad-text")
    return text


def _note(context: Context, word: str) -> NoteRow:
    number = int(word) if word.isascii() and word.isdigit() and len(word) < 12 else 0
    found = db.read(context.connection, notes.get, number)
    if found is None:
        raise Refused(f"there is no note {safe(word, 40)!r}: `imi notes list` shows them", code="no-note")
    return found


ACTIONS = (NotesListAction(), NotesAddAction(), NotesSendAction(), NotesAnswerAction(), NotesDoneAction())
