"""A verdict in words: what stands against it, with names, and what would override it."""

from __future__ import annotations

from collections.abc import Sequence

from imi_monitor.model.text import safe
from imi_monitor.model.verdict import FORCE, NEVER, NOTE, Reason, Verdict


def headline(name: str, standing: Sequence[Reason]) -> str:
    """One sentence for a refusal; a single reason is told in full."""
    if len(standing) == 1:
        return f"{safe(name)} is not safe to remove: {standing[0].sentence}{_names(standing[0])}"
    return f"{safe(name)} is not safe to remove, for {len(standing)} reasons"


def lines(reasons: Sequence[Reason]) -> list[str]:
    return [f"{'note:' if reason.override == NOTE else '-'} {reason.sentence}{_names(reason)}" for reason in reasons]


def way_out(name: str, verdict: Verdict) -> str:
    """How to go on. What is overridden still goes to the trash whole."""
    if any(reason.override == NEVER for reason in verdict.reasons):
        return "this cannot be overridden"
    if verdict.strongest == FORCE:
        return f"to move it to the trash all the same: imi remove {safe(name)} --force"
    return f"to move it to the trash all the same: imi remove {safe(name)} --force --yes-really {safe(name)}"


def _names(reason: Reason) -> str:
    if not reason.names:
        return ""
    more = f" and {reason.count - len(reason.names)} more" if reason.count > len(reason.names) else ""
    return ": " + ", ".join(safe(name, 120) for name in reason.names) + more
