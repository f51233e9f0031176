"""What imi is connected with: whether it is configured, by which setting, without any credential."""

from __future__ import annotations

from imi_monitor import programs
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context

CONFIGURED, ABSENT, INSTALLED = "configured", "not configured", "installed"
_SERVERS = (
    ("redis", "servers.redis_url", "team"),
    ("rabbitmq", "servers.amqp_url", "events"),
    ("postgresql", "servers.postgres_url", "archive"),
)
_PROGRAMS = (
    ("github", "gh", "forge"),
    ("gitlab", "glab", "forge"),
    ("tmux", "tmux", "screen"),
    ("zellij", "zellij", "screen"),
)


def list_integrations(context: Context) -> list[tuple[str, str, str, str, str]]:
    """(id, name, type, status, since) of each; an address is never shown, because it may hold a password."""
    settings = context.read_settings(None)
    found = []
    for name, key, kind in _SERVERS:
        status = CONFIGURED if settings.text(key) else ABSENT
        found.append((f"server-{name}", name, kind, status, ""))
    for name, program, kind in _PROGRAMS:
        status = INSTALLED if programs.find(program) is not None else "not installed"
        found.append((f"program-{name}", safe(name, 20), kind, status, ""))
    return found
