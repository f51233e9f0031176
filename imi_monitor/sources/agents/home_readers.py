"""One reader of a program for each home folder that its running processes use.

A process with another HOME, CLAUDE_CONFIG_DIR or CODEX_HOME than imi's keeps its sessions there. Its environment names the
folder, which is read if it belongs to this user. Sessions and processes of different homes are never paired.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentProgram, AgentReader, ReadContext, Sighting

_MOST_HOMES = 8  # beside imi's own
_MOST_KNOWN = 500  # environments

Home = tuple[tuple[str, str], ...]  # (variable, value)


class HomeReaders:
    """Reads imi's own home, and those of running processes as long as imi runs."""

    def __init__(self, program: AgentProgram, make: Callable[[], AgentReader]) -> None:
        self.cli = program.cli
        self._names = ("HOME", *program.home_variables)
        self._make = make
        self._own = make()
        self._others: dict[Home, AgentReader] = {}
        self._homes: dict[tuple[tuple[str, str], ...], Home] = {}  # by environment: paths are resolved once
        self._grouped_for: tuple[Sequence[AgentProcess], Home] | None = None
        self._grouped: dict[Home, list[AgentProcess]] = {}

    @property
    def has_more(self) -> bool:
        return self._own.has_more or any(one.has_more for one in self._others.values())

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        own = self._own.watch_folders(context)
        if not self._others:
            return own  # the same object while nothing changes
        found = set(own)
        for home, reader in self._others.items():
            found.update(reader.watch_folders(_at_home(context, home, ())))
        return sorted(found)

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        given = {**{name: context.env.get(name, "") for name in self._names}, "HOME": context.home}
        mine = self._home(tuple(given.items()))
        groups: dict[Home, list[AgentProcess]] = {home: [] for home in self._others} | self._groups(context, mine)
        if groups.keys() <= {mine}:
            return self._own.read(context, touched)
        found = list(self._own.read(replace(context, processes=tuple(groups.pop(mine, ()))), touched))
        for home, processes in groups.items():
            new = home not in self._others
            if new and (len(self._others) >= _MOST_HOMES or not _is_ours(home)):
                continue
            reader = self._others.setdefault(home, self._make()) if new else self._others[home]
            found += reader.read(_at_home(context, home, processes), None if new else touched)
        return found

    def _groups(self, context: ReadContext, mine: Home) -> dict[Home, list[AgentProcess]]:
        """The processes by their homes, grouped again after a scan that found others."""
        known = self._grouped_for
        if known is None or known[0] is not context.processes or known[1] != mine:
            self._grouped_for, self._grouped = (context.processes, mine), {}
            for process in context.processes_of(self.cli):
                home = mine if process.environment is None else self._home(process.environment)
                self._grouped.setdefault(home, []).append(process)
        return self._grouped

    def _home(self, environment: tuple[tuple[str, str], ...]) -> Home:
        known = self._homes.get(environment)
        if known is None:
            values = dict(environment)
            given = ((name, values.get(name, "")) for name in self._names)
            known = tuple((name, os.path.realpath(value) if os.path.isabs(value) else value) for name, value in given)
            if len(self._homes) > _MOST_KNOWN:
                self._homes.clear()
            self._homes[environment] = known
        return known


def _at_home(context: ReadContext, home: Home, processes: Sequence[AgentProcess]) -> ReadContext:
    env = {name: value for name, value in home if value}
    return replace(context, home=env.get("HOME") or context.home, env=env, processes=tuple(processes))


def _is_ours(home: Home) -> bool:
    """True if every folder it names belongs to this user."""
    folders = [value for _, value in home if os.path.isabs(value)]
    try:
        return bool(folders) and all(os.stat(one).st_uid == os.getuid() for one in folders if os.path.exists(one))
    except OSError:
        return False
