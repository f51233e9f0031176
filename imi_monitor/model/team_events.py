"""Events of other homes, as the team's feed carries them (CloudEvents). What comes in is untrusted and checked here."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.model import times
from imi_monitor.model.snapshot import RegistryEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST = 300
_MOST_BYTES, _MOST_DATA, _NAME = 256 << 10, 8192, 200


class TeamFeed:
    """The last events of other homes. One that comes again is known by its id."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._events: deque[tuple[str, str, RegistryEvent]] = deque(maxlen=MOST)  # (id, home, event)
        self.rejected = 0

    def add(self, texts: Iterable[str]) -> bool:
        """Add the events of these entries; True if there are new ones."""
        known = {ident for ident, _, _ in self._events}
        before = len(known)
        for text in texts:
            try:
                ident, home, event = read_event(text)
            except (ValueError, RecursionError):
                self.rejected += 1
                continue
            if home != self._own and ident not in known:
                known.add(ident)
                self._events.append((ident, home, event))
        return len(known) > before

    def events(self, labels: Mapping[str, str]) -> tuple[RegistryEvent, ...]:
        """The events with the labels of their homes."""
        return tuple(replace(event, host=labels.get(home, home[:8])) for _, home, event in self._events)


def read_event(text: str) -> tuple[str, str, RegistryEvent]:
    """(id, home, event) of an entry; ValueError for one that is wrong. Its repository is what all homes call it."""
    if len(text) > _MOST_BYTES:
        raise ValueError("too long")
    row = json.loads(text)
    if not isinstance(row, dict) or row.get("specversion") != "1.0":
        raise ValueError("no event")
    source = _needed(row, "source")
    home = source.rpartition("/imi/")[2]
    kind, at = _needed(row, "type"), _needed(row, "time")
    if not home or not home.replace("-", "").isalnum() or not kind.isascii() or times.parse(at) is None:
        raise ValueError("no event of a home")
    sequence = row.get("sequence")
    seq = int(sequence) if isinstance(sequence, str) and sequence.isdecimal() and len(sequence) <= 20 else 0
    subject, repository = _optional(row, "subject") or "", _optional(row, "repository")
    worktree = subject.partition("/")[2] or None
    if worktree is not None and repository is None:
        raise ValueError("no repository")
    data = row.get("data")
    shown = json.dumps(data) if isinstance(data, dict) else "{}"
    event = RegistryEvent(
        seq, kind, at, repository, worktree, _optional(row, "agent"), shown if len(shown) <= _MOST_DATA else "{}"
    )
    return _needed(row, "id"), home, event


def _needed(row: dict[str, Any], name: str) -> str:
    value = _optional(row, name)
    if value is None:
        raise ValueError(name)
    return value


def _optional(row: dict[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value or len(value) > _NAME:
        raise ValueError(name)
    return value
