"""`imi hooks install|status|uninstall`: hooks through which agents report each step to imi at once."""

from __future__ import annotations

import os
from contextlib import suppress

from imi_monitor import registry_traces
from imi_monitor.actions.action import Option
from imi_monitor.actions.hooks.settings_actions import (
    AGENT,
    DRY,
    PROJECT,
    USER,
    InstallPartAction,
    PartStatusAction,
    SettingsPart,
    UninstallPartAction,
)
from imi_monitor.model.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.hooks.settings_installation import SettingsInstallation

_SCOPE = Option("scope", "user (all your work, the default) or project (the worktree around you)", value="SCOPE")
_SHARED = Option(
    "shared", "with --scope project: change the settings that the repository shares, not your private ones"
)
_HAVE_SHARED = ("claude", "gemini")


class HooksPart(SettingsPart):
    """The hooks, with the scripts that they run."""

    what, rows = "hooks", "hooks"

    def programs(self) -> ModuleType:
        from imi_monitor.actions.hooks import agent_hooks

        return agent_hooks

    def settings(self, context: Context, request: Request) -> Sequence[SettingsInstallation]:
        from imi_monitor.actions.hooks import agent_hooks

        context.open_known_repositories()  # to find its events, the agent program is run
        scope = request.text("scope") or USER
        if request.flag("shared") and scope != PROJECT:
            raise UsageError("--shared needs --scope project", code="bad-scope")
        place = context.place() if scope == PROJECT else None
        root = place.path if place else None
        found = agent_hooks.named(request.text("agent"))
        return [self.installation(one.cli, one.file(scope, root, request.flag("shared"))) for one in found]

    def places(self, context: Context, root: str | None) -> Iterator[tuple[str, str, Callable[[], str]]]:
        from imi_monitor.actions.hooks import agent_hooks

        for one in agent_hooks.AGENT_HOOKS:
            for scope, shared in ((USER, False), (PROJECT, False), (PROJECT, True)):
                if not shared or one.cli in _HAVE_SHARED:
                    yield one.cli, scope, lambda one=one, scope=scope, shared=shared: one.file(scope, root, shared)  # type: ignore[misc]

    def installation(self, agent: str, path: str) -> SettingsInstallation:
        from imi_monitor.actions.hooks import agent_hooks
        from imi_monitor.actions.hooks.hook_installation import HookInstallation

        return HookInstallation(next(one for one in agent_hooks.AGENT_HOOKS if one.cli == agent), path)

    def prepare(self, context: Context, *, changes: bool) -> None:
        from imi_monitor.actions.hooks import agent_hooks

        _name_registry(context)
        if changes:
            agent_hooks.install_scripts()

    def clean_up(self) -> None:
        """The scripts go with the last hooks."""
        from imi_monitor.actions.hooks import agent_hooks, settings_installation

        if not settings_installation.has_records(settings_installation.HOOKS):
            agent_hooks.uninstall_scripts()
            with suppress(FileNotFoundError):
                os.unlink(registry_traces.hooks_note())

    def notes(self, request: Request) -> list[str]:
        from imi_monitor.actions.hooks import agent_hooks

        return [one.note for one in agent_hooks.named(request.text("agent")) if one.note]


HOOKS = HooksPart()


class InstallHooksAction(InstallPartAction):
    words = ("hooks install",)
    label = "Install hooks"
    examples = (("imi hooks install claude --dry-run", "show what would change in which file"),)
    help = "add hooks to the agents' settings, so that imi sees each step at once"
    more = """
    imi sees agents without hooks too; hooks make it exact and instant, above all that an agent waits for an answer. A
    hook costs the agent 3 ms, prints nothing, never fails, and works while imi is not running. Claude gets one more, which
    waits beside its dialog for a permission, so that you can answer from imi, too (`W`, `imi answer`). Nothing else in the
    settings changes, and `imi hooks uninstall` restores them. Events are written to imi's own folder only.
    """
    part = HOOKS
    arguments = (AGENT,)
    options = (_SCOPE, _SHARED, DRY)


class UninstallHooksAction(UninstallPartAction):
    words = ("hooks uninstall",)
    label = "Remove hooks"
    help = "remove imi's hooks from the agents' settings, byte for byte"
    part = HOOKS
    arguments = (AGENT,)
    options = (_SCOPE, _SHARED, DRY)


class HooksStatusAction(PartStatusAction):
    words = ("hooks status", "hooks")
    label = "Hooks"
    help = "show which agents have imi's hooks, and whether they are complete, current and trusted"
    part = HOOKS


ACTIONS = (InstallHooksAction(), HooksStatusAction(), UninstallHooksAction())


def _name_registry(context: Context) -> None:
    """Note in the hooks' folder which registry the hooks serve: a trace of it, should it vanish."""
    from imi_monitor.store import registry_identity

    if not os.path.exists(context.database) or context.registry_problem is not None:
        return
    ident = registry_identity.registry_id(context.connection)
    if ident is not None:
        registry_traces.write_hooks_note(os.path.realpath(context.database), ident)
