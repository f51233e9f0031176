"""`imi item move|block|done|fail|cancel|retry`: set the status of an item."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument, Option, Outcome, Tool
from imi_monitor.actions.board import item_lookup
from imi_monitor.actions.claims import claim_options
from imi_monitor.model import board
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import db, item_moves

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context

_REASON = Option("reason", "why, in one sentence", value="TEXT")


class ItemMoveAction(Action):
    words = ("item move",)
    group = "Board"
    label = "Move an item"
    help = "set the status of an item"
    more = f"Statuses: {', '.join(board.STATUSES)}. A claim with `--task ITEM` and its end move an item by themselves."
    arguments = (item_lookup.ITEM, Argument("status", "its new status", choices=board.STATUSES))
    options = (_REASON, claim_options.AGENT)
    tools = (Tool("item_update", options=("reason",)),)

    def run(self, context: Context, request: Request) -> Outcome:
        return move(context, request, item_lookup.status_of(str(request.text("status"))))


class _FixedMove(Action):
    """A verb for one status."""

    group = "Board"
    arguments = (item_lookup.ITEM,)
    options = (_REASON, claim_options.AGENT)
    status = ""

    def refuse(self, context: Context, request: Request) -> None:
        _reason(request)

    def run(self, context: Context, request: Request) -> Outcome:
        return move(context, request, self.status)


class ItemBlockAction(_FixedMove):
    words = ("item block",)
    label = "Block an item"
    help = "mark an item as blocked, with what it waits for"
    dialog_options = ("reason",)
    status = board.BLOCKED


class ItemDoneAction(_FixedMove):
    words = ("item done",)
    label = "Complete an item"
    help = "mark an item as completed"
    status = board.COMPLETED


class ItemFailAction(_FixedMove):
    words = ("item fail",)
    label = "Fail an item"
    help = "mark an item as failed, with the reason"
    dialog_options = ("reason",)
    status = board.FAILED


class ItemCancelAction(_FixedMove):
    words = ("item cancel",)
    label = "Cancel an item"
    help = "mark an item as not to be done any more"
    dialog_options = ("reason",)
    status = board.CANCELLED


class ItemRetryAction(_FixedMove):
    words = ("item retry",)
    label = "Retry an item"
    help = "set an item that is over back to pending"
    status = board.PENDING


def move(context: Context, request: Request, status: str) -> Outcome:
    """Move the item of the request; Refused for a move that the board does not have."""
    item, by = item_lookup.find_item(context, str(request.text("id"))), claim_options.agent(context, request)
    reason, shown = _reason(request), status.replace("_", " ")
    if item.status == status:
        return Outcome([f"{safe(item.id, 40)} is {shown} already"], item.data())

    def put(connection: sqlite3.Connection) -> bool:
        return item_moves.move(connection, item.id, status, by=by, reason=reason)

    if not db.transact(context.connection, put):
        raise Refused(
            f"{safe(item.id, 40)} is {item.status.replace('_', ' ')} and cannot become {shown}: `imi item retry"
            f" {safe(item.id, 40)}` makes it pending first",
            code="bad-move",
        )
    now = item_lookup.find_item(context, item.id)
    return Outcome([f"{safe(now.id, 40)} is {item_lookup.status_text(now.status)}: {safe(now.title, 120)}"], now.data())


def _reason(request: Request) -> str | None:
    text = request.text("reason")
    if text is None or not text.strip():
        return None
    if len(text) > claim_options.MAX_TEXT or "\0" in text:
        raise UsageError(f"--reason takes at most {claim_options.MAX_TEXT} characters", code="bad-option")
    return " ".join(text.split())


ACTIONS = (
    ItemMoveAction(),
    ItemBlockAction(),
    ItemDoneAction(),
    ItemFailAction(),
    ItemCancelAction(),
    ItemRetryAction(),
)
