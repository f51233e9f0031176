"""The few things that a line of a Codex rollout can say, whatever version wrote it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, Final

from imi_monitor.model.agent import AgentEvent, ToolCall
from imi_monitor.sources.agents import loose

PLAN: Final = "plan"


@dataclass(frozen=True, slots=True)
class Began:
    """A turn began."""

    at: str
    mode: str | None = None  # `plan` or another
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """Where and how it works from now on; None is unchanged."""

    id: str | None = None
    cwd: str | None = None
    model: str | None = None
    policy: str | None = None  # when it asks for approval
    mode: str | None = None
    version: str | None = None
    branch: str | None = None
    started_at: str | None = None
    parent: str | None = None
    originator: str | None = None
    child: bool = False  # it works for another thread, or for Codex itself


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the whole thread so far."""

    fresh: int | None = None
    out: int | None = None
    cached: int | None = None
    context: int | None = None
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """The model could not be asked; it tries again."""

    at: str
    why: str


@dataclass(frozen=True, slots=True)
class Strange:
    """A record which we do not know, or cannot read."""

    what: str


Item = AgentEvent | Began | Context | Usage | Retry | Strange
Payload = dict[str, Any]


def unnamed(kind: str, line: bytes) -> str:
    """A name for what has none: the same whenever the same line is read."""
    return f"{kind}:{zlib.crc32(line):08x}:{len(line)}"


def finished(call: str, at: str, told: str | None, ok: bool | None, files: tuple[str, ...] = ()) -> AgentEvent:
    """A tool's end; who saw it begin knows its name."""
    return AgentEvent("tool_finished", f"{call}:finished", at, told, ToolCall("", None, call), ok, files)


def content(value: object) -> str | None:
    """The texts of a message, however each block spells its kind."""
    if isinstance(value, str):
        return loose.text(value)
    parts = [loose.text(loose.table(one).get("text")) for one in loose.rows(value)]
    return loose.text("\n".join(one for one in parts if one))


def usage(total: Payload, last: Payload, window: object) -> list[Item]:
    """Tokens as both of the records with them spell it."""
    whole, cached = loose.number(total.get("input_tokens")), loose.number(total.get("cached_input_tokens"))
    if whole is None:
        return []
    return [
        Usage(
            fresh=max(0, whole - (cached or 0)),
            out=loose.number(total.get("output_tokens")),
            cached=cached,
            context=loose.number(last.get("total_tokens")),
            window=loose.number(window),
        )
    ]


def why(error: object) -> str | None:
    """An error's message; some are JSON inside JSON."""
    inside = loose.table(error)
    said = loose.text(error) or loose.text(inside.get("message"))
    hidden = loose.table((loose.record(said) or {}).get("error")) if said and said.startswith("{") else {}
    said = loose.text(hidden.get("message")) or said
    info = inside.get("codex_error_info", inside.get("codexErrorInfo"))
    kind = loose.text(info, 60) or next(iter(loose.table(info)), None)
    return f"{kind}: {said}" if kind and said and kind != "other" else said or (str(kind) if kind else None)
