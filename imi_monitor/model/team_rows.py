"""The dashboard's picture of a team: the worktrees and agents of all homes in one snapshot.

A repository has the name that it has here if this home knows it, else the last part of its address. Two worktrees of one
repository on two machines collide when both have the same branch, or changed the same files.
"""

from __future__ import annotations

from itertools import islice

from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.model.agent import Agent
from imi_monitor.model.snapshot import Collision, HomeState, Key, Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from imi_monitor.model.snapshot import RegistryEvent, Worktree

    _Row = Worktree | Agent

Shares = tuple[Key, str, tuple[str, ...]]
MOST_PAIRS = 1000  # that one branch or file has: a lock file may be changed in every worktree of a team


class _NamedRows:
    """The rows of one home, made of `inputs`; `made` has by the identity of each row what it became under which name."""

    __slots__ = ("agents", "home", "inputs", "made", "worktrees")

    def __init__(self, home: HomeState, inputs: object, made: dict[int, tuple[_Row, str, _Row]]) -> None:
        self.home, self.inputs, self.made = home, inputs, made
        self.worktrees = [row for _, _, row in made.values() if not isinstance(row, Agent)]
        self.agents = [row for _, _, row in made.values() if isinstance(row, Agent)]


class TeamRows:
    """Adds the rows of the other homes to snapshots; a row that did not change stays the same object.

    `every_repository`: whether all repositories are shown, and agents outside of worktrees, or only those of the snapshot.
    """

    def __init__(self, *, every_repository: bool) -> None:
        self._every_repository = every_repository
        self._homes: dict[str, _NamedRows] = {}
        self._shared: dict[int, tuple[Worktree, Shares]] = {}
        self._collided: tuple[list[Shares], tuple[Collision, ...]] = ([], ())  # what they were made of, and they
        self._events: tuple[object, tuple[RegistryEvent, ...]] = (None, ())  # what they were made of, and they

    def merge(self, snapshot: Snapshot) -> Snapshot:
        others = [home for home in snapshot.homes if not home.own]
        if not snapshot.team_events and not any(home.worktrees or home.agents for home in others):
            return snapshot
        names = _names(snapshot, others)
        self._homes = {home.id: self._rows_of(home, snapshot, names) for home in others}
        trees = tuple(tree for rows in self._homes.values() for tree in rows.worktrees)
        agents = tuple(agent for rows in self._homes.values() for agent in rows.agents)
        added = sorted({tree.key.repo for tree in trees} - set(snapshot.repositories))
        return replace(
            snapshot,
            worktrees=(*snapshot.worktrees, *trees),
            agents=(*snapshot.agents, *agents),
            repositories=(*snapshot.repositories, *added),
            collisions=(*snapshot.collisions, *self._collisions((*snapshot.worktrees, *trees))),
            team_events=self._named_events(snapshot, names),
        )

    def _collisions(self, trees: Sequence[Worktree]) -> tuple[Collision, ...]:
        """Return the collisions between machines; computed again only when a branch or the set of changed files has changed."""
        known, self._shared = self._shared, {}
        for tree in trees:
            before = known.get(id(tree))
            self._shared[id(tree)] = before if before is not None and before[0] is tree else (tree, _shares(tree))
        shares = [share for _, share in self._shared.values()]
        if shares != self._collided[0]:
            self._collided = shares, tuple(_collisions(shares))
        return self._collided[1]

    def _named_events(self, snapshot: Snapshot, names: dict[str, str]) -> tuple[RegistryEvent, ...]:
        """The events of other homes by the names that their repositories have here."""
        inputs = (snapshot.team_events, names, snapshot.repositories)
        if self._events[0] != inputs:
            found = [(one, names.get(one.repo or "", one.repo or "")) for one in snapshot.team_events]
            named = [replace(one, repo=name or None) for one, name in found if self._is_shown(snapshot, name)]
            self._events = (inputs, tuple(named))
        return self._events[1]

    def _rows_of(self, home: HomeState, snapshot: Snapshot, names: dict[str, str]) -> _NamedRows:
        """The rows of a home by the names here; those of a home that did not change are the same."""
        known = self._homes.get(home.id)
        inputs = (names, snapshot.repositories)
        if known is not None and known.home is home and known.inputs == inputs:
            return known
        before = known.made if known is not None else {}
        made: dict[int, tuple[_Row, str, _Row]] = {}
        rows: tuple[_Row, ...] = (*home.worktrees, *home.agents)
        for row in rows:
            name = names[row.key.repo] if row.key is not None else ""
            if self._is_shown(snapshot, name):
                one = before.get(id(row))
                if one is None or one[0] is not row or one[1] != name:
                    one = row, name, _located(row, name)
                made[id(row)] = one
        return _NamedRows(home, inputs, made)

    def _is_shown(self, snapshot: Snapshot, name: str) -> bool:
        return self._every_repository or name in snapshot.repositories


