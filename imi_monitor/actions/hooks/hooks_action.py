"""`imi hooks install|status|uninstall`: hooks through which agents report each step to imi at once."""

from __future__ import annotations

import os
from contextlib import suppress

from imi_monitor import registry_traces
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.hooks import settings_changes
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.hooks.agent_hooks import AgentHooks
    from imi_monitor.actions.hooks.hook_installation import HookInstallation

_AGENT = Argument("agent", "claude, codex, gemini or opencode (default: all that were used here)", optional=True)
_SCOPE = Option("scope", "user (all your work, the default) or project (the worktree around you)", value="SCOPE")
_SHARED = Option(
    "shared", "with --scope project: change the settings that the repository shares, not your private ones"
)
_DRY = Option("dry-run", "only show what would change in which file")


class _HooksAction(Action):
    group = "Agents"
    makes_new = True  # its argument names an agent program, not a worktree
    recovers = False  # it needs no registry

    def choices(self, context: Context, name: str) -> list[str]:
        from imi_monitor.actions.hooks import agent_hooks

        return list(agent_hooks.NAMES) if name == "agent" else []

    def refuse(self, context: Context, request: Request) -> None:
        from imi_monitor.actions.hooks import agent_hooks

        agent_hooks.named(request.text("agent"))
        if request.text("scope") not in (None, agent_hooks.USER, agent_hooks.PROJECT):
            raise UsageError(
                f"--scope {safe(request.text('scope') or '', 40)!r} is neither user nor project", code="bad-scope"
            )


class InstallHooksAction(_HooksAction):
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
    arguments = (_AGENT,)
    options = (_SCOPE, _SHARED, _DRY)

    def consequences(self, context: Context, request: Request) -> list[str]:
        return [f"{setting.path}: {setting.state()}" for setting in _settings(context, request)]

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        from imi_monitor.actions.hooks import agent_hooks, hook_installation, settings_installation

        plans = []  # all files are parsed before the first one changes
        for each in _settings(context, request):
            base = each.content_without()
            plans.append(
                (
                    each,
                    each.state() in (settings_installation.INSTALLED, hook_installation.UNTRUSTED),
                    base,
                    *each.content_with_hooks(base),
                )
            )
        results = []
        for each, done, base, after, record in plans:
            if not request.flag("dry-run"):
                _name_registry(context)
            if not done and not request.flag("dry-run"):
                agent_hooks.install_scripts()
                each.install(base, after, record)
            message = (
                "has imi's hooks already" if done else settings_changes.tense(request, "gets", "has") + " imi's hooks"
            )
            results.append(settings_changes.result(each, message, each.data if done else after, request))
        return settings_changes.outcome(results, [each.note for each in _agents(request) if each.note])


class UninstallHooksAction(_HooksAction):
    words = ("hooks uninstall",)
    label = "Remove hooks"
    help = "remove imi's hooks from the agents' settings, byte for byte"
    arguments = (_AGENT,)
    options = (_SCOPE, _SHARED, _DRY)

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        return settings_changes.outcome(remove_hooks(_settings(context, request), request), [])


class HooksStatusAction(_HooksAction):
    words = ("hooks status", "hooks")
    label = "Hooks"
    help = "show which agents have imi's hooks, and whether they are complete, current and trusted"
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        from imi_monitor.actions.hooks import agent_hooks, settings_installation

        context.open_known_repositories()
        place = context.place()
        rows = [
            _row(agent, scope, place.path if place else None, shared)
            for agent in agent_hooks.AGENT_HOOKS
            for scope, shared in ((agent_hooks.USER, False), (agent_hooks.PROJECT, False), (agent_hooks.PROJECT, True))
        ]
        shown = [
            row
            for row in rows
            if row and (row["scope"] == agent_hooks.USER or row["state"] != settings_installation.NOT)
        ]
        lines = [
            f"{row['agent']:<8}  {row['scope']:<7}  {row['state']:<19}  {safe(str(row['path']), 1000)}"
            for row in shown
            if row
        ]
        return Outcome(lines, {"hooks": shown, "count": len(shown)})


ACTIONS = (InstallHooksAction(), HooksStatusAction(), UninstallHooksAction())


def _name_registry(context: Context) -> None:
    """Note in the hooks' folder which registry the hooks serve: a trace of it, should it vanish."""
    from imi_monitor.store import registry_identity

    if not os.path.exists(context.database) or context.registry_problem is not None:
        return
    ident = registry_identity.registry_id(context.connection)
    if ident is not None:
        registry_traces.write_hooks_note(os.path.realpath(context.database), ident)


def remove_hooks(settings: list[HookInstallation], request: Request) -> list[dict[str, object]]:
    """Remove imi's hooks from these files, and the script with the last ones; a dry run only says what would change."""
    from imi_monitor.actions.hooks import agent_hooks, settings_installation

    # all files are parsed before the first one changes
    plans = [(each, each.state() != settings_installation.NOT, each.content_without()) for each in settings]
    results = []
    for each, there, after in plans:
        if not request.flag("dry-run"):
            each.uninstall(after) if there else each.forget()  # the hooks were removed by hand
        message = settings_changes.tense(request, "loses", "has lost") + " imi's hooks" if there else "has no imi hooks"
        results.append(settings_changes.result(each, message, after if there else each.data, request))
    if not request.flag("dry-run") and not settings_installation.has_records(settings_installation.HOOKS):
        agent_hooks.uninstall_scripts()
        with suppress(FileNotFoundError):
            os.unlink(registry_traces.hooks_note())
    return results


def _row(agent: AgentHooks, scope: str, root: str | None, shared: bool) -> dict[str, object] | None:
    """One settings file; None when the agent does not have it. A file that cannot be parsed has the error as its state."""
    from imi_monitor.actions.hooks.hook_installation import HookInstallation

    if shared and agent.cli not in ("claude", "gemini"):
        return None
    try:
        path = agent.file(scope, root, shared)
    except Refused:
        return None
    try:
        state = HookInstallation(agent, path).state()
    except ImiError as error:
        state = error.sentence
    return {"agent": agent.cli, "scope": scope, "state": state, "path": path}


def _agents(request: Request) -> list[AgentHooks]:
    from imi_monitor.actions.hooks import agent_hooks

    found = agent_hooks.named(request.text("agent"))
    if not found:
        raise Refused("claude, codex, gemini and opencode were not used here yet: name one of them", code="no-agents")
    return found


def _settings(context: Context, request: Request) -> list[HookInstallation]:
    """The settings files that the request names."""
    from imi_monitor.actions.hooks import agent_hooks
    from imi_monitor.actions.hooks.hook_installation import HookInstallation

    context.open_known_repositories()  # to find its events, the agent program is run
    scope = request.text("scope") or agent_hooks.USER
    if request.flag("shared") and scope != agent_hooks.PROJECT:
        raise UsageError("--shared needs --scope project", code="bad-scope")
    place = context.place() if scope == agent_hooks.PROJECT else None
    root = place.path if place else None
    return [HookInstallation(agent, agent.file(scope, root, request.flag("shared"))) for agent in _agents(request)]
