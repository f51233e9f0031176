"""Converts an observed session into the rows that are stored: redacted, without control characters, cut to size.

No raw text passes this module. Secrets are redacted before a text is cut, so that no part of one remains. A hash covers the
whole redacted text, so that it cannot confirm a guess at a secret.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from imi_monitor.model import agent_text, session_status, times
from imi_monitor.model.agent import WAITING, WORKSPACE, Agent, AgentEvent, Truth
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

MOST_BYTES = 2048
_MOST_READ = 1 << 16
_LONGEST_ID = 120
_LONGEST_PATH = 1000

# S3.5: the stream type of each kind of event; all others are of type log.
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
Measure = Callable[[str, str | None], int | None]  # (file, its worktree) -> its size, None if unknown
_NOTES = (".md", ".markdown", ".rst", ".txt", ".org", ".adoc")
_LOGS = (".log", ".out", ".err", ".jsonl", ".ndjson")
_ATTACHMENTS = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".pdf", ".zip", ".gz", ".tar", ".mp4", ".mp3", ".wav")
_OTHERS = (".lock", ".bin", ".db", ".sqlite", ".pyc", ".so")


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One entry of a session's stream."""

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
    """What one event reports of a tool call. The events of its start and its end together make the row."""

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
    """A file that the session wrote; `path` is relative to its worktree if it is inside."""

    path: str
    kind: str
    at: str
    subagent: str | None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session at one moment. None is unknown and leaves a stored value unchanged."""

    id: str
    host: str
    cli: str
    state: str
    since: str
    detail: str | None  # what the agent waits for, or why it failed
    ended: bool
    gone: bool  # its process is gone without a recorded end
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
    never_asked: bool = False  # it stands at its prompt, and no turn is over
    starters: frozenset[int] = frozenset()  # the pids of its wrappers and of the processes that started them


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """Everything new of one session, ready to be stored."""

    session: SessionState
    entries: tuple[StreamEntry, ...] = ()
    calls: tuple[ToolCallRecord, ...] = ()
    files: tuple[WrittenFile, ...] = ()
    only_acts: bool = False  # the session's own row is unchanged if it exists


def stored_text(text: str | None, most: int = MOST_BYTES) -> str | None:
    """Return the text as it is stored: redacted, no control characters but line ends, at most `most` bytes."""
    return None if text is None else _cut(clean(text), most)


def clean(text: str) -> str:
    """Return the whole text, redacted and without control characters."""
    whole = redact(text[:_MOST_READ])
    if whole.isascii() and whole.isprintable():
        return whole.strip()
    lines = whole.replace("\r\n", "\n").split("\n")
    return "\n".join(safe(line, _MOST_READ) for line in lines).strip()


def stored_input(text: str | None) -> tuple[str | None, str | None]:
    """Return a tool's input as it is stored, and a hash of the whole redacted input."""
    if text is None:
        return None, None
    whole = clean(text)
    return _cut(whole, MOST_BYTES), _digest(whole.encode())


def stored_id(text: str) -> str:
    """Return an id from outside as a key: a short plain one unchanged, any other as its hash."""
    plain = len(text) <= _LONGEST_ID and text.isascii() and text.isprintable()
    return text if plain else _digest(text.encode("utf-8", "surrogatepass"))


def _digest(data: bytes) -> str:
    from hashlib import sha256  # OpenSSL takes 3.5 MB, which `imi mcp` needs only here

    return sha256(data).hexdigest()


def session_id(agent: Agent) -> str:
    """The key of its session; that of a watched workspace is recorded under the agent's id."""
    return agent.id if agent.truth.source == WORKSPACE else stored_id(agent.id)


@lru_cache(maxsize=512)
def _stored_again(text: str) -> str | None:
    """Return `stored_text` of a text that rarely changes: a folder, a model, a prompt."""
    return stored_text(text)


def stored_moment(at: str | None, now: datetime) -> str:
    """Return a moment from outside as it is stored; one that cannot be parsed or lies in the future becomes now."""
    known, stamped = _parsed(at)
    return stamped if known is not None and known <= now + timedelta(seconds=1) else times.stamp(now)


