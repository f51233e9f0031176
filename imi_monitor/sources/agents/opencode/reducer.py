"""Derives from the last messages of an opencode session what it does now.

A step is one assistant message: while it runs it has no `completed`, and `finish` says why it ended. A running tool and one
that waits for permission look the same in the database; such evidence names both. Esc is an `error` of its own, but Esc
during a retry leaves a step that ended without a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    FAILED,
    PLANNING,
    RUNNING,
    WAITING,
    AgentEvent,
    Evidence,
    SessionFacts,
    ToolCall,
)
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.foreign_db import Row
from imi_monitor.sources.agents.foreign_files import MOST_WRITTEN
from imi_monitor.sources.agents.opencode.records import MessagePart, OpenCodeMessage

_ASKING = {"question": "question", "plan_exit": "plan", "plan_enter": "plan"}  # tools that are themselves a dialog
_NOT_LAST = ("tool-calls", "unknown")
_REFUSED = "rejected permission to use this specific tool call"
_ABORTED = "MessageAbortedError"
_TARGETS = ("filePath", "path", "command", "pattern", "query", "url", "description", "name")
_WRITING = ("write", "edit", "patch", "multiedit", "apply_patch")
_NO_NEXT_STEP = 3.0  # seconds after which a refused tool is the end of its turn


def evidence(messages: Sequence[OpenCodeMessage], now: float) -> Evidence | None:
    """Return what the newest message shows; None without a message."""
    if not messages:
        return None
    last = messages[-1]
    if last.role == "user":
        stopped = next((one for one in reversed(messages) if one.role == "assistant"), None)
        if stopped is not None and (stopped.completed or 0) >= last.created and _was_stopped(stopped):
            return _end_evidence(stopped, now)  # the prompt was queued, and Esc drops what is queued
        state = _working(last)
        return _evidence(state, last.created, "a prompt without an answer yet")
    if last.role != "assistant":
        return None
    if last.completed is None and not _error(last):
        return _step_evidence(last)
    return _end_evidence(last, now)


def _step_evidence(last: OpenCodeMessage) -> Evidence:
    part = next((part for part in reversed(last.parts) if part.kind == "tool" and _status(part) in _OPEN), None)
    if part is None:
        retry = next((part for part in last.parts[-1:] if part.kind == "retry"), None)
        detail = f"retry {fields.number(retry.data.get('attempt')) or ''}".strip() if retry else None
        return _evidence(
            _working(last), max(last.created, *_ended(last.parts), 0), "a step that has not ended", detail=detail
        )
    tool = tool_of(part)
    if tool.name in _ASKING and _status(part) == "running":
        return _evidence(WAITING, _began(part), f"the tool {tool.name} is open", detail=_ASKING[tool.name], tool=tool)
    may_wait = frozenset({WAITING}) if _status(part) == "running" else frozenset[str]()
    found = _evidence(_working(last), _began(part), f"the tool {tool.name} has not ended", tool=tool, or_else=may_wait)
    return replace(found, in_child=tool.name == "bash")


def _was_stopped(one: OpenCodeMessage) -> bool:
    error = _error(one)
    return error[0] == _ABORTED if error is not None else fields.text(one.data.get("finish")) is None


def _end_evidence(last: OpenCodeMessage, now: float) -> Evidence:
    at = last.completed or last.updated
    error = _error(last)
    if error is not None:
        name, why = error
        if name == _ABORTED:
            return _evidence(CANCELLED, at, f"the last step ended with {name}", detail="stopped by a person")
        return _evidence(FAILED, at, f"the last step ended with {name}", detail=why)
    finish = fields.text(last.data.get("finish"))
    if finish in _NOT_LAST:
        refused = any(_REFUSED in (fields.text(part.state.get("error")) or "") for part in last.parts)
        if refused and fields.quiet(now, at / 1000) > _NO_NEXT_STEP:
            return _evidence(CANCELLED, at, "a tool was refused and nothing came after", detail="permission refused")
        return _evidence(_working(last), at, "a step ended with tool calls, the next one follows")
    if finish is None and not any(part.kind == "tool" and _status(part) == "completed" for part in last.parts):
        why = "stopped without a word (Esc while it tried again)"
        return _evidence(CANCELLED, at, "the last step ended without a reason", detail=why)
    return _evidence(COMPLETED, at, f"the last step ended with {finish or 'its command'}")


_OPEN = ("pending", "running")


def facts(row: Row, messages: Sequence[OpenCodeMessage]) -> SessionFacts:
    prompts = [one for one in messages if one.role == "user"]
    answers = [one for one in messages if one.role == "assistant"]
    title = fields.text(row.get("title"))
    model = fields.table(fields.record(str(row.get("model") or ""))).get("id")
    said = next((text for one in reversed(answers) for text in [_text(one)] if text), None)
    cost = row.get("cost")
    return SessionFacts(
        version=fields.text(row.get("version"), 50),
        model=_first(model, *(one.data.get("modelID") for one in reversed(answers))),
        title=None if title is None or title.startswith("New session - ") else title,
        started_at=fields.moment(row.get("time_created")),
        turn_at=fields.moment(prompts[-1].created) if prompts else None,
        prompt=_text(prompts[-1]) if prompts else None,
        last_message=said,
        tokens_in=fields.number(row.get("tokens_input")),
        tokens_out=fields.number(row.get("tokens_output")),
        tokens_cached=fields.number(row.get("tokens_cache_read")),
        cost_usd=float(cost) if isinstance(cost, (int, float)) and not isinstance(cost, bool) else None,
        context_used=next((used for one in reversed(answers) for used in [_context(one)] if used), None),
        files=_files(messages),
        subagents=_subagents(answers[-1]) if answers else None,
    )


def events(messages: Sequence[OpenCodeMessage]) -> Iterator[AgentEvent]:
    """The events of these messages, oldest first; the caller drops those it has reported."""
    for one in messages:
        if one.role == "user":
            yield AgentEvent("prompt", f"{one.id}:prompt", _at(one.created), _text(one))
        elif one.role == "assistant":
            for part in one.parts:
                yield from _part_events(part)
            yield from _end_events(one)


def _part_events(part: MessagePart) -> Iterator[AgentEvent]:
    if part.kind == "text" and fields.number(fields.table(part.data.get("time")).get("end")):
        yield AgentEvent("message", part.id, _at(part.updated), fields.text(part.data.get("text")))
    elif part.kind == "compaction":
        yield AgentEvent("compacted", part.id, _at(part.created))
    elif part.kind == "tool" and _status(part) != "pending":
        tool = tool_of(part)
        yield AgentEvent("tool_started", f"{part.id}:started", _at(_began(part)), tool=tool)
        if _status(part) in ("completed", "error"):
            ok = _status(part) == "completed"
            text = fields.text(part.state.get("output" if ok else "error"))
            files = tuple(_written(part)) if ok else ()
            yield AgentEvent("tool_finished", f"{part.id}:finished", _at(_finished(part)), text, tool, ok, files)


def _end_events(one: OpenCodeMessage) -> Iterator[AgentEvent]:
    error = _error(one)
    at = _at(one.completed or one.updated)
    if error is not None and error[0] == _ABORTED:
        yield AgentEvent("cancelled", f"{one.id}:cancelled", at)
    elif error is not None:
        yield AgentEvent("failed", f"{one.id}:failed", at, error[1])
    elif one.completed is not None and fields.text(one.data.get("finish")) not in (None, *_NOT_LAST):
        yield AgentEvent("completed", f"{one.id}:completed", at)


def _evidence(
    state: str,
    at: int,
    what: str,
    *,
    detail: str | None = None,
    tool: ToolCall | None = None,
    or_else: frozenset[str] = frozenset(),
) -> Evidence:
    return Evidence("transcript", state, _at(at), f"opencode.db has {what}", detail, tool, or_else=or_else)


def _working(one: OpenCodeMessage) -> str:
    mode = fields.text(one.data.get("mode")) or fields.text(one.data.get("agent"))
    return PLANNING if mode == "plan" else RUNNING


def _error(one: OpenCodeMessage) -> tuple[str, str] | None:
    error = one.data.get("error")
    if error is None:
        return None
    known = fields.table(error)
    name = fields.text(known.get("name")) or "an error"
    return name, fields.text(fields.table(known.get("data")).get("message")) or name


def _status(part: MessagePart) -> str | None:
    return fields.text(part.state.get("status"))


def tool_of(part: MessagePart) -> ToolCall:
    given = fields.table(part.state.get("input"))
    target = next((text for name in _TARGETS for text in [fields.text(given.get(name))] if text), None)
    name = fields.text(part.data.get("tool"), 100) or "tool"
    return ToolCall(name, fields.one_line(target), fields.text(part.data.get("callID"), 200))


def _began(part: MessagePart) -> int:
    return fields.number(fields.table(part.state.get("time")).get("start")) or part.created


def _finished(part: MessagePart) -> int:
    return fields.number(fields.table(part.state.get("time")).get("end")) or part.updated


def _ended(parts: Sequence[MessagePart]) -> list[int]:
    """Return the times at which the tools ended; the model works since the last one."""
    return [_finished(part) for part in parts if part.kind == "tool"]


def _text(one: OpenCodeMessage) -> str | None:
    texts = [
        fields.text(part.data.get("text"))
        for part in one.parts
        if part.kind == "text" and not part.data.get("synthetic")
    ]
    return "\n".join(text for text in texts if text)[: fields.MOST_TEXT] or None


def _context(one: OpenCodeMessage) -> int | None:
    tokens = fields.table(one.data.get("tokens"))
    cache = fields.table(tokens.get("cache"))
    counts = [tokens.get("input"), tokens.get("output"), tokens.get("reasoning"), cache.get("read"), cache.get("write")]
    return sum(fields.number(count) or 0 for count in counts) or None


def _files(messages: Sequence[OpenCodeMessage]) -> tuple[str, ...]:
    found = [path for one in messages for part in one.parts for path in _written(part)]
    return tuple(dict.fromkeys(found))[-MOST_WRITTEN:]


def _written(part: MessagePart) -> Iterator[str]:
    if part.kind == "patch":
        yield from (
            path for path in map(fields.text, fields.rows(part.data.get("files"))) if path and path.startswith("/")
        )
    elif part.kind == "tool" and _status(part) == "completed" and part.data.get("tool") in _WRITING:
        path = fields.text(fields.table(part.state.get("input")).get("filePath"))
        if path and path.startswith("/"):
            yield path


def _subagents(one: OpenCodeMessage) -> int:
    return sum(part.data.get("tool") == "task" and _status(part) == "running" for part in one.parts)


def _first(*values: object) -> str | None:
    return next((text for value in values for text in [fields.text(value, 200)] if text), None)


def _at(milliseconds: int) -> str:
    return fields.moment(milliseconds) or fields.at(0)
