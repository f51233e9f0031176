"""`imi read` marks parts of a worktree's diff as read, `imi unread` counts what is left, over all worktrees."""

from __future__ import annotations

import re

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import ALL_REPOSITORIES, Action, Argument, Option, Outcome
from imi_monitor.actions.files import review_diff
from imi_monitor.actions.files.stage_action import paths_of
from imi_monitor.actions.status.status_action import selected_repositories
from imi_monitor.fast import thread_map
from imi_monitor.git import layout, worktree_review
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.review_progress import storable
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, read_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.files.review_diff import ReviewPlace
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.worktree_review import WorktreeReview
    from imi_monitor.model.review_progress import ReadPart


_PART = re.compile(r"(?:file )?[0-9a-f]{16}(?:\.\d+)?|mode [0-7]{6} [0-7]{6}")


class ReadAction(Action):
    words = ("read",)
    group = "Changes"
    label = "Mark as read"
    in_menus = True
    requires = ("folder",)
    dialog_options = ("path",)
    help = "count changed files of a worktree, or one hunk, as read"
    more = """A hunk counts as read by its content: one whose lines change later is unread again, one that comes back is read,
    and neither a rebase nor a new name of the file changes that. `imi unread` counts what is left."""
    examples = (
        ("imi read feat-user-auth src/api.py", "you have looked at all of this file"),
        ("imi read feat-user-auth .", "you have looked at everything that is there now"),
    )
    arguments = (
        Argument("name", "the worktree, as `imi list` shows it"),
        Argument("path", "files or folders, from the worktree's top; a dot: all", rest=True),
    )
    options = (
        Option("hunk", "only these hunks of the file: ids of `imi diff --json`, separated by commas", value="ID"),
        Option("undo", "count it as unread again"),
    )

    def run(self, context: Context, request: Request) -> Outcome:
        given = paths_of(request)
        hunk = request.text("hunk")
        wrong = next((part for part in (hunk or "").split(",") if part and not _PART.fullmatch(part)), None)
        if wrong is not None:
            raise UsageError(f"{safe(wrong)!r} is no id of a hunk: `imi diff --json` has them", code="bad-option")
        if not given or (hunk is not None and len(given) != 1):
            raise UsageError(
                "name the files that were read; a dot stands for all of them"
                if not given
                else "--hunk is about one file: name exactly one",
                code="missing",
            )
        target = worktree_lookup.find_worktree(context, str(request.text("name")))
        review = review_diff.read(context, target)
        chosen = [(storable(given[0]), part) for part in hunk.split(",")] if hunk else _parts(review, given)
        _record(context, target, chosen, undo=request.flag("undo"))
        review = review_diff.read(context, target)
        what = count(len(chosen), "hunk") if hunk else count(len({path for path, _ in chosen}), "file")
        verb = "unread again" if request.flag("undo") else "read"
        line = f"{what} of {safe(target.name)} {verb}; {review.progress.words} against the trunk"
        data: dict[str, object] = {"worktree_name": target.name, **review.progress.data()}
        return Outcome([line], data)


class UnreadAction(Action):
    words = ("unread",)
    group = "Changes"
    label = "Unread changes"
    help = "count the hunks that were not read yet, in all worktrees or file by file in one"
    more = "Of each worktree the changes since its branch left the trunk count, committed or not; most unread first."
    arguments = (Argument("name", "the worktree (default: all)", optional=True),)
    options = (ALL_REPOSITORIES,)
    changes = False
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        name = request.text("name")
        if name is not None:
            return _one(context, worktree_lookup.find_worktree(context, name))
        selected, warnings = selected_repositories(context, None, request.flag("all"))
        targets = [
            tree
            for repository in selected
            for tree in worktree_lookup.list_worktrees(context, repository)
            if not tree.missing
        ]
        rows = sorted(read_progress(context, targets), key=lambda row: -int(str(row["unread"] or 0)))
        width = max((len(safe(str(row["worktree_name"]))) for row in rows), default=0)
        lines = [f"{safe(str(row['worktree_name'])):<{width}}  {_words(row)}" for row in rows]
        return Outcome(lines or ["no worktrees"], {"worktrees": rows, "count": len(rows)}, warnings=warnings)


def read_progress(context: Context, targets: list[Target]) -> list[dict[str, object]]:
    """One row for each worktree, in their order; null with the reason where it cannot be counted."""
    work = [(target, _place(context, target), review_diff.kept_parts(context, target)) for target in targets]

    def one(item: tuple[Target, ReviewPlace | ImiError, frozenset[ReadPart]]) -> dict[str, object]:
        target, place, kept = item
        repo = target.repo_name or layout.repository_name(target.repository)
        head: dict[str, object] = {"worktree_name": target.name, "repo": repo}
        try:
            if isinstance(place, ImiError):
                raise place
            review = worktree_review.read_review(place.git, place.trunk, kept)
        except ImiError as error:
            return {**head, "unread": None, "total": None, "partial": None, "problem": error.sentence}
        return {**head, **review.progress.data(), "problem": None}

    return thread_map.map_in_threads(one, work, lambda: None)


def _place(context: Context, target: Target) -> ReviewPlace | ImiError:
    try:
        return review_diff.find_place(context, target)
    except ImiError as error:
        return error


def _words(row: dict[str, object]) -> str:
    if row["problem"] is not None:
        return f"? {row['problem']}"
    if not row["total"]:
        return "nothing to read"
    return f"{row['unread']}/{row['total']}{'+' if row['partial'] else ''} unread"


def _one(context: Context, target: Target) -> Outcome:
    review = review_diff.read(context, target)
    rows: list[dict[str, object]] = [
        {
            "path": one.file.path,
            "unread": one.unread,
            "total": len(one.parts),
            "parts": [{"id": part, "read": part in one.read} for part in one.parts],
        }
        for one in review.files
    ]
    lines = [f"{one.unread:>4}/{len(one.parts):<4} {safe(one.file.path, 1000)}" for one in review.files if one.unread]
    head = f"{safe(target.name)}: {review.progress.words}"
    data: dict[str, object] = {"worktree_name": target.name, "repo": target.repo_name, **review.progress.data()}
    return Outcome([head, *lines], {**data, "files": rows})


def _parts(review: WorktreeReview, given: list[str]) -> list[ReadPart]:
    """All parts of the files that are meant; Refused for one that does not differ."""
    found: list[ReadPart] = []
    for path in given:
        fitting = [one for one in review.files if path in (".", one.file.path) or one.file.path.startswith(f"{path}/")]
        if not fitting:
            raise Refused(f"{safe(path)} has no change to read: see `imi unread`", code="unchanged")
        found += [(storable(one.file.path), part) for one in fitting for part in one.parts]
    return found


def _record(context: Context, target: Target, parts: list[ReadPart], *, undo: bool) -> None:
    def put(connection: sqlite3.Connection) -> None:
        repo_name = context.register(target.repository, connection)
        (read_parts.remove if undo else read_parts.add)(connection, repo_name, target.name, parts)

    db.transact(context.connection, put)


ACTIONS = (ReadAction(), UnreadAction())
