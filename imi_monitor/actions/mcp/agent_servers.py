"""Where each agent program lists its servers of the Model Context Protocol, and what imi's entry looks like there."""

from __future__ import annotations

import os
import sys

from imi_monitor import programs
from imi_monitor.actions.hooks.agent_hooks import AGENT_HOOKS, PROJECT, USER, AgentHooks
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe

NAME = "imi"  # of the server, in every program

_JSON_SECTIONS = {"claude": "mcpServers", "gemini": "mcpServers", "opencode": "mcp"}
_USER_FILES = {"claude": ".claude.json", "codex": "config.toml", "gemini": "settings.json", "opencode": "opencode.json"}
_PROJECT_FILES = {"claude": ".mcp.json", "gemini": ".gemini/settings.json", "opencode": "opencode.json"}


class AgentServers:
    """The server settings of one program. `section` is the object of the entry; empty for TOML."""

    def __init__(self, agent: AgentHooks) -> None:
        self.cli = agent.cli
        self.section = _JSON_SECTIONS.get(agent.cli, "")
        self._agent = agent

    def home(self) -> str:
        return self._agent.home()

    def file(self, scope: str, root: str | None) -> str:
        """The settings file of a scope; Refused for a scope that the program does not have."""
        if scope == USER:
            return self._user_file()
        if self.cli not in _PROJECT_FILES:
            raise Refused(
                "Codex reads servers from its own folder only: leave out --scope project", code="no-such-scope"
            )
        if root is None:
            raise Refused("you are not in a worktree: cd into one, or use --scope user", code="no-worktree")
        return os.path.join(root, _PROJECT_FILES[self.cli])

    def _user_file(self) -> str:
        home = self.home()
        if self.cli == "claude" and not os.environ.get("CLAUDE_CONFIG_DIR"):
            home = os.path.dirname(home)
        names = [_USER_FILES[self.cli], *(("opencode.jsonc", "config.json") if self.cli == "opencode" else ())]
        there = [name for name in names if os.path.exists(os.path.join(home, name))]
        return os.path.join(home, (there or names)[0])

    def entry(self, command: list[str]) -> dict[str, object]:
        """imi's entry as JSON."""
        if self.cli == "opencode":
            return {"type": "local", "command": command, "enabled": True}
        kind: dict[str, object] = {"type": "stdio"} if self.cli == "claude" else {}
        return {**kind, "command": command[0], "args": command[1:]}


AGENT_SERVERS = tuple(AgentServers(agent) for agent in AGENT_HOOKS)
NAMES = tuple(one.cli for one in AGENT_SERVERS)


def named(name: str | None) -> list[AgentServers]:
    """The program of that name; without a name all programs that were used here."""
    if name is None:
        return [one for one in AGENT_SERVERS if os.path.isdir(one.home())]
    found = [one for one in AGENT_SERVERS if one.cli == name]
    if not found:
        raise UsageError(f"imi has no entry for {safe(name, 40)!r}: use one of {', '.join(NAMES)}", code="bad-agent")
    return found


def server_command() -> list[str]:
    """The command line of the server."""
    program = programs.own_program()
    return [program, "mcp"] if program is not None else [sys.executable, "-m", "imi_monitor", "mcp"]


__all__ = ["AGENT_SERVERS", "NAME", "NAMES", "PROJECT", "USER", "AgentServers", "named", "server_command"]
