"""`imi list`, from files and registry alone, and `imi status`, with the git status of each worktree."""

from __future__ import annotations

import os
import sys

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import ALL_REPOSITORIES, Action, Argument, Option, Outcome
from imi_monitor.actions.status import status_reader
from imi_monitor.model import times, worktree_table
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import db, repositories

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.git.layout import Repository
    from imi_monitor.model.worktree_table import ListedWorktree, WorktreeStatus

ALL_HOSTS = Option("all-hosts", "also show the worktrees of the other homes of the team")
_REPO = Argument("repo", "a repository: a path, or a name from the registry", optional=True)
_EMPTY = "no worktrees yet: `imi feat NAME` makes one"
_UNREAD_SECONDS = 0.5  # for counting what changed since the last count; `unread` of the rest is null


def terminal_width() -> int | None:
    """The terminal's width; None without a terminal, so that scripts and pipes get full lines."""
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdecimal() and int(told[:5]) > 0:
        return int(told[:5])
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError, AttributeError):  # no terminal, or no real stdout at all
        return None


def selected_repositories(context: Context, named: str | None, everything: bool) -> tuple[list[Repository], list[str]]:
    """The repositories to show, and warnings about registered ones whose folder is gone."""
    if named is not None:
        return [context.repository(named)], []
    here = None if everything else context.find_repository()
    if here is not None:
        return [here], []
    gone = [
        f"{safe(name)} is registered, but {safe(common_dir)} is gone: `imi repair` finds it if it was moved"
        for name, common_dir in sorted(repositories.list_common_dirs(context.connection).items())
        if not os.path.isdir(common_dir)
    ]
    found = worktree_lookup.known_repositories(context)
    if not found and not gone:
        raise Refused(
            f"{safe(context.cwd)} is not inside a git repository, and none is registered yet: cd into one",
            code="no-repository",
        )
    return found, gone


class ListAction(Action):
    words = ("list", "ls")
    group = "Status"
    label = "List worktrees"
    help = "list the worktrees: name, type, owner, branch, state and path"
    more = (
        "Without REPO: the repository around you, or all registered ones, and the contained workspaces and run folders in use."
        " No git status is read, so it is fast."
    )
    arguments = (_REPO,)
    options = (ALL_REPOSITORIES, ALL_HOSTS)
    changes = False
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        selected, warnings = selected_repositories(context, request.text("repo"), request.flag("all"))
        known = [one for repository in selected for one in status_reader.known_worktrees(context, repository)]
        known += [one.known for one in _of_other_homes(context, request)]
        others = _workspaces(context) if request.text("repo") is None else []
        lines = worktree_table.list_table([*known, *others], terminal_width()) or [_EMPTY]
        data: dict[str, object] = {"worktrees": [one.data() for one in known], "count": len(known)}
        return Outcome(lines, data | {"workspaces": [one.data() for one in others]}, warnings=warnings)


class StatusAction(Action):
    words = ("status",)
    group = "Status"
    label = "Status of all worktrees"
    examples = (
        ("imi status --watch", "keep the table up to date"),
        ("imi status feat-user-auth --json", "one worktree, for a script"),
        ("imi status --line", "one line for the bar of tmux or Zellij"),
    )
    help = "show each worktree's owner, branch, distance to its upstream, changed files and last change"
    more = """
    Staged, Changed, New and Conflicts count files; ? marks a value that could not be read, and Note says why.
    Below 80 columns it is a list instead of a table.
    """
    arguments = (_REPO, Argument("name", "show this worktree only", optional=True))
    options = (
        ALL_REPOSITORIES,
        ALL_HOSTS,
        Option("watch", "repaint the table at every change, until Ctrl-C", aliases=("w",)),
        Option("unread", "count all unread changes for --json, however long it takes (else half a second)"),
        Option("line", "print one short line for a status bar or a prompt, without asking git"),
    )
    changes = False
    needs_registry = False

    def recovers_for(self, request: Request) -> bool:
        return not request.flag("line")  # a bar asks every few seconds

    def refuse(self, context: Context, request: Request) -> None:
        others = [f"--{name}" for name in ("watch", "all", "all-hosts") if request.flag(name)]
        others += ["REPO"] if request.text("repo") is not None else []
        if request.flag("line") and others:
            raise UsageError(
                f"--line and {others[0]} exclude each other: --line is about the folder you are in, or --repo",
                code="bad-option",
            )

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        if request.flag("line"):
            from imi_monitor.actions.status import status_line

            return status_line.status_line(context)
        named, name = _repository_and_worktree(context, request)
        if name is not None:
            one = worktree_lookup.find_worktree(context, name, named)
            selected, warnings, only = [one.repository], list[str](), one.name
        else:
            selected, warnings = selected_repositories(context, named, request.flag("all"))
            only = None
        seconds = float("inf") if request.flag("unread") else _UNREAD_SECONDS if context.prints_json else None
        others = _of_other_homes(context, request)
        return status(context, selected, only, others, warnings=warnings, unread_seconds=seconds)


