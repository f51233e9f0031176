"""Homes: one registry on one machine each. What a home publishes about itself, and how homes and repositories are named.

The id is the identity; a label is what people read and type. Two homes never have labels that look alike, and the label of
a home does not depend on the order in which homes appear.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import remote_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROTOCOL = 1  # of the rows and questions that homes exchange
_SHORTEST_MARK = 4  # characters of a home's id behind its host name


@dataclass(frozen=True, slots=True)
class HomeDescription:
    """What a home says about itself."""

    id: str
    host: str
    user: str
    version: str
    protocol: int
    since: str  # when the publishing process began
    seen: str  # when it last published a change


def labels(homes: Sequence[HomeDescription]) -> dict[str, str]:
    """The label of each home by its id: its host; `user@host` or `host~1f3a` where several homes have that host."""
    named: dict[str, str] = {}
    for one in homes:
        alike = [other for other in homes if _folded(other.host) == _folded(one.host)]
        same_user = [other for other in alike if _folded(other.user) == _folded(one.user)]
        if len(alike) == 1:
            named[one.id] = one.host
        elif len(same_user) == 1 and one.user:
            named[one.id] = f"{one.user}@{one.host}"
        else:
            named[one.id] = f"{one.host}~{_mark(one.id, [other.id for other in alike])}"
    return named


def find_homes(word: str, named: Mapping[str, str], homes: Sequence[HomeDescription]) -> list[str]:
    """The ids of the homes that a typed word may mean: the one with that label, else all on a host of that name."""
    exact = [ident for ident, label in named.items() if _folded(label) == _folded(word)]
    return exact or [one.id for one in homes if word in (one.id, one.host) or _folded(one.host) == _folded(word)]


def plain_host(name: str) -> str:
    """A host name with only the characters of host names, so that no two of them look alike on a screen."""
    kept = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "-" for sign in name[:60])
    return kept.strip(".-") or "host"


def repository_identity(remote_url: str, home: str, name: str) -> str:
    """What a repository is called by all homes: the project at its remote; without one it is shared with no other home."""
    address = remote_address.parse_address(remote_url) if remote_url else None
    if address is None or not address.host:
        return f"{home}/{name}"
    return f"{address.host}/{address.project}".lower()


def _mark(ident: str, alike: list[str]) -> str:
    """The beginning of an id that no other home of that host shares."""
    others = [other for other in alike if other != ident]
    length = _SHORTEST_MARK
    while length < len(ident) and any(other.startswith(ident[:length]) for other in others):
        length += 1
    return ident[:length]


def _folded(name: str) -> str:
    return name.casefold()
