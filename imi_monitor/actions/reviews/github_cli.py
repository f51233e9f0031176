"""Details of a pull request from GitHub's `gh`. Its output is untrusted text; without it only git is used."""

from __future__ import annotations

import json

from imi_monitor import programs
from imi_monitor.git.environment import git_environment
from imi_monitor.git.spawn import spawn
from imi_monitor.model.errors import GitError
from imi_monitor.model.names import branch_problem
from imi_monitor.model.pull_request import MERGE, PullRequest, PullRequestMention, is_account_name
from imi_monitor.model.redact import printable_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.model.remote_address import RemoteAddress

TIMEOUT = 10.0
_CAP = 1 << 20
_NOT_LOGGED_IN = 4
_FIELDS = (
    "number,title,author,baseRefName,headRefName,headRepositoryOwner,headRepository,isCrossRepository,"
    "maintainerCanModify,url,state"
)
# no prompts and no decoration; the repository is passed as an option, not found by the directory
_QUIET = {
    "GH_PROMPT_DISABLED": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GH_SPINNER_DISABLED": "1",
    "GH_PAGER": "cat",
    "NO_COLOR": "1",
}
_DROPPED = ("GH_REPO", "GH_FORCE_TTY", "GH_DEBUG", "CLICOLOR_FORCE")


class GhUnavailable(Exception):
    """gh is not installed (empty text), not logged in, too slow, or its output is invalid; the text says which."""


def view_pull_request(
    project: RemoteAddress | None,
    mention: PullRequestMention,
    cancelled: Callable[[], bool] | None = None,
    *,
    timeout: float = TIMEOUT,
) -> PullRequest:
    """The pull request's details; GhUnavailable if gh gives none."""
    program = programs.find("gh")
    repository = _repository(project, mention)
    if program is None or repository is None:
        raise GhUnavailable("")
    which = str(mention.number) if mention.number is not None else f"{mention.owner}:{mention.branch}"
    argv = [program, "pr", "view", "--repo", repository, "--json", _FIELDS, "--", which]
    env = {key: value for key, value in git_environment([]).items() if key not in _DROPPED} | _QUIET
    try:
        done = spawn(argv, env=env, cwd="/", timeout=timeout, cap=_CAP, cancelled=cancelled)
    except OSError as error:
        raise GhUnavailable(f"gh cannot be started ({error.strerror})") from error
    if done.cancelled:
        raise GitError("cancelled", code="cancelled")
    if done.timed_out:
        raise GhUnavailable(f"gh did not answer within {timeout:g} s")
    if done.returncode == _NOT_LOGGED_IN:
        raise GhUnavailable("gh is not logged in (`gh auth login`)")
    if done.returncode or done.capped:
        error_lines = printable_lines(done.stderr)
        raise GhUnavailable(f"gh failed ({error_lines[0] if error_lines else f'exit status {done.returncode}'})")
    return parse_answer(done.stdout, mention)


def parse_answer(answer: bytes, mention: PullRequestMention) -> PullRequest:
    """Parse gh's JSON; GhUnavailable if it is invalid or about another pull request."""
    try:
        tree = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise GhUnavailable("gh returned invalid JSON") from error
    number = tree.get("number") if isinstance(tree, dict) else None
    if type(number) is not int or number <= 0 or mention.number not in (None, number):
        raise GhUnavailable("gh returned another pull request")
    crossing = tree.get("isCrossRepository")
    return PullRequest(
        number=number,
        title=_text(tree, "title"),
        author=_text(tree, "author", "login"),
        base=_branch(tree, "baseRefName"),
        head=_branch(tree, "headRefName"),
        fork=_fork(tree) if crossing is True else None,
        is_fork=crossing if isinstance(crossing, bool) else None,
        can_modify=tree.get("maintainerCanModify") is True,
        url=_text(tree, "url"),
        state=_text(tree, "state"),
    )


def _repository(project: RemoteAddress | None, mention: PullRequestMention) -> str | None:
    """`host/owner/name` for gh; None if the project cannot be on GitHub."""
    if project is None or not project.host or mention.kind == MERGE or "gitlab" in project.host.lower():
        return None
    parts = project.project.split("/")
    return (
        "/".join((project.host, *parts))
        if len(parts) == 2 and all(map(is_account_name, (project.host, *parts)))
        else None
    )


def _fork(tree: dict[str, object]) -> tuple[str, str] | None:
    owner, name = _text(tree, "headRepositoryOwner", "login"), _text(tree, "headRepository", "name")
    return (owner, name) if owner and name and is_account_name(owner) and is_account_name(name) else None


def _text(tree: dict[str, object], *keys: str) -> str | None:
    value: object = tree
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) and value else None


def _branch(tree: dict[str, object], key: str) -> str | None:
    name = _text(tree, key)
    return name if name is not None and branch_problem(name) is None else None