def home_of_agent(homes: Iterable[HomeState], agent: Agent) -> HomeState | None:
    """The other home that an agent works in; None for an agent of this one."""
    ident = agent.id.partition(":")[0]  # in front of the ids of another home's agents
    return next((home for home in homes if home.id == ident and not home.own), None)


def _names(snapshot: Snapshot, homes: Sequence[HomeState]) -> dict[str, str]:
    """Return what each repository is called here, by its identity."""
    identities = {tree.key.repo for home in homes for tree in home.worktrees}
    identities |= {agent.key.repo for home in homes for agent in home.agents if agent.key is not None}
    identities |= {one.repo for one in snapshot.team_events if one.repo is not None}
    names = {identity: name for name, identity in snapshot.identities if identity in identities}
    taken = [*names.values(), *snapshot.repositories]
    rest = identities - names.keys()
    short = {identity: identity.rpartition("/")[2] for identity in rest}
    for identity, name in short.items():
        alone = name not in taken and list(short.values()).count(name) == 1
        names[identity] = name if alone else identity
    return names


def _located(row: _Row, name: str) -> _Row:
    """A worktree or agent under the repository's name here."""
    if row.key is None:
        return row
    key = Key(row.key.host, name, row.key.worktree)
    if isinstance(row, Agent):
        return replace(row, key=key)
    claim = row.claim
    return replace(row, key=key, claim=claim and replace(claim, key=key))


def _shares(tree: Worktree) -> Shares:
    """What of a worktree may collide: its key, its branch unless it is the main one, the paths of its changed files."""
    paths = tuple(one.path for one in tree.git.files if one.path) if tree.git else ()
    return tree.key, (tree.branch or "") if not tree.is_main else "", paths


def _collisions(shares: Iterable[Shares]) -> Iterator[Collision]:
    """Pairs on different machines, each once; whether a merge conflicts cannot be tried from here."""
    branches: dict[tuple[str, str], list[Key]] = {}
    files: dict[tuple[str, str], list[Key]] = {}
    for key, branch, paths in shares:
        if branch:
            branches.setdefault((key.repo, branch), []).append(key)
        for path in paths:
            files.setdefault((key.repo, path), []).append(key)
    same = {pair: branch for (_, branch), keys in branches.items() for pair in _pairs(keys)}
    shared: dict[tuple[Key, Key], list[str]] = {}
    for (_, path), keys in files.items():
        for pair in _pairs(keys):
            shared.setdefault(pair, []).append(path)
    for pair in sorted({*same, *shared}):
        yield Collision(*pair, tuple(sorted(shared.get(pair, ()))), None, branch=same.get(pair))


def _pairs(keys: Sequence[Key]) -> Iterable[tuple[Key, Key]]:
    """The pairs on different machines, the first keys first: those of this home."""
    if len(keys) < 2:
        return ()
    found = ((left, right) for at, left in enumerate(keys) for right in keys[at + 1 :] if left.host != right.host)
    return islice(found, MOST_PAIRS)
