"""Sinks: the receivers of events (the archive, Redis, RabbitMQ, PostgreSQL), each with a cursor of its own in the registry.

MODULES is the registry. A new sink takes its module and one line here: the module names it (`NAME`), says when it is wanted
(`is_wanted`) and makes it (`make_sink`). Cursor, batches, pauses after faults, parked events, its line in `imi doctor`, its badge
in the header and `imi archive` follow from that.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from imi_monitor.config import Settings

MODULES = (
    "imi_monitor.sinks.history_sink",
    "imi_monitor.sinks.redis_sink",
    "imi_monitor.sinks.amqp_sink",
    "imi_monitor.sinks.postgres_sink",
)


def wanted(settings: Settings) -> dict[str, ModuleType]:
    """The modules of the sinks that the settings ask for, by their names. No server is asked and no library imported."""
    modules = [import_module(name) for name in MODULES]
    return {module.NAME: module for module in modules if module.is_wanted(settings)}


def beginnings(modules: dict[str, ModuleType]) -> dict[str, str | None]:
    """Return, by sink, the time from which a new sink gets events; None: all events."""
    from datetime import timedelta

    from imi_monitor.model import times

    return {
        name: None if module.HOURS is None else times.stamp(times.now() - timedelta(hours=module.HOURS))
        for name, module in modules.items()
    }
