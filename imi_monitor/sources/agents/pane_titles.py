"""What stands in the titles of terminal panes: Codex and Gemini write there that they wait for a person.

tmux is asked for its panes only while an agent runs that could be in one, at a modest pace and for a bounded time; Zellij
only from inside of it. A pane is an agent's by its terminal or its ancestors, never by where its shell stands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from imi_monitor.model import times
from imi_monitor.model.agent import COMPLETED, RUNNING, WAITING, Evidence, SessionFacts
from imi_monitor.mux import tmux
from imi_monitor.mux.pane import Pane
from imi_monitor.mux.zellij import ZellijPanes
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentReader, ReadContext, Sighting

_PACE: Final = {"tmux": 1.5, "zellij": 4.0}  # seconds between two questions; a Zellij client takes longer to start
_SLOWLY: Final = 10.0  # the same where no title tells anything: only who is where is asked
_SERVERS: Final = 5.0  # seconds until somebody may have started a tmux
_SULKS: Final = 30.0  # seconds in which one that gave no answer in time is not asked again
_TALKATIVE: Final = frozenset({"codex", "gemini"})

_CODEX: Final = (
    (re.compile(r"\bAction Required\b"), WAITING),
    (re.compile(r"^[\u2800-\u28ff]"), RUNNING),  # its spinner
)
_GEMINI: Final = (
    (re.compile(r"^\u270b\ufe0f?\s+Action Required\b"), WAITING),
    (re.compile(r"^\u2726\s"), RUNNING),
    (re.compile(r"^\u25c7\s+Ready\b"), COMPLETED),
)


def make() -> AgentReader:
    return PaneTitleReader()


def state_of(cli: str, title: str, cwd: str) -> str | None:
    """What a title says; None: nothing that we understand, which is most of them."""
    title = title.strip()
    for pattern, state in {"codex": _CODEX, "gemini": _GEMINI}.get(cli, ()):
        if pattern.search(title):
            return state
    # Codex at rest shows its folder and nothing else
    return COMPLETED if cli == "codex" and title and title == os.path.basename(cwd.rstrip("/")) else None


@dataclass
class _Asked:
    """What one multiplexer said, and when it may be asked again."""

    panes: tuple[Pane, ...] = ()
    read_at: float = 0.0
    again_at: float = 0.0


class PaneTitleReader:
    cli = "titles"
    has_more = False

    def __init__(self) -> None:
        self._asked: dict[str, _Asked] = {}
        self._since: dict[tuple[str, int], tuple[str, float]] = {}  # (cli, pid) -> state, since when it stands there
        self._slowly = False
        self._servers: list[str] = []
        self._servers_until = 0.0
        self._zellij = ZellijPanes()

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        return ()

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        here = [process for process in context.processes if context.is_watched(process.cwd)]
        self._since = {key: value for key, value in self._since.items() if any(key == _key(one) for one in here)}
        if not here:
            self._asked.clear()
            self._servers_until = 0.0
            return ()
        self._slowly = not any(one.cli in _TALKATIVE for one in here)
        panes = [*self._ask_tmux(context), *self._ask_zellij(context, here)]
        return [sighting for process in here if (sighting := self._sighting(process, here, panes, context)) is not None]

    # -- asking ---------------------------------------------------------------------------------------------------------

    def _ask_tmux(self, context: ReadContext) -> Iterable[tuple[Pane, float]]:
        if context.now >= self._servers_until:
            self._servers, self._servers_until = tmux.server_sockets(context.env), context.now + _SERVERS
        for server in self._servers:
            yield from self._panes(server, "tmux", context.now, partial(tmux.list_panes, server, context.env))

    def _ask_zellij(self, context: ReadContext, here: Sequence[AgentProcess]) -> Iterable[tuple[Pane, float]]:
        if not context.env.get("ZELLIJ_SESSION_NAME"):
            return ()
        return self._panes(
            "zellij",
            "zellij",
            context.now,
            partial(self._zellij.list_panes, context.env, [(one.pid, one.started) for one in here]),
        )

    def _panes(
        self, name: str, kind: str, now: float, ask: Callable[[], Sequence[Pane] | None]
    ) -> Iterable[tuple[Pane, float]]:
        asked = self._asked.setdefault(name, _Asked())
        if now >= asked.again_at:
            found = ask()
            asked.panes, asked.read_at = (() if found is None else tuple(found)), now
            pace = _SLOWLY if self._slowly else _PACE[kind]
            asked.again_at = now + (pace if found is not None else _SULKS)
        return [(pane, asked.read_at) for pane in asked.panes]

    # -- telling --------------------------------------------------------------------------------------------------------

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
        evidence = self._evidence(process, pane, read_at) if alone else None  # of two in one pane, whose title is it?
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

    def _evidence(self, process: AgentProcess, pane: Pane, read_at: float) -> Evidence | None:
        state = state_of(process.cli, pane.title, process.cwd) if process.cli in _TALKATIVE else None
        if state is None:
            self._since.pop(_key(process), None)
            return None
        known = self._since.get(_key(process))
        if known is None or known[0] != state:
            known = self._since[_key(process)] = (state, read_at)
        says = f"the title of {pane.kind} pane {pane.name} says {pane.title.strip()[:120]!r}"
        detail = "an answer (its pane says so)" if state == WAITING else None
        return Evidence("title", state, _stamp(known[1]), says, detail, standing=True, read_at=_stamp(read_at))


def _key(process: AgentProcess) -> tuple[str, int]:
    return process.cli, process.pid


def _is_in(process: AgentProcess, pane: Pane) -> bool:
    if pane.pids:
        return process.pid in pane.pids
    if process.tty and pane.tty and _bare(process.tty) == _bare(pane.tty):
        return True
    return pane.pid is not None and (pane.pid == process.pid or pane.pid in process.ancestors)


def _bare(tty: str) -> str:
    return tty.removeprefix("/dev/")


def _stamp(wall: float) -> str:
    return times.stamp(datetime.fromtimestamp(wall, UTC))
