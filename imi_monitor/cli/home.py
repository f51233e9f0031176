"""Plain `imi [REPO…]`: the state of the repositories given, else of the one around, else of all that are known."""

from __future__ import annotations

from imi_monitor.actions.context import Context
from imi_monitor.cli import out
from imi_monitor.model.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.base import Outcome
    from imi_monitor.cli.args import Parsed

_WELCOME = """\
imi shows and steers git worktrees in which several coding agents work: whose each one is, what changed, what to review.

There is nothing to show yet: you are not inside a git repository, and none is registered. First steps, inside one:

  imi feat NAME      a new worktree on a new branch
  imi review 123     a pull request in a worktree of its own
  imi status         all worktrees at a glance

imi help lists everything; imi doctor checks that all is in place."""


def show(parsed: Parsed) -> int:
    """Print what there is; an exit status."""
    as_json = parsed.flag("json")
    quiet = as_json or parsed.flag("quiet")
    context = Context(
        database=parsed.option("db"),
        repo=parsed.option("repo"),
        progress=(lambda _: None) if quiet else out.progress,
    )
    with context:
        outcome = _outcome(context, parsed.words)
    out.end_progress()
    out.outcome(outcome, as_json=as_json)
    return outcome.exit_status


def _outcome(context: Context, named: list[str]) -> Outcome:
    from imi_monitor.actions import listing
    from imi_monitor.actions.base import Outcome

    if named:
        meant = [context.named_repository(word) for word in named]
        unique = list({repository.common_dir: repository for repository in meant}.values())
        return listing.status(context, unique)
    try:
        found, warnings = listing.repositories(context, None, everything=False)
    except Refused as error:
        if error.code != "no-repository" or context.explicit_repo:
            raise
        return Outcome(_WELCOME.splitlines(), {"worktrees": [], "count": 0, "failed": 0})
    return listing.status(context, found, warnings=warnings)
