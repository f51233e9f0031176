"""Run folders of universal_agent as sessions: names, moments, statuses. Pure: what was read goes in, rows come out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, PLANNING, RUNNING, UNKNOWN, WAITING

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


def prompt_in(texts: Mapping[str, str]) -> str | None:
    """What the run was asked, from its mission or manifest; a torn file says nothing."""
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
