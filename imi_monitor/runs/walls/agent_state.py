"""The own state of each agent program: what it writes in the home folder, and which of it decides what it may do."""

from __future__ import annotations

import os

from imi_monitor.fast.frozen_dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ProgramState:
    """Paths relative to the home folder. `fixed` is inside of `folders` and stays read-only: settings, hooks, instructions.

    `copies` are files that the program replaces by a rename, which no mount allows: it gets a copy that ends with it.
    """

    folders: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    variable: str = ""  # names the first folder, if it is set


_CLAUDE = ("settings.json", "settings.local.json", "CLAUDE.md", "commands", "agents", "skills", "plugins", "hooks")
_CODEX = ("config.toml", "hooks.json", "AGENTS.md", "prompts", "rules")
_GEMINI = ("settings.json", "GEMINI.md", "extensions", "commands", "trustedFolders.json")
STATES = {
    "claude": ProgramState((".claude",), _CLAUDE, (".claude.json",), "CLAUDE_CONFIG_DIR"),
    "codex": ProgramState((".codex",), _CODEX, variable="CODEX_HOME"),
    "gemini": ProgramState((".gemini",), _GEMINI),
    "opencode": ProgramState((".local/share/opencode", ".local/state/opencode")),
    "copilot": ProgramState((".copilot",), ("config.json", "mcp-config.json")),
}


@dataclass(frozen=True, slots=True)
class StatePlaces:
    """The same as real paths, which exist."""

    folders: tuple[str, ...]
    fixed: tuple[str, ...]
    copies: tuple[str, ...]


def places(agent: str, env: Mapping[str, str], home: str) -> StatePlaces:
    """Where the program's state is on this machine; its folders are made if they are missing."""
    state = STATES.get(agent, ProgramState(()))
    folders = [os.path.join(home, name) for name in state.folders]
    given = env.get(state.variable, "") if state.variable else ""
    if os.path.isabs(given):
        folders[0] = given
    for folder in folders:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    fixed = [os.path.join(folders[0], name) for name in state.fixed] if folders else []
    copies = [os.path.join(home, name) for name in state.copies]
    return StatePlaces(
        tuple(map(os.path.realpath, folders)),
        tuple(filter(os.path.exists, fixed)),
        tuple(filter(os.path.isfile, copies)),
    )
