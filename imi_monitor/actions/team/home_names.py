"""`HOST:NAME`: a worktree of another home of the team, by the label of the home and the name of the worktree.

A worktree of this machine whose own name has a colon is meant first.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import home, names
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.home import HomeDescription
from imi_monitor.model.snapshot import HERE, OFFLINE, HomeState, Worktree
from imi_monitor.model.text import safe
from imi_monitor.roster import KNOWN_PREFIXES
from imi_monitor.store import repositories
from imi_monitor.store.duty_lock import DutyLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.actions.context import Context

SEPARATOR = ":"


@dataclass(frozen=True, slots=True)
class RemoteWorktree:
    """A worktree that another home publishes; `own` is the id of this machine's home."""

    home: HomeState
    tree: Worktree
    own: str

    @property
    def named(self) -> str:
        return f"{self.home.label}{SEPARATOR}{self.tree.key.worktree}"


def split(name: str) -> tuple[str, str]:
    """The host and the rest; UsageError if either is missing."""
    word, _, rest = name.partition(SEPARATOR)
    if not word or not rest or SEPARATOR in rest or rest.endswith("/") or not name.isprintable():
        raise UsageError(
            f"{safe(name, 80)!r} is not HOST:NAME: `imi hosts` shows the hosts, `imi list --all-hosts` the names",
            code="bad-name",
        )
    return word, rest


def find_home(word: str, homes: Sequence[HomeState]) -> HomeState:
    """The home that a typed word means; UsageError if there is none, or more than one."""
    described = [HomeDescription(one.id, one.host, one.user, one.version, 0, "", "") for one in homes]
    named = {one.id: one.label for one in homes}
    found = home.find_homes(word, named, described)
    if len(found) > 1:
        labels = ", ".join(safe(named[one], 60) for one in found)
        raise UsageError(f"{safe(word, 60)!r} may be {labels}: give one of these", code="ambiguous-host")
    if not found:
        known = ", ".join(safe(label, 60) for label in named.values()) or "none has published yet"
        raise UsageError(f"no machine of the team is called {safe(word, 60)!r} (known: {known})", code="no-host")
    return next(one for one in homes if one.id == found[0])


def resolve(context: Context, name: str) -> RemoteWorktree | str:
    """The worktree of another home, or the plain name if HOST is this machine."""
    from imi_monitor.actions.team import published_homes

    word, rest = split(name)
    homes = published_homes.read_homes(context)
    own = next((one for one in homes if one.own), None)
    if own is None and word.casefold() == home.plain_host(host.hostname()).casefold():
        return rest
    found = find_home(word, homes)
    if found.own:
        return rest
    _refuse_silent(found)
    return RemoteWorktree(found, _tree(context, found, rest), own.id if own is not None else "")


def refuse_without_duties(context: Context, own: str) -> None:
    """Refused unless a process of this machine has the duties: it renews what is claimed elsewhere."""
    if not own or not DutyLock(context.database).is_held():
        raise Refused(
            "no process of this machine would renew the claim: open a dashboard here, or run `imi serve`",
            code="no-duties",
        )


def _refuse_silent(found: HomeState) -> None:
    if found.state == HERE:
        return
    label = safe(found.label, 60)
    if found.state == OFFLINE:
        why = f"{label} is offline{f' since {safe(found.seen, 40)}' if found.seen else ''}"
    elif found.state == "newer":
        why = f"{label} runs a newer imi: upgrade this one"
    else:
        why = f"{label} gives no sign of life"
    raise Refused(f"{why}: only a process there can decide about its worktrees", code="host-silent")


def _tree(context: Context, found: HomeState, rest: str) -> Worktree:
    repo, _, name = rest.rpartition("/")
    wanted = names.candidates(name, KNOWN_PREFIXES)
    for candidate in wanted:
        hits = [one for one in found.worktrees if one.key.worktree == candidate and _is_of(one, repo)]
        if len(hits) > 1:
            hits = [one for one in hits if one.key.repo == _own_identity(context)] or hits
        if len(hits) == 1:
            return hits[0]
        if hits:
            places = ", ".join(safe(f"{found.label}:{one.key.repo}/{candidate}", 200) for one in hits)
            raise Refused(f"{safe(name, 80)!r} may mean {places}: give one of these", code="ambiguous")
    raise Refused(
        f"{safe(found.label, 60)} publishes no worktree {safe(name, 80)!r}: `imi list --all-hosts` shows them",
        code="no-worktree",
    )


def _is_of(tree: Worktree, repo: str) -> bool:
    return not repo or tree.key.repo == repo or tree.key.repo.endswith(f"/{repo}")


def _own_identity(context: Context) -> str | None:
    """Return what all homes call the repository around the caller."""
    repository = context.find_repository()
    name = context.repo_name(repository) if repository is not None else None
    return repositories.list_identities(context.connection, "").get(name) if name is not None else None
