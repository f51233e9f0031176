"""Kimi Code: `sessions/<workspace>/<session>/agents/main/wire.jsonl`, and the folders of the workspaces in `workspaces.json`.

The program replaces its own command line, so that nothing names the session of a process: sessions and processes are paired by
their folder and times. A process without a session stands at its prompt, because the first prompt creates one; or in the dialog
that asks whether its folder is trusted, until the answer is a file in `workspace-trust/`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from imi_monitor.model.agent import COMPLETED, NOTHING_ASKED, UNKNOWN, WAITING, Evidence
from imi_monitor.sources.agents import fields, foreign_files
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentProgram, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.folder_trust import ASKS_FOR_TRUST, MAYBE_ASKS_FOR_TRUST
from imi_monitor.sources.agents.foreign_files import RecordFile
from imi_monitor.sources.agents.kimi.reducer import KimiReducer
from imi_monitor.sources.agents.other_programs import HELPERS
from imi_monitor.sources.agents.session_owners import SessionPairs, SessionProcess, SessionTrace

_DAY = 86400.0
_SLACK = 2.0  # seconds by which the clocks of a process and of a record may differ
_WINDOW = 256 << 10  # a request of the model's may be long
_LONGEST_TABLE = 1 << 20
_RECORDS = "agents/main/wire.jsonl"

PROGRAM = AgentProgram(
    "kimi",
    ("/@moonshot-ai/kimi-code/", "/kimi_cli/"),
    HELPERS | {"web", "vis", "info", "acp", "provider", "session", "export", "fork", "migrate", "server"},
    commands=("kimi", "kimi-cli", "kimi-code", "Kimi Code"),
    home_variables=("KIMI_CODE_HOME",),
)


def make() -> AgentReader:
    return KimiReader()


class KimiSession(RecordFile[KimiReducer]):
    def __init__(self, folder: str, cwd: str) -> None:
        super().__init__(f"{folder}/{_RECORDS}", lambda: KimiReducer(os.path.basename(folder)), _WINDOW)
        self.id = os.path.basename(folder)
        self.folder, self.cwd = folder, cwd
        self.has_process = False

    def title(self) -> str | None:
        return fields.text(_table(f"{self.folder}/state.json").get("title"), 200)


class KimiReader:
    cli = "kimi"

    def __init__(self) -> None:
        self.has_more = False
        self._home = ""
        self._places: dict[str, str] = {}  # folder of a workspace's sessions -> the workspace
        self._opened: dict[str, float] = {}  # workspace -> when it was opened last
        self._trusted: tuple[float | None, dict[str, float]] = None, {}  # when it was written; folder -> since when
        self._sessions: dict[str, KimiSession] = {}  # by folder
        self._titles: dict[str, tuple[float, str | None]] = {}  # by session: when it was written, its title
        self._pairs = SessionPairs()

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        wanted = (self._home, *self._places, *(os.path.dirname(one.path) for one in self._sessions.values()))
        return [folder for folder in wanted if os.path.isdir(folder)]

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        home = os.path.realpath(context.env.get("KIMI_CODE_HOME") or f"{context.home}/.kimi-code")
        if home != self._home:
            self._home, self._sessions, touched = home, {}, None
        self._find(context, touched)
        for session in self._sessions.values():
            if touched is None or session.path in touched or session.tail.has_more:
                session.read()
        for session in self._with_more()[:1]:
            session.read_older()
        shown = list(self._sessions.values())
        processes = context.processes_of("kimi")
        owners = self._pairs.find([_trace(one) for one in shown], processes, context.now)
        self.has_more = bool(self._with_more())
        found = [self._sighting(one, owners[one.id]) for one in shown]
        return [*found, *self._never_asked(context, processes, owners)]

    def _find(self, context: ReadContext, touched: frozenset[str] | None) -> None:
        """New sessions and workspaces are lists in the home folder, which changes with them."""
        above = (self._home, *self._places)
        if touched is not None and not any(path in above or os.path.dirname(path) in above for path in touched):
            return
        self._places = dict(self._workspaces(context))
        recent = dict(_recent_sessions(self._places, context.now - _DAY))
        for folder, cwd in recent.items():
            if folder not in self._sessions:
                self._sessions[folder] = KimiSession(folder, cwd)
                self._sessions[folder].read()
        kept = {folder: one for folder, one in self._sessions.items() if folder in recent or one.has_process}
        self._sessions = kept

    def _workspaces(self, context: ReadContext) -> Iterator[tuple[str, str]]:
        listed = fields.table(_table(f"{self._home}/workspaces.json").get("workspaces"))
        for name, one in listed.items():
            root = fields.path(fields.table(one).get("root"))
            if root is not None and "/" not in name and context.is_watched(root):
                opened = fields.moment(fields.table(one).get("last_opened_at"))
                self._opened[os.path.realpath(root)] = fields.seconds(opened) or 0.0
                yield f"{self._home}/sessions/{name}", os.path.realpath(root)

    def _with_more(self) -> list[KimiSession]:
        return [one for one in self._sessions.values() if one.has_more and (one.has_process or one.tail.has_more)]

    # -- sightings ----------------------------------------------------------------------------------------------------

    def _sighting(self, one: KimiSession, owner: SessionProcess) -> Sighting:
        if owner.alive is not True and one.has_process:
            one.read()  # the last records may have come together with its end
        one.has_process = owner.alive is True
        evidence = one.reducer.evidence()
        return Sighting(
            cli=self.cli,
            session=one.id,
            cwd=one.cwd,
            pid=owner.process.pid if owner.process else None,
            pid_started=owner.process.started if owner.process else None,
            alive=owner.alive,
            last_alive=None if owner.alive is not False else fields.at(one.modified_at),
            evidence=(evidence,) if evidence else (),
            facts=one.reducer.facts(self._title(one)),
            events=one.take_events(),
            process_began=owner.began,
            tied=owner.tied,
        )

    def _title(self, one: KimiSession) -> str | None:
        """Return the title of the session, read again only when the session was written."""
        if self._titles.get(one.id, (0.0, None))[0] != one.modified_at:
            self._titles[one.id] = one.modified_at, one.title()
        return self._titles[one.id][1]

    def _never_asked(
        self, context: ReadContext, processes: Sequence[AgentProcess], owners: dict[str, SessionProcess]
    ) -> Iterator[Sighting]:
        """Processes without a session, unless one that has no process may be theirs."""
        taken = {(one.process.pid, one.process.started) for one in owners.values() if one.process and one.alive}
        open_ones = [one for one in self._sessions.values() if owners[one.id].alive is None]
        for process in processes:
            may_have = any(one.cwd == process.cwd and process.ran_at(one.modified_at) for one in open_ones)
            if (process.pid, process.started) in taken or may_have or not context.is_watched(process.cwd):
                continue
            ready = self._at_its_start(process, processes)
            yield Sighting("kimi", None, process.cwd, process.pid, process.started, True, evidence=(ready,))

    def _at_its_start(self, process: AgentProcess, processes: Sequence[AgentProcess]) -> Evidence:
        """Return that the agent is ready or asks for trust in the folder; another dialog at its start is not recorded."""
        at, cwd = fields.at(process.began_at), process.cwd
        trusted_at = self._trusted_folders().get(cwd)
        if trusted_at is None and self._opened.get(cwd, 0.0) >= process.began_at - _SLACK:
            says = f"no file of workspace-trust names this folder, and process {process.pid} has opened it"
            return Evidence("transcript", WAITING, at, says, ASKS_FOR_TRUST, or_else=frozenset({COMPLETED}))
        asked = [one for one in processes if one.cwd == cwd and one.began_at < (trusted_at or 0.0)]
        if process in asked and len(asked) > 1:
            says = (
                f"the folder was trusted after process {process.pid} began: its dialog or that of another was answered"
            )
            return Evidence(
                "transcript", UNKNOWN, at, says, MAYBE_ASKS_FOR_TRUST, or_else=frozenset({WAITING, COMPLETED})
            )
        says = f"process {process.pid} runs, and no session was written since it began"
        return Evidence("transcript", COMPLETED, at, says, NOTHING_ASKED, or_else=frozenset({WAITING}))

    def _trusted_folders(self) -> dict[str, float]:
        """Folder -> since when it is trusted."""
        folder = f"{self._home}/workspace-trust"
        modified_at = foreign_files.modified_at(folder)
        if modified_at != self._trusted[0]:
            self._trusted = modified_at, dict(_trust_records(folder))
        return self._trusted[1]


def _trust_records(folder: str) -> Iterator[tuple[str, float]]:
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        one = _table(f"{folder}/{name}")
        root, since = fields.path(one.get("root")), fields.moment(one.get("trustedAt"))
        if root is not None:
            yield os.path.realpath(root), fields.seconds(since) or 0.0


def _trace(one: KimiSession) -> SessionTrace:
    return SessionTrace(one.id, one.cwd, one.modified_at, names=frozenset({one.id}))


def _recent_sessions(places: dict[str, str], since: float) -> Iterator[tuple[str, str]]:
    for place, cwd in places.items():
        try:
            names = os.listdir(place)
        except OSError:
            continue
        for name in names:
            if (foreign_files.modified_at(f"{place}/{name}/{_RECORDS}") or 0.0) >= since:
                yield f"{place}/{name}", cwd


def _table(path: str) -> dict[str, object]:
    try:
        with open(path, "rb") as file:
            return fields.record(file.read(_LONGEST_TABLE)) or {}
    except OSError:
        return {}
