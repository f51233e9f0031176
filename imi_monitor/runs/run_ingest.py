"""Records the output of runs in the registry: rows and the place in the output in one transaction.

The place moves by compare-and-set, so any number of readers may run: what one recorded, no other records again. A reader
that was overtaken, or begins in the middle, reads the recorded part once more without recording it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from imi_monitor import host
from imi_monitor.model import price, run, session_record, times
from imi_monitor.model.agent import (
    DEAD,
    EXACT,
    FAILED,
    PLANNING,
    UNKNOWN,
    WORKING,
    Agent,
    AgentEvent,
    SessionFacts,
    Truth,
)
from imi_monitor.model.run import ALIVE, CRASHED, STARTING, Question
from imi_monitor.model.session_record import SessionRecord, SessionState
from imi_monitor.model.snapshot import Key
from imi_monitor.runs import launch_folder, providers, run_claim, run_end, run_files, run_result, run_upkeep
from imi_monitor.runs.contained.request_folder import RequestFolder
from imi_monitor.runs.launch_folder import ProcessEnd
from imi_monitor.runs.report_observer import ReportObserver
from imi_monitor.runs.run_checkpoint import MESSAGES, CheckpointClock
from imi_monitor.runs.tool_server import ToolServer
from imi_monitor.sources.agents.hooks.records import STOPPED
from imi_monitor.store import checkpoints, db, run_usage, runs, session_writer
from imi_monitor.store.runs import RunRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.sources.agents.claude.transcript_usage import TranscriptUsage

_SLICE = 1 << 20
_FACTS_SECONDS = 2.0  # that growing numbers, and of many streams the lines that change nothing, may be behind
_LONGEST_LINE = 16 << 20
_MANY = 10
_LOOK_SECONDS = 1.0  # between two looks at the reports of many runs
_LONGEST_STEP = 5.0  # seconds between two looks at what an agent does that count as its work
_WORK_SECONDS = 60.0  # of work without a record that are recorded alone
_BATCH_SECONDS = 0.7  # of many streams, one that has just said something is read again after so long, with more


@dataclass(frozen=True, slots=True)
class _News:
    """What one slice of the output says, ready to be recorded."""

    start: int
    position: int
    lines: int
    record: SessionRecord | None
    asked: Sequence[Question]
    closed: Sequence[str]
    events: Sequence[AgentEvent]
    end: ProcessEnd | None  # the process is gone and its output is read to the end
    whole: bool  # also what the run and its session are now, not only what happened
    checkpoint: tuple[str, dict[str, object]] | None = None
    worked: float = 0.0  # seconds at work that are not recorded yet


class FollowedRun:
    """One run and the reader of its output, which has taken in everything before `position`."""

    def __init__(self, row: RunRow, every: int = 0, prices: Mapping[str, str] | None = None) -> None:
        """`every`: the number of messages between two checkpoints."""
        self.row = row
        self._every = every
        self._clock = CheckpointClock(every)
        self.folder = launch_folder.folder_of(row.id)
        self.provider = providers.by_name(row.program)
        self.reader = self.provider.reader(row.way)
        self.position = 0
        self.turn_over_since: float | None = None  # uptime
        self.next_read = 0.0
        self.reports = ReportObserver(row)
        self.requests = RequestFolder(row)
        self.worked = 0.0  # seconds at work that are not recorded yet
        self._prices = prices or {}
        self._usage: TranscriptUsage | None = None
        self._stopped_at: str | None = None  # the last stop that is in the output
        self._counted_at: float | None = None
        self._recorded: tuple[object, ...] | None = None
        self._unrecorded = False  # lines were read since the session's facts were recorded
        self._held_from = 0  # up to here the output is recorded
        self._held_lines = 0  # read, and not recorded
        self._held_events: tuple[AgentEvent, ...] = ()  # of them
        self._whole_at = 0.0
        self._state_at = row.started_at or row.created_at
        self._about = _about(row)
        self._made: SessionState | None = None  # the last one; of acts alone only its id is stored
        self.parent: str | None = None  # the session of the run in which this one was started

    def read_recorded(self, until: int) -> None:
        """Read the output up to this position, as far as it is recorded already: nothing of it is recorded again."""
        self.reader, self.position = self.provider.reader(self.row.way), 0
        self._held_lines, self._held_events = 0, ()
        self._clock = CheckpointClock(self._every)
        events: list[AgentEvent] = []
        while self.position < until:
            data = self.folder.read_output(self.position, min(_LONGEST_LINE, until - self.position))
            if not data:
                break  # the file is shorter than it was
            self._take(data, whole=b"\n" not in data or self.position + len(data) >= until)
            events += self.reader.take_events()
        self._held_from = self.position
        self.release(self.reader.take_questions()[1])
        self._clock.note(events)
        self._clock.due(self.reader.state, over=False)
        run_files.write(self.row, events, anew=True)

    def _take(self, data: bytes, *, whole: bool) -> tuple[int, int]:
        """Give the complete lines to the reader, with `whole` also a torn last one; (bytes, lines)."""
        cut = len(data) if whole else data.rfind(b"\n") + 1
        at, lines, start = times.stamp(), 0, 0
        while start < cut:
            end = data.find(b"\n", start, cut) + 1 or cut
            self.reader.add(
                data[start : end - 1] if data[end - 1 : end] == b"\n" else data[start:end], self.position, at
            )
            self.position += end - start
            start, lines = end, lines + 1
        return cut, lines

    def read_news(self, *, hold: bool = False) -> _News | None:
        """The next slice of the output; None if there is nothing to record.

        `hold`: lines that change nothing wait for those that follow, until the session's facts are due.
        """
        before, end = self.position, None
        data = self._read()
        if b"\n" not in data:
            process = self._process()
            data = self._read()  # what it wrote before its end
            end = process if process.over and len(data) < _SLICE else None
        _, lines = self._take(data, whole=end is not None or len(data) >= _LONGEST_LINE)
        events, (asked, closed) = self.reader.take_events(), self.reader.take_questions()
        now = (self.reader.session, self.reader.state, self.reader.detail, self.reader.turn_over)
        changed = now != self._recorded
        self._unrecorded = self._unrecorded or self.position != before
        late = self._unrecorded and time.monotonic() >= self._whole_at + _FACTS_SECONDS
        whole = changed or late or end is not None or self.worked > _WORK_SECONDS
        self._clock.note(events)
        due = self._clock.due(self.reader.state, over=end is not None)
        self._held_lines, self._held_events = self._held_lines + lines, self._held_events + events
        waits = hold and not asked and not closed and due is None
        if not whole and (waits or self.position == self._held_from):
            return None
        if self._recorded is None or self._recorded[1] != now[1]:
            self._state_at = times.stamp()
        self._recorded = now
        if whole:
            self._whole_at, self._unrecorded = time.monotonic(), False
        self._note_rest()
        events = self._held_events
        record = self._session_record(events, end, only_acts=not whole) if whole or events else None
        checkpoint = (due, self._clock.make(self.row, self.reader)) if due else None
        worked, self.worked = (self.worked, 0.0) if whole else (0.0, self.worked)
        start, self._held_from = self._held_from, self.position
        lines, self._held_lines, self._held_events = self._held_lines, 0, ()
        return _News(start, self.position, lines, record, asked, closed, events, end, whole, checkpoint, worked)

    def _read(self) -> bytes:
        data = self.folder.read_output(self.position, _SLICE)
        if len(data) == _SLICE and b"\n" not in data:
            return self.folder.read_output(self.position, _LONGEST_LINE)
        return data

    def _note_rest(self) -> None:
        if not self.reader.turn_over:
            self.turn_over_since = None
        elif self.turn_over_since is None:
            self.turn_over_since = host.uptime()

    def count_work(self) -> None:
        """Add the time since the last call, if the agent worked; a pause of the machine or of this process is not work."""
        self.follow_transcript()
        now, before = time.monotonic(), self._counted_at
        self._counted_at = now
        begins = self.reader.state is None and self.row.way == run.TASK  # in a window it may stand at a dialog
        if before is not None and not self.reader.turn_over and (begins or self.reader.state in WORKING):
            self.worked += min(now - before, _LONGEST_STEP)

    def cost(self) -> float | None:
        """Dollars so far, as the program reports them or by the prices; None: unknown."""
        return price.cost(self.facts, self._prices)

    @property
    def facts(self) -> SessionFacts:
        """What is known of the session, with what the program's own transcript adds."""
        return self.reader.facts if self._usage is None else self._usage.complete(self.reader.facts)

    def follow_transcript(self) -> None:
        """Find the transcript that says what the session uses; `/clear` and `/resume` in a window begin another one."""
        path = self.reader.transcript
        if path is not None and (self._usage is None or self._usage.path != path):
            from imi_monitor.sources.agents.claude.transcript_usage import TranscriptUsage

            self._usage = TranscriptUsage(path)
        if self._usage is not None:
            self._note_stop(self._usage.stopped_at())

    def _note_stop(self, at: str | None) -> None:
        """Add to the output that the turn was stopped: Claude calls no hook then, and its transcript has it."""
        works = self.reader.state in WORKING
        if works and at is not None and at != self._stopped_at and not self._process().over:
            hook = {"hook_event_name": STOPPED, "session_id": self.reader.session, "text": "stopped by a person"}
            self.folder.add_output({"ask": "", "hook": hook})
        self._stopped_at = at if at is not None else self._stopped_at

    def release(self, closed: Iterable[str]) -> None:
        """Let the hooks leave that wait for answers to closed questions."""
        for ask in closed if self.row.way != run.TASK else ():
            self.folder.release(ask)

    def forget_recorded(self) -> None:
        """Record everything again that is not a line: another reader was faster, and may know less."""
        self._recorded = None

    def _process(self) -> ProcessEnd:
        """What became of the process; by the registry where the folder of the launch was removed."""
        found, row = self.folder.process(), self.row
        if found.kind == launch_folder.UNBORN and host.is_alive(row.host, row.boot, row.pid, row.pid_started) is False:
            return ProcessEnd(launch_folder.GONE)
        return found

    def _session_record(
        self, events: Sequence[AgentEvent], end: ProcessEnd | None, *, only_acts: bool
    ) -> SessionRecord | None:
        session = self.reader.session or self.row.session
        if session is None or self.reader.state == UNKNOWN:
            return None  # only the readers of what the program stores can tell
        if only_acts and self._made is not None and self._made.id == f"{self.row.program}:{session}":
            return session_record.session_record(self._made, self.row.cwd, events, times.now(), _size, only_acts=True)
        over = end is not None
        state = self.reader.state or (FAILED if over else PLANNING)
        row = self.row
        crashed = over and (row.stop_by is None and state in WORKING)
        truth = Truth(state, self._state_at, "run", EXACT, self.reader.detail, ended=over)
        key = Key(row.host, row.repo_name, row.worktree_name) if row.repo_name and row.worktree_name else None
        agent = Agent(
            id=f"{row.program}:{session}",
            cli=row.program,
            name=row.agent_id,
            key=key,
            cwd=row.cwd,
            session=session,
            pid=row.pid,
            pid_started=row.pid_started,
            truth=Truth(DEAD, truth.since, "run", EXACT, truth.detail, ended=True) if crashed else truth,
            facts=self.facts,
        )
        now = times.now()
        made = session_record.session_state(agent, row.host, row.boot or host.boot(), now)
        made.metadata.update(self._about)
        made.texts["parent_id"] = self.parent or made.texts["parent_id"]
        self._made = made
        record = session_record.session_record(made, row.cwd, events, now, _size, only_acts)
        if not over:
            return record
        made.metadata.update(run_result.about(row))
        return replace(record, files=(*record.files, *run_result.files(row)))


