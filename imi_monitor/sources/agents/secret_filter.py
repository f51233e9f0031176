"""Removes secrets from what agents wrote, before it enters a snapshot: prompts, messages, titles, tools, questions.

Readers report texts as they are; `sighting_merge.as_agent` passes all of them through here, so that screens, JSON and
notifications show the same as the record. What is removed is shown as ***, also in a question to be answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from imi_monitor.model.agent import Evidence, SessionFacts, ToolCall
from imi_monitor.model.redact import redact

_TEXTS = ("title", "prompt", "last_message", "format_note")

_clean = lru_cache(maxsize=4096)(redact)  # most texts stay the same from poll to poll


def filter_facts(facts: SessionFacts) -> SessionFacts:
    """The facts without secrets; the same object if there are none."""
    changed: dict[str, object] = {}
    for name in _TEXTS:
        text = getattr(facts, name)
        if text is not None and (clean := _clean(text)) != text:
            changed[name] = clean
    files = tuple([_clean(path) for path in facts.files])
    if files != facts.files:
        changed["files"] = files
    return replace(facts, **changed) if changed else facts  # type: ignore[arg-type]


def filter_evidence(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    return tuple([_filter_one(one) for one in evidence])


def _filter_one(one: Evidence) -> Evidence:
    says, detail = _clean(one.says), None if one.detail is None else _clean(one.detail)
    tool = None if one.tool is None else _filter_tool(one.tool)
    if says == one.says and detail == one.detail and tool is one.tool:
        return one
    return replace(one, says=says, detail=detail, tool=tool)


def _filter_tool(tool: ToolCall) -> ToolCall:
    target = None if tool.target is None else _clean(tool.target)
    return tool if target == tool.target else replace(tool, target=target)
