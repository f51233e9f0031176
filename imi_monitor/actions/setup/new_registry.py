"""`imi doctor --new-registry`: a person's decision that a registry which vanished is to be replaced by a new one."""

from __future__ import annotations

import os

from imi_monitor import registry_traces
from imi_monitor.actions.action import Outcome
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.store import db, events, lost_registry, registry_identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context


def begin(context: Context) -> Outcome:
    """Make the new registry; it records the ids of those it replaces. Refused unless the registry is gone or empty."""
    problem = context.registry_problem
    shown = safe(context.database, 4096)
    if problem is None:
        raise Refused(f"the registry {shown} can be used: --new-registry replaces only one that is gone", code="usable")
    if problem.code != lost_registry.CODE:
        raise problem
    real = os.path.realpath(context.database)
    traces = [*lost_registry.list_traces(real), *context.find_traces(real)]
    replaced = list(dict.fromkeys(trace.registry_id for trace in traces if trace.registry_id))
    log = lost_registry.set_log_aside(real)
    connection = db.connect(context.database, begin_new=True)
    try:
        db.transact(connection, _record, replaced)
        _rename_hooks_note(real, registry_identity.registry_id(connection))
    finally:
        connection.close()
    lines = [f"started a new registry at {shown}: nothing is claimed in it"]
    if log is not None:
        lines.append(f"kept: {safe(log, 4096)}")
    data: dict[str, object] = {"message": lines[0], "registry": context.database, "replaces": replaced, "kept_as": log}
    return Outcome(lines, data)


def _rename_hooks_note(real: str, ident: str | None) -> None:
    """Let the installed hooks name the new registry, so that it leaves a trace as well."""
    if ident is not None and os.path.lexists(registry_traces.hooks_note()):
        registry_traces.write_hooks_note(real, ident)


def _record(connection: sqlite3.Connection, replaced: list[str]) -> None:
    registry_identity.add_predecessors(connection, replaced)
    events.record(connection, "registry.started", data={"replaces": replaced})
