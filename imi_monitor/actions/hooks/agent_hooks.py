"""The hooks of each agent program: their settings file, their events, the handlers, and the script that these call.

Only events of the installed version: an unknown one opens a warning dialog at every start of Claude. The handlers are
synchronous: each costs 3 ms, and keeping their order keeps a question before its answer. Only the one for answers waits, which
Claude runs beside its own dialog, and opencode's plugin without waiting for it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from imi_monitor import paths, programs
from imi_monitor.actions.hooks import settings_file
from imi_monitor.actions.hooks.hook_entries import HookGroup
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe

EVENTS: Final = "imi-hook.sh"  # reports each event
EDITS: Final = "imi-edits.sh"  # answers what an agent should know about the file it is about to edit
ANSWERS: Final = "imi-answer.sh"  # waits for imi's answer to a question, beside the agent's own dialog
SCRIPTS: Final = (EVENTS, EDITS, ANSWERS)
USER: Final = "user"
PROJECT: Final = "project"

# The version of Claude that introduced each event.
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
_CLAUDE_AT_REST: Final = frozenset(
    {"UserPromptSubmit", "Stop", "StopFailure", "SessionEnd"}
)  # no question is open then
_ANSWER_SECONDS: Final = 7 * 86_400
_CLAUDE_TAKES_CONTEXT: Final = (2, 1, 9)  # from a hook before a tool
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
    """One agent program. `note` is printed after the installation."""

    cli = ""
    note = ""

    def home(self) -> str:
        """Return the program's settings folder, which exists once the program was used."""
        raise NotImplementedError

    def file(self, scope: str, root: str | None, shared: bool) -> str:
        """The settings file of a scope; Refused for a scope that the program does not have."""
        raise NotImplementedError

    def groups(self) -> dict[str, list[HookGroup]]:
        """imi's handlers by event, for the installed version; empty for a program with a plugin file instead."""
        return {}

    def untrusted(self, path: str) -> bool:
        """Whether the program ignores the installed hooks because the user has not accepted them."""
        return False


class ClaudeHooks(AgentHooks):
    cli = "claude"

    def home(self) -> str:
        return os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(paths.home(), ".claude")

    def file(self, scope: str, root: str | None, shared: bool) -> str:
        if scope == USER:
            return os.path.join(self.home(), "settings.json")
        return os.path.join(_root(root), ".claude", "settings.json" if shared else "settings.local.json")

    def groups(self) -> dict[str, list[HookGroup]]:
        version = _version("claude")
        known = [name for name, since in _CLAUDE.items() if version is None or version >= since]
        found: dict[str, list[HookGroup]] = {}
        for name in known:
            command = hook_command("claude") + (" rest" if name in _CLAUDE_AT_REST else "")
            handler = {"type": "command", "command": command, "timeout": 5}
            found[name] = [_group(handler, name in _CLAUDE_WITH_MATCHER)]
        if "PermissionRequest" in found:
            waits = {"type": "command", "command": hook_command("claude", ANSWERS), "timeout": _ANSWER_SECONDS}
            found["PermissionRequest"].append(_group(waits, True))
        if version is None or version >= _CLAUDE_TAKES_CONTEXT:
            told = {"type": "command", "command": hook_command("claude", EDITS), "timeout": 5}
            found["PreToolUse"].append(_group(told, "Read|Edit|Write|MultiEdit|NotebookEdit"))
        return found


class CodexHooks(AgentHooks):
    cli = "codex"
    note = "Codex runs hooks only after you accept them: start codex once and accept its review of hooks"

    def home(self) -> str:
        return os.environ.get("CODEX_HOME") or os.path.join(paths.home(), ".codex")

    def file(self, scope: str, root: str | None, shared: bool) -> str:
        if scope == PROJECT:
            raise Refused("Codex reads hooks from its own folder only: leave out --scope project", code="no-such-scope")
        return os.path.join(self.home(), "hooks.json")

    def groups(self) -> dict[str, list[HookGroup]]:
        handler = {"type": "command", "command": hook_command("codex"), "timeout": 3}  # Codex allows at most 3 s
        found = {name: [_group(handler, True)] for name in _CODEX}
        told = {"type": "command", "command": hook_command("codex", EDITS), "timeout": 3}
        found["UserPromptSubmit"].append(_group(told, True))  # its tool hooks take no context
        return found

    def untrusted(self, path: str) -> bool:
        """Codex stores a fingerprint of each accepted handler, keyed by its file."""
        import tomllib

        try:
            with open(os.path.join(self.home(), "config.toml"), "rb") as file:
                state = tomllib.load(file).get("hooks", {}).get("state", {})
        except (OSError, ValueError, AttributeError):
            return True
        names = {path, os.path.realpath(path)}
        accepted = [key for key in state if key.rsplit(":", 3)[0] in names] if isinstance(state, dict) else []
        return len(accepted) < sum(map(len, self.groups().values()))


