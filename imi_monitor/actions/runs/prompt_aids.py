"""What the editor of a prompt offers: the prompts of earlier runs, and the files of the worktree that a prompt can name."""

from __future__ import annotations

from imi_monitor.actions.action import WritingAids
from imi_monitor.actions.runs import run_worktree
from imi_monitor.actions.status import worktree_git
from imi_monitor.model.errors import ImiError
from imi_monitor.runs import launch_folder
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.store.runs import RunRow

_MOST_RUNS = 100
_MOST_PROMPTS = 30
_MOST_FILES = 20_000


def of_worktree(context: Context, request: Request) -> WritingAids:
    """Earlier prompts, and the files of the worktree of --in or of the one around the caller."""
    try:
        found = run_worktree.find(context, request)
    except ImiError:
        found = None
    return WritingAids(_earlier(context), _files(context, found))


def of_repository(context: Context) -> WritingAids:
    """Earlier prompts, and the files of the repository's main worktree: a new worktree will have them."""
    from imi_monitor.actions import worktree_lookup

    repository = context.find_repository()
    among = worktree_lookup.list_worktrees(context, repository) if repository is not None else []
    return WritingAids(_earlier(context), _files(context, next((one for one in among if one.is_main), None)))


def of_run(context: Context, name: str | None) -> WritingAids:
    """Earlier prompts, and the files of the run's worktree."""
    from imi_monitor.actions.runs import run_lookup

    try:
        row = run_lookup.find_run(context, name)
        found = run_worktree.find_existing(context, row.worktree_name, row.repo_name) if row.worktree_name else None
    except ImiError:
        found = None
    return WritingAids(_earlier(context), _files(context, found))


def _earlier(context: Context) -> list[str]:
    """The prompts of the newest runs, each once; whole where their launch is kept, else as the registry has them."""
    rows = db.read(context.connection, runs.list_runs, limit=_MOST_RUNS)
    texts = dict.fromkeys(text for row in rows if row.resumed_from is None and (text := _prompt(row)))
    return list(texts)[:_MOST_PROMPTS]


def _prompt(row: RunRow) -> str:
    try:
        return launch_folder.folder_of(row.id).prompt().strip()
    except (OSError, ValueError):
        return (row.prompt or "").strip()


def _files(context: Context, found: Target | None) -> list[str]:
    """The files that git knows or would add, in git's order; none where git cannot be asked."""
    if found is None or found.missing:
        return []
    try:
        names = worktree_git.git_in(context, found).lines0(
            "ls-files", "-z", "--cached", "--others", "--exclude-standard"
        )
    except (ImiError, OSError):
        return []
    return [name for name in dict.fromkeys(names[:_MOST_FILES]) if name and name.isprintable()]
