"""`imi collisions`: which worktrees changed the same files, which of them conflict in a merge, and in which lines.

The dashboard's collisions source answers the same continuously, with a cache; here everything is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from imi_monitor.actions import worktree_lookup as targets
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.status import worktree_git
from imi_monitor.git import git_merge
from imi_monitor.model import collision
from imi_monitor.model.collision import Pair, add_trunk_overlaps, find_overlaps
from imi_monitor.model.errors import GitError, ImiError, Refused, UsageError
from imi_monitor.model.snapshot import Key
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.git_merge import MergePreview
    from imi_monitor.git.layout import Repository

TRUNK = "trunk"  # names the trunk where a worktree can be named
_MOST_BYTES = 1 << 20  # of a file in conflict
_MOST_FILES = 50  # files whose hunks are shown
_SIGNS = {collision.OURS: "<", collision.THEIRS: ">", collision.BASE: "|", collision.SAME: " ", collision.CUT: "…"}


@dataclass(frozen=True, slots=True)
class Participant:
    """One worktree: what a trial merge needs of it, and the files that it and the trunk changed since their merge base."""

    side: git_merge.TrialSide
    trunk: str | None
    touched: frozenset[str]
    trunk_side: frozenset[str]


class CollisionsAction(Action):
    words = ("collisions",)
    group = "Status"
    label = "Collisions"
    help = "list worktrees that changed the same files, and whether merging them conflicts"
    more = """
    Counts the commits since the branches left the trunk and uncommitted changes. Merges are tried in a temporary folder;
    nothing is written into the repository. With two names the conflicting lines are shown too.
    """
    arguments = (
        Argument("name", "show the collisions of this worktree only", optional=True),
        Argument("other", f"the other worktree, or `{TRUNK}`: shows the conflicting lines", optional=True),
    )
    options = (Option("overlap", "list overlapping files without trying merges"),)
    changes = False
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        name, other = request.text("name"), request.text("other")
        left = targets.find_worktree(context, name) if name is not None else None
        repository = left.repository if left is not None else context.repository()
        among = _readable(context, repository)
        if left is None or other is None:
            wanted = None if left is None else left.name
            return _all_pairs(context, repository, among, wanted, merges=not request.flag("overlap"))
        right = None if _is_trunk(other, among) else targets.find_worktree(context, other)
        return _one_pair(context, repository, left, right)


def overlaps_of(context: Context, repository: Repository, name: str) -> Outcome:
    """The worktrees that changed the same files as this one; no merge is tried."""
    return _all_pairs(context, repository, _readable(context, repository), name, merges=False)


def _readable(context: Context, repository: Repository) -> list[Target]:
    return [one for one in targets.list_worktrees(context, repository) if one.admin_dir is not None and not one.missing]


def _is_trunk(word: str, among: list[Target]) -> bool:
    return word == TRUNK and not any(one.name == TRUNK for one in among)


def _all_pairs(
    context: Context, repository: Repository, among: list[Target], wanted: str | None, *, merges: bool
) -> Outcome:
    parts: dict[Key, Participant] = {}
    warnings = []
    for one in among:
        context.progress(f"reading {one.name}")
        _stop_if_cancelled(context)
        try:
            parts[_key(one)] = _participant(context, one)
        except ImiError as error:
            warnings.append(f"{safe(one.name)} was left out: {error.sentence}")
    touched = {key: part.touched for key, part in parts.items()}
    pairs = add_trunk_overlaps(find_overlaps(touched), touched, {key: part.trunk_side for key, part in parts.items()})
    if wanted is not None:
        pairs = {pair: files for pair, files in pairs.items() if wanted in [key.worktree for key in pair if key]}
    tried = _try_all(context, repository, pairs, parts, warnings) if merges else {}
    entries = [_entry(pair, files, tried.get(pair)) for pair, files in pairs.items()]
    lines = [_line(entry) for entry in entries] or ["no two worktrees changed the same file"]
    return Outcome(lines, {"collisions": entries, "count": len(entries)}, warnings=warnings)


def _key(one: Target) -> Key:
    return Key("", one.repo_name or "", one.name)


def _participant(context: Context, one: Target) -> Participant:
    from imi_monitor.git.git_status import read_status

    git = context.git(one.repository, one.admin_dir, one.path)
    git.cancelled = context.cancelled
    status = read_status(git)
    trunk = worktree_git.trunk_of(context, one.repository).sha
    if status.oid is None:
        raise GitError("it has no commit yet", code="unborn")
    edits = tuple(
        git_merge.expand_folders(
            one.path, list(dict.fromkeys(chain((e.path for e in status.entries), status.untracked)))
        )
    )
    own, theirs = (
        git_merge.branch_files(git, status.oid, trunk) if trunk and trunk != status.oid else (frozenset(),) * 2
    )
    return Participant(git_merge.TrialSide(git, status.oid, edits), trunk, own | frozenset(edits), theirs)


def _try_all(
    context: Context,
    repository: Repository,
    pairs: Mapping[Pair, tuple[str, ...]],
    parts: Mapping[Key, Participant],
    warnings: list[str],
) -> dict[Pair, tuple[str, ...]]:
    """The conflicting files of each pair, without the pairs that could not be tried."""
    found: dict[Pair, tuple[str, ...]] = {}
    for pair in pairs:
        context.progress(f"trying {_named(pair)}")
        _stop_if_cancelled(context)
        try:
            with git_merge.TrialMerge(repository.common_dir) as made:
                merged, _ = _merge(made, parts[pair[0]], parts[pair[1]] if pair[1] else None)
            found[pair] = merged.conflicts
        except (ImiError, OSError) as error:
            warnings.append(f"{_named(pair)} could not be tried: {safe(str(error))}")
    return found


def _merge(
    made: git_merge.TrialMerge, left: Participant, right: Participant | None
) -> tuple[MergePreview, dict[str, int]]:
    """The trial merge of two worktrees, or of one with the trunk, and the side of each commit in git's messages."""
    one = made.commit(left.side)
    other = left.trunk if right is None else made.commit(right.side)
    if other is None:
        raise GitError("the trunk's commit is not known", code="no-trunk")
    return made.merge(left.side.git, one, other), {one: 0, other: 1}


