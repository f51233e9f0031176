"""The own state of each agent program: what it writes in the home folder, and which of it a walled run may change.

Programs obey files of their state folder outside of the wall later: settings, hooks, instructions, plugins, scripts. So the
folder inside of the wall is a new one, in memory. Only the names listed here as kept lead to the real ones; every other name is
a copy or a read-only view, or begins empty, and what is made there ends with the run.
"""

from __future__ import annotations

import os

from imi_monitor.fast.frozen_dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST_ENTRIES = 1000  # of a state folder


@dataclass(frozen=True, slots=True)
class StateFolder:
    """One folder of a program, relative to the home folder, and what its names are inside of a wall.

    `made` are folders of sessions, made if they are missing, as the program itself makes them. `kept` are the real ones, if they
    exist; no program is steered by what stands in them. `private` begin empty: scripts and repositories that a program
    runs, and scratch. What is not named is shown read-only.
    """

    path: str
    made: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()  # files that the program replaces by a rename, which no mount allows


@dataclass(frozen=True, slots=True)
class ProgramState:
    folders: tuple[StateFolder, ...]
    copies: tuple[str, ...] = ()  # files of the home folder, of which the program gets a copy
    variable: str = ""  # names the first folder, if it is set


_CLAUDE = StateFolder(
    ".claude",
    made=("projects",),
    kept=("todos", "tasks", "plans", "file-history", "history.jsonl", ".credentials.json"),
    private=(
        "backups",
        "cache",
        "debug",
        "downloads",
        "ide",
        "jobs",
        "paste-cache",
        "session-env",  # scripts that each command of a session runs
        "sessions",
        "shell-snapshots",  # the same
        "statsig",
        "teams",
        "telemetry",
        "usage-data",
    ),
    copied=(".claude.json", "stats-cache.json"),
)
_CODEX = StateFolder(
    ".codex",
    made=("sessions",),
    kept=("archived_sessions", "history.jsonl", "session_index.jsonl", "auth.json"),
    private=(
        ".tmp",
        "app-server-control",
        "app-server-daemon",
        "cache",
        "log",
        "memories",
        "shell_snapshots",  # scripts that each command of a session runs
        "sqlite",
        "thread-writer-locks",
        "tmp",
        "worktrees",
    ),
    copied=("models_cache.json", "version.json", ".personality_migration"),
)
_GEMINI = StateFolder(
    ".gemini",
    made=("tmp",),
    kept=("oauth_creds.json", "google_accounts.json", "mcp-oauth-tokens.json"),
    private=("history", "antigravity"),  # git repositories of its snapshots, in which it runs git
    copied=("projects.json", "state.json", "installation_id", "user_id"),
)
_OPENCODE = StateFolder(
    ".local/share/opencode",
    made=("storage",),
    private=("log", "repos", "snapshot", "tool-output", "worktree"),
    copied=("auth.json", "mcp-auth.json"),  # it names servers that give settings
)
_COPILOT = StateFolder(
    ".copilot", made=("session-state",), private=("logs", "tmp"), copied=("config.json", "command-history-state.json")
)
STATES = {
    "claude": ProgramState((_CLAUDE,), (".claude.json",), "CLAUDE_CONFIG_DIR"),
    "codex": ProgramState((_CODEX,), variable="CODEX_HOME"),
    "gemini": ProgramState((_GEMINI,)),
    "opencode": ProgramState((_OPENCODE, StateFolder(".local/state/opencode", copied=("kv.json", "model.json")))),
    "copilot": ProgramState((_COPILOT,)),
}
_DATABASE_ENDINGS = (".db", ".sqlite", "-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class StatePlaces:
    """The same on this machine. `folders` are (where the program looks, its real path) and begin empty.

    `kept` (writable) and `fixed` (read-only) are (path in the real folder, what a link there leads to); `copies` are files.
    """

    folders: tuple[tuple[str, str], ...] = ()
    kept: tuple[tuple[str, str], ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()
    copies: tuple[str, ...] = ()


def places(agent: str, env: Mapping[str, str], home: str) -> StatePlaces:
    """Where the program's state is on this machine; its folders of sessions are made if they are missing."""
    state = STATES.get(agent, ProgramState(()))
    given = env.get(state.variable, "") if state.variable else ""
    folders, kept, fixed, copies = [], [], [], [os.path.join(home, name) for name in state.copies]
    for number, one in enumerate(state.folders):
        folder = given if os.path.isabs(given) and not number else os.path.join(home, one.path)
        for name in ("", *one.made):
            os.makedirs(os.path.join(folder, name), mode=0o700, exist_ok=True)
        real = os.path.realpath(folder)
        folders.append((folder, real))
        for name, path in _entries(real):
            if name in one.made or name in one.kept:
                kept.append((path, os.path.realpath(path)))
            elif name in one.copied:
                copies.append(path)
            elif name not in one.private and not name.endswith(_DATABASE_ENDINGS):
                fixed.append((path, os.path.realpath(path)))
    return StatePlaces(tuple(folders), tuple(kept), tuple(fixed), tuple(filter(os.path.isfile, copies)))


def _entries(folder: str) -> Iterator[tuple[str, str]]:
    """Name and path of each file and folder in it; links lead to what they mean."""
    for name in sorted(os.listdir(folder))[:_MOST_ENTRIES]:
        path = os.path.join(folder, name)
        if os.path.isfile(path) or os.path.isdir(path):
            yield name, path