def _about(row: RunRow) -> dict[str, object]:
    """What is stored of the run with its session."""
    launch = json.loads(row.launch)
    wanted = ("labels", "flags", "mode", "task", "base", "parent")
    found = {name: launch[name] for name in wanted if launch.get(name)}
    return {"run": row.id, "origin": "imi", "user": row.user, "way": row.way, **found}


def _size(path: str, root: str | None) -> int | None:
    """The size of a plain file in the agent's folder; the file is not opened."""
    if root is None or not path.startswith(root.rstrip("/") + "/"):
        return None
    try:
        return os.lstat(path).st_size
    except (OSError, ValueError):
        return None


class RunIngest:
    """Follows all runs of one registry that are not over."""

    def __init__(
        self, connection: sqlite3.Connection, checkpoint_every: int = 0, prices: Mapping[str, str] | None = None
    ) -> None:
        self.checkpoint_every = checkpoint_every
        self._prices = prices
        self.connection = connection
        self.followed: dict[int, FollowedRun] = {}
        self.starting: list[RunRow] = []
        self._looked_at = 0.0
        self._version: tuple[object, int] | None = None  # of the registry, when the open runs were listed

    def update(self) -> bool:
        """Record what is new of every run; whether there was anything."""
        version = self._follow_open()
        self._look_at_reports()
        self.look_at_requests()
        hold = len(self.followed) >= _MANY
        news = [(one, found) for one in self._due() if (found := one.read_news(hold=hold)) is not None]
        if not news:
            return False
        overtaken = db.transact_unsynced(self.connection, _record, news)
        for one in overtaken:
            one.read_recorded(db.read(self.connection, runs.offset, one.row.seq)[0])
            one.forget_recorded()
        ended = any(found.end for _, found in news)
        self._version = None if ended else (version[0], self.connection.total_changes)
        for one, found in news:
            if one in overtaken:
                continue  # the other reader writes them
            run_files.write(one.row, found.events)
            one.release(found.closed)
            if found.end is not None:
                run_end.settle(self.connection, one.row, one.reports)
        return True

    def processes(self) -> dict[int, str | None]:
        """The start times of the agents' processes, by pid."""
        return {one.row.pid: one.row.pid_started for one in self.followed.values() if one.row.pid is not None}

    def expect_end(self, woken: Set[object]) -> bool:
        """Read the runs next whose process or launch folder is among these; whether there is one."""
        found = [one for one in self.followed.values() if one.row.pid in woken or one.folder.path in woken]
        for one in found:
            one.next_read = 0.0
        return bool(found)

    def look_at_requests(self) -> None:
        """Act on what walled agents have asked for."""
        for one in self.followed.values():
            one.requests.look(self.connection)

    def _look_at_reports(self) -> None:
        """At each call; of many runs once a second."""
        now = time.monotonic()
        if len(self.followed) >= _MANY and now < self._looked_at + _LOOK_SECONDS:
            return
        self._looked_at = now
        for one in self.followed.values():
            one.reports.look(self.connection)

    def settle_left(self) -> None:
        """Complete the files of runs whose follower died behind the record of their end."""
        run_end.settle_left(self.connection, self._write_files)

    def _write_files(self, row: RunRow) -> None:
        FollowedRun(row, self.checkpoint_every).read_recorded(db.read(self.connection, runs.offset, row.seq)[0])

    def _follow_open(self) -> tuple[object, int]:
        """Follow the runs that are open now; they are listed again only after a change that was not made here."""
        version = (db.data_version(self.connection), self.connection.total_changes)
        if version != self._version:
            self._follow(db.read(self.connection, runs.list_open_here))
            self._version = version
        return version

    def _due(self) -> Iterator[FollowedRun]:
        now, many = time.monotonic(), len(self.followed) >= _MANY
        for one in self.followed.values():
            if one.next_read <= now:
                before = one.position
                yield one
                one.next_read = now + _BATCH_SECONDS if many and one.position != before else now

    def _follow(self, rows: Sequence[RunRow]) -> None:
        alive = {row.seq: row for row in rows if row.status == ALIVE}
        self.starting = [row for row in rows if row.status == STARTING]
        for seq in [seq for seq in self.followed if seq not in alive]:
            self.followed.pop(seq).requests.close()
        for seq, row in alive.items():
            known = self.followed.get(seq)
            if known is None:
                known = self.followed[seq] = FollowedRun(row, self.checkpoint_every, self._prices)
                known.requests = RequestFolder(row, ToolServer(row, run_upkeep.registry_of(self.connection)))
                position = db.read(self.connection, runs.offset, seq)[0]
                if position:
                    known.read_recorded(position)
            known.row = row
            if known.parent is None:
                known.parent = db.read(self.connection, runs.parent_session, row)


