"""`imi prs`: the open pull requests, with their checks and reviews."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.reviews import pull_request_lists
from imi_monitor.model import columns, times
from imi_monitor.model.columns import Column
from imi_monitor.model.pull_request_list import prospect, pull_request_data, standing
from imi_monitor.model.styled_text import ERROR, MUTED, NAME, SUCCESS, styled
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.git.layout import Repository
    from imi_monitor.model.pull_request import PullRequest

_COLUMNS = (
    Column("PR", least=6),
    Column("Title", least=16),
    Column("Author", least=6, rank=2),
    Column("Branch", least=8, rank=4),
    Column("Into", least=4, rank=5),
    Column("Changed", rank=3),
    Column("Worktree", least=8, rank=1),
)
_STYLES = {"bad": ERROR, "good": SUCCESS}


class PullRequestsAction(Action):
    words = ("prs",)
    group = "Worktrees"
    label = "Open pull requests"
    examples = (
        ("imi prs", "the open pull requests; `imi review NUMBER` makes a worktree for one"),
        ("imi prs --cached --json", "as listed last, without asking the forge, for a script"),
    )
    help = "list the open pull requests with title, author, checks and review"
    more = """
    `gh` (GitHub, also Enterprise) or `glab` (GitLab) lists them; log in with `gh auth login` or `glab auth login`. One answer is
    kept for a minute (`reviews.refresh_seconds`) for all imi processes. Without a forge: those that were fetched before.
    """
    arguments = (Argument("repo", "a repository: a path, or a name from the registry", optional=True),)
    options = (Option("cached", "show the last list without asking the forge"),)
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        from imi_monitor.actions.status.status_action import terminal_width

        repository = context.repository(request.text("repo"))
        found = pull_request_lists.offered(context, repository, ask=not request.flag("cached"))
        reviews = _worktrees(context, repository)
        rows = [_row(pull, reviews.get(pull.number)) for pull in found.pulls]
        listed = found.listed
        data: dict[str, object] = {
            "pull_requests": [
                pull_request_data(pull) | {"worktree_name": reviews.get(pull.number)} for pull in found.pulls
            ],
            "count": len(found.pulls),
            "total": listed.total if listed is not None and listed.read_at is not None else None,
            "source": listed.via if listed is not None and listed.read_at is not None else "git",
            "project": listed.project if listed is not None else None,
            "read_at": listed.read_at if listed is not None else None,
            "problem": listed.problem if listed is not None else None,
            "problem_since": listed.problem_since if listed is not None else None,
        }
        return Outcome([*columns.table(_COLUMNS, rows, terminal_width()), styled(safe(found.origin, 400), MUTED)], data)


ACTIONS = (PullRequestsAction(),)


def _worktrees(context: Context, repository: Repository) -> dict[int | None, str]:
    from imi_monitor.actions import worktree_lookup

    found = worktree_lookup.list_worktrees(context, repository)
    return {one.row.pr_number: one.name for one in found if one.row is not None and one.row.pr_number is not None}


def _row(pull: PullRequest, worktree: str | None) -> list[str]:
    return [
        styled(standing(pull), _STYLES.get(prospect(pull), "")),
        styled(safe(pull.title or "", 200), NAME),
        safe(pull.author or "", 60),
        safe(pull.head or "", 200),
        safe(pull.base or "", 200),
        styled(f"{times.age_of(pull.updated_at)} ago" if pull.updated_at else "", MUTED),
        safe(worktree or ""),
    ]
