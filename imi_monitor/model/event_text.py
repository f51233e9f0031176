"""An event of the registry as a sentence: `claude-1 asks in feat-x: Bash pytest -q`, `human:ana removed feat-x`.

The dashboard and `imi events` share the sentences. JSON keeps kind and data as they were recorded.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from imi_monitor.model import state_words, times, usage_limit
from imi_monitor.model.contained_names import in_git
from imi_monitor.model.names import OURS
from imi_monitor.model.run import workspace_name
from imi_monitor.model.snapshot import RegistryEvent
from imi_monitor.model.text import count, safe

_LONGEST = 200
_EARLIEST = datetime.min.replace(tzinfo=UTC)
Data = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class EventSentence:
    """Who or what, the verb, and the rest, which begins with its blank or colon."""

    subject: str
    verb: str
    rest: str = ""

    def __str__(self) -> str:
        return f"{self.subject} {self.verb}{self.rest}" if self.subject else f"{self.verb}{self.rest}"


@dataclass(frozen=True, slots=True)
class ShownEvent:
    """An event of a list. `earlier` counts the events of the same session that it stands for."""

    event: RegistryEvent
    earlier: int = 0
    restorable: bool = False  # the removal that undo takes back

    @property
    def repo(self) -> str | None:
        return self.event.repo

    @property
    def worktree(self) -> str | None:
        return self.event.worktree


def data_of(event: RegistryEvent) -> Data:
    """Return the event's data; empty if it is no JSON object."""
    try:
        found = json.loads(event.data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def fold(events: Sequence[RegistryEvent]) -> list[ShownEvent]:
    """Return the events in order, of each session only the newest; the newest removal that stands is restorable."""
    kept: list[RegistryEvent] = []
    earlier: dict[str, int] = {}
    back: set[object] = set()  # trash entries that were restored or purged
    restorable: int | None = None
    for event in reversed(events):
        session = session_of(event)
        if session is not None and session in earlier:
            earlier[session] += 1
            continue
        kept.append(event)
        if session is not None:
            earlier[session] = 0
        elif event.type in ("worktree.restored", "worktree.purged"):
            back.add(data_of(event).get("trash_id"))
        elif event.type == "worktree.removed" and restorable is None:
            entry = data_of(event).get("trash_id")
            restorable = event.seq if entry and entry not in back else None
    return [ShownEvent(one, earlier.get(session_of(one) or "", 0), one.seq == restorable) for one in reversed(kept)]


def session_of(event: RegistryEvent) -> str | None:
    """Return the session that a `session.*` event is about."""
    return _session_in(event.data) if event.type.startswith("session.") else None


@lru_cache(1024)  # the same events are folded with every new one
def _session_in(data: str) -> str | None:
    try:
        found = json.loads(data)
    except ValueError:
        return None
    session = found.get("session") if isinstance(found, dict) else None
    return session if isinstance(session, str) else None


@dataclass(frozen=True, slots=True)
class EndedCommand:
    """How the last program that a user ran in a worktree with `imi exec` or `imi command` ended."""

    what: str
    status: int
    at: str
    seconds: float | None = None  # that it ran

    @property
    def took(self) -> str:
        """`1.2 s`, `4m`; empty if it is not known."""
        if self.seconds is None:
            return ""
        return f"{self.seconds:.1f} s" if self.seconds < 60 else times.age(self.seconds)

    @property
    def succeeded(self) -> bool:
        return self.status == 0

    @property
    def words(self) -> str:
        """`✓ tests 1.2 s`, `✗ tests 2 after 1.2 s`."""
        after = f" {self.took}" if self.took else ""
        return f"✓ {self.what}{after}" if self.succeeded else f"✗ {self.what} {self.status}{after and ' after'}{after}"


def last_commands(events: Sequence[RegistryEvent]) -> dict[tuple[str, str], EndedCommand]:
    """The last one in each worktree, by repository and worktree."""
    places = {(one.repo, one.worktree) for one in events if one.type == "command.ended" and one.repo and one.worktree}
    found = {(repo, worktree): last_command(events, repo or "", worktree or "") for repo, worktree in places}
    return {(repo or "", worktree or ""): one for (repo, worktree), one in found.items() if one is not None}


def last_command(events: Sequence[RegistryEvent], repo: str, worktree: str) -> EndedCommand | None:
    """The last one of these events, unless the worktree was created after it."""
    own = (one for one in reversed(events) if one.worktree == worktree and one.repo == repo)
    last = next((one for one in own if one.type in ("command.ended", "worktree.created")), None)
    if last is None or last.type != "command.ended":
        return None
    data = data_of(last)
    status = data.get("status")
    what = safe(str(data.get("name") or data.get("line") or "a command"), _LONGEST)
    took = data.get("seconds")
    seconds = float(took) if isinstance(took, (int, float)) and took >= 0 else None
    return EndedCommand(what, status if isinstance(status, int) else 0, last.at, seconds)


def with_other_homes(own: Sequence[ShownEvent], others: Sequence[ShownEvent]) -> list[ShownEvent]:
    """Return the events of this home and of the others by their times; those of one home stay in their order."""
    return list(heapq.merge(own, others, key=lambda one: times.parse(one.event.at) or _EARLIEST)) if others else [*own]


def concerns(event: RegistryEvent, repositories: Sequence[str]) -> bool:
    """Return whether it is about one of the repositories, or about the registry itself."""
    if event.repo is None:
        return not event.type.startswith("session.")
    return event.repo in repositories or not in_git(event.repo)


def sentence(event: RegistryEvent, *, repository: str = "") -> EventSentence:
    """Return the event as a sentence; `repository` stands in front of the worktree's name."""
    repo = event.repo or ""
    name = workspace_name(repo, event.worktree) if event.worktree else ""
    where = "/".join(safe(part, 60) for part in (repository if in_git(repo) else "", name) if part)
    if event.host is not None and where:
        where = f"{safe(event.host, 40)}:{where}"
    fields = _EventFields(event, where or safe(repo, 60), data_of(event))
    made = _SENTENCES.get(event.type, _any)(fields)
    return EventSentence(made.subject, made.verb, safe(made.rest, 2 * _LONGEST).rstrip())


@dataclass(frozen=True, slots=True)
class _EventFields:
    event: RegistryEvent
    where: str
    data: Data

    @property
    def who(self) -> str:
        return safe(self.event.agent or "", 40)

    def text(self, name: str) -> str:
        value = self.data.get(name)
        return safe(str(value), _LONGEST) if value not in (None, "", [], {}) else ""

    def after(self, name: str, before: str) -> str:
        """Return the value behind `before`; empty without a value."""
        text = self.text(name)
        return f"{before}{text}" if text else ""

    def number(self, name: str) -> int:
        value = self.data.get(name)
        return value if isinstance(value, int) else 0


def _done(
    verb: str, rest: Callable[[_EventFields], str] = lambda fields: ""
) -> Callable[[_EventFields], EventSentence]:
    """Return `human:ana removed feat-x`, or `feat-x was removed` while it is unknown by whose act."""

    def make(fields: _EventFields) -> EventSentence:
        if fields.who:
            return EventSentence(fields.who, verb, f" {fields.where}{rest(fields)}")
        return EventSentence(fields.where, f"was {verb}", rest(fields))

    return make


def _removed(fields: _EventFields) -> EventSentence:
    how = fields.text("how")
    if how == "missing":
        return _done("forgotten" if not fields.who else "forgot", lambda fields: ", whose folder was missing")(fields)
    return _done("removed", lambda fields: f" ({how})" if how in ("merged", "pruned") else "")(fields)


def _renamed(fields: _EventFields) -> EventSentence:
    old = fields.text("from") or "?"
    if fields.who:
        return EventSentence(fields.who, "renamed", f" {old} to {fields.where}")
    return EventSentence(old, "was renamed", f" to {fields.where}")


def _claimed(fields: _EventFields) -> EventSentence:
    task, why = fields.after("task", " for "), fields.after("reason", ": ")
    forced, dead = fields.text("forced_from"), fields.text("takeover_from")
    if forced or dead:
        loser = forced or f"{dead}, which died"
        return EventSentence(fields.who, "took", f" {fields.where} from {loser}{task}{why}")
    return EventSentence(fields.who, "claimed", f" {fields.where}{task}{why}")


_ENDINGS = {
    "taken_over": "its process is dead",
    "died": "its process is dead",
    "lease": "its home did not renew it",
    "worktree_removed": "the worktree was removed",
    "worktree_missing": "the folder is missing",
}


def _released(fields: _EventFields) -> EventSentence:
    how, by = fields.text("how"), fields.text("by")
    if how in ("", "released", "given_back") and not by:
        return EventSentence(fields.who, "released", f" {fields.where}{fields.after('task', ', task ')}")
    taker = f" to {by.replace(OURS, 'imi ', 1)}" if by else ""
    why = fields.text("reason") or _ENDINGS.get(how, "")
    return EventSentence(fields.who, "lost", f" {fields.where}{taker}{f': {why}' if why else ''}")


def _session_started(fields: _EventFields) -> EventSentence:
    verb = "continued" if fields.text("how") == "resumed" else "started"
    return EventSentence(_session_agent(fields), verb, _in(fields))


def _session_progress(fields: _EventFields) -> EventSentence:
    status = fields.text("status")
    verb = _STEPS.get(status) or state_words.of_status(status) or "continued"
    reached = usage_limit.limit_of(status, fields.text("detail"), fields.event.at)
    if reached is not None:
        return EventSentence(_session_agent(fields), f"is {usage_limit.words(reached)}", _in(fields))
    detail = fields.after("detail", ": ") if verb in (state_words.ASKS, state_words.FAILED) else ""
    return EventSentence(_session_agent(fields), verb, _in(fields) + detail)


_STEPS = {
    "completed": "finished its turn",
    "cancelled": "was stopped",
    "interrupted": "died",
    "unknown": "has an unknown state",
}


def _session_ended(fields: _EventFields) -> EventSentence:
    status = fields.text("status")
    verb = {"interrupted": "died", "failed": "failed"}.get(status, "ended")
    return EventSentence(
        _session_agent(fields), verb, _in(fields) + (fields.after("detail", ": ") if verb == "failed" else "")
    )


def _session_agent(fields: _EventFields) -> str:
    return fields.who or fields.text("cli") or "an agent"


def _in(fields: _EventFields) -> str:
    return f" in {fields.where}" if fields.where else ""


def _task_ended(fields: _EventFields) -> EventSentence:
    outcome = fields.after("outcome", ": ")
    where = _in(fields) if fields.who else ""
    return EventSentence(fields.who or fields.where, "ended", f"{fields.after('task', ' task ')}{where}{outcome}")


def _task_assigned(fields: _EventFields) -> EventSentence:
    return EventSentence(fields.text("task"), "was given", f" to {fields.text('agent') or 'no one'}")


def _task_moved(fields: _EventFields) -> EventSentence:
    status = fields.text("to").replace("_", " ")
    by = f" by {fields.who}" if fields.who else ""
    return EventSentence(fields.text("task"), "is", f" {status}{by}{fields.after('reason', ': ')}")


def _command_ended(fields: _EventFields) -> EventSentence:
    status = fields.data.get("status")
    end = f" with status {status}" if status else ""
    return EventSentence(fields.text("name") or fields.text("line") or "a command", "ended", f"{_in(fields)}{end}")


def _described(fields: _EventFields) -> EventSentence:
    words = [fields.text("emoji"), fields.text("role"), fields.after("team", "team ")]
    return EventSentence(fields.who, "is described as", f" {', '.join(filter(None, words)) or 'nothing'}")


def _budget(fields: _EventFields) -> str:
    """Return `: $4.10 of $5`, `: 12 of 15 minutes`."""
    used, most = fields.data.get("used"), fields.data.get("budget")
    if not isinstance(used, int | float) or not isinstance(most, int | float):
        return ""
    money = fields.text("unit") == "usd"
    return f": ${used:.2f} of ${most:g}" if money else f": {int(used)} of {most:g} minutes"


def _synced(fields: _EventFields) -> EventSentence:
    parts = [
        (fields.number("linked"), "linked"),
        (fields.number("moved"), "re-pointed"),
        (fields.number("removed"), "removed"),
    ]
    done = ", ".join(f"{number} {verb}" for number, verb in parts if number)
    conflicts = fields.number("conflicts")
    news = [done] * bool(done) + [count(conflicts, "conflict")] * bool(conflicts)
    return EventSentence(fields.where, "was synced", f": {', '.join(news)}" if news else "")


def _updated(fields: _EventFields) -> EventSentence:
    how = fields.data.get("how")
    if how == "undo":
        return _done("moved back")(fields)
    return _done("rebased" if how == "rebase" else "updated", _commits)(fields)


def _commits(fields: _EventFields) -> str:
    number = fields.number("commits")
    return f" by {count(number, 'commit')}" if number else ""


def _committed(fields: _EventFields) -> EventSentence:
    subject = fields.after("subject", ": ")
    if fields.who:
        return EventSentence(fields.who, "committed in", f" {fields.where}{subject}")
    return EventSentence(fields.where, "got a commit", subject)


def _files(fields: _EventFields) -> str:
    names = fields.data.get("files")
    listed = [safe(str(name), 60) for name in names] if isinstance(names, list) else []
    more = f" and {len(listed) - 2} more" if len(listed) > 2 else ""
    return f": {', '.join(listed[:2])}{more}" if listed else ""


def _file_act(fields: _EventFields) -> EventSentence:
    return _done(f"{fields.text('how') or 'replaced'} files of", _files)(fields)


def _about(
    subject: str, verb: str, rest: Callable[[_EventFields], str] = lambda fields: ""
) -> Callable[[_EventFields], EventSentence]:
    """Return a sentence about the worktree or repository (`{}`), or about what `subject` names."""
    return lambda fields: EventSentence(
        subject.format(fields.where, **{"type": fields.text("type")}), verb, rest(fields)
    )


def _elsewhere(fields: _EventFields) -> str:
    return f"{fields.text('host')}:{fields.text('name')}"


def _remote_released(fields: _EventFields) -> EventSentence:
    how = fields.text("how")
    if how == "released":
        return EventSentence(fields.who, "released", f" {_elsewhere(fields)}")
    why = {"lost": "its home ended it", "silent": "its home does not answer"}.get(how, how)
    return EventSentence(fields.who, "lost", f" {_elsewhere(fields)}{f': {why}' if why else ''}")


def _logged(verb: str) -> Callable[[_EventFields], EventSentence]:
    """Return `claude-1 reached in feat-x: the tests pass`."""
    return lambda fields: EventSentence(fields.who, verb, f"{_in(fields)}{fields.after('text', ': ')}")


def _any(fields: _EventFields) -> EventSentence:
    """Return an event of another program or of a newer version."""
    return EventSentence(fields.who or fields.where, safe(fields.event.type, 60), _in(fields) if fields.who else "")


_SENTENCES: dict[str, Callable[[_EventFields], EventSentence]] = {
    "agent.described": _described,
    "agent.forgotten": lambda fields: EventSentence(fields.who, "was forgotten"),
    "artifact.failed": lambda fields: EventSentence(fields.text("file"), "was not saved", fields.after("why", ": ")),
    "artifact.saved": lambda fields: EventSentence(fields.who, "finished", fields.after("file", " ")),
    "budget.used_up": _about("", "today's budget is used up", _budget),
    "budget.warned": _about("", "most of today's budget is used", _budget),
    "command.ended": _command_ended,
    "file.delivered": lambda fields: EventSentence(fields.text("file"), "was delivered", fields.after("path", " to ")),
    "file.refused": lambda fields: EventSentence(fields.text("file"), "was not delivered", fields.after("why", ": ")),
    "files.purged": _done("purged files of"),
    "files.replaced": _file_act,
    "files.restored": _done("restored files of", _files),
    "intent.logged": _logged("intends"),
    "lesson.logged": _logged("learned"),
    "milestone.logged": _logged("reached a milestone"),
    "note.added": lambda fields: EventSentence(
        fields.who, "wrote a note", f"{_in(fields)}{fields.after('place', ' on ')}{fields.after('remark', ': ')}"
    ),
    "note.answered": lambda fields: EventSentence(
        fields.who, "answered a note", f"{_in(fields)}{fields.after('remark', ': ')}"
    ),
    "note.done": lambda fields: EventSentence(fields.who, "handled a note", _in(fields)),
    "note.sent": lambda fields: EventSentence(
        fields.who, "sent notes", f"{fields.after('agent', ' to ')}{_in(fields)}"
    ),
    "note.withdrawn": lambda fields: EventSentence("notes", "were not delivered", _in(fields)),
    "registry.restored": _about(
        "the registry", "was restored from a backup", lambda fields: fields.after("reason", ": ")
    ),
    "registry.started": _about("the registry", "was made anew"),
    "remote.claimed": lambda fields: EventSentence(fields.who, "claimed", f" {_elsewhere(fields)}"),
    "remote.released": _remote_released,
    "repository.moved": _about("{}", "moved", lambda fields: fields.after("path", " to ")),
    "repository.trusted": _about("{}", "is trusted"),
    "repository.untrusted": _about("{}", "is not trusted any more"),
    "run.claim_lost": lambda fields: EventSentence(
        fields.who, "was interrupted", f": {fields.where} is claimed by {fields.text('by') or 'another'}"
    ),
    "run.interrupted": lambda fields: EventSentence(
        fields.who, "was interrupted", f": its budget is used up{_budget(fields)}"
    ),
    "ref.moved": lambda fields: EventSentence(
        fields.text("ref"),
        "moved",
        f" while {fields.who} worked{_in(fields)}: `git update-ref {fields.text('ref')} {fields.text('before')}`",
    ),
    "run.resumable": lambda fields: EventSentence(fields.who, "can go on", f"{_in(fields)}: its usage limit is over"),
    "run.used_up": lambda fields: EventSentence(fields.who, "has used up its budget", _budget(fields)),
    "run.warned": lambda fields: EventSentence(fields.who, "has used most of its budget", _budget(fields)),
    "session.ended": _session_ended,
    "session.progress": _session_progress,
    "session.started": _session_started,
    "state.synced": lambda fields: EventSentence(fields.text("session"), "was read from its state files"),
    "task.assigned": _task_assigned,
    "task.created": lambda fields: EventSentence(fields.text("task"), "was added", fields.after("title", ": ")),
    "task.edited": lambda fields: EventSentence(fields.text("task"), "was edited"),
    "task.ended": _task_ended,
    "task.moved": _task_moved,
    "type.added": _about("type {type}", "was added"),
    "type.removed": _about("type {type}", "was removed"),
    "workspace.cleaned": lambda fields: EventSentence(
        f"contained workspace {fields.text('name')}", "was cleaned", f": {fields.text('files')} files are in the trash"
    ),
    "workspace.purged": lambda fields: EventSentence(f"workspace {fields.text('name')}", "was purged from the trash"),
    "workspace.restored": lambda fields: EventSentence(f"workspace {fields.text('name')}", "was restored"),
    "worktree.adopted": _about("{}", "was found in the trash"),
    "worktree.claimed": _claimed,
    "worktree.commit": _committed,
    "worktree.committed": _done("committed in", lambda fields: fields.after("branch", " on ")),
    "worktree.created": lambda fields: _done("recorded" if fields.data.get("adopted") else "created")(fields),
    "worktree.merged": _done("merged", lambda fields: fields.after("into", " into ")),
    "worktree.moved": _about("{}", "moved", lambda fields: fields.after("path", " to ")),
    "worktree.purged": _done("purged", lambda fields: " from the trash"),
    "worktree.released": _released,
    "worktree.removed": _removed,
    "worktree.renamed": _renamed,
    "worktree.restored": _done("restored"),
    "worktree.synced": _synced,
    "worktree.updated": _updated,
}
