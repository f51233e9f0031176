"""What hooks add to the record of a session. What a transcript tells too is not told twice: only starts, ends, waiting,
and what the agent of that name writes down nowhere else."""

from __future__ import annotations

from imi_monitor.model.agent import AgentEvent
from imi_monitor.sources.agents.hooks import records as kinds
from imi_monitor.sources.agents.hooks.records import Record


def told(record: Record, asked_for: Record | None = None) -> list[AgentEvent]:
    """With ids that are the same at every reading; those of calls are the ones that transcripts lead to as well.

    `asked_for`: the call that a permission is for, as the permission does not name it.
    """
    named = next((one.tool.id for one in (record, asked_for) if one and one.tool and one.tool.id), None)
    call = named or f"hook-{record.ns}"
    match record.kind:
        case kinds.STARTED:
            return [_happened(record, "started", f"hook-{record.ns}:started")]
        case kinds.ENDED:
            return [_happened(record, "ended", f"hook-{record.ns}:ended")]
        case kinds.ASKS if record.ask != "notification":
            return [_happened(record, "waits", f"{record.ask or call}:waits")]
        case kinds.ANSWERED:
            return [_happened(record, "answered", f"{record.ask or call}:answered")]
        case kinds.BEFORE if record.cli == "gemini":  # its chat names a call when it is over
            return [_happened(record, "tool_started", f"{call}:started")]
    return []


def _happened(record: Record, kind: str, ident: str) -> AgentEvent:
    return AgentEvent(kind, ident, record.at, record.text, record.tool, files=record.files, subagent=record.helper)
