"""`imi overview`: who works in which worktree, and which files of yours others have changed and not merged.

What reads worktrees is imported by the call: `imi mcp` describes this tool to each agent, and few call it.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Outcome, Tool
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, live_sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.git.layout import Repository
    from imi_monitor.model.worktree_table import ListedWorktree

_MOST_FILES = 20  # named of one collision


class OverviewAction(Action):
    words = ("overview",)
    group = "Status"
    label = "Overview for an agent"
    help = "show who works where, what is claimed, and which of a worktree's files others have changed"
    more = "For agents: in few lines what the dashboard shows. Collisions are those of NAME; files are compared, not merged."
    arguments = (Argument("name", "the worktree; default: the one around you", optional=True),)
    tools = (Tool("overview"),)
    changes = False
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        mine = _mine(context, request)
        repository = mine[0]
        rows = _rows(context, repository)
        collisions, warnings = _collisions(context, repository, mine[1])
        lines = [_row_line(row, mine[1]) for row in rows] or ["no worktrees yet: `imi feat NAME` makes one"]
        lines += [_collision_line(one) for one in collisions]
        if mine[1] is not None and not collisions and not warnings:
            lines.append(f"no other worktree has changed a file of {safe(mine[1])}")
        data: dict[str, object] = {"worktree_name": mine[1], "worktrees": rows, "collisions": collisions}
        return Outcome(lines, data, warnings=warnings)


def _mine(context: Context, request: Request) -> tuple[Repository, str | None]:
    """The repository, and the worktree that the collisions are about; None outside of a worktree."""
    if request.text("name") is not None:
        found = worktree_lookup.find_worktree(context, str(request.text("name")))
        return found.repository, found.name
    from imi_monitor.actions.status import worktree_git

    try:
        found = worktree_git.named_worktree(context, request)
    except Refused:
        return context.repository(), None
    return found.repository, found.name


def _rows(context: Context, repository: Repository) -> list[dict[str, object]]:
    from imi_monitor.actions.status import status_reader

    living, recording = db.read(context.connection, live_sessions.list_living, host.hostname(), times.now())
    none: list[dict[str, object]] | None = [] if recording else None
    known = [one for one in status_reader.known_worktrees(context, repository) if not one.missing]
    return [_row(one, living.get((one.repo or "", one.worktree_name), none)) for one in known]


def _row(one: ListedWorktree, agents: list[dict[str, object]] | None) -> dict[str, object]:
    listed = one.data()
    row = {name: listed.get(name) for name in ("worktree_name", "branch", "type", "path", "agent_id", "claim_state")}
    row["agents"] = agents
    return row


def _collisions(
    context: Context, repository: Repository, name: str | None
) -> tuple[list[dict[str, object]], list[str]]:
    """The worktrees that changed the same files as this one, without a trial merge."""
    if name is None:
        return [], []
    from imi_monitor.actions.status import collisions_action

    try:
        found = collisions_action.overlaps_of(context, repository, name)
    except ImiError as error:
        return [], [f"the collisions are unknown: {error.sentence}"]
    entries = found.data["collisions"]
    assert isinstance(entries, list)
    pairs = [(one["right"] if one["left"] == name else one["left"], one["files"]) for one in entries]
    return [{"with": other or collisions_action.TRUNK, "files": files} for other, files in pairs], list(found.warnings)


def _row_line(row: dict[str, object], mine: str | None) -> str:
    agents = row["agents"]
    at_work = ", ".join(f"{one['name']} {one['state']}" for one in agents) if isinstance(agents, list) else ""
    state = "" if row["claim_state"] in ("held", "free") else f" ({row['claim_state']})"
    owner = f"claimed by {row['agent_id']}{state}" if row["agent_id"] else f"unclaimed{state}"
    here = " (you are here)" if row["worktree_name"] == mine else ""
    branch = f", branch {row['branch']}" if row["branch"] else ""
    return safe(f"{row['worktree_name']}{here}: {owner}{f', {at_work}' if at_work else ''}{branch}", 400)


def _collision_line(one: dict[str, object]) -> str:
    files = one["files"]
    assert isinstance(files, list)
    shown = ", ".join(safe(name, 120) for name in files[:_MOST_FILES])
    more = f" and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
    from imi_monitor.actions.status import collisions_action

    who = "the trunk" if one["with"] == collisions_action.TRUNK else safe(str(one["with"]))
    return f"{who} also changed {count(len(files), 'file')} of this worktree: {shown}{more}"


ACTIONS = (OverviewAction(),)
