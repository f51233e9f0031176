"""`imi uninstall`: takes imi's hooks and tools out of all agents' settings, and names what else of imi is on the machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from imi_monitor import paths
from imi_monitor.actions.action import Action, Option, Outcome
from imi_monitor.actions.hooks import (
    agent_hooks,
    hooks_action,
    settings_actions,
    settings_changes,
    settings_installation,
)
from imi_monitor.actions.hooks.hook_installation import HookInstallation
from imi_monitor.actions.mcp import mcp_action
from imi_monitor.actions.setup import layout_action
from imi_monitor.git import layout
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe
from imi_monitor.store import history_file, trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.hooks.agent_hooks import AgentHooks

_STARTUP_FILES = (".zshrc", ".zprofile", ".zshenv", ".bashrc", ".bash_profile", ".profile")
_SHELL_LINE = re.compile(r"\bimi\s+(?:shell-init|completion)\b")
_UNIT_LINE = re.compile(r"(?m)^Exec\w+\s*=.*\bimi(?:\s|$)")
_UNIT_KINDS = (".service", ".timer", ".socket", ".path")


class UninstallAction(Action):
    words = ("uninstall",)
    group = "Setup"
    label = "Uninstall"
    help = "remove imi's hooks and tools from all agents' settings, and list what else of imi is here"
    more = """
    Settings files are restored byte for byte; your later changes stay. Lines in your shell's startup files
    and units of systemd are named, for you to remove. The registry, the trash with your removed worktrees, and the
    configuration stay, and their places are printed. The program itself goes as it came, such as by `pipx uninstall`.
    """
    options = (Option("dry-run", "only show what would change", aliases=("n",)),)
    recovers = False  # it must work with a broken registry

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        results: list[dict[str, object]] = []
        problems: list[str] = []
        for agent, path in _settings_files(context):
            try:
                results += settings_actions.remove(hooks_action.HOOKS, [HookInstallation(agent, path)], request)
            except ImiError as error:
                problems.append(f"{agent.cli}: {error.sentence}")
        for setting in mcp_action.TOOLS.recorded():
            try:
                results += settings_actions.remove(mcp_action.TOOLS, [setting], request)
            except ImiError as error:
                problems.append(f"{setting.cli}: {error.sentence}")
        changed = [result for result in results if result["changed"]]
        lines = list(settings_changes.outcome(changed, []).lines) or ["no agent has imi's hooks or tools"]
        shell, units = list(_shell_lines()), list(_units())
        lines += [f"remove by hand: {safe(path)}:{number}: {safe(text)}" for path, number, text in shell]
        lines += [f"remove by hand: {safe(path)} (`systemctl --user disable --now {name}`)" for path, name in units]
        kept, unknown = _kept(context)
        lines += [f"kept: {what} {safe(path, 4096)}" for what, path in kept]
        data: dict[str, object] = {
            "results": results,
            "shell_lines": [{"path": path, "line": number, "text": text} for path, number, text in shell],
            "units": [path for path, _ in units],
            "kept": [{"what": what, "path": path} for what, path in kept],
            "problems": problems,
        }
        return Outcome(lines, data, warnings=[*problems, *unknown], exit_status=1 if problems else 0)


ACTIONS = (UninstallAction(),)


def _settings_files(context: Context) -> list[tuple[AgentHooks, str]]:
    """The agents' own settings files, those of the worktree around the caller, and all that imi has recorded."""
    found: dict[tuple[str, str], tuple[AgentHooks, str]] = {}
    agents = {agent.cli: agent for agent in agent_hooks.AGENT_HOOKS}
    for agent in agents.values():
        for path in _own_files(agent, _worktree(context)):
            found[agent.cli, os.path.realpath(path)] = agent, path
    for cli, path in settings_installation.recorded_files(settings_installation.HOOKS):
        if cli in agents:
            found.setdefault((cli, path), (agents[cli], path))
    return list(found.values())


def _worktree(context: Context) -> str | None:
    try:
        place = layout.discover(context.cwd)
    except ImiError:
        return None
    return place.path if place else None


def _own_files(agent: AgentHooks, root: str | None) -> Iterator[str]:
    yield agent.file(agent_hooks.USER, None, False)
    for shared in (False, True):
        try:
            yield agent.file(agent_hooks.PROJECT, root, shared)
        except ImiError:
            continue  # the program has no such file, or there is no worktree


def _shell_lines() -> Iterator[tuple[str, int, str]]:
    """File, number and text of the lines that call imi in the startup files of the shells."""
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(paths.home(), ".config")
    zsh = os.environ.get("ZDOTDIR") or paths.home()
    files = [os.path.join(zsh if name.startswith(".z") else paths.home(), name) for name in _STARTUP_FILES]
    fish = os.path.join(config, "fish")
    files += [os.path.join(fish, "config.fish"), *_files_in(os.path.join(fish, "conf.d"), (".fish",))]
    files += _files_in(os.path.join(fish, "completions"), (".fish",))
    for path in files:
        for number, text in enumerate(_text(path).splitlines(), 1):
            if _SHELL_LINE.search(text):
                yield path, number, text.strip()


def _units() -> Iterator[tuple[str, str]]:
    """Path and name of the user's systemd units that run imi."""
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(paths.home(), ".config")
    for path in _files_in(os.path.join(config, "systemd", "user"), _UNIT_KINDS):
        if os.path.basename(path).startswith("imi") or _UNIT_LINE.search(_text(path)):
            yield path, os.path.basename(path)


def _files_in(folder: str, endings: tuple[str, ...]) -> list[str]:
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(endings))
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def _kept(context: Context) -> tuple[list[tuple[str, str]], list[str]]:
    """Return what stays and where, and why the trash is unknown."""
    places = [("configuration", paths.config_file()), ("logs and hook events", paths.state_dir())]
    places += [("archive", history_file.history_path(context.database))]
    places += [("layout", layout_action.installed_path(name)) for name in layout_action.LAYOUTS]
    kept = [(what, path) for what, path in places if os.path.lexists(path)]
    if not os.path.lexists(context.database):
        return kept, []
    kept.insert(0, ("registry", context.database))
    try:
        entries = trash.list_kept(context.connection, what="all")
    except ImiError as error:
        return kept, [f"the places of removed worktrees are unknown: {error.sentence}"]
    return [
        *kept,
        *(("replaced files" if entry.of_files else f"removed {entry.kind}", entry.trash_path) for entry in entries),
    ], []
