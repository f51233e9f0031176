"""`imi remove` and `imi close`: move a worktree into the trash after a verdict; the branch stays unless asked otherwise."""

from __future__ import annotations

import os

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Option, Outcome, Preview
from imi_monitor.actions.claims import claim_options
from imi_monitor.actions.removal import branch_deletion, inspection, safe_removal
from imi_monitor.model import names
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.model.verdict import NEVER, YES_REALLY, Overrides

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removal.branch_deletion import BranchDeletion
    from imi_monitor.actions.removal.inspection import WorktreeInspection
    from imi_monitor.actions.removal.safe_removal import RemovalResult
    from imi_monitor.actions.worktree_lookup import Target

_ARGUMENTS = (
    Argument("name", "the worktree, as `imi list` shows it"),
    Argument("repo", "the repository: a path, or a name from the registry", optional=True),
)
_OPTIONS: tuple[Option, ...] = (
    Option(
        "force", "move it to the trash despite uncommitted changes, ignored files or unmerged commits", aliases=("f",)
    ),
    Option(
        "yes-really", "with --force: even if others hold it or work in it; repeat the worktree's name", value="NAME"
    ),
    Option("dry-run", "only say whether it would be removed", aliases=("n",)),
    Option("agent", "the acting agent, if it holds the claim", value="ID", aliases=("agent-id", "yi-id")),
)


class _RemovalAction(Action):
    returns_path = True
    """What `remove` and `close` share: inspection, overrides, the move."""

    arguments = _ARGUMENTS
    options: tuple[Option, ...] = _OPTIONS
    dangerous = True
    how = "removed"

    def preview(self, context: Context, request: Request) -> Preview:
        """Inspect once for both the refusal and the consequences."""
        try:
            found, agent = _find_unambiguous(context, request), claim_options.agent(context, request)
            overrides = _overrides(request, found)
            inspected = inspection.inspect_worktree(context, found, agent, deep=True)
            deletion = branch_deletion.plan_branch_deletion(
                inspected, delete=request.flag("delete-branch"), remote=request.text("delete-remote")
            )
        except ImiError as error:
            return Preview([], error)
        verdict = inspected.verdict
        standing = verdict.against(force=overrides.force, yes_really=overrides.yes_really)
        refusal = safe_removal.unsafe_refusal(found, verdict, standing) if standing else None
        if refusal is not None and verdict.strongest == NEVER:
            return Preview([], refusal)
        branch = inspected.status.branch if inspected.status else None
        kept = [f"its branch {safe(branch)} is kept"] if branch and not request.flag("delete-branch") else []
        notes = [] if standing else safe_removal.reason_lines([one for one in verdict.reasons if one not in standing])
        return Preview([_would(found), *kept, *branch_deletion.describe_branch_deletion(deletion), *notes], refusal)

    def override(self, refusal: ImiError, name: str) -> dict[str, object] | None:
        found = (refusal.data or {}).get("reasons")
        ways = [one["override"] for one in found] if isinstance(found, list) else []
        if not ways or NEVER in ways:
            return None
        return {"force": True, "yes-really": name} if YES_REALLY in ways else {"force": True}

    def run(self, context: Context, request: Request) -> Outcome:
        found = _find_unambiguous(context, request)
        overrides = _overrides(request, found)
        agent = claim_options.agent(context, request)
        inspected = inspection.inspect_worktree(
            context, found, agent, deep=request.flag("dry-run") or request.flag("delete-branch")
        )
        safe_removal.refuse_if_unsafe(inspected, overrides)
        deletion = branch_deletion.plan_branch_deletion(
            inspected, delete=request.flag("delete-branch"), remote=request.text("delete-remote")
        )
        if request.flag("dry-run"):
            lines = [
                _would(found),
                *branch_deletion.describe_branch_deletion(deletion),
                *safe_removal.reason_lines(inspected.verdict.notes),
            ]
            return Outcome(lines, {**_data(found, inspected), "dry_run": True})
        result = safe_removal.remove_worktree(
            context, found, agent=agent, how=self.how, overrides=overrides, inspected=inspected
        )
        return self._outcome(context, inspected, result, deletion)

    def _outcome(
        self, context: Context, inspected: WorktreeInspection, result: RemovalResult, deletion: BranchDeletion
    ) -> Outcome:
        found, trashed = inspected.found, result.trashed
        git = context.git(found.repository)
        deleted = branch_deletion.delete_branches(git, deletion)
        message = f"{self.how} {safe(found.name)}"
        data: dict[str, object] = {
            **_data(found, inspected),
            "repo": trashed.repo_name,
            "message": message,
            "trash_id": trashed.id,
            "trash_path": trashed.folder,
            "branch_deleted": deleted.local,
            "remote_branch_deleted": deleted.remote,
            "trunk_path": found.repository.home,
        }
        kept = f"branch {safe(trashed.branch)} is kept" if trashed.branch and not deleted.local else None
        back = advised(message, f"`imi undo {trashed.id}` brings it back", "`imi undo` brings it back")
        lines = [back, *([kept] if kept else []), *deleted.lines]
        warnings = [*result.warnings, *deleted.problems]
        path = found.repository.home if self._goes_home(context, found) else None
        return Outcome(lines, data, path=path, warnings=warnings, exit_status=1 if deleted.problems else 0)

    def _goes_home(self, context: Context, found: Target) -> bool:
        """True if the shell should change to the trunk: after `close`, or when its folder was removed."""
        return self.how == "closed" or f"{os.path.realpath(context.cwd)}/".startswith(f"{found.path}/")


