"""Agent programs of which only the process is recognised: their state is unknown, and shown as that.

A user adds programs in the configuration, `[agents.programs]`: a name, and the commands or parts of paths that are its agent.
"""

from __future__ import annotations

from imi_monitor import config
from imi_monitor.model.errors import UsageError
from imi_monitor.sources.agents.agent_reader import AgentProgram

# First arguments that start no agent in most programs.
HELPERS = frozenset(
    {
        "mcp",
        "login",
        "logout",
        "auth",
        "update",
        "upgrade",
        "config",
        "configure",
        "completion",
        "completions",
        "doctor",
    }
    | {"help", "version", "models", "extensions", "plugins", "settings", "setup", "whoami", "threads", "usage"}
)

PROGRAMS: tuple[AgentProgram, ...] = (
    AgentProgram("amp", ("/@sourcegraph/amp/", "/@ampcode/cli/"), HELPERS),
    AgentProgram("crush", ("/@charmland/crush/",), HELPERS | {"logs", "dirs", "projects", "schema"}),
    # another program is called goose, too: only these words start the agent
    AgentProgram("goose", ("/block-goose/",), starters=frozenset({"session", "s", "run"})),
    # the editor is called cursor, its agent is not
    AgentProgram("cursor", ("/cursor-agent/versions/",), HELPERS | {"status", "ls"}, commands=("cursor-agent",)),
    AgentProgram("droid", ("/@factory/cli/", "/.factory/bin/droid"), HELPERS | {"daemon"}),
    # the editor is called kiro, its agent is not
    AgentProgram("kiro", (), HELPERS | {"settings", "diagnostic"}, commands=("kiro-cli", "kiro-cli-chat")),
)


def own_programs() -> tuple[AgentProgram, ...]:
    """The programs of the user's configuration; none while it cannot be read, which every command reports."""
    try:
        table = config.load().table("agents.programs")
    except UsageError:
        return ()
    return tuple(_own(name, words.split()) for name, words in table.items())


def _own(name: str, words: list[str]) -> AgentProgram:
    paths = tuple(word for word in words if "/" in word)
    return AgentProgram(name, paths, commands=tuple(word for word in words if "/" not in word))
