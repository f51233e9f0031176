"""One session of Claude Code: its entry in the registry, its transcript, its subagents and its job, as one sighting.

What Claude's registry and its processes say, as evidence.

Whether a session's process lives: what its entry in the registry proves, and what the absence of one does.

A process may go on to another session (/clear, /resume), and a session to another process (--resume).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import Final

from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    RESTING,
    RUNNING,
    UNKNOWN,
    WAITING,
    AgentEvent,
    Evidence,
    SessionFacts,
    ToolCall,
)
from imi_monitor.sources.agents import foreign_files
from imi_monitor.sources.agents.agent_reader import Sighting
from imi_monitor.sources.agents.claude.live_registry import BackgroundJob, RegistryEntry
from imi_monitor.sources.agents.claude.records import OpenCall, TokenLedger
from imi_monitor.sources.agents.claude.transcript import Subagents, Transcript

_VERSION = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)")
_REGISTERS = (2, 1, 197)  # the oldest version of which we know that it lists itself
_NEWEST = 2
_MOST_FILES = 200
_DIALOG = "permission prompt"


class ClaudeSession:
    def __init__(self, ident: str) -> None:
        self.ident = ident
        self.life = ProcessLife()
        self.job: BackgroundJob | None = None
        self.transcript: Transcript | None = None
        self.subagents: Subagents | None = None
        self.stem = ""  # with which the names of its files begin
        self._ledger = TokenLedger()
        self.folders: tuple[str, ...] = ()  # in which they lie
        self.moved = True  # since it was last told, as far as anybody knows
        self.behind = False  # not read to its end
        self.has_older = False  # not read from its beginning
        self._news: list[AgentEvent] = []
        self._key: tuple[object, ...] = ()
        self._sighting: Sighting | None = None

    # -- what is read of it -------------------------------------------------------------------------------------------

    def open(self, path: str) -> None:
        """Its file; of two with its name the one that moved last (it was resumed elsewhere)."""
        if self.transcript is None or (
            self.transcript.path != path
            and (foreign_files.modified_at(path) or 0) > (foreign_files.modified_at(self.transcript.path) or 0)
        ):
            self._ledger = TokenLedger()
            self.transcript, self.subagents = Transcript(path, ledger=self._ledger), Subagents(path, self._ledger)
            below = self.subagents.folder
            self.stem = path.removesuffix(".jsonl")
            self.folders = (os.path.dirname(path), os.path.dirname(below), below)
            self._moved()

    def read(self, touched: frozenset[str] | None) -> None:
        """What was appended; with `touched`, only if that is about this session."""
        if self.transcript is None or self.subagents is None:
            return
        if touched is None or self.transcript.path in touched or self.transcript.behind:
            self._news += self.transcript.read()
        if self.life.alive is not False:
            self._news += self.subagents.look(touched)
        self._moved()

    def read_before(self) -> None:
        if self.transcript is not None and self.transcript.has_older:
            self._news = [*self.transcript.before(), *self._news]
        elif self.subagents is not None:
            self._news = [*self.subagents.read_before(), *self._news]
        self._moved()

    def _moved(self) -> None:
        self.moved = True
        self.behind = self.transcript is not None and self.transcript.behind
        self.has_older = self.transcript is not None and self.transcript.has_older
        if self.subagents is not None and self.subagents.has_older:
            self.has_older = True

    def listed_as(self, entry: RegistryEntry, alive: bool | None, now: str) -> None:
        self.moved = True
        before = self.life.entry if self.life.listed else None
        self._news += self.life.listed_as(entry, alive, now)
        if alive is not False and entry != before:
            self._news += self._waits(before, entry)

    def works_on(self, job: BackgroundJob) -> None:
        if self.job is not job:
            self.job, self.moved = job, True

    def happened(self, news: list[AgentEvent]) -> None:
        """Something became of its life."""
        self.moved = True
        self._news += news

    def _waits(self, before: RegistryEntry | None, now: RegistryEntry) -> list[AgentEvent]:
        """A dialog that opened or closed, where the transcript does not tell it: for a permission."""
        made = []
        was, at = before.at if before and _in_dialog(before) else None, now.at or now.started_at or ""
        if was is not None and was != now.at:
            made.append(AgentEvent("answered", f"{was}:answered", at))
        call = self._asked(now)
        if _in_dialog(now) and was != now.at and (call is None or call.question is None):
            made.append(AgentEvent("waits", f"{at}:waits", at, waits_for(now, call, None), call.tool if call else None))
        return made

    # -- what is known of it ------------------------------------------------------------------------------------------

    @property
    def cwds(self) -> list[str]:
        """Where it is by its records, then where it began."""
        recorded = self.transcript.talk.cwd if self.transcript else None
        entry, job = self.life.entry, self.job
        return [cwd for cwd in (recorded, entry.cwd if entry else None, job.cwd if job else None) if cwd]

    @property
    def last_at(self) -> str:
        """The newest sign of life."""
        entry, talk = self.life.entry, self.transcript.talk if self.transcript else None
        signs = [talk.at if talk else None, self.job.at if self.job else None]
        signs += [entry.at, entry.started_at] if entry else []
        return max((at for at in signs if at), default="")

    @property
    def version(self) -> str | None:
        entry, talk, job = self.life.entry, self.transcript.talk if self.transcript else None, self.job
        return (entry and entry.version) or (talk and talk.version) or (job and job.version) or None

    @property
    def registers(self) -> bool:
        """Whether a version like this one lists its living sessions."""
        found = _VERSION.match(self.version or "")
        return found is not None and tuple(map(int, found.groups())) >= _REGISTERS

    def forget_news(self) -> None:
        """Nobody watches where it is."""
        self._news.clear()

    def sighting(self, cwd: str, seen: object) -> Sighting:
        """What is so, made anew when something changed or `seen` did; its news are told once. Nothing of it is otherwise
        as long as it is not `moved`."""
        entry, life = self.life.entry, self.life
        key = (
            cwd,
            seen,
            entry,
            life.listed,
            life.alive,
            life.last_alive,
            life.pid,
            self.job,
            self.transcript and self.transcript.readings,
            self.subagents and self.subagents.readings,
        )
        if self._sighting is None or key != self._key or self._news:
            self._key = key
            self._sighting = self._made(cwd)
        news, self._news = tuple(self._news), []
        self.moved = bool(news)  # told again, without them
        return replace(self._sighting, news=news) if news else self._sighting

    def _made(self, cwd: str) -> Sighting:
        life = self.life
        return Sighting(
            "claude",
            self.ident,
            cwd,
            life.pid,
            life.pid_started,
            life.alive,
            life.last_alive,
            tuple(self._evidence()),
            self._facts(),
        )

    # -- what it says -------------------------------------------------------------------------------------------------

    def _evidence(self) -> list[Evidence]:
        entry, made = self.life.entry if self.life.listed else None, []
        asked = entry is not None and entry.status == "waiting"
        if entry is not None:
            made.append(self._by_registry(entry))
        told = self.transcript.talk.evidence(asked) if self.transcript else None
        below = self.subagents.evidence(asked) if self.subagents and self._busy(entry) else None
        if below is not None and self.transcript is not None and self.transcript.talk.only_below:
            told = None  # which of them does what is told below
        made += [self._unless_cut_off(one) for one in (told, below) if one is not None]
        ended = self.job.evidence() if self.job else None
        if ended is not None:
            made.append(ended)
        if self.life.went_on_at is not None and (told is None or told.state not in RESTING):
            made.append(went_on(self.life.entry, self.life.went_on_at))
        return made

    def _by_registry(self, entry: RegistryEntry) -> Evidence:
        call = self._asked(entry)
        background = next(iter(self.transcript.talk.calls.background.values()), None) if self.transcript else None
        why = waits_for(entry, call, self.job.needs if self.job else None)
        return by_registry(entry, self.life.alive is not None, call, background, why)

    def _asked(self, entry: RegistryEntry) -> OpenCall | None:
        """The call that a dialog is about; one that a former process left open it is not."""
        call = self.transcript.talk.asking() if self.transcript else None
        if call is None and self.subagents is not None:
            call = self.subagents.asking()
        return call if call is not None and call.at >= (entry.started_at or "") else None

    def _unless_cut_off(self, told: Evidence) -> Evidence:
        entry = self.life.entry if self.life.listed and self.life.alive else None
        late = entry is not None and entry.started_at is not None and told.at < entry.started_at
        return cut_off(told) if late and told.state not in RESTING else told

    def _busy(self, entry: RegistryEntry | None) -> bool:
        """Whether subagents may work: while they do, its registry never says idle."""
        return self.life.alive is not False and (entry is None or entry.status != "idle")

    def _facts(self) -> SessionFacts:
        entry, talk = self.life.entry, self.transcript.talk if self.transcript else None
        named = (talk and talk.title) or (self.job and self.job.name) or (entry and entry.name) or None
        facts = SessionFacts(
            version=self.version,
            title=named,
            started_at=entry.started_at if entry else None,
            tmux=entry.pane if entry else None,
            subagents=self._at_work(),
            format_note=self._note(),
        )
        return self._with_talk(facts) if self.transcript else facts

    def _with_talk(self, facts: SessionFacts) -> SessionFacts:
        assert self.transcript is not None
        talk = self.transcript.talk
        unknown = self.has_older or self.transcript.tokens is None  # too few would be a lie
        fresh, out, cached = (None, None, None) if unknown else self._ledger.counted
        below = self.subagents.files if self.subagents else ()
        files = tuple(dict.fromkeys((*below, *self.transcript.files)))[-_MOST_FILES:]
        return replace(
            facts,
            model=talk.model,
            branch=talk.branch,
            turn_at=talk.turn_at,
            prompt=talk.prompt,
            last_message=talk.last_message,
            tokens_in=fresh,
            tokens_out=out,
            tokens_cached=cached,
            cost_usd=talk.cost,
            context_used=talk.usage.context,
            files=files,
            ended_at=None if self.life.alive else self.life.went_on_at or talk.ended_at,
        )

    def _at_work(self) -> int | None:
        if self.subagents is None:
            return None
        return self.subagents.at_work if self._busy(self.life.entry if self.life.listed else None) else 0

    def _note(self) -> str | None:
        entry = self.life.entry if self.life.listed else None
        version = self.version
        major = _VERSION.match(version or "")
        why = self.transcript.strange if self.transcript else None
        if entry is not None and entry.status not in (None, "busy", "waiting", "shell", "idle"):
            why = f"{entry.file} says {entry.status!r}, which we do not know"
        elif entry is not None and not entry.status_known:
            why = f"{entry.file} tells its status in a way that we do not know"
        if why is None and version is not None and (major is None or int(major[1]) > _NEWEST):
            why = "newer than what we know; what is shown may be wrong"
        return f"unknown (format) claude {version or '?'}: {why}" if why else None


def _in_dialog(entry: RegistryEntry) -> bool:
    return entry.status == "waiting" and entry.waiting_for != "input needed"


_STATES: Final = {"busy": RUNNING, "waiting": WAITING, "shell": RUNNING, "idle": COMPLETED}
_EPOCH: Final = "1970-01-01T00:00:00.000000+00:00"


def by_registry(
    entry: RegistryEntry, standing: bool, call: OpenCall | None, background: ToolCall | None, detail: str
) -> Evidence:
    """What an entry says. `call`: the open call that a dialog is about; `background`: a command that still runs."""
    at = entry.at or entry.started_at or _EPOCH
    if entry.status is None and entry.status_known:
        says = f"{entry.file} lists it without saying what it does"
        return Evidence("process", UNKNOWN, at, says, "starting, or a version that does not tell", standing=standing)
    state = _STATES.get(entry.status or "", UNKNOWN)
    says = f"{entry.file} says {entry.status or 'something unknown'}"
    if state == WAITING:
        told = f"{says} ({entry.waiting_for})" if entry.waiting_for else says
        return Evidence("registry", state, at, told, detail, call.tool if call else None, standing)
    if entry.status == "shell":
        why = "its turn is over, a command runs on in the background"
        return Evidence("registry", state, at, says, why, background, standing)
    return Evidence("registry", state, at, says, standing=standing)


def waits_for(entry: RegistryEntry, call: OpenCall | None, needs: str | None) -> str:
    """What a person is asked, as exactly as it is known."""
    if call is not None and call.question is not None:
        return call.question
    if entry.waiting_for == "permission prompt":
        return needs or (f"permission for {call.tool}" if call else "permission")
    return needs or entry.waiting_for or "input"


def went_on(entry: RegistryEntry | None, at: str) -> Evidence:
    where = entry.file if entry else "its process"
    return Evidence("registry", CANCELLED, at, f"{where} went on to another session", "left for another session")


def cut_off(told: Evidence) -> Evidence:
    """What a former process had not finished, it never will."""
    says = f"{told.says}; the process that wrote it has ended"
    return Evidence("transcript", CANCELLED, told.at, says, "cut off when its former process ended", told.tool)


@dataclass
class ProcessLife:
    entry: RegistryEntry | None = None  # the newest
    listed: bool = False  # the entry is in the registry now
    alive: bool | None = None
    last_alive: str | None = None
    pid: int | None = None
    pid_started: str | None = None
    went_on_at: str | None = None  # when its process went on to another session

    def is_so(self, entry: RegistryEntry, alive: bool | None) -> bool:
        """Whether all of this is known."""
        return self.entry is entry and self.alive is alive and self.listed and self.went_on_at is None

    def listed_as(self, entry: RegistryEntry, alive: bool | None, now: str) -> list[AgentEvent]:
        """The registry has it."""
        another = (entry.pid, entry.proc_start) != (self.pid, self.pid_started)
        self.entry, self.listed, self.went_on_at = entry, True, None
        if another:
            self.pid, self.pid_started, self.last_alive, self.alive = entry.pid, entry.proc_start, None, None
        made = self._now(alive, now)
        if not another or alive is False:
            return made
        how = " ".join(word for word in (entry.kind, entry.entrypoint) if word) or None
        return [AgentEvent("started", f"{entry.pid}:{entry.proc_start}:started", entry.started_at or now, how), *made]

    def unlisted(self, alive: bool | None, now: str) -> list[AgentEvent]:
        """Its entry is gone, or never was there."""
        self.listed = False
        return self._now(alive, now)

    def went_on(self, at: str) -> list[AgentEvent]:
        """Its process has another session now."""
        self.listed, self.went_on_at = False, at
        return self._now(False, at)

    def owned_by(self, pid: int, started: str, now: str) -> list[AgentEvent]:
        """A process that lists itself nowhere, and must be this session's."""
        self.pid, self.pid_started = pid, started
        return self._now(True, now)

    def _now(self, alive: bool | None, now: str) -> list[AgentEvent]:
        ended = self.alive is True and alive is False
        self.alive = alive
        if alive is not False:
            self.last_alive = None
        if not ended:
            return []
        self.last_alive = now
        why = "its process went on to another session" if self.went_on_at else "its process ended"
        return [AgentEvent("ended", f"{self.pid}:{self.pid_started}:ended", now, why)]