def _record(connection: sqlite3.Connection, news: Sequence[tuple[FollowedRun, _News]]) -> list[FollowedRun]:
    """Record the news of each run; returns those that another reader has overtaken. One transaction."""
    overtaken: list[FollowedRun] = []
    for one, found in news:
        if runs.move_offset(connection, one.row.seq, found.start, found.position, found.lines):
            _record_one(connection, one, found)
        else:
            overtaken.append(one)
    return overtaken


def _record_one(connection: sqlite3.Connection, one: FollowedRun, found: _News) -> None:
    row = one.row
    if found.record is not None:
        session_writer.record(connection, [found.record])
    if found.asked or found.closed:
        runs.record_asks(connection, row.seq, found.asked, found.closed)
    if found.whole:
        detail = session_record.stored_text(one.reader.detail)
        runs.record_progress(connection, row, one.reader.session, one.reader.state, detail)
        _record_usage(connection, one, found.worked)
    if found.checkpoint is not None:
        kind, state = found.checkpoint
        number = checkpoints.add(connection, row, kind, found.position, state)
        if kind == MESSAGES and found.record is not None:
            session = found.record.session
            checkpoints.record_progress(connection, row, session.id, session.state, number)
    if found.end is not None:
        now = runs.by_id(connection, row.id) or row  # the intent to stop it may be new
        end_run(connection, now, one.reader.state, one.reader.detail, found.end.code)


def _record_usage(connection: sqlite3.Connection, one: FollowedRun, worked: float) -> None:
    facts = one.facts
    known = [number for number in (facts.tokens_in, facts.tokens_out) if number is not None]
    tokens = sum(known) if known else None
    run_usage.add(connection, one.row, one.cost(), tokens, worked, whole_session=one.reader.counts_session)


def end_run(
    connection: sqlite3.Connection, row: RunRow, state: str | None, detail: str | None, code: int | None
) -> None:
    """Record the end of a run whose process is gone, and give its claim back unless it crashed."""
    found = run.verdict(state, session_record.stored_text(detail), code, row.stop_by)
    if not runs.end(connection, row, found, code):
        return
    if found.status != CRASHED:
        run_claim.release(connection, row)
