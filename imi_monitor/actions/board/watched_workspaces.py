"""Workspaces of other programs that imi watches: read without writing a byte there, recorded as sessions and items here.

be-agents-service: `.compound-state/session-*/`, `agent-service.db`, and the jobs with their logs. universal_agent:
`AGENT_RUN_WORKSPACES` with its run folders, and `runtime_state.db` with their tool calls. Big 3: the registries of its agents
with their operator logs. Denker: the registry of the files that its agents share.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field

from imi_monitor import host, paths
from imi_monitor.actions.board import big3_registries, denker_folder, service_jobs, workspace_files
from imi_monitor.config import WATCHED_FOLDERS
from imi_monitor.model import foreign_run, state_file, times
from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.model.foreign_run import UNIVERSAL_AGENT, ForeignRun
from imi_monitor.model.state_file import AgentState, SessionFiles
from imi_monitor.store import db, query, state_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from imi_monitor.config import Settings
    from imi_monitor.model.session_record import ToolCallRecord

BE_AGENTS, BIG3, DENKER = "be-agents-service", "big3", "denker"
_SERVICE_DB, _RUNTIME_DB = "agent-service.db", "runtime_state.db"
_WORKSPACES = "AGENT_RUN_WORKSPACES"
_LOGS = ("run.log", os.path.join("workbench_activity", "log.txt"))
_ABOUT = ("mission.json", "run_manifest.json", "session_policy.json")
_MOST_RUNS = 500
_KNOWN_NAMES = (_WORKSPACES, _RUNTIME_DB, _SERVICE_DB, state_file.FOLDER, service_jobs.FOLDER)
_CALLS = "SELECT * FROM tool_calls ORDER BY created_at DESC LIMIT 5000"
_LIMITS = query.QueryLimits(seconds=5.0, rows=5000)


@dataclass
class WatchedWorkspace:
    """What one folder holds. `problems`: parts that cannot be read, with the reason."""

    folder: str
    kind: str | None = None
    sessions: list[SessionFiles] = field(default_factory=list)
    runs: list[ForeignRun] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


# -- which ones -------------------------------------------------------------------------------------------------------


def list_watched(configured: Iterable[str] = ()) -> list[str]:
    """The folders that `imi workspace watch` and the settings name."""
    try:
        with open(paths.watched_file(), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        found = []
    named = [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
    return list(dict.fromkeys([*named, *(os.path.expanduser(one) for one in configured)]))


def configured(settings: Settings) -> list[str]:
    """The folders that the settings name."""
    return [folder for name in WATCHED_FOLDERS for folder in settings.texts(name)]


def store_watched(folders: list[str]) -> None:
    path = paths.watched_file()
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(folders, file, indent=1)
    os.rename(temporary, path)


def kind_of(folder: str) -> str | None:
    """Return the program whose workspace the folder is; None if imi knows none."""
    has = {name for name in _KNOWN_NAMES if _exists(folder, name)}
    if {_WORKSPACES, _RUNTIME_DB} & has or os.path.basename(folder) == _WORKSPACES:
        return UNIVERSAL_AGENT
    if {_SERVICE_DB, state_file.FOLDER, service_jobs.FOLDER} & has or os.path.basename(folder) == state_file.FOLDER:
        return BE_AGENTS
    if _exists(folder, denker_folder.REGISTRY):
        return DENKER
    return BIG3 if big3_registries.find(folder) else None


def _exists(folder: str, name: str) -> bool:
    return os.path.exists(os.path.join(folder, name))


# -- reading ----------------------------------------------------------------------------------------------------------


def read(folder: str) -> WatchedWorkspace:
    """All that a folder holds; what cannot be read is a problem, not an error."""
    found = WatchedWorkspace(folder, kind_of(folder))
    if not os.path.isdir(folder):
        found.problems.append("the folder is gone")
    elif found.kind == BE_AGENTS:
        _read_service(found)
        jobs, problems = service_jobs.read(found.folder)
        found.runs += jobs
        found.problems += problems
    elif found.kind == UNIVERSAL_AGENT:
        _read_runs(found)
    elif found.kind == BIG3:
        found.runs, found.problems = big3_registries.read(found.folder)
    elif found.kind == DENKER:
        found.runs, found.problems = denker_folder.read(found.folder)
    else:
        found.problems.append("it is no workspace that imi knows")
    return found


def state_folder(folder: str) -> str:
    """Return where the state files of a watched folder are: itself, or below it."""
    return folder if os.path.basename(folder) == state_file.FOLDER else os.path.join(folder, state_file.FOLDER)


def _read_service(found: WatchedWorkspace) -> None:
    base = state_folder(found.folder)
    names: set[str] = set()
    for name in workspace_files.list_names(base)[-_MOST_RUNS:]:
        folder = os.path.join(base, name)
        if name.startswith("session-") and os.path.isdir(folder):
            texts = {
                one.removesuffix(".json"): text
                for one in workspace_files.list_names(folder)
                if (text := workspace_files.read_text(folder, one, ".json"))
            }
            found.sessions.append(state_file.read_session(name, texts))
            found.problems += [f"{name}: {one}" for one in found.sessions[-1].problems]
            names.add(name)
    for place in (found.folder, base, os.path.join(found.folder, "data")):
        path = os.path.join(place, _SERVICE_DB)
        if os.path.exists(path):
            found.sessions += [one for one in _service_rows(found, path) if one.name not in names]
            return


def _service_rows(found: WatchedWorkspace, path: str) -> list[SessionFiles]:
    """The sessions of agent-service.db with their tasks, as state files would say them."""
    tasks: dict[str, list[AgentState]] = {}
    for row in _rows(found, path, "SELECT * FROM tasks"):
        session = str(row.get("session_id"))
        name = str(row.get("id")).removeprefix(f"task-{session}-")
        status = state_file.item_status(row.get("status"))
        error = row.get("error_message")
        state = AgentState(
            name,
            status,
            str(row.get("description") or "") or None,
            str(error) if error else None,
            _moment(row.get("started_at")),
            _moment(row.get("completed_at")),
            {},
        )
        tasks.setdefault(session, []).append(state)
    made = []
    for row in _rows(found, path, "SELECT * FROM sessions"):
        name = str(row.get("id"))
        plain = {
            "status": row.get("status"),
            "targetRepo": row.get("target_repo"),
            "branchName": row.get("branch_name"),
        }
        plain |= {"priorityFile": row.get("priority_file"), "prUrl": row.get("pr_url")}
        plain |= {"startTime": _moment(row.get("started_at")), "endTime": _moment(row.get("completed_at"))}
        leader = state_file.read_session(name, {state_file.ORCHESTRATOR: json.dumps(plain, default=str)})
        made.append(
            SessionFiles(
                name,
                leader.repository,
                leader.branch,
                leader.source,
                leader.pr_url,
                leader.status,
                leader.started_at,
                leader.ended_at,
                tuple(tasks.get(name, ())),
            )
        )
    return made


def _read_runs(found: WatchedWorkspace) -> None:
    base = found.folder if not _exists(found.folder, _WORKSPACES) else os.path.join(found.folder, _WORKSPACES)
    known: dict[str, dict[str, object]] = {}
    calls: dict[str, list[ToolCallRecord]] = {}
    path = os.path.join(base, _RUNTIME_DB)
    if os.path.exists(path):
        for call in _rows(found, path, _CALLS) if _has_calls(found, path) else []:
            calls.setdefault(str(call["run_id"]), []).append(foreign_run.tool_call(call))
        known = {str(row.get("run_id")): row for row in _rows(found, path, "SELECT * FROM runs ORDER BY created_at")}
    for name in [one for one in workspace_files.list_names(base) if foreign_run.is_run(one)][-_MOST_RUNS:]:
        folder = os.path.join(base, name)
        if not os.path.isdir(folder) or os.path.islink(folder):
            continue
        row = known.pop(name, None) or next(
            (one for one in known.values() if name in str(one.get("run_spec_json"))), {}
        )
        known.pop(str(row.get("run_id")), None)
        texts = {one: text for one in _ABOUT if (text := workspace_files.read_text(folder, one))}
        logs = [os.path.join(folder, one) for one in _LOGS if os.path.isfile(os.path.join(folder, one))]
        found.runs.append(
            ForeignRun(
                name,
                folder,
                foreign_run.status_of(row.get("status")),
                foreign_run.moment_in(name) or _moment(row.get("created_at")),
                _moment(row.get("updated_at")) or _modified(folder),
                foreign_run.prompt_in(texts) or (str(row["last_job_prompt"]) if row.get("last_job_prompt") else None),
                logs[0] if logs else None,
                records=folder,
                calls=tuple(calls.get(str(row.get("run_id")), ())),
            )
        )
    for name, row in known.items():
        at = _moment(row.get("updated_at")) or times.stamp()
        prompt = row.get("last_job_prompt")
        status = foreign_run.status_of(row.get("status"))
        begun = _moment(row.get("created_at"))
        told = str(prompt) if prompt else None
        found.runs.append(ForeignRun(name, base, status, begun, at, told, None, calls=tuple(calls.get(name, ()))))


def _has_calls(found: WatchedWorkspace, path: str) -> bool:
    return bool(_rows(found, path, "SELECT 1 FROM sqlite_master WHERE name = 'tool_calls'"))


def _rows(found: WatchedWorkspace, path: str, sql: str) -> list[dict[str, object]]:
    try:
        answer = query.ask(path, sql, own=False, limits=_LIMITS)
    except ImiError as error:
        found.problems.append(f"{os.path.basename(path)}: {error.sentence}")
        return []
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def _moment(value: object) -> str | None:
    known = times.parse(value) if isinstance(value, str) else None
    return None if known is None else times.stamp(known)


def _modified(folder: str) -> str:
    from datetime import UTC, datetime

    newest = 0.0
    for name in ("", *_LOGS):
        with suppress(OSError):
            newest = max(newest, os.stat(os.path.join(folder, name)).st_mtime)
    return times.stamp(datetime.fromtimestamp(newest, UTC))


# -- recording --------------------------------------------------------------------------------------------------------


def record(connection: sqlite3.Connection, found: WatchedWorkspace) -> tuple[int, int]:
    """Record sessions and items in the registry; returns how many have changed."""

    def put(inner: sqlite3.Connection) -> tuple[int, int]:
        sessions = items = 0
        for one in found.sessions:
            done = state_rows.store(inner, one, found.folder, None)
            sessions += done.sessions
            items += done.items
        for run in found.runs:
            sessions += state_rows.store_session(inner, _row(run), observed=True)
            state_rows.store_acts(inner, host.hostname(), run)
            items += sum(state_rows.store_task(inner, run, one) for one in run.tasks)
        return sessions, items

    return db.transact(connection, put)


def _row(run: ForeignRun) -> dict[str, object]:
    over = run.status in foreign_run.OVER
    return {
        "id": state_rows.text(run.ident, 250),
        "host": host.hostname(),
        "cli": run.program,
        "agent_id": state_rows.text(run.agent, 200) or run.program,
        "status": run.status,
        "status_at": run.updated_at,
        "detail": state_rows.text(run.problem),
        "cwd": state_rows.text(run.folder, 1000),
        "prompt": state_rows.text(run.prompt),
        "metadata": json.dumps({"folder": state_rows.text(run.folder, 1000), "log": state_rows.text(run.log, 1000)}),
        "started_at": run.started_at,
        "ended_at": run.updated_at if over else None,
        "created_at": run.started_at or run.updated_at,
        "updated_at": run.updated_at,
    }


def refresh(connection: sqlite3.Connection, folders: Iterable[str]) -> list[WatchedWorkspace]:
    """Read these folders and record what is new."""
    return record_all(connection, [read(folder) for folder in folders])


def record_all(connection: sqlite3.Connection, found: list[WatchedWorkspace]) -> list[WatchedWorkspace]:
    """Record what is new in each; what cannot be recorded of one is a problem of it alone."""
    for one in found:
        try:
            record(connection, one)
        except RegistryError:
            raise
        except (ImiError, ValueError, OverflowError) as error:
            one.problems.append(str(error))
    return found