@lru_cache(maxsize=64)
def _parsed(at: str | None) -> tuple[datetime | None, str]:
    """A moment, and how it is stored: several parts of a record have the same one."""
    known = times.parse(at)
    return known, "" if known is None else times.stamp(known)


def _detail(truth: Truth) -> str | None:
    """The detail of the state; of an agent that asks what it asks for, with the tool."""
    return (agent_text.waits_for(truth, tool_first=True) or None) if truth.state == WAITING else truth.detail


def session_state(agent: Agent, host: str, boot: str, now: datetime) -> SessionState:
    """Return the agent's present state with all texts cleaned."""
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
        detail=stored_text(_detail(truth)),
        ended=over,
        gone=truth.ended and facts.ended_at is None,
        ended_at=stored_moment(facts.ended_at or truth.since, now) if over else None,
        seen_at=times.stamp(now),
        repo_name=agent.key.repo if agent.key else None,
        worktree_name=agent.key.worktree if agent.key else None,
        pid=_pid(agent.pid),
        pid_started=agent.pid_started,
        boot=boot if agent.pid is not None else None,
        texts={**{name: text and _stored_again(text) for name, text in texts.items()}, "started_at": started},
        numbers={name: _number(value) for name, value in numbers.items()},
        metadata={name: safe(value) for name, value in about.items() if value is not None},
        never_asked=agent.never_asked,
        starters=agent.starters,
    )


def session_record(
    session: SessionState,
    root: str | None,
    news: Iterable[AgentEvent],
    now: datetime,
    measured: Measure,
    only_acts: bool = False,
) -> SessionRecord:
    """Return what is new of a session: stream entries, tool calls and files."""
    entries: list[StreamEntry] = []
    calls: list[ToolCallRecord] = []
    files: dict[str, WrittenFile] = {}
    for one in news:
        entries.append(_stream_entry(one, now))
        if one.kind in ("tool_started", "tool_finished"):
            calls.append(_call(one, now))
        if one.files:
            wrote = [_written(path, root, one, now, measured) for path in one.files]
            files.update((each.path, each) for each in wrote)
            entries.append(_diff_entry(one, [each.path for each in wrote], now))
    return SessionRecord(session, tuple(entries), tuple(calls), tuple(files.values()), only_acts)


def event_ids(news: Sequence[AgentEvent]) -> list[str]:
    """Return the ids under which these events are stored."""
    return [_event_id(one) for one in news]


def _written(path: str, root: str | None, one: AgentEvent, now: datetime, measured: Measure) -> WrittenFile:
    subagent = stored_text(one.subagent, 200)
    return WrittenFile(
        relative_path(path, root), file_kind(path), stored_moment(one.at, now), subagent, measured(path, root)
    )


def relative_path(path: str, root: str | None) -> str:
    """Return the path relative to the session's folder if it is inside, else the whole path."""
    inside = root is not None and path.startswith(root.rstrip("/") + "/")
    shown = path[len((root or "").rstrip("/")) + 1 :] if inside else path
    return safe(redact(shown), _LONGEST_PATH)


def file_kind(path: str) -> str:
    """Return code, note, log, attachment or other (S3.3), from the file name's ending."""
    name = os.path.basename(path).lower()
    for kind, ends in (("note", _NOTES), ("log", _LOGS), ("attachment", _ATTACHMENTS), ("other", _OTHERS)):
        if name.endswith(ends):
            return kind
    return "code" if "." in name.strip(".") or name in ("makefile", "dockerfile") else "other"


def _stream_entry(one: AgentEvent, now: datetime) -> StreamEntry:
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
        status=session_status.implied_status(one.kind) if one.subagent is None else None,
        call=call,
        text=None if in_call else stored_text(one.text),
        data=data,
    )


def _diff_entry(one: AgentEvent, files: list[str], now: datetime) -> StreamEntry:
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
    """Return the number if SQLite and JSON can hold it: agents' files may hold anything."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if 0 <= value < 1 << 62 else None
