"""`imi mcp`: imi's actions as tools for agents, over the Model Context Protocol on the standard streams."""

from __future__ import annotations

from imi_monitor.actions.action import Option
from imi_monitor.cli.front_end import FrontEndVerb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Outcome
    from imi_monitor.cli.argument_parser import ParsedCommandLine


class McpVerb(FrontEndVerb):
    words = ("mcp",)
    group = "Agents"
    label = "Tools for agents"
    help = "offer imi to an agent as tools of the Model Context Protocol, on the standard streams"
    more = """
    An agent program starts it and ends it by closing its input; `imi mcp install` puts it into the settings of claude, codex,
    gemini and opencode, and `imi start` passes it to what it starts. The tools are imi's own actions: where_am_i, overview,
    claim, wait, heartbeat, verify, release and more. They act as the agent that the environment names (IMI_AGENT_ID); without
    it the agent names itself in each call. A claim made here ends with the agent's process.
    """
    options = (Option("run", "the run that it belongs to; `imi start` passes it", value="ID"),)

    def show(self, parsed: ParsedCommandLine) -> Outcome | int:
        from imi_monitor.cli import mcp_server

        return mcp_server.serve(parsed.option("db"), parsed.request.text("run"))


ACTIONS = (McpVerb(),)
