"""The address of a team's Redis in all its forms, and the rule that an unencrypted one stays on this machine.

`redis://`, `rediss://` (TLS), `unix://`, `valkey://`, `valkeys://`, `redis+sentinel://h1:26379,h2/SERVICE/0`,
`redis+cluster://host:6379`; `rediss+sentinel` and `rediss+cluster` with TLS. No error names a user or a password.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

SINGLE, SENTINEL, CLUSTER = "single", "sentinel", "cluster"
SCHEMES = {
    "redis": (SINGLE, False),
    "valkey": (SINGLE, False),
    "rediss": (SINGLE, True),
    "valkeys": (SINGLE, True),
    "unix": (SINGLE, False),
    "redis+sentinel": (SENTINEL, False),
    "rediss+sentinel": (SENTINEL, True),
    "redis+cluster": (CLUSTER, False),
    "rediss+cluster": (CLUSTER, True),
}
_PORT, _SENTINEL_PORT = 6379, 26379
# What an address may say beyond its place; time-outs and retries are imi's own.
_OPTIONS = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """A parsed address. `shown` is safe to print: it has no user and no password."""

    form: str
    places: tuple[tuple[str, int], ...]  # (host, port); none for a socket
    socket: str
    service: str  # of Sentinel
    database: int
    tls: bool
    user: str | None
    password: str | None
    options: tuple[tuple[str, str], ...]
    shown: str


def parse(url: str, *, insecure: bool = False) -> RedisAddress:
    """Parse an address; UsageError says what is wrong with it and what to set instead."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise _wrong(f"does not begin with one of {', '.join(f'{name}://' for name in SCHEMES)}")
    form, tls = SCHEMES[scheme]
    try:
        parts = urlsplit(f"redis://{rest}")
        options = tuple(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        raise _wrong("is not an address") from None
    unknown = [safe(name, 40) for name, _ in options if name not in (*_OPTIONS, "db")]
    if unknown:
        raise _wrong(f"has the option {unknown[0]!r}: imi takes {', '.join((*_OPTIONS, 'db'))}")
    login, _, network = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    places = () if scheme == "unix" else _places(network, _SENTINEL_PORT if form == SENTINEL else _PORT)
    service, database = _path(form, parts.path, dict(options).get("db", "")) if scheme != "unix" else ("", _db(options))
    found = RedisAddress(
        form,
        places,
        unquote(parts.path) if scheme == "unix" else "",
        service,
        database,
        tls,
        unquote(user) or None,
        unquote(password) or None,
        tuple((name, value) for name, value in options if name != "db"),
        safe(",".join(f"{host}:{port}" for host, port in places) or unquote(parts.path), 120),
    )
    _refuse_open(found, insecure)
    return found


def has_password(url: str) -> bool:
    """Whether the address holds a password, as far as can be told; also for one that `parse` refuses."""
    network = url.partition("://")[2].partition("/")[0]
    return ":" in network.rpartition("@")[0]


def _places(network: str, default: int) -> tuple[tuple[str, int], ...]:
    places = []
    for one in network.split(","):
        try:
            place = urlsplit(f"redis://{one}")
            host, port = place.hostname, place.port
        except ValueError:
            raise _wrong("has a port that is no number") from None
        if not host:
            raise _wrong("names no host")
        places.append((host, port or default))
    return tuple(places)


def _path(form: str, path: str, database: str) -> tuple[str, int]:
    words = [unquote(word) for word in path.split("/") if word]
    service = words.pop(0) if form == SENTINEL and words else ""
    if form == SENTINEL and not service:
        raise _wrong("names no service: redis+sentinel://HOST:26379/SERVICE")
    if len(words) > 1:
        raise _wrong("has more after its host than the number of a database")
    return service, _number(words[0] if words else database)


def _db(options: tuple[tuple[str, str], ...]) -> int:
    return _number(dict(options).get("db", ""))


def _number(word: str) -> int:
    if word and not (word.isascii() and word.isdecimal() and len(word) < 6):
        raise _wrong("names a database that is no number")
    return int(word or 0)


def _refuse_open(found: RedisAddress, insecure: bool) -> None:
    """Refuse what other machines of a network could read or forge."""
    verified = dict(found.options).get("ssl_cert_reqs", "required") == "required"
    private = all(host in ("localhost", "::1") or host.startswith("127.") for host, _ in found.places)
    if insecure or private or (found.tls and verified):
        return
    what = "does not verify the server (ssl_cert_reqs)" if found.tls else "is not encrypted"
    raise UsageError(
        f"servers.redis_url ({found.shown}) {what}: use rediss://, or set team.insecure = true if the network is private",
        code="insecure-server",
    )


def _wrong(what: str) -> UsageError:
    return UsageError(f"servers.redis_url {what}: correct it (`imi config servers.redis_url`)", code="bad-setting")
