"""`imi mcp install|status|uninstall`: imi's tools in the settings of agent programs."""

from __future__ import annotations

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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.hooks.settings_installation import SettingsInstallation

_SCOPE = Option(
    "scope", "user (all your work, the default) or project (a file that the repository shares)", value="SCOPE"
)


class ToolsPart(SettingsPart):
    """The server with imi's tools."""

    what, rows = "tools", "servers"

    def programs(self) -> ModuleType:
        from imi_monitor.actions.mcp import agent_servers

        return agent_servers

    def settings(self, context: Context, request: Request) -> Sequence[SettingsInstallation]:
        from imi_monitor.actions.mcp import agent_servers

        scope = request.text("scope") or USER
        place = context.place() if scope == PROJECT else None
        root = place.path if place else None
        found = agent_servers.named(request.text("agent"))
        return [self.installation(one.cli, one.file(scope, root)) for one in found]

    def places(self, context: Context, root: str | None) -> Iterator[tuple[str, str, Callable[[], str]]]:
        from imi_monitor.actions.mcp import agent_servers

        for one in agent_servers.AGENT_SERVERS:
            for scope in (USER, PROJECT):
                yield one.cli, scope, lambda one=one, scope=scope: one.file(scope, root)  # type: ignore[misc]

    def installation(self, agent: str, path: str) -> SettingsInstallation:
        from imi_monitor.actions.mcp import agent_servers
        from imi_monitor.actions.mcp.server_installation import ServerInstallation

        return ServerInstallation(next(one for one in agent_servers.AGENT_SERVERS if one.cli == agent), path)

    def recorded(self) -> list[SettingsInstallation]:
        """All settings files in which imi's server is recorded."""
        from imi_monitor.actions.hooks import settings_installation

        recorded = settings_installation.recorded_files(settings_installation.SERVERS)
        return [self.installation(cli, path) for cli, path in recorded if cli in self.programs().NAMES]


TOOLS = ToolsPart()


class InstallMcpAction(InstallPartAction):
    words = ("mcp install",)
    label = "Install tools"
    examples = (("imi mcp install claude --dry-run", "show what would change in which file"),)
    help = "offer imi's tools to the agents: claim, overview, release and more"
    more = """
    Adds one server to the program's own settings; nothing else in them changes, and `imi mcp uninstall` restores them byte
    for byte. The program starts `imi mcp` with each session, which ends with it. Agents that `imi start` starts have the
    tools without this.
    """
    part = TOOLS
    arguments = (AGENT,)
    options = (_SCOPE, DRY)


class UninstallMcpAction(UninstallPartAction):
    words = ("mcp uninstall",)
    label = "Remove tools"
    help = "remove imi's tools from the agents' settings, byte for byte"
    part = TOOLS
    arguments = (AGENT,)
    options = (_SCOPE, DRY)


class McpStatusAction(PartStatusAction):
    words = ("mcp status",)
    label = "Tools of agents"
    help = "show which agents have imi's tools in their settings"
    part = TOOLS


ACTIONS = (InstallMcpAction(), McpStatusAction(), UninstallMcpAction())
