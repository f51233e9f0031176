"""What imi is connected with: whether it is configured, answers, and since when. Never an address: it may hold a password."""

from __future__ import annotations

from dataclasses import dataclass

from imi_monitor import programs
from imi_monitor.links import server_check
from imi_monitor.model.text import safe
from imi_monitor.store import db, sink_cursors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context

CONFIGURED, ABSENT = "configured", "not configured"
_SERVERS = (
    ("redis", "servers.redis_url", "team", ("redis", "rediss")),
    ("rabbitmq", "servers.amqp_url", "events", ("amqp", "amqps")),
    ("postgresql", "servers.postgres_url", "archive", ("postgres", "postgresql")),
)
_SINKS = {"rabbitmq": "amqp", "postgresql": "postgres"}
_PORTS = {"redis": 6379, "amqp": 5672, "postgres": 5432}
_PROGRAMS = (
    ("github", "gh", "forge"),
    ("gitlab", "glab", "forge"),
    ("tmux", "tmux", "screen"),
    ("zellij", "zellij", "screen"),
)


@dataclass(frozen=True, slots=True)
class Integration:
    """One of them. `reachable`: yes, no with the reason, or empty where nothing is asked; `since`: the last sign of it."""

    name: str
    kind: str
    status: str
    reachable: str = ""
    since: str = ""

    def data(self) -> dict[str, object]:
        return {name: getattr(self, name) or None for name in self.__dataclass_fields__}


def list_integrations(context: Context) -> list[tuple[str, str, str, str, str]]:
    """(id, name, type, status, since) of each, for the view of `imi query`; no server is asked."""
    return [(f"{one.kind}-{one.name}", one.name, one.kind, one.status, one.since) for one in _known(context)]


def check(context: Context) -> list[Integration]:
    """All of them; each configured server is asked once."""
    settings = context.read_settings(None)
    asked = {name: _ask(settings.text(key), schemes) for name, key, _, schemes in _SERVERS if settings.text(key)}
    return [Integration(one.name, one.kind, one.status, asked.get(one.name, ""), one.since) for one in _known(context)]


def _known(context: Context) -> list[Integration]:
    settings, since = context.read_settings(None), _signs(context)
    found = [
        Integration(name, kind, CONFIGURED if settings.text(key) else ABSENT, since=since.get(name, ""))
        for name, key, kind, _ in _SERVERS
    ]
    for name, program, kind in _PROGRAMS:
        found.append(Integration(name, kind, "installed" if programs.find(program) else "not installed"))
    return found


def _signs(context: Context) -> dict[str, str]:
    """The last time at which a server took events, or since when it does not."""
    if context.registry_problem is not None:
        return {}
    sinks = {one.name: one for one in db.read(context.connection, sink_cursors.list_sinks)}
    found = {}
    for name, sink in _SINKS.items():
        one = sinks.get(sink)
        if one is not None:
            found[name] = f"fails since {one.problem_since}" if one.problem_since else one.sent_at or ""
    return found


def _ask(url: str, schemes: tuple[str, ...]) -> str:
    """Whether the server of this address accepts connections."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[schemes[0]]
    except ValueError:
        return "no: its address is wrong"
    if parts.scheme not in schemes or not parts.hostname:
        return "no: its address is wrong"
    problem = server_check.check_tcp(parts.hostname, port)
    return "yes" if problem is None else f"no: it {safe(problem, 100)}"