def _one_pair(context: Context, repository: Repository, left: Target, right: Target | None) -> Outcome:
    if right is not None and right.repository.common_dir != repository.common_dir:
        raise Refused(
            f"{safe(left.name)} and {safe(right.name)} are in different repositories", code="other-repository"
        )
    if right is not None and right.path == left.path:
        raise UsageError(f"{safe(left.name)} cannot collide with itself: name another worktree", code="same-worktree")
    for one in filter(None, (left, right)):
        if one.missing or one.admin_dir is None:
            raise targets.missing_folder(one)
    mine, other = _participant(context, left), _participant(context, right) if right else None
    pair: Pair = (_key(left), _key(right) if right else None)
    files = tuple(sorted(mine.touched & (other.touched if other else mine.trunk_side)))
    with git_merge.TrialMerge(repository.common_dir) as made:
        merged, sides = _merge(made, mine, other)
        shown = [_conflict(made, mine, merged, path) for path in merged.conflicts[:_MOST_FILES]]
    names = [_shown(pair[0]), _shown(pair[1])]
    messages = [_with_names(text, sides, names) for text in merged.messages if text.startswith("CONFLICT")]
    entry = _entry(pair, files, merged.conflicts)
    lines = [
        _line(entry),
        *_hunk_lines(shown, names),
        *(one for one in messages if not one.startswith("CONFLICT (content)")),
    ]
    data: dict[str, object] = {"collisions": [entry], "count": 1, "conflicts": shown, "messages": messages}
    return Outcome(lines, data)


def _conflict(made: git_merge.TrialMerge, mine: Participant, merged: MergePreview, path: str) -> dict[str, object]:
    """The conflicting hunks of one file, or the reason why they cannot be shown."""
    try:
        content = made.content(mine.side.git, merged.marked, path, _MOST_BYTES)
    except GitError as error:
        why = f"larger than {_MOST_BYTES >> 20} MB" if error.code == "git-too-much" else error.sentence
        return {"path": path, "why": why, "hunks": []}
    if content is None:
        return {"path": path, "why": "it is a file on one side only", "hunks": []}
    if b"\0" in content:
        return {"path": path, "why": "binary", "hunks": []}
    found = collision.conflict_hunks(content.decode("utf-8", "surrogateescape"))
    listed = [
        {"at": one.at, "lines": [{"side": line.side, "text": line.text[:2000]} for line in one.lines]} for one in found
    ]
    return {
        "path": path,
        "why": None if found else "one side changed it, the other side moved or deleted it",
        "hunks": listed,
    }


def _entry(pair: Pair, files: tuple[str, ...], conflicts: tuple[str, ...] | None) -> dict[str, object]:
    """One pair for scripts; `right` null is the trunk, `conflicts` null is unknown."""
    return {
        "left": pair[0].worktree,
        "right": pair[1].worktree if pair[1] else None,
        "files": list(files),
        "conflicts": None if conflicts is None else list(conflicts),
    }


def _line(entry: dict[str, object]) -> str:
    files, conflicts = entry["files"], entry["conflicts"]
    assert isinstance(files, list)
    right = "the trunk" if entry["right"] is None else safe(str(entry["right"]))
    pair = f"{safe(str(entry['left']))} and {right}"
    if isinstance(conflicts, list) and conflicts:
        return f"⚡ {pair} conflict in {_files(conflicts)}"
    merge = "not tried" if conflicts is None else "merges cleanly"
    return f"  {pair} both changed {_files(files)} ({merge})" if files else f"  {pair} changed no common file ({merge})"


def _files(files: list[str]) -> str:
    more = f" and {len(files) - 5} more" if len(files) > 5 else ""
    return f"{count(len(files), 'file')}: {', '.join(safe(name, 120) for name in files[:5])}{more}"


def _hunk_lines(shown: list[dict[str, object]], names: list[str]) -> list[str]:
    """The conflicts as text: `<` is the first one's side, `>` the other's."""
    lines = [f"< {names[0]}   > {names[1]}"] if any(one["hunks"] for one in shown) else []
    for one in shown:
        path, found = safe(str(one["path"])), one["hunks"]
        assert isinstance(found, list)
        lines.append(f"{path}: {safe(str(one['why']))}" if one["why"] else f"{path}:")
        for hunk in found:
            lines.append(f"  line {hunk['at']}")
            lines += [f"  {_SIGNS[line['side']]} {safe(line['text'].expandtabs(4))}" for line in hunk["lines"]]
    return lines


def _with_names(text: str, sides: Mapping[str, int], names: list[str]) -> str:
    """A message of git with the names of the worktrees in place of their trial commits."""
    for sha, side in sides.items():
        text = text.replace(sha, names[side])
    return safe(text)


def _named(pair: Pair) -> str:
    return f"{_shown(pair[0])} with {_shown(pair[1])}"


def _shown(key: Key | None) -> str:
    return "the trunk" if key is None else safe(key.worktree)


def _stop_if_cancelled(context: Context) -> None:
    if context.cancelled():
        raise Refused("the search for collisions was cancelled", code="cancelled")


ACTIONS = (CollisionsAction(),)
