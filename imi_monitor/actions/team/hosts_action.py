"""`imi hosts`: the homes of the team."""

from __future__ import annotations

from imi_monitor.actions import time_format
from imi_monitor.actions.action import Action, Outcome
from imi_monitor.fast.frozen_dataclass import asdict
from imi_monitor.model import columns, day_work, state_words, times
from imi_monitor.model.columns import Column
from imi_monitor.model.snapshot import NEWER
from imi_monitor.model.styled_text import MUTED, NAME, styled
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.model.snapshot import HomeState

_COLUMNS = (
    Column("Host", least=8),
    Column("User", least=4, rank=3),
    Column("State", least=8),
    Column("Last sign"),
    Column("Running", rank=2),
    Column("Version", rank=4),
    Column("Worktrees", right=True),
    Column("Claims", right=True),
    Column("Agents", right=True),
    Column("Worked today", right=True, rank=2),
    Column("Note", least=8, rank=1),
)


class HostsAction(Action):
    words = ("hosts",)
    group = "Status"
    label = "Hosts of the team"
    help = "show the homes of the team: who publishes, since when, and how many worktrees and agents each has"
    more = """
    A home is one registry on one machine. It is here while a dashboard, `imi watch` or `imi serve` runs on it.
    An unconfirmed home gave no sign of life for ten seconds; what it published is not current then.
    """
    examples = (("imi hosts --json", "with the id of each home, for a script"),)
    changes = False
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        from imi_monitor.actions.status.status_action import terminal_width
        from imi_monitor.actions.team import published_homes

        found = published_homes.read_homes(context)
        lines = columns.table(_COLUMNS, [_row(one) for one in found], terminal_width())
        if not found:
            lines = ["no home has published yet: `imi serve`, or a dashboard, publishes this one"]
        return Outcome(lines, {"homes": [_data(one) for one in found], "count": len(found)})


ACTIONS = (HostsAction(),)


def _row(home: HomeState) -> list[str]:
    note = f"{count(home.rejected, 'row')} could not be read" if home.rejected else ""
    return [
        styled(safe(home.label) + (" (this one)" if home.own else ""), NAME),
        safe(home.user),
        state_words.in_style(home.state),
        f"{times.age_of(home.seen)} ago" if home.seen else "now",
        times.age_of(home.since),
        safe(home.version),
        *(("?",) * 3 if home.state == NEWER else map(str, _amounts(home))),
        _worked(home),
        styled("newer imi: upgrade this one" if home.state == NEWER else note, MUTED),
    ]


def _data(home: HomeState) -> dict[str, object]:
    worktrees, claims, agents = (None,) * 3 if home.state == NEWER else _amounts(home)
    return {
        "label": home.label,
        "id": home.id,
        "host": home.host,
        "user": home.user,
        "version": home.version,
        "state": home.state,
        "since": home.since,
        "seen": home.seen,
        "own": home.own,
        "worktrees": worktrees,
        "claims": claims,
        "agents": agents,
        "rejected": home.rejected,
        "today": _today(home),
    }


def _worked(home: HomeState) -> str:
    """Return how long the home's agents have worked today; a dash if the home does not publish it."""
    if not day_work.is_of_today(home.day, times.now()):
        return "–"
    return time_format.span(day_work.add(home.day).working or 0)


def _today(home: HomeState) -> dict[str, object] | None:
    """Return what the home's agents have done today; None if the home does not publish it."""
    if not day_work.is_of_today(home.day, times.now()):
        return None
    figures = asdict(day_work.add(home.day))
    figures.pop("repo")
    return figures


def _amounts(home: HomeState) -> tuple[int, int, int]:
    """The numbers of its worktrees, claims and agents; those of a newer imi cannot be read."""
    claims = sum(one.claim is not None and bool(one.claim.agent) for one in home.worktrees)
    return len(home.worktrees), claims, len(home.agents)
