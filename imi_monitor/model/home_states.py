"""What homes published, as the states of homes that a snapshot holds. Rows that did not change are not read again."""

from __future__ import annotations

from datetime import timedelta

from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.model import home_rows, times
from imi_monitor.model.agent import UNKNOWN
from imi_monitor.model.home import PROTOCOL, HomeDescription, labels, plain_host
from imi_monitor.model.home_rows import HomeRows, RowDecoder
from imi_monitor.model.snapshot import HERE, NEWER, OFFLINE, UNCONFIRMED, UNKNOWN_CLAIM, ClaimState, HomeState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

STATE_WORDS = {HERE: "online", UNCONFIRMED: "no answer", OFFLINE: "offline", NEWER: "newer imi"}  # as people read them
_NO_ROWS = HomeRows((), (), 0)
UNCONFIRMED_AFTER = 10  # seconds without a sign of life


class PublishedRows:
    """What was read of one home: its description, its rows, and the seconds since its sign of life (None: gone)."""

    __slots__ = ("age", "description", "fields")

    def __init__(self, description: str, fields: Mapping[str, str], age: int | None) -> None:
        self.description = description
        self.fields = fields
        self.age = age


class HomeStates:
    """Makes the states of all homes; `own` is the id of this machine's home and `host` its host name."""

    def __init__(self, own: str, host: str, *, with_own_rows: bool = False) -> None:
        self._own = own
        self._unpublished = HomeDescription(own, plain_host(host), "", "", PROTOCOL, "", "")
        self._with_own_rows = with_own_rows  # False: the rows of the own home are in the snapshot itself
        self._described: dict[str, tuple[str, HomeDescription | None]] = {}
        self._decoders: dict[str, RowDecoder] = {}
        self._rows: dict[str, HomeRows] = {}
        # by home: its last confirmed rows, when they were read, and the rows made of them while unconfirmed
        self._silent: dict[str, tuple[HomeRows, str | None, HomeRows]] = {}
        self._now = times.now()
        self._heard: dict[str, tuple[datetime, int]] = {}
        self._states: dict[str, tuple[tuple[str, str, str | None], HomeDescription, HomeRows, HomeState]] = {}
        self._named: tuple[list[tuple[str, str, str]], dict[str, str]] = (
            [],
            {},
        )  # the homes that have labels, and these

    def states(
        self, homes: Mapping[str, PublishedRows], changed: Collection[str], *, connected: bool = True
    ) -> tuple[HomeState, ...]:
        """The states, the own home first, then by label. Without a connection none is confirmed."""
        self._now = times.now()
        described = {ident: self._describe(ident, one.description) for ident, one in homes.items()}
        known = [one for one in described.values() if one is not None]
        # no other home has this host's name alone, also while this home does not publish
        named = self._labels(known if self._own in described else [*known, self._unpublished])
        found = [
            self._state(one, named[one.id], homes[one.id], one.id in changed, connected=connected) for one in known
        ]
        return tuple(sorted(found, key=lambda one: (not one.own, one.label)))

    def _labels(self, homes: Sequence[HomeDescription]) -> dict[str, str]:
        names = [(one.id, one.host, one.user) for one in homes]
        if names != self._named[0]:
            self._named = names, labels(homes)
        return self._named[1]

    def _describe(self, ident: str, text: str) -> HomeDescription | None:
        before = self._described.get(ident)
        if before is None or before[0] != text:
            before = self._described[ident] = text, home_rows.read_description(ident, text)
        return before[1]

    def _state(
        self, home: HomeDescription, label: str, published: PublishedRows, changed: bool, *, connected: bool
    ) -> HomeState:
        state = _state_of(home, published.age, connected)
        seen = self._last_sign(home, state, published.age)
        own = home.id == self._own
        rows = _NO_ROWS
        if state != NEWER and (self._with_own_rows or not own):
            rows = self._read(home, label, published, changed)
            rows = rows if state == HERE else self._outdated(home.id, rows, seen)
        before = self._states.get(home.id)
        if before is not None and before[0] == (label, state, seen) and before[1] is home and before[2] is rows:
            return before[3]
        made = HomeState(
            home.id,
            label,
            home.host,
            home.user,
            home.version,
            home.since,
            state,
            seen,
            own,
            rows.worktrees,
            rows.agents,
            rows.rejected,
            rows.day,
        )
        self._states[home.id] = (label, state, seen), home, rows, made
        return made

    def _read(self, home: HomeDescription, label: str, published: PublishedRows, changed: bool) -> HomeRows:
        decoder = self._decoders.get(home.id)
        if decoder is None or decoder.label != label:
            decoder, changed = home_rows.RowDecoder(label, home), True
            self._decoders[home.id] = decoder
        rows = self._rows.get(home.id)
        if changed and (found := decoder.read(published.fields)) != rows:
            rows = self._rows[home.id] = found
        return rows or _NO_ROWS

    def _outdated(self, ident: str, rows: HomeRows, seen: str | None) -> HomeRows:
        known = self._silent.get(ident)
        if known is None or known[0] is not rows or known[1] != seen:
            known = self._silent[ident] = rows, seen, _unconfirmed(rows, seen)
        return known[2]

    def _last_sign(self, home: HomeDescription, state: str, age: int | None) -> str | None:
        """Return when a home that is not online gave its last sign of life, by the clock here.

        Before this process only the home's own word is known, which is that of its last change.
        """
        if age is not None and (state == HERE or home.id not in self._heard):
            self._heard[home.id] = self._now, age
        if state == HERE:
            return None
        heard = self._heard.get(home.id)
        return home.seen if heard is None else times.stamp(heard[0] - timedelta(seconds=heard[1]))


def _state_of(home: HomeDescription, age: int | None, connected: bool) -> str:
    if home.protocol > PROTOCOL:
        return NEWER
    if not connected:
        return UNCONFIRMED
    if age is None:
        return OFFLINE
    return UNCONFIRMED if age >= UNCONFIRMED_AFTER else HERE


def _unconfirmed(rows: HomeRows, since: str | None) -> HomeRows:
    """Rows that may be outdated: what was free or busy then is unknown now; what was done on a day stays done."""
    return HomeRows(
        tuple(
            replace(one, claim=one.claim or ClaimState(one.key, "", UNKNOWN_CLAIM, 0, None, None, None, None))
            for one in rows.worktrees
        ),
        tuple(
            replace(
                one,
                claim=None,
                truth=replace(one.truth, state=UNKNOWN, detail="its home does not answer", tool=None, since=since),
            )
            for one in rows.agents
        ),
        rows.rejected,
        rows.day,
    )
