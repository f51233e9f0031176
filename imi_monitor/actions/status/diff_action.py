"""`imi diff`: the changes of one worktree. The output is for reading, not a patch for `git apply`."""

from __future__ import annotations

from dataclasses import replace

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.status import worktree_git
from imi_monitor.git import git_diff, turn_start
from imi_monitor.model import diff_identity, diff_text, times
from imi_monitor.model.diff import COUNTS_ONLY, DEFAULT_LIMITS, ONE_FILE_LIMITS, Diff, FileDiff
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.snapshot import Key
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.git_diff import Kind
    from imi_monitor.git.runner import Git
    from imi_monitor.model.agent import Agent
    from imi_monitor.model.agent_names import GivenName
    from imi_monitor.model.diff import DiffLimits

_LATE = 10.0  # seconds after the beginning of a turn, from which on a part of it may be missing
_KINDS: tuple[Kind, ...] = ("staged", "unstaged", "trunk", "turn")


class DiffAction(Action):
    words = ("diff",)
    group = "Status"
    label = "Diff"
    examples = (
        ("imi diff feat-user-auth --trunk", "all that its branch brings"),
        ("imi diff --file src/api.py", "one file in full"),
    )
    help = "show the uncommitted changes of a worktree, or its changes against the trunk"
    more = """
    Without an option: all changes since the last commit, untracked files included.
    Long files are shortened; --file shows one in full. The output is for reading, not for `git apply`.
    """
    arguments = (Argument("name", "the worktree (default: the one around you)", optional=True),)
    options = (
        Option("staged", "only changes in the index", aliases=("s",)),
        Option("unstaged", "only changes outside the index, untracked files included", aliases=("u",)),
        Option("trunk", "commits and uncommitted changes since the branch left the trunk", aliases=("t",)),
        Option("turn", "what changed since the agent's last turn began, committed or not"),
        Option("file", "only this file, up to 100,000 lines", value="PATH", aliases=("f",)),
        Option("stat", "only the names of the files and the number of lines"),
    )
    changes = False
    needs_registry = False

    def refuse(self, context: Context, request: Request) -> None:
        given = [f"--{kind}" for kind in _KINDS if request.flag(kind)]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} exclude each other: give one", code="bad-option")

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        target = worktree_git.named_worktree(context, request)
        kind: Kind = next((kind for kind in _KINDS if request.flag(kind)), "all")
        path = request.text("file")
        stat = request.flag("stat")
        limits = COUNTS_ONLY if stat else DEFAULT_LIMITS if path is None else ONE_FILE_LIMITS
        found = read(context, target, kind, [path] if path is not None else [], limits)
        shown = (
            diff_text.diff_summary(found)
            if stat
            else diff_text.diff_lines(found, f"imi diff {safe(target.name)} --file")
        )
        lines = shown or [f"{safe(path)} is unchanged" if path is not None else "nothing changed"]
        lines = [f"since {found.base}", *lines] if kind == "turn" and not stat else lines
        return Outcome(lines, _data(target, kind, found, stat=stat))


def read(
    context: Context,
    target: Target,
    kind: Kind,
    paths: list[str],
    limits: DiffLimits = DEFAULT_LIMITS,
    on_part: Callable[[Diff], None] | None = None,
    *,
    new_files: bool = True,
    find_turn: bool = True,
) -> Diff:
    """One comparison of one worktree; `on_part` gets the diff so far while git runs.

    Without `find_turn` the last turn is the one that is kept: something follows the agents and keeps each as it begins.
    """
    git = worktree_git.git_in(context, target)
    if kind == "turn":
        if find_turn:
            _find_turn(context, git, target)
        return _of_turn(git, target, paths=paths, limits=limits, new_files=new_files, on_part=on_part)
    trunk = worktree_git.trunk_of(context, target.repository).ref if kind == "trunk" else None
    return git_diff.read_diff(git, kind, trunk=trunk, paths=paths, limits=limits, new_files=new_files, on_part=on_part)


def _of_turn(git: Git, target: Target, **options: Unpack[turn_start.TurnDiffOptions]) -> Diff:
    start = turn_start.read(git.admin_dir)
    if start is None:
        raise Refused(
            f"no turn of an agent is known in {safe(target.name)}: no agent program recorded one there in the last day. "
            "Older ones are known only if a dashboard, `imi watch` or `imi start` ran",
            code="no-turn",
        )
    began, kept = times.parse(start.began_at), times.parse(start.kept_at)
    words = f"{safe(start.name, 40)}'s last turn began, {times.age_of(start.began_at)} ago"
    if start.rebuilt:
        words += ", by its records" if start.has_records else ", by times and commits (~)"
    elif began is not None and kept is not None and (kept - began).total_seconds() > _LATE:
        words = f"imi saw {safe(start.name, 40)}'s last turn, {times.age_of(start.kept_at)} ago"
    return replace(turn_start.read_turn_diff(git, start, **options), base=words)


def _find_turn(context: Context, git: Git, target: Target) -> None:
    """Rebuild the beginning of the last turn from what its agent recorded, if nothing saw it."""
    from imi_monitor import host
    from imi_monitor.runs import found_turns
    from imi_monitor.store import db, given_names

    def names(agents: Sequence[Agent]) -> Mapping[str, GivenName]:
        return db.read(context.connection, given_names.read_names, host.hostname(), agents)

    found_turns.keep_last(git, Key(host.hostname(), context.repo_name(target.repository) or "", target.name), names)


def of_commit(context: Context, target: Target, sha: str, on_part: Callable[[Diff], None] | None = None) -> Diff:
    """The changes of one commit, read in one worktree."""
    return git_diff.read_commit_diff(worktree_git.git_in(context, target), sha, on_part=on_part)


def _data(target: Target, kind: Kind, found: Diff, *, stat: bool) -> dict[str, object]:
    return {
        "repo": target.repo_name,
        "worktree_name": target.name,
        "kind": kind,
        "base": found.base,
        "added": found.added,
        "removed": found.removed,
        "omitted": found.omitted,
        "unfinished": found.unfinished,
        "files": [_file_data(file, stat=stat) for file in found.files],
    }


def _file_data(file: FileDiff, *, stat: bool) -> dict[str, object]:
    fields = {**file.data(), "id": diff_identity.file_id(file)}
    if stat:
        return fields
    ids = diff_identity.hunk_ids(file)
    return {**fields, "hunks": [{"id": one, **hunk.data()} for one, hunk in zip(ids, file.hunks, strict=True)]}


ACTIONS = (DiffAction(),)
