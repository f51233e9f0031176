"""Merge requests from GitLab's `glab`. Its output is untrusted text; without it only git is used."""

from __future__ import annotations

from imi_monitor.forges.forge_program import (
    TIMEOUT,
    call,
    complaint,
    failure,
    flag_at,
    items_at,
    number_at,
    page_at,
    parse_json,
    text_at,
    value_at,
)
from imi_monitor.model.names import branch_problem, is_commit_id
from imi_monitor.model.pull_request import PullRequest, is_account_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.model.remote_address import RemoteAddress

PROGRAM = "glab"
_MOST_OPEN, _MOST_MERGED = 100, 30  # merge requests in a list, those that changed last
_LIST_FIELDS = """
fragment m on MergeRequest {
  iid title author { username } targetBranch sourceBranch diffHeadSha draft webUrl state updatedAt mergeCommitSha
  approved approvedBy { nodes { username } } headPipeline { status } sourceProject { fullPath } allowCollaboration
}
"""
_STATES = {"opened": "OPEN", "locked": "OPEN", "merged": "MERGED", "closed": "CLOSED"}
_CI = {"SUCCESS": "passed", "FAILED": "failed", "CANCELED": "failed", "SKIPPED": "none"}


def list_merge_requests(
    project: RemoteAddress,
    numbers: Sequence[int] = (),
    cancelled: Callable[[], bool] | None = None,
    *,
    timeout: float = TIMEOUT,
) -> tuple[list[PullRequest], int]:
    """The open merge requests, the last merged ones and those with these numbers, in one request; and how many are open."""
    words = ["api", "graphql", "--hostname", project.host, "-f", f"query={_query(numbers)}"]
    words += ["-f", f"path={project.project}"]
    tree = parse_json(PROGRAM, call(PROGRAM, words, project.host, cancelled, timeout=timeout, keep_answer=True))
    found = value_at(tree, "data", "project")
    if not isinstance(found, dict):
        raise failure(PROGRAM, project.host, complaint(tree) or f"it sees no project {project.project}")
    nodes = [node for part in ("open", "merged", "named") for node in items_at(found, part, "nodes")]
    pulls = {pull.number: pull for node in nodes if (pull := _merge_request(node, project)) is not None}
    return list(pulls.values()), number_at(found, "open", "count") or 0


def _query(numbers: Sequence[int]) -> str:
    iids = ", ".join(f'"{number}"' for number in numbers)
    named = f"named: mergeRequests(iids: [{iids}], first: {len(numbers)}) {{ nodes {{ ...m }} }}" if numbers else ""
    return (
        "query($path: ID!) { project(fullPath: $path) {"
        f" open: mergeRequests(state: opened, first: {_MOST_OPEN}, sort: UPDATED_DESC) {{ count nodes {{ ...m }} }}"
        f" merged: mergeRequests(state: merged, first: {_MOST_MERGED}, sort: UPDATED_DESC) {{ nodes {{ ...m }} }}"
        f" {named} }} }} {_LIST_FIELDS}"
    )


def may_have(project: RemoteAddress) -> bool:
    """Return whether the project may be on a GitLab server."""
    parts = project.project.split("/")
    return (
        project.host.lower() not in ("", "github.com")
        and len(parts) >= 2
        and all(map(is_account_name, (project.host, *parts)))
    )


def _merge_request(tree: object, project: RemoteAddress) -> PullRequest | None:
    iid = text_at(tree, "iid") or ""
    if not (iid.isascii() and iid.isdecimal() and 0 < int(iid[:10]) < 1 << 31):
        return None
    number = int(iid[:10])
    source = text_at(tree, "sourceProject", "fullPath")
    crossing = source.lower() != project.project.lower() if source else None
    owner, _, name = (source or "").rpartition("/")
    head, base = text_at(tree, "sourceBranch"), text_at(tree, "targetBranch")
    return PullRequest(
        number=number,
        title=text_at(tree, "title"),
        author=text_at(tree, "author", "username"),
        base=base if base is not None and branch_problem(base) is None else None,
        head=head if head is not None and branch_problem(head) is None else None,
        fork=(owner, name) if crossing and owner else None,
        is_fork=crossing,
        can_modify=flag_at(tree, "allowCollaboration"),
        url=page_at(tree, "webUrl"),
        state=_STATES.get(text_at(tree, "state") or ""),
        draft=flag_at(tree, "draft"),
        ci=_ci(tree),
        review=_review(tree),
        sha=_commit(tree, "diffHeadSha"),
        landed=_commit(tree, "mergeCommitSha"),
        updated_at=text_at(tree, "updatedAt"),
    )


def _ci(tree: object) -> str:
    status = text_at(tree, "headPipeline", "status")
    return _CI.get(status, "pending") if status else "none"


def _review(tree: object) -> str | None:
    """GitLab calls a merge request approved too if no approval is required."""
    approved = flag_at(tree, "approved")
    if approved is None:
        return None
    return "needed" if not approved else "approved" if items_at(tree, "approvedBy", "nodes") else None


def _commit(tree: object, key: str) -> str | None:
    sha = text_at(tree, key)
    return sha if sha is not None and is_commit_id(sha) else None
