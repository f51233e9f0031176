"""Run folders of universal_agent as sessions: names, moments, statuses. Pure: what was read goes in, rows come out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from imi_monitor.model import times
from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, PLANNING, RUNNING, UNKNOWN, WAITING
from imi_monitor.model.session_record import ToolCallRecord, WrittenFile, stored_text
from imi_monitor.model.text import safe

UNIVERSAL_AGENT = "universal_agent"

_NAME = re.compile(r"^(session|run|cron)_(?P<rest>.+)$")
_TIME = re.compile(r"(\d{4})(\d{2})(\d{2})_(\d{2})(\d{2})(\d{2})")
_STATUS = {
    "queued": PLANNING,
    "running": RUNNING,
    "cancel_requested": RUNNING,
    "waiting_for_human": WAITING,
    "paused": WAITING,
    "succeeded": COMPLETED,
    "completed": COMPLETED,
    "failed": FAILED,
    "cancelled": CANCELLED,
}
_CALL_STATUS = {"prepared": "running", "running": "running", "succeeded": "success", "failed": "failure"}
_PROMPTS = ("mission", "objective", "prompt", "request", "query", "title", "last_job_prompt")
OVER = frozenset({COMPLETED, FAILED, CANCELLED})


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """One run of another program, as imi shows it. None: it is not known."""

    name: str
    folder: str
    status: str
    started_at: str | None
    updated_at: str
    prompt: str | None
    log: str | None
    program: str = UNIVERSAL_AGENT
    agent: str | None = None  # None: it is named after its program
    problem: str | None = None
    calls: tuple[ToolCallRecord, ...] = ()
    tasks: tuple[ForeignTask, ...] = ()
    files: tuple[WrittenFile, ...] = ()
    records: str | None = None  # the folder of its files, if it has one of its own

    @property
    def ident(self) -> str:
        """The id of its session here."""
        return f"{self.program}:{self.name}"


@dataclass(frozen=True, slots=True)
class ForeignTask:
    """Something that another program has to do; `status` is one of an item."""

    ident: str
    title: str
    status: str
    error: str | None
    started_at: str | None
    updated_at: str | None


def is_run(name: str) -> bool:
    return _NAME.match(name) is not None and len(name) <= 200 and name.isprintable()


def moment_in(name: str) -> str | None:
    """The moment in a folder's name, which is in UTC: `session_20260415_013645_6b32690a`."""
    found = _TIME.search(name)
    if found is None:
        return None
    year, month, day, hour, minute, second = found.groups()
    return f"{year}-{month}-{day}T{hour}:{minute}:{second}+00:00"


def status_of(word: object) -> str:
    return _STATUS.get(str(word).lower(), UNKNOWN)


def tool_call(row: Mapping[str, object]) -> ToolCallRecord:
    """A row of universal_agent's tool calls; `request_ref` and `response_ref` name files, so they are all that is kept."""
    status = _CALL_STATUS.get(str(row.get("status")).lower(), "cancelled")
    refused = str(row["error_detail"]) if row.get("error_detail") else None
    return ToolCallRecord(
        id=_short(row.get("tool_call_id")),
        name=_short(row.get("raw_tool_name") or row.get("tool_name")),
        status=status,
        subagent=None,
        input=stored_text(str(row["request_ref"])) if row.get("request_ref") else None,
        output=stored_text(refused or str(row.get("response_ref") or "")) or None,
        started_at=_moment(row.get("created_at")),
        finished_at=None if status == "running" else _moment(row.get("updated_at")),
    )


def _short(value: object) -> str:
    return safe(str(value), 120)


def _moment(value: object) -> str | None:
    known = times.parse(value) if isinstance(value, str) else None
    return None if known is None else times.stamp(known)


def prompt_in(texts: Mapping[str, str]) -> str | None:
    """Return what the run was asked, from its mission or manifest; a torn file says nothing."""
    for text in texts.values():
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            said = next(
                (found[key] for key in _PROMPTS if isinstance(found.get(key), str) and found[key].strip()), None
            )
            if said is not None:
                return str(said)
    return None
