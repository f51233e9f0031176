"""The verbs that are front ends rather than acts, described like actions: for help, completion and the parser. What they do
is in cli/."""

from __future__ import annotations

from imi_monitor.actions.base import Action, Argument, Option


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


class Demo(Action):
    words = ("demo",)
    label = "Demonstration"
    help = "a throw-away repository with six worktrees and acting agents, to look at; it removes itself"
    more = "Nothing of yours is touched: it has a folder and a registry of its own."
    arguments = (Argument("view", "what shows it: status (for people) or watch (JSON)", optional=True),)
    options = (
        Option("seconds", "end after so many seconds", value="SECONDS", number=True),
        Option("pace", "seconds between an agent's steps", value="SECONDS", number=True),
        Option("once", "one picture, then the end"),
        Option("keep", "leave the folder behind and say where it is"),
    )
    changes = False
    streams = True


FRONTS: tuple[Action, ...] = (Watch(), Demo())
