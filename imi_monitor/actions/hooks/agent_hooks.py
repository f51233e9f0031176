"""What each agent wants its hooks to look like: where they are set, which events, in which units.

Only events that the installed version knows: an unknown one opens a warning dialog at every start of Claude. None of our
handlers is asynchronous: one costs 3 ms, and in order a question never comes after its answer.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Final

from imi_monitor import paths
from imi_monitor.actions.hooks import hook_script
from imi_monitor.actions.hooks.hook_entries import HookGroup
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe

USER: Final = "user"
PROJECT: Final = "project"

# Since which version Claude knows an event.
_CLAUDE: Final = {
    "SessionStart": (1, 0, 62),
    "UserPromptSubmit": (1, 0, 54),
    "PreToolUse": (1, 0, 38),
    "PermissionRequest": (2, 0, 45),
    "PostToolUse": (1, 0, 38),
    "PostToolUseFailure": (2, 1, 197),
    "Notification": (1, 0, 38),
    "Stop": (1, 0, 38),
    "StopFailure": (2, 1, 197),
    "SubagentStart": (2, 1, 197),
    "SubagentStop": (1, 0, 41),
    "PreCompact": (1, 0, 48),
    "PostCompact": (2, 1, 197),
    "SessionEnd": (1, 0, 85),
}
_CLAUDE_WITH_MATCHER: Final = frozenset({"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"})
_CODEX: Final = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "SessionEnd",
)
_GEMINI: Final = ("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "Notification", "AfterAgent", "SessionEnd")


class AgentHooks:
    """One agent program. `note` is what a person must know after installing."""

    cli = ""
    note = ""
    shared_only = False  # what it reads in a project is everybody's

    def home(self) -> str:
        """Its folder of settings; there when the agent was ever used."""
        raise NotImplementedError

    def file(self, scope: str, root: str | None, shared: bool) -> str:
        """The settings file that is meant; refuses what does not exist."""
        raise NotImplementedError

    def groups(self) -> dict[str, HookGroup]:
        """Our handlers by event, for the installed version; empty for one that has no settings but a file of ours."""
        return {}

    def untrusted(self, path: str) -> bool:
        """Whether it has our hooks and does not run them, because nobody has looked at them."""
        return False


class ClaudeHooks(AgentHooks):
    cli = "claude"

    def home(self) -> str:
        return os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(paths.home(), ".claude")

    def file(self, scope: str, root: str | None, shared: bool) -> str:
        if scope == USER:
            return os.path.join(self.home(), "settings.json")
        return os.path.join(_root(root), ".claude", "settings.json" if shared else "settings.local.json")

    def groups(self) -> dict[str, HookGroup]:
        version = _version("claude")
        known = [name for name, since in _CLAUDE.items() if version is None or version >= since]
        handler = {"type": "command", "command": hook_script.command("claude"), "timeout": 5}
        return {name: _group(handler, name in _CLAUDE_WITH_MATCHER) for name in known}


class CodexHooks(AgentHooks):
    cli = "codex"
    note = "Codex runs them only after you have looked at them: start codex once and accept its review of hooks"

    def home(self) -> str:
        return os.environ.get("CODEX_HOME") or os.path.join(paths.home(), ".codex")

    def file(self, scope: str, root: str | None, shared: bool) -> str:
        if scope == PROJECT:
            raise Refused("Codex has its hooks in its own folder only: leave out --scope project", code="no-such-scope")
        return os.path.join(self.home(), "hooks.json")

    def groups(self) -> dict[str, HookGroup]:
        handler = {
            "type": "command",
            "command": hook_script.command("codex"),
            "timeout": 3,
        }  # it allows no more at the end
        return {name: _group(handler, True) for name in _CODEX}

    def untrusted(self, path: str) -> bool:
        """It keeps a fingerprint of each handler that a person has accepted, named by its file."""
        import tomllib

        try:
            with open(os.path.join(self.home(), "config.toml"), "rb") as file:
                state = tomllib.load(file).get("hooks", {}).get("state", {})
        except (OSError, ValueError, AttributeError):
            return True
        names = {path, os.path.realpath(path)}
        accepted = [key for key in state if key.rsplit(":", 3)[0] in names] if isinstance(state, dict) else []
        return len(accepted) < len(_CODEX)


class GeminiHooks(AgentHooks):
    cli = "gemini"
    shared_only = True

    def home(self) -> str:
        return os.path.join(paths.home(), ".gemini")

    def file(self, scope: str, root: str | None, shared: bool) -> str:
        if scope == USER:
            return os.path.join(self.home(), "settings.json")
        if not shared:
            raise Refused(
                "Gemini knows no private settings of a project: --shared writes .gemini/settings.json, which others may get",
                code="shared",
            )
        return os.path.join(_root(root), ".gemini", "settings.json")

    def groups(self) -> dict[str, HookGroup]:
        handler = {
            "type": "command",
            "name": "imi",
            "command": hook_script.command("gemini"),
            "timeout": 5000,
        }  # ms here
        return {name: _group(handler, name in ("BeforeTool", "AfterTool")) for name in _GEMINI}


class OpencodeHooks(AgentHooks):
    cli = "opencode"
    note = "opencode installs its plugin SDK from npm when it starts with a plugin: it needs the network, and half a minute once"

    def home(self) -> str:
        base = os.environ.get("XDG_CONFIG_HOME", "")
        return os.path.join(base if os.path.isabs(base) else os.path.join(paths.home(), ".config"), "opencode")

    def file(self, scope: str, root: str | None, shared: bool) -> str:
        base = self.home() if scope == USER else os.path.join(_root(root), ".opencode")
        folder = next((name for name in ("plugin", "plugins") if os.path.isdir(os.path.join(base, name))), "plugin")
        return os.path.join(base, folder, "imi-hooks.js")


AGENT_HOOKS: Final[tuple[AgentHooks, ...]] = (ClaudeHooks(), CodexHooks(), GeminiHooks(), OpencodeHooks())
NAMES: Final = tuple(agent.cli for agent in AGENT_HOOKS)


def named(name: str | None) -> list[AgentHooks]:
    """The one, or all that were ever used here."""
    if name is None:
        return [agent for agent in AGENT_HOOKS if os.path.isdir(agent.home())]
    found = [agent for agent in AGENT_HOOKS if agent.cli == name]
    if not found:
        raise UsageError(f"imi has no hooks for {safe(name, 40)!r}: use one of {', '.join(NAMES)}", code="bad-agent")
    return found


def _group(handler: dict[str, object], matcher: bool) -> HookGroup:
    return {"matcher": "*", "hooks": [handler]} if matcher else {"hooks": [handler]}


def _root(root: str | None) -> str:
    if root is None:
        raise Refused("you are not in a worktree: cd into one, or use --scope user", code="no-worktree")
    return root


def _version(name: str) -> tuple[int, ...] | None:
    """What the program says of itself; None when it is not there, or says nothing that we understand."""
    place = shutil.which(name)
    said = _say([place, "--version"]) if place else ""
    numbers = said.split(" ")[0].strip().split(".") if said else []
    return (
        tuple(int(part) for part in numbers) if len(numbers) == 3 and all(part.isdigit() for part in numbers) else None
    )


def _say(argv: Sequence[str]) -> str:
    import subprocess

    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=10, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