class RemoveAction(_RemovalAction):
    words = ("remove", "rm")
    group = "Merge and remove"
    label = "Remove"
    examples = (
        ("imi remove feat-user-auth --dry-run", "show whether it would be removed, and why not"),
        ("imi remove feat-user-auth --force", "move it to the trash with its uncommitted files"),
    )
    help = "move a worktree to the trash, after checking what would be lost"
    more = """Everything moves to the trash as it is, ignored files and unfinished merges too; `imi undo` brings it back.
    The branch stays unless --delete-branch is given and it is proven to be merged."""
    key = "D"
    key_bar = 80
    requires = ("linked", "folder")
    dialog_options = ("delete-branch",)
    options: tuple[Option, ...] = (
        *_OPTIONS,
        Option("delete-branch", "delete the branch too, if it is proven to be merged", label="Delete the branch too"),
        Option(
            "delete-remote",
            "also delete the branch on this remote, if it is merged and has not moved there",
            value="REMOTE",
        ),
    )


class CloseAction(_RemovalAction):
    words = ("close", "cancel")
    group = "Merge and remove"
    label = "Close"
    help = "end the work on a worktree: move it to the trash, keep its branch, go to the trunk"
    how = "closed"


def _find_unambiguous(context: Context, request: Request) -> Target:
    """The worktree of this name; Refused if the name could mean a second one, which other actions accept."""
    name, repo = request.text("name") or "", request.text("repo")
    found = worktree_lookup.find_worktree(context, name, repo)
    _refuse_elsewhere(context, found, repo)
    siblings = worktree_lookup.list_worktrees(context, found.repository)
    full_names = names.candidates(name, worktree_lookup.name_prefixes(context))
    by_short_name = [one.name for one in siblings if one.name in full_names]
    if found.name != name and len(by_short_name) > 1:
        raise Refused(f"{safe(name)!r} may mean {_listed(by_short_name)}: give the whole name", code="ambiguous")
    base = os.path.basename(found.path)
    twins = [one.path for one in siblings if os.path.basename(one.path) == base]
    if found.row is None and found.name == base and len(twins) > 1:
        raise Refused(
            advised(f"{safe(name)!r} may mean {_listed(twins)}", "`imi rename` one of them first", "rename one first"),
            code="ambiguous",
            details=twins,
        )
    return found


def _refuse_elsewhere(context: Context, found: Target, repo: str | None) -> None:
    """Refuse a worktree of another repository, which the lookup finds when the current one has none of this name."""
    if repo is not None or context.explicit_repo:
        return
    here = context.find_repository()
    if here is not None and here.common_dir != found.repository.common_dir:
        other = safe(found.repo_name or found.repository.home)
        raise Refused(
            f"{safe(found.name)} is in {other}, not in the current repository: name it with --repo {other}",
            code="other-repository",
        )


def _overrides(request: Request, found: Target) -> Overrides:
    repeated = request.text("yes-really")
    if repeated is not None and repeated != found.name:
        raise UsageError(f"--yes-really must repeat the worktree's whole name, {safe(found.name)}", code="bad-option")
    if repeated is not None and not request.flag("force"):
        raise UsageError("--yes-really needs --force", code="bad-option")
    return Overrides(force=request.flag("force"), yes_really=repeated is not None)


def _would(found: Target) -> str:
    name = safe(found.name)
    return advised(
        "",
        f"would move {name} ({safe(found.path)}) to the trash; `imi undo` brings it back",
        f"moves {name} to the trash; `imi undo` brings it back",
    )


def _data(found: Target, inspected: WorktreeInspection) -> dict[str, object]:
    return {
        "worktree_name": found.name,
        "repo": found.repo_name,
        "worktree_path": found.path,
        "branch": inspected.status.branch if inspected.status else None,
        "commit": inspected.status.oid if inspected.status else None,
        "reasons": [reason.data() for reason in inspected.verdict.reasons],
    }


def _listed(found: list[str]) -> str:
    return " or ".join(map(safe, found))


ACTIONS = (RemoveAction(), CloseAction())
