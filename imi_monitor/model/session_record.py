"""What is kept of what an agent did: made from what was seen, without secrets, without anything that steers a terminal.

Nothing raw goes further than this. Secrets are taken out before a text is cut, so that no half of one is left; what is
hashed is the whole text without its secrets, so that a hash gives no guess at them a yes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256

from imi_monitor.model import session, times
from imi_monitor.model.agent import Agent, AgentEvent
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

MOST_BYTES = 2048
_MOST_READ = 1 << 16
_LONGEST_ID = 120
_LONGEST_PATH = 1000

# S3.5: which kind of stream event an act is; all others are of the log.
_TYPES = {
    "plan": "plan_update",
    "tool_started": "tool_started",
    "tool_finished": "tool_finished",
    "completed": "status_change",
    "failed": "status_change",
    "cancelled": "status_change",
    "waits": "status_change",
    "answered": "status_change",
}
Measure = Callable[
    [str, str | None], int | None
]  # a file and its worktree -> how large it is, as far as that can be told
_NOTES = (".md", ".markdown", ".rst", ".txt", ".org", ".adoc")
_LOGS = (".log", ".out", ".err", ".jsonl", ".ndjson")
_ATTACHMENTS = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".pdf", ".zip", ".gz", ".tar", ".mp4", ".mp3", ".wav")
_OTHERS = (".lock", ".bin", ".db", ".sqlite", ".pyc", ".so")


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One line of a session's stream."""

    id: str
    type: str
    kind: str
    at: str
    status: str | None = None
    call: str | None = None
    text: str | None = None
    data: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """What is known of one call of a tool by one act; both acts together make the row."""

    id: str
    name: str
    status: str
    subagent: str | None
    input: str | None = None
    input_sha256: str | None = None
    output: str | None = None
    started_at: str | None = None
    finished_at: str | None = None


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that the session wrote; `path` as it is shown, inside its worktree without the folder in front."""

    path: str
    kind: str
    at: str
    subagent: str | None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session as it is seen at one moment. None is not known, and takes nothing away from what is kept."""

    id: str
    host: str
    cli: str
    state: str
    since: str
    detail: str | None  # of this state: what it waits for, why it failed
    ended: bool
    gone: bool  # nobody said so, but its process is no more
    ended_at: str | None
    seen_at: str
    repo_name: str | None
    worktree_name: str | None
    pid: int | None
    pid_started: str | None
    boot: str | None
    texts: dict[str, str | None]
    numbers: dict[str, float | None]
    metadata: dict[str, object]


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """Everything new of one session, ready to be kept."""

    session: SessionState
    told: tuple[StreamEntry, ...] = ()
    calls: tuple[ToolCallRecord, ...] = ()
    files: tuple[WrittenFile, ...] = ()
    only_acts: bool = False  # of the session itself nothing is new, where it is kept already


def stored_text(text: str | None, most: int = MOST_BYTES) -> str | None:
    """The text as it is kept: no secrets, no controls but line ends, at most so many bytes."""
    return None if text is None else _cut(clean(text), most)


def clean(text: str) -> str:
    """Without secrets and controls, but whole."""
    lines = redact(text[:_MOST_READ]).replace("\r\n", "\n").split("\n")
    return "\n".join(safe(line, _MOST_READ) for line in lines).strip()


def stored_input(text: str | None) -> tuple[str | None, str | None]:
    """What a tool was given, as it is kept, and what tells it from another: a hash of all of it, but of no secret."""
    if text is None:
        return None, None
    whole = clean(text)
    return _cut(whole, MOST_BYTES), sha256(whole.encode()).hexdigest()


def stored_id(text: str) -> str:
    """An id from outside as a key: a short plain one stays as it is, any other becomes its hash."""
    plain = len(text) <= _LONGEST_ID and text.isascii() and text.isprintable()
    return text if plain else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def session_id(agent: Agent) -> str:
    return stored_id(agent.id)


@lru_cache(maxsize=512)
def _kept_again(text: str) -> str | None:
    """`kept_text` of what is the same most of the time: a folder, a model, what was asked."""
    return stored_text(text)


def stored_moment(at: str | None, now: datetime) -> str:
    """A moment from outside in our spelling; one that cannot be read, or lies in the future, is now."""
    known = times.parse(at)
    return times.stamp(known if known is not None and known <= now + timedelta(seconds=1) else now)


def session_state(agent: Agent, host: str, boot: str, now: datetime) -> SessionState:
    """The agent as it stands, cleaned."""
    facts, truth = agent.facts, agent.truth
    over = truth.ended or facts.ended_at is not None
    texts = {
        "cwd": agent.cwd,
        "branch": facts.branch,
        "parent_id": facts.parent,
        "title": facts.title,
        "prompt": facts.prompt,
        "last_message": facts.last_message,
        "model": facts.model,
        "version": facts.version,
    }
    numbers: dict[str, float | None] = {
        "tokens_in": facts.tokens_in,
        "tokens_out": facts.tokens_out,
        "tokens_cached": facts.tokens_cached,
        "cost_usd": facts.cost_usd,
        "context_used": facts.context_used,
        "context_size": facts.context_size,
    }
    about = {"source": truth.source, "confidence": truth.confidence, "format_note": facts.format_note}
    started = stored_moment(facts.started_at, now) if times.parse(facts.started_at) is not None else None
    return SessionState(
        id=session_id(agent),
        host=host,
        cli=safe(agent.cli, 40),
        state=truth.state,
        since=stored_moment(truth.since, now),
        detail=stored_text(truth.detail),
        ended=over,
        gone=truth.ended and facts.ended_at is None,
        ended_at=stored_moment(facts.ended_at or truth.since, now) if over else None,
        seen_at=times.stamp(now),
        repo_name=agent.key.repo if agent.key else None,
        worktree_name=agent.key.worktree if agent.key else None,
        pid=_pid(agent.pid),
        pid_started=agent.pid_started,
        boot=boot if agent.pid is not None else None,
        texts={**{name: text and _kept_again(text) for name, text in texts.items()}, "started_at": started},
        numbers={name: _number(value) for name, value in numbers.items()},
        metadata={name: safe(value) for name, value in about.items() if value is not None},
    )


