"""`imi workspace watch|unwatch|watched`: workspaces of other programs, shown as sessions and items."""

from __future__ import annotations

import os

from imi_monitor.actions.action import Action, Argument, Outcome
from imi_monitor.actions.board import watched_workspaces
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.board.watched_workspaces import WatchedWorkspace
    from imi_monitor.actions.context import Context

_FOLDER = Argument("folder", "a folder of universal_agent, be-agents-service, Big 3 or Denker")


class WatchWorkspaceAction(Action):
    words = ("workspace watch",)
    group = "Board"
    label = "Watch a workspace"
    help = "show the runs, sessions and items of another program's workspace, without writing there"
    more = """Known: universal_agent (AGENT_RUN_WORKSPACES, runtime_state.db), be-agents-service (.compound-state,
    agent-service.db, logs/running-jobs), Big 3 (agents/*/registry.json) and Denker (workspace_metadata.json). They are in
    `imi sessions --all`, on the board, and in `imi query`; `imi logs SESSION` shows their logs, `imi session show` their
    tool calls and files. A dashboard has a row for each that is at work, or ended within an hour (failed or dead: a day),
    with its files, and `enter` follows its log; `imi status --json` and `imi watch` have them under `watched`. Nothing can
    be done to them there."""
    arguments = (_FOLDER,)

    def run(self, context: Context, request: Request) -> Outcome:
        folder = os.path.realpath(os.path.join(context.cwd, os.path.expanduser(str(request.text("folder")))))
        if not os.path.isdir(folder):
            raise Refused(f"there is no folder {safe(folder, 300)}", code="no-folder")
        if watched_workspaces.kind_of(folder) is None:
            raise Refused(
                f"{safe(folder, 300)} is no workspace that imi knows: it has no AGENT_RUN_WORKSPACES,"
                " .compound-state, agents/*/registry.json or workspace_metadata.json",
                code="unknown",
            )
        known = watched_workspaces.list_watched()
        if folder not in known:
            watched_workspaces.store_watched([*known, folder])
        (found,) = watched_workspaces.refresh(context.connection, [folder])
        return Outcome([_line(found)], _data(found), warnings=[safe(one, 200) for one in found.problems[:5]])


class UnwatchWorkspaceAction(Action):
    words = ("workspace unwatch",)
    group = "Board"
    label = "Stop watching"
    help = "stop reading a workspace of another program; what was recorded stays"
    arguments = (_FOLDER,)

    def run(self, context: Context, request: Request) -> Outcome:
        folder = os.path.realpath(os.path.join(context.cwd, os.path.expanduser(str(request.text("folder")))))
        known = watched_workspaces.list_watched()
        if folder not in known:
            raise Refused(
                f"{safe(folder, 300)} is not watched: `imi workspace watched` lists those", code="not-watched"
            )
        watched_workspaces.store_watched([one for one in known if one != folder])
        return Outcome([f"{safe(folder, 300)} is not watched any more"], {"folder": folder})


class WatchedWorkspacesAction(Action):
    words = ("workspace watched",)
    group = "Board"
    label = "Watched workspaces"
    help = "read the watched workspaces of other programs again and list them"

    def run(self, context: Context, request: Request) -> Outcome:
        configured = watched_workspaces.configured(context.settings)
        found = watched_workspaces.refresh(context.connection, watched_workspaces.list_watched(configured))
        lines = [_line(one) for one in found] or ["no workspace is watched: `imi workspace watch DIR` adds one"]
        problems = [f"{safe(one.folder, 120)}: {safe(each, 200)}" for one in found for each in one.problems[:5]]
        return Outcome(lines, {"workspaces": [_data(one) for one in found]}, warnings=problems)


def _line(found: WatchedWorkspace) -> str:
    parts = [count(len(found.sessions), "session")] if found.sessions else []
    parts += [count(len(found.runs), "run")] if found.runs else []
    return f"{safe(found.folder, 200)}  {found.kind or 'unknown'}  {', '.join(parts) or 'empty'}"


def _data(found: WatchedWorkspace) -> dict[str, object]:
    agents = sum(len(one.agents) for one in found.sessions)
    data: dict[str, object] = {"folder": found.folder, "kind": found.kind, "sessions": len(found.sessions)}
    return {**data, "runs": len(found.runs), "items": agents, "problems": found.problems}


ACTIONS = (WatchWorkspaceAction(), UnwatchWorkspaceAction(), WatchedWorkspacesAction())
