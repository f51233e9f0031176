"""What a reviewer is told: whose pull request it is, where it lies, and how suggestions get back to its author."""

from __future__ import annotations

from imi_monitor.actions.action import Outcome
from imi_monitor.actions.reviews import review_branch
from imi_monitor.model.redact import redact
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.creation.worktree_creation import CreationPlan
    from imi_monitor.actions.reviews.located import Located
    from imi_monitor.actions.reviews.review_update import Updated
    from imi_monitor.actions.target import Target
    from imi_monitor.git.run import Git


def made(git: Git, plan: CreationPlan, located: Located, warnings: list[str], status: int) -> Outcome:
    """A worktree that was just made."""
    kept = ", which stood here already" if plan.took_over else ""
    line = f"made {safe(plan.name)} on {safe(plan.branch)}{kept}"
    earlier = review_branch.left_behind(git, plan.branch, located)
    head = located.info.head or plan.branch
    if head in earlier:
        line += f", because {safe(head)} of an earlier review went another way"
    elif head != plan.branch:
        line += f", because {safe(head)} is something else here"
    warnings = [*warnings, *(_left(name, number, located) for name, number in earlier.items())]
    data = _data(located, plan.name, plan.path, plan.branch, line) | {"created": True, "updated": 0}
    return _outcome(git, located, plan.branch, line, data, warnings, plan.path, status)


def updated(git: Git, found: Target, located: Located, done: Updated, warnings: list[str]) -> Outcome:
    """A worktree that was there."""
    if done.commits:
        line = f"{safe(found.name)} moved forward by {count(done.commits, 'commit')} to {done.new[:10]}"
    else:
        line = f"{safe(found.name)} is up to date"
    if done.ahead:
        line += f"; {ahead(done.ahead, located)}"
    data = _data(located, found.name, found.path, done.branch, line)
    data |= {"created": False, "updated": done.commits, "ahead": done.ahead}
    return _outcome(git, located, done.branch, line, data, warnings, found.path, 0)


def ahead(number: int, located: Located) -> str:
    return f"it has {count(number, 'commit')} that {located.mention.called} has not yet"


def _left(branch: str, number: int, located: Located) -> str:
    return f"{safe(branch)} of an earlier review stays: it has {count(number, 'commit')} that {located.mention.called} has not"


def _data(located: Located, name: str, path: str, branch: str, line: str) -> dict[str, object]:
    return {
        "worktree_path": path,
        "worktree_name": name,
        "branch": branch,
        "commit": located.sha,
        "type": "review",
        "message": line,
        **located.data(),
    }


def _outcome(
    git: Git,
    located: Located,
    branch: str,
    line: str,
    data: dict[str, object],
    warnings: list[str],
    path: str,
    status: int,
) -> Outcome:
    follows = review_branch.follows(git, branch, located.tracking)
    command = located.tracking.push_command(branch, follows=follows)
    push = None if command is None else redact(command)
    lines = [*_titled(located), line, f"send suggestions back: {safe(push)}" if push else _no_way_back(located)]
    return Outcome(lines, {**data, "push": push}, path=path, warnings=warnings, exit_status=status)


def _no_way_back(located: Located) -> str:
    if located.info.is_fork and located.info.can_modify is False:
        return "its author does not let reviewers push to the fork"
    return "where suggestions would be pushed to is not known: it is not a branch of this repository"


def _titled(located: Located) -> list[str]:
    """`pull request 123: Add login (alice, into main)`, as far as it is known."""
    info = located.info
    state = info.state.lower() if info.state and info.state != "OPEN" else ""
    about = ", ".join(filter(None, (info.author, f"into {info.base}" if info.base else "", state)))
    if not info.title and not about:
        return []
    title = f": {safe(info.title, 200)}" if info.title else ""
    return [f"{located.mention.called}{title}{f' ({safe(about)})' if about else ''}"]
