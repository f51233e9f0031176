"""Addresses of RabbitMQ and PostgreSQL, and the rule that an unencrypted connection stays on this machine.

No error names a user or a password.
"""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

_PORTS = {"amqp": 5672, "amqps": 5671, "postgres": 5432, "postgresql": 5432}
_VERIFYING = ("verify-full", "verify-ca")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A checked address. `shown` is safe to print; `url` may hold a password."""

    url: str
    shown: str


def parse_amqp(url: str, *, insecure: bool = False) -> ServerAddress:
    return _parse("servers.amqp_url", url, ("amqp", "amqps"), insecure=insecure)


def parse_postgres(url: str, *, insecure: bool = False) -> ServerAddress:
    return _parse("servers.postgres_url", url, ("postgresql", "postgres"), insecure=insecure)


def _parse(setting: str, url: str, schemes: tuple[str, ...], *, insecure: bool) -> ServerAddress:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        options = parse_qs(parts.query)
    except ValueError:
        raise _wrong(setting, "is not an address") from None
    if parts.scheme not in schemes:
        raise _wrong(setting, f"does not begin with one of {', '.join(f'{name}://' for name in schemes)}")
    host = unquote(host or options.get("host", [""])[0])
    if not host and parts.scheme in ("amqp", "amqps"):
        raise _wrong(setting, "names no host")
    private = not host or host.startswith(("/", "127.")) or host in ("localhost", "::1")
    shown = safe(host if host.startswith("/") else f"{host or 'localhost'}:{port or _PORTS[parts.scheme]}", 120)
    verified = parts.scheme == "amqps" and options.get("no_verify_ssl", ["0"])[0] == "0"
    encrypted = verified or options.get("sslmode", [""])[0] in _VERIFYING
    if not (private or encrypted or insecure):
        advice = "amqps://" if parts.scheme == "amqp" else "?sslmode=verify-full"
        raise UsageError(
            f"{setting} ({shown}) is not encrypted and verified: use {advice}, or set team.insecure = true in a private network",
            code="insecure-server",
        )
    return ServerAddress(url, shown)


def _wrong(setting: str, what: str) -> UsageError:
    return UsageError(f"{setting} {what}: correct it (`imi config {setting}`)", code="bad-setting")