def _workspaces(context: Context) -> list[ListedWorktree]:
    """The contained workspaces, and the run folders of agents at work; none while the registry cannot be used."""
    if context.registry_problem is not None:
        return []
    from imi_monitor.store import listed_workspaces

    return db.read(context.connection, listed_workspaces.list_workspaces)


def _of_other_homes(context: Context, request: Request) -> list[WorktreeStatus]:
    """The worktrees of the other homes, with --all-hosts."""
    if not request.flag("all-hosts"):
        return []
    from imi_monitor.actions.team import published_homes

    found = published_homes.read_homes(context)
    return [one for home in found if not home.own for one in worktree_table.statuses_of_home(home)]


def status(
    context: Context,
    selected: list[Repository],
    only: str | None = None,
    others: Sequence[WorktreeStatus] = (),
    *,
    warnings: list[str] | None = None,
    unread_seconds: float | None = None,
) -> Outcome:
    """The status of the repositories' worktrees, or of the one called `only`; then those of other homes."""
    for repository in selected:
        context.settings_of(repository)  # refused as a whole, not as an unknown status of each worktree
    statuses = [*status_reader.read_states(context, selected, only, unread_seconds=unread_seconds), *others]
    lines = worktree_table.status_table(statuses, terminal_width(), times.now()) or [_EMPTY]
    failed = sum(one.error is not None for one in statuses)
    rows = _with_intents(context, [one.data() for one in statuses])
    rows = _with_last_commands(context, _with_agents(context, rows))
    data: dict[str, object] = {"worktrees": rows, "count": len(statuses), "failed": failed}
    if context.prints_json:
        data["watched"] = _watched_runs(context) if only is None else None
    return Outcome(lines, data, warnings=warnings)


def _watched_runs(context: Context) -> list[object]:
    """The runs of other programs in watched workspaces, read now."""
    from imi_monitor import paths
    from imi_monitor.config import WATCHED_FOLDERS

    if not os.path.exists(paths.watched_file()) and not any(map(context.settings.texts, WATCHED_FOLDERS)):
        return []
    from imi_monitor.actions.board import watched_rows
    from imi_monitor.model import snapshot_json

    return [snapshot_json.run_data(one) for one in watched_rows.read(context.settings, times.now())]


def _with_intents(context: Context, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The rows of this home with the present intent of each worktree; null without one."""
    from imi_monitor.fast.frozen_dataclass import asdict
    from imi_monitor.store import notes

    found = {key: asdict(intent) for key, intent in db.read(context.connection, notes.list_intents)}
    return [
        {**row, "intent": found.get((str(row["repo"]), str(row["worktree_name"])))} if row["host"] is None else row
        for row in rows
    ]


def _with_agents(context: Context, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The rows with the running agents of each worktree, as recorded; null while nothing records any."""
    from imi_monitor import host
    from imi_monitor.store import live_sessions

    living, recording = db.read(context.connection, live_sessions.list_living, host.hostname(), times.now())
    none: list[object] | None = [] if recording else None
    return [{**row, "agents": living.get((str(row["repo"]), str(row["worktree_name"])), none)} for row in rows]


def _with_last_commands(context: Context, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The rows with how the last program of `imi exec` or `imi command` ended there; null when none is recorded."""
    from imi_monitor.fast import json_reader
    from imi_monitor.store import events

    def read(connection: sqlite3.Connection) -> list[events.Event | None]:
        return [events.find_last_command(connection, str(row["repo"]), str(row["worktree_name"])) for row in rows]

    found = db.read(context.connection, read)
    ends = [{**json_reader.loads(one.data), "ended_at": one.occurred_at} if one is not None else None for one in found]
    return [{**row, "last_command": end} for row, end in zip(rows, ends, strict=True)]


def _repository_and_worktree(context: Context, request: Request) -> tuple[str | None, str | None]:
    """(repository, worktree). A single word names a repository if there is one of that name, else a worktree."""
    named, name = request.text("repo"), request.text("name")
    if named is None or name is not None or _is_repository(context, named):
        return named, name
    return None, named


def _is_repository(context: Context, word: str) -> bool:
    if "/" in word or word in (".", ".."):
        return True  # a path, whether it exists or not: worktree names have no slash
    if word in {row.name for row in repositories.list_repositories(context.connection)}:
        return True
    # inside a repository (or beside its worktrees) a bare word is a worktree, even where a folder has that name
    return context.find_repository() is None and os.path.isdir(os.path.join(context.cwd, word))


ACTIONS = (ListAction(), StatusAction())
