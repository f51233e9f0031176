"""The dashboard's picture of a team: the worktrees and agents of all homes in one snapshot.

A repository has the name that it has here if this home knows it, else the last part of its address. Two worktrees of one
repository on two machines collide when both have the same branch, or changed the same files.
"""

from __future__ import annotations

from itertools import islice
from typing import TypeVar

from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.model.snapshot import Collision, HomeState, Key, Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from imi_monitor.model.agent import Agent
    from imi_monitor.model.snapshot import RegistryEvent, Worktree

T = TypeVar("T")
Shares = tuple[Key, str, tuple[str, ...]]
MOST_PAIRS = 1000  # that one branch or file has: a lock file may be changed in every worktree of a team


class TeamRows:
    """Adds the rows of the other homes to snapshots; a row that did not change stays the same object.

    `every_repository`: whether all repositories are shown, and agents outside of worktrees, or only those of the snapshot.
    """

    def __init__(self, *, every_repository: bool) -> None:
        self._every_repository = every_repository
        self._worktrees: dict[
            int, tuple[Worktree, str, Worktree]
        ] = {}  # by the identity of the row: its name, what it became
        self._agents: dict[int, tuple[Agent, str, Agent]] = {}
        self._shared: dict[int, tuple[Worktree, Shares]] = {}
        self._collided: tuple[list[Shares], tuple[Collision, ...]] = ([], ())  # what they were made of, and they
        self._events: tuple[object, tuple[RegistryEvent, ...]] = (None, ())  # what they were made of, and they

    def merge(self, snapshot: Snapshot) -> Snapshot:
        others = [home for home in snapshot.homes if not home.own]
        if not snapshot.team_events and not any(home.worktrees or home.agents for home in others):
            return snapshot
        names = _names(snapshot, others)
        trees = tuple(self._named_worktrees(snapshot, others, names))
        agents = tuple(self._named_agents(snapshot, others, names))
        self._worktrees = _kept(self._worktrees, [tree for home in others for tree in home.worktrees])
        self._agents = _kept(self._agents, [agent for home in others for agent in home.agents])
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
        """Those between machines; found anew only when a branch or the names of changed files are others."""
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

    def _named_worktrees(
        self, snapshot: Snapshot, homes: Sequence[HomeState], names: dict[str, str]
    ) -> Iterator[Worktree]:
        for home in homes:
            for tree in home.worktrees:
                name = names[tree.key.repo]
                if self._is_shown(snapshot, name):
                    known = self._worktrees.get(id(tree))
                    if known is None or known[0] is not tree or known[1] != name:
                        known = self._worktrees[id(tree)] = tree, name, _renamed(tree, name)
                    yield known[2]

    def _named_agents(self, snapshot: Snapshot, homes: Sequence[HomeState], names: dict[str, str]) -> Iterator[Agent]:
        for home in homes:
            for agent in home.agents:
                name = names.get(agent.key.repo, "") if agent.key else ""
                if self._is_shown(snapshot, name):
                    known = self._agents.get(id(agent))
                    if known is None or known[0] is not agent or known[1] != name:
                        known = self._agents[id(agent)] = agent, name, _relocated(agent, name)
                    yield known[2]

    def _is_shown(self, snapshot: Snapshot, name: str) -> bool:
        return self._every_repository or name in snapshot.repositories


def home_of_agent(homes: Iterable[HomeState], agent: Agent) -> HomeState | None:
    """The other home that an agent works in; None for an agent of this one."""
    ident = agent.id.partition(":")[0]  # in front of the ids of another home's agents
    return next((home for home in homes if home.id == ident and not home.own), None)


def _names(snapshot: Snapshot, homes: Sequence[HomeState]) -> dict[str, str]:
    """What each repository is called here, by its identity."""
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


def _kept(made: dict[int, T], rows: Sequence[object]) -> dict[int, T]:
    """Only what was made of these rows."""
    present = set(map(id, rows))
    return {ident: one for ident, one in made.items() if ident in present}


def _renamed(tree: Worktree, name: str) -> Worktree:
    key = Key(tree.key.host, name, tree.key.worktree)
    return replace(tree, key=key, claim=tree.claim and replace(tree.claim, key=key))


def _relocated(agent: Agent, name: str) -> Agent:
    return replace(agent, key=agent.key and Key(agent.key.host, name, agent.key.worktree))


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
