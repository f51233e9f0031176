"""`imi mcp install|status|uninstall`: imi's tools in the settings of agent programs."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.hooks import settings_changes, settings_installation
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.mcp.agent_servers import AgentServers
    from imi_monitor.actions.mcp.server_installation import ServerInstallation

_AGENT = Argument("agent", "claude, codex, gemini or opencode (default: all that were used here)", optional=True)
_SCOPE = Option(
    "scope", "user (all your work, the default) or project (a file that the repository shares)", value="SCOPE"
)
_DRY = Option("dry-run", "only show what would change in which file")


class _McpAction(Action):
    group = "Agents"
    makes_new = True  # its argument names an agent program, not a worktree
    recovers = False  # it needs no registry

    def choices(self, context: Context, name: str) -> list[str]:
        from imi_monitor.actions.mcp import agent_servers

        return list(agent_servers.NAMES) if name == "agent" else []

    def refuse(self, context: Context, request: Request) -> None:
        from imi_monitor.actions.mcp import agent_servers

        agent_servers.named(request.text("agent"))
        if request.text("scope") not in (None, agent_servers.USER, agent_servers.PROJECT):
            raise UsageError(
                f"--scope {safe(request.text('scope') or '', 40)!r} is neither user nor project", code="bad-scope"
            )


class InstallMcpAction(_McpAction):
    words = ("mcp install",)
    label = "Install tools"
    examples = (("imi mcp install claude --dry-run", "show what would change in which file"),)
    help = "offer imi's tools to the agents: claim, overview, release and more"
    more = """
    Adds one server to the program's own settings; nothing else in them changes, and `imi mcp uninstall` restores them byte
    for byte. The program starts `imi mcp` with each session, which ends with it. Agents that `imi start` starts have the
    tools without this.
    """
    arguments = (_AGENT,)
    options = (_SCOPE, _DRY)

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        plans = []  # all files are parsed before the first one changes
        for each in _settings(context, request):
            each.refuse_foreign()
            base = each.content_without()
            plans.append((each, each.state() == settings_installation.INSTALLED, base, *each.content_with(base)))
        results = []
        for each, done, base, after, record in plans:
            if not done and not request.flag("dry-run"):
                each.install(base, after, record)
            message = (
                "has imi's tools already" if done else settings_changes.tense(request, "gets", "has") + " imi's tools"
            )
            results.append(settings_changes.result(each, message, each.data if done else after, request))
        return settings_changes.outcome(results, [])


class UninstallMcpAction(_McpAction):
    words = ("mcp uninstall",)
    label = "Remove tools"
    help = "remove imi's tools from the agents' settings, byte for byte"
    arguments = (_AGENT,)
    options = (_SCOPE, _DRY)

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        return settings_changes.outcome(remove_servers(_settings(context, request), request), [])


class McpStatusAction(_McpAction):
    words = ("mcp status",)
    label = "Tools of agents"
    help = "show which agents have imi's tools in their settings"
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        from imi_monitor.actions.mcp import agent_servers

        place = context.place()
        rows = [
            row
            for program in agent_servers.AGENT_SERVERS
            for scope in (agent_servers.USER, agent_servers.PROJECT)
            if (row := _row(program, scope, place.path if place else None)) is not None
        ]
        shown = [one for one in rows if one["scope"] == agent_servers.USER or one["state"] != settings_installation.NOT]
        lines = [
            f"{one['agent']:<8}  {one['scope']:<7}  {one['state']:<19}  {safe(str(one['path']), 1000)}" for one in shown
        ]
        return Outcome(lines, {"servers": shown, "count": len(shown)})


ACTIONS = (InstallMcpAction(), McpStatusAction(), UninstallMcpAction())


def remove_servers(settings: list[ServerInstallation], request: Request) -> list[dict[str, object]]:
    """Remove imi's server from these files; a dry run only says what would change."""
    plans = []  # all files are parsed before the first one changes
    for each in settings:
        each.refuse_foreign()
        plans.append((each, each.state() != settings_installation.NOT, each.content_without()))
    results = []
    for each, there, after in plans:
        if not request.flag("dry-run"):
            each.uninstall(after) if there else each.forget()  # the server was removed by hand
        message = settings_changes.tense(request, "loses", "has lost") + " imi's tools" if there else "has no imi tools"
        results.append(settings_changes.result(each, message, after if there else each.data, request))
    return results


def recorded_settings() -> list[ServerInstallation]:
    """All settings files in which imi's server is recorded."""
    from imi_monitor.actions.mcp import agent_servers
    from imi_monitor.actions.mcp.server_installation import ServerInstallation

    programs = {one.cli: one for one in agent_servers.AGENT_SERVERS}
    recorded = settings_installation.recorded_files(settings_installation.SERVERS)
    return [ServerInstallation(programs[cli], path) for cli, path in recorded if cli in programs]


def _row(program: AgentServers, scope: str, root: str | None) -> dict[str, object] | None:
    """One settings file; None when the program does not have it. A file that cannot be parsed has the error as its state."""
    from imi_monitor.actions.mcp.server_installation import ServerInstallation

    try:
        path = program.file(scope, root)
    except Refused:
        return None
    try:
        state = ServerInstallation(program, path).state()
    except ImiError as error:
        state = error.sentence
    return {"agent": program.cli, "scope": scope, "state": state, "path": path}


def _settings(context: Context, request: Request) -> list[ServerInstallation]:
    """The settings files that the request names."""
    from imi_monitor.actions.mcp import agent_servers
    from imi_monitor.actions.mcp.server_installation import ServerInstallation

    scope = request.text("scope") or agent_servers.USER
    place = context.place() if scope == agent_servers.PROJECT else None
    found = agent_servers.named(request.text("agent"))
    if not found:
        raise Refused("claude, codex, gemini and opencode were not used here yet: name one of them", code="no-agents")
    return [ServerInstallation(one, one.file(scope, place.path if place else None)) for one in found]
