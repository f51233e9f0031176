"""`imi board`: all items in columns by status."""

from __future__ import annotations

from itertools import zip_longest

from imi_monitor.actions.action import ALL_REPOSITORIES, OF_REPOSITORY, Action, Outcome
from imi_monitor.actions.board import item_lookup
from imi_monitor.actions.status import status_action
from imi_monitor.model import board, columns
from imi_monitor.model.styled_text import HEADING, MUTED, join, styled
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, items, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.items import ItemFilter, ItemRow

_SIDE_BY_SIDE = 100  # cells
_GAP = 2
_UNLIMITED = 240  # of a pipe


class BoardAction(Action):
    words = ("board",)
    group = "Board"
    label = "Board"
    help = "show all items in columns: pending, in progress, blocked, completed, failed and cancelled"
    more = f"{OF_REPOSITORY} On a screen below {_SIDE_BY_SIDE} columns one column stands below the other."
    options = (item_lookup.BATCH, item_lookup.TEAM, ALL_REPOSITORIES)
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        found, data = read_board(context, request)
        width = status_action.terminal_width() or _UNLIMITED
        if not found:
            empty = "no items of that kind" if request.narrows else "no items yet: `imi item add TITLE` adds one"
            return Outcome([empty], data)
        return Outcome(_side_by_side(found, width) if width >= _SIDE_BY_SIDE else _stacked(found, width), data)


def read_board(context: Context, request: Request) -> tuple[list[ItemRow], dict[str, object]]:
    """(the items, the board's data): without the text for people, which takes longer than all else where items are many."""
    found, states, batches = db.read(context.connection, _read, item_lookup.filter_of(context, request))
    return found, {
        "columns": [{"title": title, "statuses": list(held)} for title, held in board.COLUMNS],
        "items": [{**one.data(), "run_state": states.get(one.run_id or "")} for one in found],
        "batches": [{"batch": name, "items": total, "over": over} for name, total, over in batches],
    }


def _read(
    connection: sqlite3.Connection, wanted: ItemFilter
) -> tuple[list[ItemRow], dict[str, str], Sequence[tuple[str, int, int]]]:
    """The items, what their open runs do, and the batches."""
    states = {one.id: one.shown_state for one in runs.list_runs(connection, only_open=True)}
    return items.list_items(connection, wanted), states, items.list_batches(connection, wanted.repo_name)


def _in_columns(found: Sequence[ItemRow]) -> list[list[ItemRow]]:
    made: list[list[ItemRow]] = [[] for _ in board.COLUMNS]
    for one in found:
        made[board.column_of(one.status)].append(one)
    return made


def _side_by_side(found: Sequence[ItemRow], width: int) -> list[str]:
    each = (width - _GAP * (len(board.COLUMNS) - 1)) // len(board.COLUMNS)
    shown = []
    for (title, _), held in zip(board.COLUMNS, _in_columns(found), strict=True):
        lines: list[str] = [styled(columns.pad(f"{title} {len(held)}", each), HEADING)]
        for one in held:
            lines.append(columns.pad(columns.clip(safe(one.title, 200), each), each))
            lines.append(styled(columns.pad(columns.clip(_below(one), each), each), MUTED))
        shown.append(lines)
    blank = " " * each
    return [_joined(line) for line in zip_longest(*shown, fillvalue=blank)]


def _joined(line: Sequence[str]) -> str:
    return join(part for each in line for part in (each, " " * _GAP))


def _stacked(found: Sequence[ItemRow], width: int) -> list[str]:
    lines: list[str] = []
    for (title, _), held in zip(board.COLUMNS, _in_columns(found), strict=True):
        if held:
            lines.append(styled(f"{title}: {count(len(held), 'item')}", HEADING))
            lines += [columns.clip(f"  {safe(one.title, 200)}  {_below(one)}", width) for one in held]
    return lines


def _below(one: ItemRow) -> str:
    """`item-12 high claude-1 feat-x`."""
    priority = one.priority if one.priority != board.MEDIUM else ""
    parts = (safe(one.id, 40), safe(priority, 10), safe(one.agent_id or "", 40), safe(one.worktree_name or "", 60))
    return " ".join(filter(None, parts))


ACTIONS = (BoardAction(),)
