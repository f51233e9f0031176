"""Shared by the actions on items: the argument, the look-up, the checks of values, and an item as data and as a row."""

from __future__ import annotations

from imi_monitor.actions.action import Argument, Option
from imi_monitor.model import board, names, times
from imi_monitor.model.columns import Column
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.styled_text import ERROR, MUTED, NAME, SUCCESS, WARNING, WORKS, styled
from imi_monitor.model.text import safe
from imi_monitor.store import db, items
from imi_monitor.store.items import ItemFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.items import ItemRow

ITEM = Argument("id", "the item, as `imi item list` shows it: item-12, 12, or its id in another system")
BATCH = Option("batch", "only items of this batch (the name of the file they are from)", value="FILE")
TEAM = Option("team", "only of this team", value="TEAM")
COLUMNS = (
    Column("Item"),
    Column("Status"),
    Column("Priority", rank=2),
    Column("Title", least=12),
    Column("Agent", least=8, name=True, rank=1),
    Column("Worktree", least=8, name=True, rank=3),
    Column("Batch", least=8, name=True, rank=4),
    Column("Since", right=True, rank=5),
)
_MOST_ID = 200
_STYLES = {
    board.IN_PROGRESS: WORKS,
    board.BLOCKED: WARNING,
    board.COMPLETED: SUCCESS,
    board.FAILED: ERROR,
    board.CANCELLED: MUTED,
}


def find_item(context: Context, word: str) -> ItemRow:
    """The item of this id; Refused without one."""
    found = db.read(context.connection, items.get, word)
    if found is None:
        raise Refused(f"there is no item {safe(word, 60)!r}: `imi item list --all` shows them", code="no-item")
    return found


def filter_of(context: Context, request: Request) -> ItemFilter:
    """The wanted items: those of the repository around the caller, unless --all, --batch or --repo widen it."""
    status = request.text("status")
    if status is not None:
        status = status_of(status)
    team, agent = request.text("team"), request.text("agent")
    return ItemFilter(context.repo_filter(request), status, request.text("batch"), team, agent)


def status_of(word: str) -> str:
    plain = word.strip().lower().replace(" ", "_").replace("-", "_")
    if plain not in board.STATUSES:
        raise UsageError(f"{safe(word, 40)!r} is no status: use one of {', '.join(board.STATUSES)}", code="bad-status")
    return plain


def priority_of(word: str) -> str:
    found = board.priority_of(word)
    if found is None:
        raise UsageError(
            f"{safe(word, 40)!r} is no priority: use one of {', '.join(board.PRIORITIES)}", code="bad-priority"
        )
    return found


def label_of(request: Request, option: str) -> str | None:
    """A short text of an option; an empty one is None."""
    text = (request.text(option) or "").strip()
    problem = names.label_problem(text, _MOST_ID) if text else None
    if problem:
        raise UsageError(f"--{option} {safe(text, 60)!r} {problem}", code="bad-option")
    return text or None


def agent_of(word: str) -> str:
    problem = names.agent_problem(word)
    if problem:
        raise UsageError(f"agent {safe(word)!r} {problem}", code="bad-agent")
    return word


def status_text(status: str) -> str:
    """`in progress`, in its style."""
    word = safe(status.replace("_", " "), 20)
    return styled(word, _STYLES[status]) if status in _STYLES else word


def row(item: ItemRow) -> list[str]:
    """The item as a row of a table."""
    return [
        safe(item.id, 40),
        status_text(item.status),
        safe(item.priority, 10),
        safe(item.title, 120),
        safe(item.agent_id or "", 40),
        styled(safe(item.worktree_name or "", 60), NAME),
        safe(item.batch or "", 80),
        times.age_of(item.ended_at or item.started_at or item.created_at),
    ]


def title_line(item: ItemRow) -> str:
    return f"{safe(item.id, 40)}  {safe(item.title, 120)}"
