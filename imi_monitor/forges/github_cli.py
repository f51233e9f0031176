"""Pull requests from GitHub's `gh`. Its output is untrusted text; without it only git is used."""

from __future__ import annotations

from imi_monitor.forges.forge_program import (
    TIMEOUT,
    ForgeUnavailable,
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
from imi_monitor.model.pull_request import MERGE, PullRequest, PullRequestMention, is_account_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.model.remote_address import RemoteAddress

PROGRAM = "gh"
MOST_OPEN, _MOST_CLOSED = 100, 30  # pull requests in a list, those that changed last
_FIELDS = (
    "number,title,author,baseRefName,headRefName,headRepositoryOwner,headRepository,isCrossRepository,"
    "maintainerCanModify,url,state"
)
_LIST_FIELDS = """
fragment p on PullRequest {
  number title author { login } baseRefName headRefName headRefOid isDraft isCrossRepository
  headRepository { name owner { login } } maintainerCanModify url state reviewDecision updatedAt mergeCommit { oid }
  commits(last: 1) { nodes { commit { statusCheckRollup { state } } } }
}
"""
_CI = {"SUCCESS": "passed", "FAILURE": "failed", "ERROR": "failed", "PENDING": "pending", "EXPECTED": "pending"}
_REVIEW = {"APPROVED": "approved", "CHANGES_REQUESTED": "changes", "REVIEW_REQUIRED": "needed"}


def view_pull_request(
    project: RemoteAddress | None,
    mention: PullRequestMention,
    cancelled: Callable[[], bool] | None = None,
    *,
    timeout: float = TIMEOUT,
) -> PullRequest:
    """The pull request's details; ForgeUnavailable if gh gives none."""
    repository = _repository(project)
    if project is None or repository is None or mention.kind == MERGE:
        raise ForgeUnavailable("")
    which = str(mention.number) if mention.number is not None else _called(project, mention)
    words = ["pr", "view", "--repo", repository, "--json", _FIELDS, "--", which]
    return parse_answer(call(PROGRAM, words, project.host, cancelled, timeout=timeout), mention)


def list_pull_requests(
    project: RemoteAddress,
    numbers: Sequence[int] = (),
    cancelled: Callable[[], bool] | None = None,
    *,
    timeout: float = TIMEOUT,
) -> tuple[list[PullRequest], int]:
    """The open pull requests, the last closed ones and those with these numbers, in one request; and how many are open."""
    owner, _, name = project.project.partition("/")
    words = ["api", "graphql", "--hostname", project.host, "-f", f"query={_query(numbers)}"]
    words += ["-f", f"owner={owner}", "-f", f"name={name}"]
    answer = call(PROGRAM, words, project.host, cancelled, timeout=timeout, keep_answer=True)
    return parse_list(answer, project.host, numbers)


def parse_list(answer: bytes, host: str, numbers: Sequence[int]) -> tuple[list[PullRequest], int]:
    """Parse the answer to a list; ForgeUnavailable if it has none."""
    tree = parse_json(PROGRAM, answer)
    found = value_at(tree, "data", "repository")
    if not isinstance(found, dict):
        raise failure(PROGRAM, host, complaint(tree) or "no repository")
    nodes = [*items_at(found, "open", "nodes"), *items_at(found, "closed", "nodes")]
    nodes += [found.get(f"n{number}") for number in numbers]
    pulls = {pull.number: pull for node in nodes if (pull := _pull_request(node)) is not None}
    return list(pulls.values()), number_at(found, "open", "totalCount") or 0


def _query(numbers: Sequence[int]) -> str:
    newest = "orderBy: {field: UPDATED_AT, direction: DESC}"
    named = " ".join(f"n{number}: pullRequest(number: {number}) {{ ...p }}" for number in numbers)
    return (
        "query($owner: String!, $name: String!) { repository(owner: $owner, name: $name) {"
        f" open: pullRequests(states: OPEN, first: {MOST_OPEN}, {newest}) {{ totalCount nodes {{ ...p }} }}"
        f" closed: pullRequests(states: [MERGED, CLOSED], first: {_MOST_CLOSED}, {newest}) {{ nodes {{ ...p }} }}"
        f" {named} }} }} {_LIST_FIELDS}"
    )


def parse_answer(answer: bytes, mention: PullRequestMention) -> PullRequest:
    """Parse gh's JSON; ForgeUnavailable if it is invalid or about another pull request."""
    tree = parse_json(PROGRAM, answer)
    pull = _pull_request(tree)
    if pull is None or mention.number not in (None, pull.number):
        raise ForgeUnavailable("gh returned another pull request")
    return pull


def _pull_request(tree: object) -> PullRequest | None:
    """The pull request in an answer of either form."""
    number = number_at(tree, "number")
    if number is None:
        return None
    crossing = flag_at(tree, "isCrossRepository")
    rollup = [text_at(one, "commit", "statusCheckRollup", "state") for one in items_at(tree, "commits", "nodes")]
    return PullRequest(
        number=number,
        title=text_at(tree, "title"),
        author=text_at(tree, "author", "login"),
        base=_branch(tree, "baseRefName"),
        head=_branch(tree, "headRefName"),
        fork=_fork(tree) if crossing is True else None,
        is_fork=crossing,
        can_modify=flag_at(tree, "maintainerCanModify") is True,
        url=page_at(tree, "url"),
        state=text_at(tree, "state"),
        draft=flag_at(tree, "isDraft"),
        ci=(_CI.get(rollup[0]) if rollup[0] else "none") if rollup else None,
        review=_REVIEW.get(text_at(tree, "reviewDecision") or ""),
        sha=_commit(tree, "headRefOid"),
        landed=_commit(tree, "mergeCommit", "oid"),
        updated_at=text_at(tree, "updatedAt"),
    )


def _called(project: RemoteAddress, mention: PullRequestMention) -> str:
    """The branch as gh names it: of the repository itself without its owner, unless that could be read as a number."""
    branch = mention.branch or ""
    own = (mention.owner or "").lower() == project.project.partition("/")[0].lower()
    return branch if own and branch[:1].isalpha() and "://" not in branch else f"{mention.owner}:{branch}"


def _repository(project: RemoteAddress | None) -> str | None:
    """`host/owner/name` for gh; None if the project cannot be on GitHub."""
    return "/".join((project.host, project.project)) if project is not None and may_have(project) else None


def may_have(project: RemoteAddress) -> bool:
    """Return whether the project may be on GitHub, or an Enterprise server of it."""
    parts = project.project.split("/")
    named = len(parts) == 2 and all(map(is_account_name, (project.host, *parts)))
    return bool(project.host) and named and "gitlab" not in project.host.lower()


def _fork(tree: object) -> tuple[str, str] | None:
    owner = text_at(tree, "headRepositoryOwner", "login") or text_at(tree, "headRepository", "owner", "login")
    name = text_at(tree, "headRepository", "name")
    return (owner, name) if owner and name and is_account_name(owner) and is_account_name(name) else None


def _branch(tree: object, key: str) -> str | None:
    name = text_at(tree, key)
    return name if name is not None and branch_problem(name) is None else None


def _commit(tree: object, *keys: str) -> str | None:
    sha = text_at(tree, *keys)
    return sha if sha is not None and is_commit_id(sha) else None
