"""Claude processes that no registry lists: in a dialog at their start (trust, a warning about settings), or too old.

While such a dialog is open nothing is written anywhere, so this is a guess: a version known to list itself, which
still did not after two seconds, shows something that a person must answer.
"""

from __future__ import annotations

from collections.abc import Set
from datetime import UTC, datetime

from imi_monitor.model import times
from imi_monitor.model.agent import UNKNOWN, WAITING, Evidence
from imi_monitor.sources.agents.base import AgentProcess, Sighting, World

_PATIENCE = 2.0
_HELPERS = frozenset({"bg-pty-host", "bg-spare", "daemon"})
_NO_AGENTS = _HELPERS | {  # commands that are no session of their own
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
_ANSWERS = frozenset({"-v", "--version", "-h", "--help"})


def unlisted(world: World, listed: Set[int]) -> list[AgentProcess]:
    """Processes in the worktrees that are sessions, and that no entry names."""
    return [
        one
        for one in world.processes_of("claude")
        if one.pid not in listed and listed.isdisjoint(one.family) and _is_session(one.argv) and world.watched(one.cwd)
    ]


def sighting(one: AgentProcess, world: World, registry: bool) -> Sighting:
    """`registry`: Claude's registry exists here, so that whoever runs should be in it."""
    at = times.stamp(datetime.fromtimestamp(one.began_at, UTC))
    guess = registry and world.now - one.began_at >= _PATIENCE and not _PRINTS & set(one.argv)
    if guess:
        says = f"process {one.pid} runs, but is in no list of Claude's sessions: it may show a dialog"
        told = Evidence("process", WAITING, at, says, "a dialog at its start (trust, settings)", standing=True)
    else:
        says = f"process {one.pid} runs, and has told nothing yet"
        told = Evidence("process", UNKNOWN, at, says, standing=True)
    alive = world.alive(one.pid, one.started)
    return Sighting("claude", None, one.cwd, one.pid, one.started, alive, evidence=(told,))


def _is_session(argv: tuple[str, ...]) -> bool:
    words = argv[1:]
    if any(word in _ANSWERS for word in words):
        return False
    first = next((word for word in words if not word.startswith("-") and not word.endswith((".js", "/claude"))), "")
    return first not in _NO_AGENTS and not _HELPERS & set(words[:3])
