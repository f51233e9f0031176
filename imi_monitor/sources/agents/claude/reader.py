"""Claude Code: its live registry shows the state of each session, its transcripts what it works on.

`config_folder.py` is one configuration folder, `session.py` one session, `transcript.py` its files, `reducer.py` one
conversation. This module also handles processes that no registry lists.
"""

from __future__ import annotations

import os
from collections.abc import Sequence, Set

from imi_monitor.model.agent import UNKNOWN, WAITING, Evidence
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentProgram, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.claude.config_folder import ConfigFolder
from imi_monitor.sources.agents.claude.live_registry import ClaudePaths, WatchedFolders, config_folders

_CHECK_FOLDERS = 1.0  # seconds between two checks for new configuration folders

PROGRAM = AgentProgram(
    "claude",
    ("/claude/versions/", "/@anthropic-ai/claude-code"),
    # the daemon and its spare processes are no agents: a session in them has a process of its own
    frozenset({"daemon", "bg-pty-host", "bg-spare", "mcp", "update", "install", "doctor", "agents", "config"}),
    home_variables=("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"),
)


def make() -> AgentReader:
    return ClaudeReader()


class ClaudeReader:
    cli = "claude"

    def __init__(self) -> None:
        self.has_more = False
        self._folders: dict[str, ConfigFolder] = {}  # by real path
        self._known: set[str] = set()  # configuration folders that exist, by the names they are looked for
        self._watched: WatchedFolders | None = None
        self._checked_at = 0.0
        self._was_listed: dict[int, str | None] = {}  # pid -> its start; without an entry it is ending, not starting

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        if touched is None or not 0 <= context.now - self._checked_at < _CHECK_FOLDERS:
            self._find_folders(context, again=touched is None)
        if self._watched is None or self._watched.roots != context.roots:
            touched = None
        if touched is None or self._watched is None:
            self._watched = WatchedFolders(context)
        for folder in self._folders.values():
            folder.read(context, self._watched, touched)
        without_session = self._unlisted(context)
        self.has_more = any(folder.has_more for folder in self._folders.values())
        found = [one for folder in self._folders.values() for one in folder.sightings(self._watched)]
        return found + without_session

    def _find_folders(self, context: ReadContext, again: bool) -> None:
        """`again`: also check known folders; a link may point elsewhere by now."""
        self._checked_at = context.now
        for path in config_folders(context):
            if (again or path not in self._known) and os.path.isdir(path):
                self._known.add(path)
                home = os.path.realpath(path)
                self._folders.setdefault(home, ConfigFolder(ClaudePaths(home)))

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        watched = self._watched or WatchedFolders(context)
        return [path for folder in self._folders.values() for path in folder.watch_folders(watched)]

    def _unlisted(self, context: ReadContext) -> list[Sighting]:
        """Processes without a registry entry that no session claims."""
        listed = set().union(*(folder.listed_pids() for folder in self._folders.values()))
        now = fields.at(context.now)
        running = {pid: one.started for one in context.processes_of("claude") for pid in (one.pid, *one.family)}
        self._was_listed = {pid: at for pid, at in running.items() if pid in listed or self._was_listed.get(pid) == at}
        alone = [
            one
            for one in unlisted_processes(context, listed)
            if one.pid not in self._was_listed and not any(folder.adopt(one, now) for folder in self._folders.values())
        ]
        registry = any(folder.registry.exists for folder in self._folders.values())
        return [unlisted_sighting(one, context, registry) for one in alone]


# -- processes without a registry entry -------------------------------------------------------------------------------

_STARTUP = 2.0  # seconds in which a version with a registry lists itself
_HELPERS = frozenset({"bg-pty-host", "bg-spare", "daemon"})
_NO_SESSION = _HELPERS | {  # commands that start no session
    "agents",
    "attach",
    "auth",
    "config",
    "doctor",
    "install",
    "logs",
    "mcp",
    "migrate-installer",
    "plugin",
    "rm",
    "setup-token",
    "stop",
    "update",
    "upgrade",
}
_PRINTS = frozenset({"-p", "--print"})
_INFORMS = frozenset({"-v", "--version", "-h", "--help"})


def unlisted_processes(context: ReadContext, listed: Set[int]) -> list[AgentProcess]:
    """Processes in the worktrees that run a session and have no registry entry."""
    return [
        one
        for one in context.processes_of("claude")
        if one.pid not in listed
        and listed.isdisjoint(one.family)
        and _runs_session(one.argv)
        and context.is_watched(one.cwd)
    ]


def unlisted_sighting(one: AgentProcess, context: ReadContext, registry: bool) -> Sighting:
    """A guess: a version with a registry that is not listed after two seconds shows a dialog at its start (trust,
    settings), during which it writes nothing. `registry`: there is a registry, so this version should be in it."""
    at = fields.at(one.began_at)
    if registry and context.now - one.began_at >= _STARTUP and not _PRINTS & set(one.argv):
        says = f"process {one.pid} runs, but is in no list of Claude's sessions: it may show a dialog"
        evidence = Evidence("process", WAITING, at, says, "a dialog at its start (trust, settings)", standing=True)
    else:
        says = f"process {one.pid} runs, and has written nothing yet"
        evidence = Evidence("process", UNKNOWN, at, says, standing=True)
    alive = context.alive(one.pid, one.started)
    return Sighting("claude", None, one.cwd, one.pid, one.started, alive, evidence=(evidence,))


def _runs_session(argv: tuple[str, ...]) -> bool:
    words = argv[1:]
    if any(word in _INFORMS for word in words):
        return False
    first = next((word for word in words if not word.startswith("-") and not word.endswith((".js", "/claude"))), "")
    return first not in _NO_SESSION and not _HELPERS & set(words[:3])
