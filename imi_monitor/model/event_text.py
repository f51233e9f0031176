"""An event of the registry as a sentence: `claude-1 asks in feat-x: Bash pytest -q`, `human:ana removed feat-x`.

The dashboard and `imi events` share the sentences. JSON keeps kind and data as they were recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from imi_monitor.model import state_words
from imi_monitor.model.names import OURS
from imi_monitor.model.snapshot import RegistryEvent
from imi_monitor.model.text import count, safe

_LONGEST = 200
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


def last_command(events: Sequence[RegistryEvent], repo: str, worktree: str) -> EndedCommand | None:
    """The last one of these events, unless the worktree was created after it."""
    own = (one for one in reversed(events) if one.worktree == worktree and one.repo == repo)
    last = next((one for one in own if one.type in ("command.ended", "worktree.created")), None)
    if last is None or last.type != "command.ended":
        return None
    data = data_of(last)
    status = data.get("status")
    what = safe(str(data.get("name") or data.get("line") or "a command"), _LONGEST)
    return EndedCommand(what, status if isinstance(status, int) else 0, last.at)


def concerns(event: RegistryEvent, repositories: Sequence[str]) -> bool:
    """Return whether it is about one of the repositories, or about the registry itself."""
    return event.repo in repositories or (event.repo is None and not event.type.startswith("session."))


def sentence(event: RegistryEvent, *, repository: str = "") -> EventSentence:
    """Return the event as a sentence; `repository` stands in front of the worktree's name."""
    where = "/".join(safe(part, 60) for part in (repository, event.worktree) if part)
    told = _Told(event, where or safe(event.repo or "", 60), data_of(event))
    made = _SENTENCES.get(event.type, _any)(told)
    return EventSentence(made.subject, made.verb, safe(made.rest, 2 * _LONGEST).rstrip())


@dataclass(frozen=True, slots=True)
class _Told:
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


def _done(verb: str, rest: Callable[[_Told], str] = lambda told: "") -> Callable[[_Told], EventSentence]:
    """Return `human:ana removed feat-x`, or `feat-x was removed` while it is unknown by whose act."""

    def make(told: _Told) -> EventSentence:
        if told.who:
            return EventSentence(told.who, verb, f" {told.where}{rest(told)}")
        return EventSentence(told.where, f"was {verb}", rest(told))

    return make


def _removed(told: _Told) -> EventSentence:
    how = told.text("how")
    if how == "missing":
        return _done("forgotten" if not told.who else "forgot", lambda told: ", whose folder was missing")(told)
    return _done("removed", lambda told: f" ({how})" if how in ("merged", "pruned") else "")(told)


def _renamed(told: _Told) -> EventSentence:
    old = told.text("from") or "?"
    if told.who:
        return EventSentence(told.who, "renamed", f" {old} to {told.where}")
    return EventSentence(old, "was renamed", f" to {told.where}")


def _claimed(told: _Told) -> EventSentence:
    task, why = told.after("task", " for "), told.after("reason", ": ")
    forced, dead = told.text("forced_from"), told.text("takeover_from")
    if forced or dead:
        loser = forced or f"{dead}, which died"
        return EventSentence(told.who, "took", f" {told.where} from {loser}{task}{why}")
    return EventSentence(told.who, "claimed", f" {told.where}{task}{why}")


_ENDINGS = {
    "taken_over": "its process is dead",
    "died": "its process is dead",
    "worktree_removed": "the worktree was removed",
    "worktree_missing": "the folder is missing",
}


def _released(told: _Told) -> EventSentence:
    how, by = told.text("how"), told.text("by")
    if how in ("", "released", "given_back") and not by:
        return EventSentence(told.who, "released", f" {told.where}{told.after('task', ', task ')}")
    taker = f" to {by.replace(OURS, 'imi ', 1)}" if by else ""
    why = told.text("reason") or _ENDINGS.get(how, "")
    return EventSentence(told.who, "lost", f" {told.where}{taker}{f': {why}' if why else ''}")


def _session_started(told: _Told) -> EventSentence:
    verb = "continued" if told.text("how") == "resumed" else "started"
    return EventSentence(_session_agent(told), verb, _in(told))


def _session_progress(told: _Told) -> EventSentence:
    status = told.text("status")
    verb = _STEPS.get(status) or state_words.of_status(status) or "continued"
    detail = told.after("detail", ": ") if verb in (state_words.ASKS, state_words.FAILED) else ""
    return EventSentence(_session_agent(told), verb, _in(told) + detail)


