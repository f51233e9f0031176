"""`imi update`: bring a worktree's branch up to the trunk, by a merge or a rebase, and back to where it was.

Both are computed before a file changes: a conflict is a refusal, and the branch, its files and its index stay as they are.
"""

from __future__ import annotations

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.claims import claim_options
from imi_monitor.actions.creation import start_point
from imi_monitor.actions.status import worktree_git
from imi_monitor.actions.worktree import merge_action
from imi_monitor.actions.worktree.merge_action import MergePlan
from imi_monitor.fast import json_reader
from imi_monitor.fast.frozen_dataclass import dataclass, replace
from imi_monitor.git import commit_replay, git_merge, publish, refs
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.commit_replay import Replay
    from imi_monitor.git.refs import Trunk
    from imi_monitor.git.runner import Git

REBASE, MERGE, UNDO = "rebase", "merge", "undo"


class UpdateAction(Action):
    words = ("update",)
    group = "Changes"
    label = "Update from the trunk"
    help = "bring a worktree's branch up to the trunk, or refuse and change nothing when they conflict"
    more = """The trunk is the remote's, fetched first unless `git.auto_fetch` is off, else the local one. `git.update` in the
    configuration says whether it is merged (the default) or the branch is rebased on it. All is computed before a file
    changes; uncommitted changes are refused."""
    examples = (
        ("imi update feat-user-auth --rebase", "make its commits again on the trunk"),
        ("imi update feat-user-auth --undo", "undo the last update"),
    )
    arguments = (Argument("name", "the worktree, as `imi list` shows it"),)
    options = (
        Option(REBASE, "rebase the branch onto the trunk", label="Rebase instead of merging"),
        Option(MERGE, "merge the trunk, although git.update is rebase"),
        Option(UNDO, "bring the branch back to where it was before the last update", label="Undo the last update"),
        claim_options.AGENT,
    )
    in_menus = True
    requires = ("folder", "linked")
    dangerous = True
    brings_work = True
    dialog_options = (REBASE, UNDO)

    def consequences(self, context: Context, request: Request) -> list[str]:
        way, update = _way(context, request), _find(context, request)
        if way == UNDO:
            return [f"moves {safe(update.branch)} back to {_last_update(context, update)[0][:10]}"]
        first = [f"fetches {safe(update.short)} first"] if _is_fetched(context, update) else []
        if not update.brought:
            return [*first, _up_to_date(update)]
        commits, trunk = count(update.brought, "commit"), safe(update.short)
        if way == MERGE:
            _merged_tree(update)
            return [*first, f"merges {commits} of {trunk} into {safe(update.branch)}, without conflicts"]
        found = commit_replay.replay(update.git, update.ours, update.theirs, trial=True)
        return [
            *first,
            f"{_replayed(found)} on {trunk}, which brings {commits}, without conflicts",
            *_forced_push(update),
        ]

    def run(self, context: Context, request: Request) -> Outcome:
        way, update = _way(context, request), _find(context, request)
        if way == UNDO:
            return _undo(context, update)
        warnings: list[str] = []
        if _is_fetched(context, update):
            repository = update.target.repository
            warnings = start_point.fetch_branch(context, context.git(repository), repository, update.trunk.branch)
            update = _find(context, request)
        data: dict[str, object] = {"worktree_name": update.target.name, "updated": update.brought > 0, "how": way}
        if not update.brought:
            return Outcome([_up_to_date(update)], {**data, "commits": 0}, warnings=warnings)
        target, branch = update.target, safe(update.branch)
        line = f"updated {branch} with {count(update.brought, 'commit')} of {safe(update.short)}"
        plan = update.plan()
        if way == MERGE:
            plan = replace(plan, fast_forward=update.forward, tree=_merged_tree(update))
        else:
            found = commit_replay.replay(update.git, update.ours, update.theirs)
            plan = replace(plan, branch_sha=found.tip, backwards=True)
            line += f": {_replayed(found)} on it"
        sha = merge_action.merge_plan(context, target, plan, context.register(target.repository))
        undo = f"`imi update {safe(target.name)} --undo` undoes it"
        facts = {"commits": update.brought, "from": update.short, "before": update.ours, "after": sha}
        warnings += _forced_push(update) if way == REBASE else []
        return Outcome([line, undo], {**data, **facts}, warnings=warnings)


