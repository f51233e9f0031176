"""State files of a session, in the field names of be-agents-service: what is written, and what is read from any version.

    session.json       the session and its agents
    orchestrator.json  a batch: its file, repository, branch, phase, and the status of each agent
    <agent>.json       one agent: its item as a completed task or a blocker, its times, its branch

Under `imi` stands what be-agents-service has no field for: the rows of the registry, which `imi sync-state` restores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from imi_monitor.model import board
from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, PLANNING, RUNNING, WAITING
from imi_monitor.model.times import parse

SESSION, ORCHESTRATOR = "session", "orchestrator"
FOLDER: Final = ".compound-state"
OURS: Final = "imi"

State = Mapping[str, object]

_ITEM_STATUS: Final = {
    "planning": board.PENDING,
    "pending": board.PENDING,
    "waiting": board.PENDING,
    "in_progress": board.IN_PROGRESS,
    "running": board.IN_PROGRESS,
    "active": board.IN_PROGRESS,
    "unknown": board.IN_PROGRESS,
    "blocked": board.BLOCKED,
    "completed": board.COMPLETED,
    "success": board.COMPLETED,
    "failed": board.FAILED,
    "error": board.FAILED,
    "cancelled": board.CANCELLED,
}
_SESSION_STATUS: Final = {
    board.PENDING: PLANNING,
    board.IN_PROGRESS: RUNNING,
    board.BLOCKED: WAITING,
    board.COMPLETED: COMPLETED,
    board.FAILED: FAILED,
    board.CANCELLED: CANCELLED,
}


@dataclass(frozen=True, slots=True)
class AgentState:
    """One agent's state file. None: it does not say. `ours`: the rows of the registry, if imi wrote it."""

    name: str
    status: str  # of an item
    description: str | None
    error: str | None
    started_at: str | None
    ended_at: str | None
    ours: State

    @property
    def session_status(self) -> str:
        return _SESSION_STATUS[self.status]


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """All state files of one session folder. `problems`: files that cannot be read, with the reason."""

    name: str
    repository: str | None
    branch: str | None
    source: str | None
    pr_url: str | None
    status: str
    started_at: str | None
    ended_at: str | None
    agents: tuple[AgentState, ...]
    problems: tuple[str, ...] = ()


def agent_file(name: str) -> str:
    """The name of an agent's file; what no file name may hold becomes a dash."""
    plain = "".join(char if char.isalnum() or char in "-_." else "-" for char in name)[:80].strip(".")
    return f"{plain if plain not in ('', SESSION, ORCHESTRATOR) else f'agent-{plain}'}.json"


def session_json(name: str, created: str, status: str, agents: Sequence[str]) -> dict[str, object]:
    return {"sessionId": name, "createdAt": created, "status": status, "agents": list(agents)}


def orchestrator_json(name: str, about: Mapping[str, object], specialists: Mapping[str, str]) -> dict[str, object]:
    """`about`: status, startTime, endTime, targetRepo, file, branchName, baseBranch, prUrl, updatedAt."""
    file = str(about.get("file") or "")
    kind = "prdFile" if file.endswith(".json") else "priorityFile"
    rest = {key: value for key, value in about.items() if key != "file"}
    phase = "pr_creation" if about.get("endTime") else "phase1_parallel"
    return {"sessionId": name, **rest, kind: file or None, "specialists": dict(specialists), "phase": phase}


def agent_json(
    name: str, item: Mapping[str, object], status: str, times_of: Mapping[str, object], ours: State
) -> dict[str, object]:
    """The state of one agent. `times_of`: startTime, endTime and updatedAt."""
    task = {"id": item.get("id"), "description": item.get("title")}
    error = item.get("error")
    blocker = {"type": "error", "message": error, "requiresHuman": status == board.BLOCKED}
    return {
        "agentName": name,
        "status": status,
        "timestamp": times_of.get("updatedAt"),
        **times_of,
        "completedTasks": [task] if status == board.COMPLETED else [],
        "artifacts": {"files": ours.get("files", [])},
        "concerns": [],
        "blockers": [blocker] if error else [],
        "nextSteps": [],
        "replanRequired": False,
        OURS: dict(ours),
    }


def item_status(word: object) -> str:
    """The status of an item for a word of any version; what is unknown counts as in progress."""
    return _ITEM_STATUS.get(str(word).lower(), board.IN_PROGRESS)


def read_agent(name: str, state: State) -> AgentState:
    """One agent's file, of imi or of be-agents-service."""
    ours = state.get(OURS)
    done = _first(state.get("completedTasks"))
    blocker = _first(state.get("blockers"))
    description = _text(done.get("description")) or _text(state.get("description")) or _text(state.get("task"))
    error = _text(blocker.get("message")) or _text(state.get("error"))
    started = _moment(state.get("startTime")) or _moment(state.get("startedAt"))
    ended = _moment(state.get("endTime")) or _moment(state.get("completedAt"))
    status = item_status(state.get("status"))
    return AgentState(
        _text(state.get("agentName")) or name,
        status,
        description,
        error if status in (board.FAILED, board.BLOCKED) else None,
        started,
        ended if status in board.OVER or ended else None,
        ours if isinstance(ours, dict) else {},
    )


def read_session(name: str, files: Mapping[str, str]) -> SessionFiles:
    """The session from the texts of its files, by their names without `.json`."""
    states: dict[str, State] = {}
    problems = []
    for stem, text in sorted(files.items()):
        found = _parsed(text)
        if found is None:
            problems.append(f"{stem}.json is no JSON object")
        else:
            states[stem] = found
    session, leader = states.pop(SESSION, {}), states.pop(ORCHESTRATOR, {})
    agents = tuple(read_agent(stem, state) for stem, state in states.items())
    started = _moment(leader.get("startTime")) or _moment(leader.get("startedAt")) or _moment(session.get("createdAt"))
    word = leader.get("status", session.get("status"))
    return SessionFiles(
        _text(session.get("sessionId")) or name,
        _text(leader.get("targetRepo")),
        _text(leader.get("branchName")),
        _text(leader.get("priorityFile")) or _text(leader.get("prdFile")),
        _text(leader.get("prUrl")),
        _SESSION_STATUS[item_status(word)] if leader or session else RUNNING,
        started,
        _moment(leader.get("endTime")),
        agents,
        tuple(problems),
    )


def _parsed(text: str) -> State | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _first(value: object) -> State:
    one = value[0] if isinstance(value, list) and value else None
    return one if isinstance(one, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _moment(value: object) -> str | None:
    """A moment that can be parsed, as it is stored."""
    found = parse(_text(value))
    if found is None:
        return None
    from imi_monitor.model.times import stamp

    return stamp(found)
