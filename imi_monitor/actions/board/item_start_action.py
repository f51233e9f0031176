"""`imi item start`: start an agent on an item, in a worktree of its own."""

from __future__ import annotations

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Outcome, Request
from imi_monitor.actions.board import item_lookup
from imi_monitor.actions.runs.start_action import StartAction
from imi_monitor.model import board
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.text import safe
from imi_monitor.runs import providers
from imi_monitor.store import db, item_moves, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.store.items import ItemRow

_START = StartAction()
_PASSED = ("in", "new", "way", "model", "ask", "edits", "plan", "minutes", "budget", "as")
_TYPE = "feat"


class ItemStartAction(Action):
    words = ("item start",)
    group = "Board"
    label = "Start an item"
    help = "start an agent on an item, in a worktree of its own"
    more = """The same as `imi start --task ITEM` with the item's title and text as the prompt. Without --in and --new the
    worktree is the item's, else a new one named after its title. The item is in progress until the agent ends; the end of
    its work is the end of the item."""
    examples = (("imi item start 12 claude --edits", "start Claude on item-12 in a new worktree"),)
    arguments = (
        item_lookup.ITEM,
        Argument(
            "program",
            f"the agent program: {', '.join(providers.NAMES)}; default: the first that is installed",
            optional=True,
            choices=providers.NAMES,
        ),
    )
    options = tuple(one for one in _START.options if one.name in _PASSED)
    dialog_options = ("program", "model", "edits", "plan")

    def choices(self, context: Context, name: str) -> list[str]:
        return _START.choices(context, name)

    def refuse(self, context: Context, request: Request) -> None:
        item = item_lookup.find_item(context, str(request.text("id")))
        refuse_started(context, item)
        _START.refuse(context, start_request(context, item, request))

    def consequences(self, context: Context, request: Request) -> list[str]:
        item = item_lookup.find_item(context, str(request.text("id")))
        asked = start_request(context, item, request)
        where = asked.text("in") or f"the new worktree {safe(asked.text('new') or '', 80)}"
        return [f"starts {asked.text('program')} on {item_lookup.title_line(item)}", f"works in {safe(where, 90)}"]

    def run(self, context: Context, request: Request) -> Outcome:
        item = item_lookup.find_item(context, str(request.text("id")))
        refuse_started(context, item)
        return start(context, item, start_request(context, item, request))


def refuse_started(context: Context, item: ItemRow) -> None:
    """Refused while a run works on the item."""
    run = db.read(context.connection, runs.by_id, item.run_id) if item.run_id is not None else None
    if run is not None and run.is_open:
        raise Refused(
            f"{safe(run.agent_id, 60)} works on {safe(item.id, 40)} ({run.short}, {run.shown_state}): `imi stop"
            f" {run.short}` ends it",
            code="started",
            data={"run": run.id},
        )
    if item.status in (board.COMPLETED, board.CANCELLED):
        raise Refused(
            f"{safe(item.id, 40)} is {item.status}: `imi item retry {safe(item.id, 40)}` makes it pending again",
            code="over",
        )


def start_request(context: Context, item: ItemRow, request: Request) -> Request:
    """The request of `imi start` for this item."""
    program = request.text("program") or next(iter(_START.choices(context, "program")), providers.NAMES[0])
    values = {name: value for name, value in request.values.items() if name in _PASSED}
    if "in" not in values and "new" not in values:
        values |= _place(context, item)
    values |= {"program": program, "prompt": prompt_of(item), "task": item.id}
    return Request("start", values)


def start(context: Context, item: ItemRow, asked: Request) -> Outcome:
    """Start the agent; the worktree is noted first, so that a start that was cut off finds it again."""
    new = asked.text("new")
    if new is not None:
        _, _, name = new.partition("/")
        db.transact(context.connection, item_moves.put, item.id, {"worktree_name": f"{_TYPE}-{name}"})
    outcome = _START.run(context, asked)
    return Outcome(outcome.lines, {**outcome.data, "item": item.id}, warnings=outcome.warnings)


def prompt_of(item: ItemRow) -> str:
    """Return what the agent is to do, and where it stands."""
    parts = [item.title]
    if item.text:
        parts.append(item.text)
    if item.source:
        parts.append(f"This comes from {item.source}: read it if you need more.")
    parts.append(f"It is {item.id} on the board. If you cannot go on, say why: imi item block {item.id} --reason TEXT")
    return "\n\n".join(parts)


def worktree_of(item: ItemRow) -> str:
    """TYPE/NAME of the worktree that is made for the item."""
    name = board.slug(item.title)
    return f"{_TYPE}/{name}-{item.seq}" if name else f"{_TYPE}/{item.id}"


def _place(context: Context, item: ItemRow) -> dict[str, object]:
    """The item's worktree, if it is there; else a new one."""
    if item.worktree_name is not None:
        try:
            found = worktree_lookup.find_worktree(context, item.worktree_name, item.repo_name)
        except ImiError:
            found = None
        if found is not None and not found.missing:
            return {"in": found.name}
    return {"new": worktree_of(item)}


ACTIONS = (ItemStartAction(),)