@dataclass(frozen=True, slots=True)
class _Update:
    """A worktree whose branch is to be updated: its commit, the trunk's, and how many commits the trunk brings."""

    target: Target
    git: Git
    branch: str
    ours: str
    trunk: Trunk
    brought: int
    forward: bool  # the branch has no commits of its own

    @property
    def theirs(self) -> str:
        return self.trunk.sha or ""

    @property
    def short(self) -> str:
        return (self.trunk.ref or "").removeprefix("refs/heads/").removeprefix("refs/remotes/")

    def plan(self) -> MergePlan:
        """Return the plan of a fast-forward."""
        return MergePlan(
            self.short, self.branch, self.theirs, self.ours, self.brought, True, None, self.target, updates=True
        )


def _way(context: Context, request: Request) -> str:
    given = [name for name in (REBASE, MERGE, UNDO) if request.flag(name)]
    if len(given) > 1:
        raise UsageError(f"--{given[0]} and --{given[1]} exclude each other: give one", code="bad-option")
    return given[0] if given else context.settings.text("git.update")


def _find(context: Context, request: Request) -> _Update:
    target = worktree_lookup.find_worktree(context, str(request.text("name")))
    trunk = worktree_git.trunk_of(context, target.repository)
    branch = merge_action.checked_branch(context, target, trunk.branch, context.agent(request))
    git = worktree_lookup.git_in(context, target)
    ours = refs.branch_sha(git, branch)
    if trunk.sha is None or trunk.ref is None or ours is None:
        raise Refused(f"{safe(target.name)} or the trunk has no commit yet", code="unborn")
    brought = len(refs.commits_only_on(git, trunk.sha, f"refs/heads/{branch}"))
    forward = not refs.commits_only_on(git, f"refs/heads/{branch}", trunk.sha, limit=1)
    return _Update(target, git, branch, ours, trunk, brought, forward)


def _is_fetched(context: Context, update: _Update) -> bool:
    """Whether the trunk is the remote's, and may be fetched."""
    settings = context.settings_of(update.target.repository)
    return (update.trunk.ref or "").startswith("refs/remotes/") and settings.flag("git.auto_fetch")


def _up_to_date(update: _Update) -> str:
    return f"{safe(update.target.name)} has everything the trunk has"


def _replayed(found: Replay) -> str:
    left = f" and leaves {found.left_out} out, whose changes the trunk has" if found.left_out else ""
    return f"makes {count(found.made, 'commit')} again{left}" if found.made or left else "moves the branch"


def _merged_tree(update: _Update) -> str | None:
    """Return the tree of the merge, None for a fast-forward; Refused with the files that conflict."""
    if update.forward:
        return None
    result = git_merge.preview_merge(update.git, update.ours, update.theirs)
    if result.tree is None:
        raise Refused(
            f"the trunk conflicts with {safe(update.branch)} in {count(len(result.conflicts), 'file')}: nothing was "
            f"changed; `git merge {safe(update.short)}` in the worktree lets you resolve them",
            code="conflicts",
            details=[safe(name) for name in result.conflicts[:20]],
            data={"conflicts": list(result.conflicts)},
        )
    return result.tree


def _forced_push(update: _Update) -> list[str]:
    """Say so where the branch was pushed: after a rebase git takes no ordinary push."""
    upstream = publish.upstream_of(update.git, update.branch)
    tracked = f"refs/remotes/{upstream[0]}/{upstream[1]}" if upstream else ""
    pushed = bool(tracked) and refs.resolve(update.git, tracked) is not None and not update.forward
    advice = (
        "was pushed: after a rebase its push has to be forced, which imi never does (`git push --force-with-lease`)"
    )
    return [f"{safe(update.branch)} {advice}"] if pushed else []


def _last_update(context: Context, update: _Update) -> tuple[str, str]:
    """Return where the branch was before its last update, and the update's id."""
    target = update.target
    last = db.read(context.connection, events.find_last_update, target.repo_name or "", target.name)
    data = json_reader.loads(last.data) if last is not None else {}
    before = str(data.get("from") or "")
    if last is None or data.get("to") != update.ours or refs.resolve(update.git, before) is None:
        raise Refused(
            f"the last act on {safe(update.branch)} was no update of imi: nothing to undo", code="nothing-to-undo"
        )
    return before, last.id


def _undo(context: Context, update: _Update) -> Outcome:
    before, _ = _last_update(context, update)
    target = update.target
    plan = replace(update.plan(), branch_sha=before, commits=0, backwards=True, undoes=True)
    merge_action.merge_plan(context, target, plan, context.register(target.repository))
    data: dict[str, object] = {"worktree_name": target.name, "updated": False, "how": UNDO}
    lines = [f"moved {safe(update.branch)} back to {before[:10]}, where it was before its last update"]
    return Outcome(lines, {**data, "before": update.ours, "after": before})


ACTIONS = (UpdateAction(),)