class GeminiHooks(AgentHooks):
    cli = "gemini"

    def home(self) -> str:
        return os.path.join(paths.home(), ".gemini")

    def file(self, scope: str, root: str | None, shared: bool) -> str:
        if scope == USER:
            return os.path.join(self.home(), "settings.json")
        if not shared:
            raise Refused(
                "Gemini has no private project settings: --shared writes .gemini/settings.json, which the repository shares",
                code="shared",
            )
        return os.path.join(_root(root), ".gemini", "settings.json")

    def groups(self) -> dict[str, list[HookGroup]]:
        handler = {"type": "command", "name": "imi", "command": hook_command("gemini"), "timeout": 5000}  # ms here
        found = {name: [_group(handler, name in ("BeforeTool", "AfterTool"))] for name in _GEMINI}
        told = {"type": "command", "name": "imi-edits", "command": hook_command("gemini", EDITS), "timeout": 5000}
        found["BeforeTool"].append(_group(told, "write_file|replace"))  # it can refuse, and takes no context
        found["AfterTool"].append(_group(told, "read_file|write_file|replace"))
        return found


class OpencodeHooks(AgentHooks):
    cli = "opencode"
    note = "opencode installs its plugin SDK from npm at the first start with a plugin: that needs the network and half a minute"

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
    """The program of that name; without a name all programs that were used here."""
    if name is None:
        return [agent for agent in AGENT_HOOKS if os.path.isdir(agent.home())]
    found = [agent for agent in AGENT_HOOKS if agent.cli == name]
    if not found:
        raise UsageError(f"imi has no hooks for {safe(name, 40)!r}: use one of {', '.join(NAMES)}", code="bad-agent")
    return found


def _group(handler: dict[str, object], matcher: bool | str) -> HookGroup:
    tools = "*" if matcher is True else matcher
    return {"matcher": tools, "hooks": [handler]} if tools else {"hooks": [handler]}


def _root(root: str | None) -> str:
    if root is None:
        raise Refused("you are not in a worktree: cd into one, or use --scope user", code="no-worktree")
    return root


def _version(name: str) -> tuple[int, ...] | None:
    """The program's version; None when it is not installed or prints no version."""
    program = programs.find(name)
    printed = _output_of([program, "--version"]) if program else ""
    numbers = printed.split(" ")[0].strip().split(".") if printed else []
    return (
        tuple(int(part) for part in numbers) if len(numbers) == 3 and all(part.isdigit() for part in numbers) else None
    )


def _output_of(argv: Sequence[str]) -> str:
    import subprocess

    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd="/",
            env=programs.environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


_HERE = os.path.dirname(os.path.abspath(__file__))


def script_path(name: str = EVENTS) -> str:
    return os.path.join(paths.hooks_dir(), name)


def hook_command(cli: str, name: str = EVENTS) -> str:
    """The shell command that runs a script. It does nothing when the script is gone, and works on `noexec` mounts."""
    place = script_path(name)
    if "'" in place or "\\" in place or not place.isprintable():
        raise Refused(
            f"{safe(place)} cannot be quoted in a command: set XDG_STATE_HOME to a path without quotes", code="bad-path"
        )
    return f"test ! -r '{place}' || exec /bin/sh '{place}' {cli}"


def script_source(name: str = EVENTS) -> bytes:
    with open(os.path.join(_HERE, name), "rb") as file:
        return file.read()


def plugin_source() -> bytes:
    """The plugin for opencode, which has plugins instead of hooks."""
    import json

    with open(os.path.join(_HERE, "opencode_plugin.js"), encoding="utf-8") as file:
        text = file.read()
    for mark, name in (("@PROGRAM@", EVENTS), ("@ANSWERS@", ANSWERS)):
        text = text.replace(f'"{mark}"', json.dumps(script_path(name)))
    return text.encode()


def are_scripts_current() -> bool:
    """Whether the installed scripts are those of this version."""
    return all(settings_file.read(script_path(name)) == script_source(name) for name in SCRIPTS)


def install_scripts() -> None:
    """Install the scripts of this version and the spool folder, accessible to this user only."""
    folders = [os.path.join(paths.hooks_dir(), name) for name in ("spool", "asks")]
    for folder in folders:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    for folder in (paths.hooks_dir(), *folders):
        os.chmod(folder, 0o700)
    if not are_scripts_current():
        for name in SCRIPTS:
            settings_file.write(script_path(name), script_source(name), 0o700)


def uninstall_scripts() -> None:
    """Delete the scripts. Events in the spool stay for the agents source."""
    for name in SCRIPTS:
        if os.path.lexists(script_path(name)):
            os.unlink(script_path(name))