def session_record(
    session: SessionState,
    root: str | None,
    news: Iterable[AgentEvent],
    now: datetime,
    measured: Measure,
    only_acts: bool = False,
) -> SessionRecord:
    """Everything new of a session: the lines of its stream, its calls and its files."""
    told: list[StreamEntry] = []
    calls: list[ToolCallRecord] = []
    files: dict[str, WrittenFile] = {}
    for one in news:
        told.append(_told(one, now))
        if one.kind in ("tool_started", "tool_finished"):
            calls.append(_call(one, now))
        if one.files:
            wrote = [_written(path, root, one, now, measured) for path in one.files]
            files.update((each.path, each) for each in wrote)
            told.append(_diff(one, [each.path for each in wrote], now))
    return SessionRecord(session, tuple(told), tuple(calls), tuple(files.values()), only_acts)


def event_ids(news: Sequence[AgentEvent]) -> list[str]:
    """Under which ids these are kept."""
    return [_event_id(one) for one in news]


def _written(path: str, root: str | None, one: AgentEvent, now: datetime, measured: Measure) -> WrittenFile:
    subagent = stored_text(one.subagent, 200)
    return WrittenFile(
        relative_path(path, root), file_kind(path), stored_moment(one.at, now), subagent, measured(path, root)
    )


def relative_path(path: str, root: str | None) -> str:
    """The path inside the session's folder, else the whole one."""
    inside = root is not None and path.startswith(root.rstrip("/") + "/")
    shown = path[len((root or "").rstrip("/")) + 1 :] if inside else path
    return safe(redact(shown), _LONGEST_PATH)


def file_kind(path: str) -> str:
    """code, note, log, attachment or other (S3.3), by the end of its name."""
    name = os.path.basename(path).lower()
    for kind, ends in (("note", _NOTES), ("log", _LOGS), ("attachment", _ATTACHMENTS), ("other", _OTHERS)):
        if name.endswith(ends):
            return kind
    return "code" if "." in name.strip(".") or name in ("makefile", "dockerfile") else "other"


def _told(one: AgentEvent, now: datetime) -> StreamEntry:
    call = _call_id(one) if one.tool is not None else None
    in_call = one.kind in ("tool_started", "tool_finished")
    data: dict[str, object] = {}
    if one.subagent is not None:
        data["subagent"] = stored_text(one.subagent, 200)
    if one.tool is not None and not in_call:
        data["tool"] = stored_text(str(one.tool), 300)
    return StreamEntry(
        id=_event_id(one),
        type=_TYPES.get(one.kind, "log"),
        kind=safe(one.kind, 40),
        at=stored_moment(one.at, now),
        status=session.implied_status(one.kind) if one.subagent is None else None,
        call=call,
        text=None if in_call else stored_text(one.text),
        data=data,
    )


def _diff(one: AgentEvent, files: list[str], now: datetime) -> StreamEntry:
    shown = [*files[:20], *([f"… and {len(files) - 20} more"] if len(files) > 20 else [])]
    call = _call_id(one) if one.tool is not None else None
    return StreamEntry(
        stored_id(f"{one.id}#diff"), "diff", "diff", stored_moment(one.at, now), call=call, data={"files": shown}
    )


def _call(one: AgentEvent, now: datetime) -> ToolCallRecord:
    name = stored_text(one.tool.name if one.tool else None, 200) or "?"
    target = one.tool.target if one.tool else None
    at, subagent = stored_moment(one.at, now), stored_text(one.subagent, 200)
    if one.kind == "tool_started":
        given = stored_input(target if one.text is None else one.text)
        return ToolCallRecord(_call_id(one), name, "running", subagent, *given, started_at=at)
    status = "cancelled" if one.ok is None else "success" if one.ok else "failure"
    return ToolCallRecord(
        _call_id(one), name, status, subagent, *stored_input(target), stored_text(one.text), finished_at=at
    )


def _event_id(one: AgentEvent) -> str:
    return stored_id(one.id)


def _call_id(one: AgentEvent) -> str:
    return stored_id(one.tool.id if one.tool and one.tool.id else one.id)


def _cut(text: str, most: int) -> str:
    raw = text.encode()
    if len(raw) <= most:
        return text
    return raw[: most - 3].decode("utf-8", "ignore") + "…"


def _pid(pid: int | None) -> int | None:
    return pid if pid is not None and 0 < pid < 1 << 31 else None


def _number(value: float | None) -> float | None:
    """A number that SQLite and JSON can hold; readers pass on what they found."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if 0 <= value < 1 << 62 else None
