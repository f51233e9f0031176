"""States from the titles of terminal panes: Codex and Gemini show there that they wait for a person.

tmux is asked for its panes only while an agent runs that could be in one, rarely and with a timeout; Zellij only from
inside of it. A pane belongs to an agent by its terminal or by its ancestors, never by the folder of its shell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from imi_monitor.model.agent import WAITING, Evidence, SessionFacts
from imi_monitor.mux import tmux
from imi_monitor.mux.pane import Pane
from imi_monitor.mux.zellij import ZellijPanes
from imi_monitor.sources import agents
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentProgram, AgentReader, ReadContext, Sighting

_PAUSE: Final = {"tmux": 1.5, "zellij": 4.0}  # seconds between two lists of panes; a Zellij client starts slowly
_PAUSE_AFTER_START: Final = 0.5  # the same after a program began that shows its state in its title
_PAUSE_WITHOUT_TITLES: Final = 10.0  # the same while no agent shows its state in a title
_FIND_SERVERS: Final = 5.0  # seconds between two searches for tmux servers
_PAUSE_AFTER_FAILURE: Final = 30.0  # seconds


def make() -> AgentReader:
    return PaneTitleReader()


def state_of(program: AgentProgram, title: str, cwd: str, root: str | None = None) -> str | None:
    """The state that a title shows; None for most titles. `root`: the worktree that contains the folder."""
    title = title.strip()
    for pattern, state in program.titles:
        if pattern.search(title):
            return state
    return program.folder_title if title and title in _folder_names(cwd, root) else None


def _folder_names(cwd: str, root: str | None) -> set[str]:
    """The names of the folder and of those above it, up to the worktree: a title may have that of the repository."""
    cwd, top = cwd.rstrip("/"), (root or cwd).rstrip("/")
    below = cwd[len(top) :].split("/") if cwd.startswith(top + "/") else []
    return {os.path.basename(top), os.path.basename(cwd), *below} - {""}


@dataclass
class _PaneList:
    """The panes of one multiplexer."""

    panes: tuple[Pane, ...] = ()
    read_at: float = 0.0
    again_at: float = 0.0


class PaneTitleReader:
    cli = "titles"
    has_more = False

    def __init__(self) -> None:
        self._programs = {one.cli: one for one in agents.known_programs()}
        self._lists: dict[str, _PaneList] = {}
        self._since: dict[tuple[str, int], tuple[str, float]] = {}  # (cli, pid) -> state, since when
        self._any_titles = False  # an agent here shows its state in its title
        self._talkative: set[tuple[str, int]] = set()  # those agents
        self._servers: list[str] = []
        self._find_servers_at = 0.0
        self._zellij = ZellijPanes()

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        return ()

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        here = [process for process in context.processes if context.is_watched(process.cwd)]
        self._since = {key: value for key, value in self._since.items() if any(key == _key(one) for one in here)}
        if not here:
            self._lists.clear()
            self._find_servers_at = 0.0
            return ()
        self._follow_starts(here, context.now)
        panes = [*self._tmux_panes(context), *self._zellij_panes(context, here)]
        return [sighting for process in here if (sighting := self._sighting(process, here, panes, context)) is not None]

    def _follow_starts(self, here: Sequence[AgentProcess], now: float) -> None:
        """List the panes soon after a program began that shows its state in its title, also for the first time."""
        talkative = {_key(one) for one in here if one.cli in self._programs and self._programs[one.cli].titles}
        if talkative - self._talkative:
            for known in self._lists.values():
                if known.again_at < known.read_at + _PAUSE_AFTER_FAILURE:
                    known.again_at = min(known.again_at, known.read_at + _PAUSE_AFTER_START)
            self._find_servers_at = min(self._find_servers_at, now)
        self._talkative, self._any_titles = talkative, bool(talkative)

    # -- panes --------------------------------------------------------------------------------------------------------

    def _tmux_panes(self, context: ReadContext) -> Iterable[tuple[Pane, float]]:
        if not 0 < self._find_servers_at - context.now <= _FIND_SERVERS:
            self._servers, self._find_servers_at = tmux.server_sockets(context.env), context.now + _FIND_SERVERS
        for server in self._servers:
            yield from self._panes(server, "tmux", context.now, partial(tmux.list_panes, server, context.env))

    def _zellij_panes(self, context: ReadContext, here: Sequence[AgentProcess]) -> Iterable[tuple[Pane, float]]:
        if not context.env.get("ZELLIJ_SESSION_NAME"):
            return ()
        return self._panes(
            "zellij",
            "zellij",
            context.now,
            partial(self._zellij.list_panes, context.env, [(one.pid, one.started) for one in here]),
        )

    def _panes(
        self, name: str, kind: str, now: float, list_panes: Callable[[], Sequence[Pane] | None]
    ) -> Iterable[tuple[Pane, float]]:
        known = self._lists.setdefault(name, _PaneList())
        if not known.read_at <= now < known.again_at:  # also after the clock was set back
            found = list_panes()
            known.panes, known.read_at = (() if found is None else tuple(found)), now
            pause = _PAUSE[kind] if self._any_titles else _PAUSE_WITHOUT_TITLES
            known.again_at = now + (pause if found is not None else _PAUSE_AFTER_FAILURE)
        return [(pane, known.read_at) for pane in known.panes]

    # -- sightings ----------------------------------------------------------------------------------------------------

    def _sighting(
        self,
        process: AgentProcess,
        here: Sequence[AgentProcess],
        panes: Sequence[tuple[Pane, float]],
        context: ReadContext,
    ) -> Sighting | None:
        mine = next(((pane, read_at) for pane, read_at in panes if _is_in(process, pane)), None)
        if mine is None:
            return None
        pane, read_at = mine
        facts = SessionFacts(tmux=pane.name) if pane.kind == "tmux" else SessionFacts(zellij=pane.name)
        alone = sum(one.cli == process.cli and _is_in(one, pane) for one in here) == 1
        root = context.root_of_real(process.cwd)
        evidence = (
            self._evidence(process, pane, read_at, root) if alone else None
        )  # with two in one pane, the title may be of either
        return Sighting(
            process.cli,
            None,
            process.cwd,
            process.pid,
            process.started,
            True,
            evidence=(evidence,) if evidence else (),
            facts=facts,
        )

    def _evidence(self, process: AgentProcess, pane: Pane, read_at: float, root: str | None) -> Evidence | None:
        program = self._programs.get(process.cli)
        state = state_of(program, pane.title, process.cwd, root) if program is not None and program.titles else None
        if state is None:
            self._since.pop(_key(process), None)
            return None
        known = self._since.get(_key(process))
        if known is None or known[0] != state:
            known = self._since[_key(process)] = (state, read_at)
        says = f"the title of {pane.kind} pane {pane.name} says {pane.title.strip()[:120]!r}"
        detail = "an answer (its pane says so)" if state == WAITING else None
        return Evidence("title", state, fields.at(known[1]), says, detail, standing=True, read_at=fields.at(read_at))


def _key(process: AgentProcess) -> tuple[str, int]:
    return process.cli, process.pid


def _is_in(process: AgentProcess, pane: Pane) -> bool:
    if pane.pids:
        return process.pid in pane.pids
    if process.tty and pane.tty and _short_tty(process.tty) == _short_tty(pane.tty):
        return True
    return pane.pid is not None and (pane.pid == process.pid or pane.pid in process.ancestors)


def _short_tty(tty: str) -> str:
    return tty.removeprefix("/dev/")