_STEPS = {
    "completed": "finished its turn",
    "cancelled": "was stopped",
    "interrupted": "died",
    "unknown": "has an unknown state",
}


def _session_ended(told: _Told) -> EventSentence:
    status = told.text("status")
    verb = {"interrupted": "died", "failed": "failed"}.get(status, "ended")
    return EventSentence(
        _session_agent(told), verb, _in(told) + (told.after("detail", ": ") if verb == "failed" else "")
    )


def _session_agent(told: _Told) -> str:
    return told.who or told.text("cli") or "an agent"


def _in(told: _Told) -> str:
    return f" in {told.where}" if told.where else ""


def _task_ended(told: _Told) -> EventSentence:
    outcome = told.after("outcome", ": ")
    where = _in(told) if told.who else ""
    return EventSentence(told.who or told.where, "ended", f"{told.after('task', ' task ')}{where}{outcome}")


def _command_ended(told: _Told) -> EventSentence:
    status = told.data.get("status")
    end = f" with status {status}" if status else ""
    return EventSentence(told.text("name") or told.text("line") or "a command", "ended", f"{_in(told)}{end}")


def _described(told: _Told) -> EventSentence:
    words = [told.text("emoji"), told.text("role"), told.after("team", "team ")]
    return EventSentence(told.who, "is described as", f" {', '.join(filter(None, words)) or 'nothing'}")


def _synced(told: _Told) -> EventSentence:
    parts = [
        (told.number("linked"), "linked"),
        (told.number("moved"), "re-pointed"),
        (told.number("removed"), "removed"),
    ]
    done = ", ".join(f"{number} {verb}" for number, verb in parts if number)
    conflicts = told.number("conflicts")
    news = [done] * bool(done) + [count(conflicts, "conflict")] * bool(conflicts)
    return EventSentence(told.where, "was synced", f": {', '.join(news)}" if news else "")


def _commits(told: _Told) -> str:
    number = told.number("commits")
    return f" by {count(number, 'commit')}" if number else ""


def _about(subject: str, verb: str, rest: Callable[[_Told], str] = lambda told: "") -> Callable[[_Told], EventSentence]:
    """Return a sentence about the worktree or repository (`{}`), or about what `subject` names."""
    return lambda told: EventSentence(subject.format(told.where, **{"type": told.text("type")}), verb, rest(told))


def _any(told: _Told) -> EventSentence:
    """Return an event of another program or of a newer version."""
    return EventSentence(told.who or told.where, safe(told.event.type, 60), _in(told) if told.who else "")


_SENTENCES: dict[str, Callable[[_Told], EventSentence]] = {
    "agent.described": _described,
    "artifact.failed": lambda told: EventSentence(told.text("file"), "was not saved", told.after("why", ": ")),
    "artifact.saved": lambda told: EventSentence(told.who, "finished", told.after("file", " ")),
    "command.ended": _command_ended,
    "registry.restored": _about("the registry", "was restored from a backup", lambda told: told.after("reason", ": ")),
    "registry.started": _about("the registry", "was made anew"),
    "repository.moved": _about("{}", "moved", lambda told: told.after("path", " to ")),
    "repository.trusted": _about("{}", "is trusted"),
    "repository.untrusted": _about("{}", "is not trusted any more"),
    "session.ended": _session_ended,
    "session.progress": _session_progress,
    "session.started": _session_started,
    "task.ended": _task_ended,
    "type.added": _about("type {type}", "was added"),
    "type.removed": _about("type {type}", "was removed"),
    "worktree.adopted": _about("{}", "was found in the trash"),
    "worktree.claimed": _claimed,
    "worktree.created": lambda told: _done("recorded" if told.data.get("adopted") else "created")(told),
    "worktree.merged": _done("merged", lambda told: told.after("into", " into ")),
    "worktree.moved": _about("{}", "moved", lambda told: told.after("path", " to ")),
    "worktree.purged": _done("purged", lambda told: " from the trash"),
    "worktree.released": _released,
    "worktree.removed": _removed,
    "worktree.renamed": _renamed,
    "worktree.restored": _done("restored"),
    "worktree.synced": _synced,
    "worktree.updated": _done("updated", _commits),
}
