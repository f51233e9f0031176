"""What agents have done on one day, by repository: what a home shares with its team, and the sum over all homes.

Each home counts from its own midnight. Unknown is None, never zero: a home that shares no figures of this day is counted as one
that did not say.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import times
from imi_monitor.model.session_status import add_known
from imi_monitor.model.snapshot import HERE, DayWork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from imi_monitor.model.snapshot import HomeState


_LONGEST = 26 * 3600  # seconds until the end of a day, when a clock is put back and another one is slow


@dataclass(frozen=True, slots=True)
class TeamDay:
    """The work of all homes that said it; `silent` of these have given no sign of life since."""

    work: DayWork
    homes: int = 1
    said: int = 1
    silent: int = 0

    @property
    def unknown(self) -> int:
        return self.homes - self.said


def bounds(now: datetime) -> tuple[datetime, datetime]:
    """The midnights before and after a moment, in local time."""
    from datetime import datetime, timedelta

    day = now.astimezone().date()
    midnights = (datetime.combine(each, datetime.min.time()) for each in (day, day + timedelta(days=1)))
    begin, end = (each.astimezone() for each in midnights)
    return begin, end


def is_of_today(work: Sequence[DayWork], now: datetime) -> bool:
    """Whether figures are of a day that is not over; False without any."""
    until = times.parse(work[0].until) if work else None
    return until is not None and 0 < (until - now).total_seconds() < _LONGEST


def add(works: Iterable[DayWork]) -> DayWork:
    """The sum; unknown parts count as nothing, and only unknown parts are unknown."""
    total = DayWork("", "")
    for one in works:
        total = DayWork(
            "",
            one.until,
            total.sessions + one.sessions,
            _add(total.working, one.working),
            _add(total.waiting, one.waiting),
            _add(total.tokens, one.tokens),
            _add(total.cents, one.cents),
            total.files + one.files,
            total.failed + one.failed,
        )
    return total


def of_team(own: DayWork, homes: Iterable[HomeState], is_wanted: Callable[[str], bool], now: datetime) -> TeamDay:
    """The work of this home and of the others, in the repositories (by their identities) that are wanted."""
    others = [home for home in homes if not home.own]
    said = [home for home in others if is_of_today(home.day, now)]
    work = add([own, *(one for home in said for one in home.day if is_wanted(one.repo))])
    return TeamDay(work, 1 + len(others), 1 + len(said), sum(home.state != HERE for home in said))


def _add(left: int | None, right: int | None) -> int | None:
    total = add_known(left, right)
    return None if total is None else int(total)
