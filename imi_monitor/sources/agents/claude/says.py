"""What Claude's registry and its processes say, as evidence."""

from __future__ import annotations

from typing import Final

from imi_monitor.model.agent import CANCELLED, COMPLETED, RUNNING, UNKNOWN, WAITING, Evidence, ToolCall
from imi_monitor.sources.agents.claude.calls import Call
from imi_monitor.sources.agents.claude.registry import Entry

_STATES: Final = {"busy": RUNNING, "waiting": WAITING, "shell": RUNNING, "idle": COMPLETED}
_EPOCH: Final = "1970-01-01T00:00:00.000000+00:00"


def by_registry(entry: Entry, standing: bool, call: Call | None, background: ToolCall | None, detail: str) -> Evidence:
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


def waits_for(entry: Entry, call: Call | None, needs: str | None) -> str:
    """What a person is asked, as exactly as it is known."""
    if call is not None and call.question is not None:
        return call.question
    if entry.waiting_for == "permission prompt":
        return needs or (f"permission for {call.tool}" if call else "permission")
    return needs or entry.waiting_for or "input"


def went_on(entry: Entry | None, at: str) -> Evidence:
    where = entry.file if entry else "its process"
    return Evidence("registry", CANCELLED, at, f"{where} went on to another session", "left for another session")


def cut_off(told: Evidence) -> Evidence:
    """What a former process had not finished, it never will."""
    says = f"{told.says}; the process that wrote it has ended"
    return Evidence("transcript", CANCELLED, told.at, says, "cut off when its former process ended", told.tool)
