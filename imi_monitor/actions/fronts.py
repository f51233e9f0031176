"""The verbs that are front ends rather than acts, described like actions: for help, completion and the parser. What they do
is in cli/."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument, Option


class Monitor(Action):
    words = ("monitor",)
    label = "Dashboard"
    help = "the dashboard: worktrees, claims, git and changes, live (plain `imi` does the same)"
    more = """Without REPO: the repository around you, or all registered ones. It needs a terminal; in a pipe use `imi watch`,
    or `imi status` for one picture."""
    arguments = (Argument("repo", "repositories: paths, or names from the registry", rest=True),)
    changes = False


class Watch(Action):
    words = ("watch",)
    label = "Watch"
    help = "stream what changes as one JSON object a line: first the whole picture, then every change"
    more = """Without REPO: the repository around you, or all registered ones. It ends with ctrl-c or when its reader goes
    away. For people: `imi status --watch`."""
    arguments = (Argument("repo", "repositories: paths, or names from the registry", rest=True),)
    options = (
        Option("interval", "at most one batch of changes in so many seconds", value="SECONDS", number=True),
        Option("once", "only the first picture, when every worktree has answered"),
    )
    changes = False
    streams = True


class Agents(Action):
    words = ("agents",)
    label = "Agents"
    help = "which agent works where, what it does this second, and which one waits for an answer"
    more = """Seen by themselves: Claude Code, Codex, Gemini, opencode, Copilot and aider, without anything installed into them
    (`imi hooks install` makes it exact and instant). Without REPO: the repository around you, or all registered ones."""
    arguments = (Argument("repo", "repositories: paths, or names from the registry", rest=True),)
    changes = False


class ExplainAgent(Action):
    words = ("agents explain",)
    label = "Explain an agent"
    help = "why an agent is shown as it is: the evidence that decided, and what was set aside"
    arguments = (Argument("name", "the agent, its worktree, or how its session begins"),)
    changes = False


class Demo(Action):
    words = ("demo",)
    label = "Demonstration"
    help = "a throw-away repository with six worktrees and acting agents, to look at; it removes itself"
    more = "Nothing of yours is touched: it has a folder and a registry of its own."
    arguments = (
        Argument(
            "view", "what shows it: dashboard (usual on a terminal), status (text), or watch (JSON)", optional=True
        ),
    )
    options = (
        Option("seconds", "end after so many seconds", value="SECONDS", number=True),
        Option("pace", "seconds between an agent's steps", value="SECONDS", number=True),
        Option("once", "one picture, then the end"),
        Option("keep", "leave the folder behind and say where it is"),
    )
    changes = False
    streams = True


class ResetTerminal(Action):
    words = ("reset-terminal",)
    label = "Reset the terminal"
    help = "make this terminal usable again after a killed program: echo, cursor, mouse, keys, screen"
    more = "If you cannot see what you type: press ctrl-j, type it blindly, press ctrl-j. Nothing is cleared."
    changes = False
    recovers = False


FRONTS: tuple[Action, ...] = (Monitor(), Watch(), Agents(), ExplainAgent(), Demo(), ResetTerminal())
