"""`imi item add|list|show|edit|assign`: what is to be done, for agents and people."""

from __future__ import annotations

from imi_monitor.actions import time_format
from imi_monitor.actions.action import ALL_REPOSITORIES, OF_REPOSITORY, Action, Argument, Option, Outcome
from imi_monitor.actions.board import item_input, item_lookup
from imi_monitor.actions.claims import claim_options
from imi_monitor.actions.history import tasks_action
from imi_monitor.actions.status import status_action
from imi_monitor.model import board
from imi_monitor.model.columns import table
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.store import attempts, db, items, runs, session_events
from imi_monitor.store.attempts import AttemptFilter
from imi_monitor.store.items import NewItem

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.attempts import Attempt
    from imi_monitor.store.items import ItemRow
    from imi_monitor.store.runs import RunRow

_LIMIT = 200
_PRIORITY = Option("priority", "high, medium or low", value="WORD", choices=board.PRIORITIES)
_TEXT = Option("text", "what exactly is to be done, at most 2 KB", value="TEXT", aliases=("description",))
_SOURCE = Option("source", "the file that describes it", value="FILE")
_FOR = Option("for", "the agent or person that is to do it", value="AGENT")


class ItemAddAction(Action):
    words = ("item add",)
    group = "Board"
    label = "Add an item"
    help = "add something to be done to the board"
    more = f"""With --from the items come from a file, or with - from the standard input, as JSON: one object, a list, or one
    object per line, with the keys {", ".join(item_input.KEYS)}. All are added, or none. An item whose external_id is on the
    board is not added again."""
    examples = (
        ("imi item add write the login page --priority high", "add one item"),
        ("imi item add --from items.json", "add all items of a file"),
    )
    makes_new = True
    arguments = (Argument("title", "what is to be done, in a few words", optional=True, rest=True),)
    options = (
        _TEXT,
        _PRIORITY,
        Option("team", "the team it is for", value="TEAM"),
        _FOR,
        Option("batch", "the batch it belongs to", value="FILE"),
        _SOURCE,
        Option("external-id", "its id in another system; also for `imi claim --task`", value="ID"),
        Option("from", "read items as JSON from a file; - for the standard input", value="FILE"),
        claim_options.AGENT,
    )
    dialog_options = ("title", "text", "priority", "for", "team")

    def refuse(self, context: Context, request: Request) -> None:
        if request.text("from") is None:
            _new_item(request, None)
        elif _title(request):
            raise UsageError("give a title or --from, not both", code="bad-option")

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        by, file = claim_options.agent(context, request), request.text("from")
        text = None if file is None else item_input.read(file)

        def put(connection: sqlite3.Connection) -> list[tuple[ItemRow, bool]]:
            repository = context.find_repository()
            repo = None if repository is None else context.register(repository, connection)
            wanted = [_new_item(request, repo)] if text is None else item_input.parse(text, repo)
            return [items.add(connection, one, by) for one in wanted]

        done = db.transact(context.connection, put)
        lines = [f"{'added' if new else 'on the board already:'} {item_lookup.title_line(one)}" for one, new in done]
        if len(done) > 20:
            added = sum(new for _, new in done)
            lines = [f"added {count(added, 'item')}; {count(len(done) - added, 'item')} were on the board already"]
        return Outcome(lines, {"items": [{**one.data(), "new": new} for one, new in done], "count": len(done)})


class ItemListAction(Action):
    words = ("item list", "items")
    group = "Board"
    label = "Items"
    help = "list the items in their order, with status, agent and worktree"
    more = OF_REPOSITORY
    options = (
        Option("status", "only with this status", value="STATUS", choices=board.STATUSES),
        item_lookup.BATCH,
        item_lookup.TEAM,
        Option("agent", "only of this agent or person", value="NAME"),
        Option("limit", f"the maximum number (default: {_LIMIT})", value="N", number=True, aliases=("n",)),
        ALL_REPOSITORIES,
    )
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        wanted, limit = item_lookup.filter_of(context, request), request.whole("limit")
        found = db.read(context.connection, items.list_items, wanted, _LIMIT if limit is None else limit)
        rows = [item_lookup.row(one) for one in found]
        empty = "no items of that kind" if request.narrows else "no items yet: `imi item add TITLE` adds one"
        lines = table(item_lookup.COLUMNS, rows, status_action.terminal_width()) if rows else [empty]
        return Outcome(lines, {"items": [one.data() for one in found], "count": len(found)})


class ItemShowAction(Action):
    words = ("item show",)
    group = "Board"
    label = "Show an item"
    help = "show an item with its attempts, sessions, run and log"
    arguments = (item_lookup.ITEM,)
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        connection = context.connection
        item = item_lookup.find_item(context, str(request.text("id")))
        tried = db.read(connection, list_attempts, item)
        run = db.read(connection, runs.by_id, item.run_id) if item.run_id is not None else None
        data: dict[str, object] = {**item.data(), "attempts": [tasks_action.data(one) for one in tried]}
        data["files"] = db.read(connection, _list_files, tried)
        data["run"] = None if run is None else {"id": run.id, "state": run.shown_state, "folder": run.folder}
        return Outcome(details(item, tried, run), data)


class ItemEditAction(Action):
    words = ("item edit",)
    group = "Board"
    label = "Edit an item"
    help = "change title, text, priority, team or place of an item"
    arguments = (item_lookup.ITEM,)
    options = (
        Option("title", "its title", value="TEXT"),
        _TEXT,
        _PRIORITY,
        Option("team", 'the team it is for; "" for none', value="TEAM"),
        Option("batch", 'its batch; "" for none', value="FILE"),
        _SOURCE,
        Option("before", "put it in front of this item, with the priority of that one", value="ITEM"),
        Option("last", "put it behind all others of its priority"),
        claim_options.AGENT,
    )
    dialog_options = ("title", "text", "priority", "team")

    def run(self, context: Context, request: Request) -> Outcome:
        item, by = item_lookup.find_item(context, str(request.text("id"))), claim_options.agent(context, request)
        changes = _changes(request)
        before = request.text("before")
        other = None if before is None else item_lookup.find_item(context, before)

        def put(connection: sqlite3.Connection) -> ItemRow:
            if other is not None and other.id != item.id:
                changes.update(items.place_before(connection, item, other))
            elif request.flag("last"):
                changes.update(items.place_last(connection))
            return items.edit(connection, item, changes, by)

        if not changes and other is None and not request.flag("last"):
            raise UsageError("say what changes: --title, --text, --priority, --team, --before …", code="missing")
        now = db.transact(context.connection, put)
        return Outcome([item_lookup.title_line(now)], now.data())


class ItemAssignAction(Action):
    words = ("item assign",)
    group = "Board"
    label = "Assign an item"
    help = "give an item to an agent or person; without a name to no one"
    arguments = (item_lookup.ITEM, Argument("to", "the agent or person", optional=True))
    options = (claim_options.AGENT,)
    dialog_options = ("to",)

    def run(self, context: Context, request: Request) -> Outcome:
        item, by = item_lookup.find_item(context, str(request.text("id"))), claim_options.agent(context, request)
        to = (request.text("to") or "").strip() or None
        now = db.transact(context.connection, items.assign, item, None if to is None else item_lookup.agent_of(to), by)
        return Outcome([f"{safe(now.id, 40)} is given to {safe(to or 'no one', 60)}"], now.data())


def list_attempts(connection: sqlite3.Connection, item: ItemRow) -> list[Attempt]:
    """The attempts at an item, newest first, by its own id and by that of the other system."""
    wanted = [one for one in (item.id, item.external_id) if one is not None]
    found = [one for task in wanted for one in attempts.find(connection, AttemptFilter(task=task))]
    return sorted(found, key=lambda one: one.started_at, reverse=True)


def _list_files(connection: sqlite3.Connection, tried: list[Attempt]) -> list[str]:
    """The files that the sessions of the attempts wrote, without those that two of them wrote twice."""
    found = {one.seq: one for each in tried for one in each.sessions}
    paths = [file.path for seq in sorted(found) for file in session_events.list_artifacts(connection, seq)]
    return list(dict.fromkeys(paths))


def details(item: ItemRow, tried: list[Attempt], run: RunRow | None) -> list[str]:
    """The item for people, line by line."""
    pairs = [
        ("status", item_lookup.status_text(item.status)),
        ("priority", safe(item.priority, 10)),
        ("agent", safe(item.agent_id or "", 60)),
        ("team", safe(item.team or "", 60)),
        ("worktree", safe("/".join(filter(None, (item.repo_name, item.worktree_name))), 120)),
        ("batch", safe(item.batch or "", 200)),
        ("source", safe(item.source or "", 200)),
        ("also", safe(item.external_id or "", 200)),
        ("problem", safe(item.error or "", 300)),
        ("retries", str(item.retries) if item.retries else ""),
        ("created", time_format.clock(item.created_at)),
        ("run", f"{run.short}, {run.shown_state}, {safe(run.folder, 200)}" if run is not None else ""),
        ("log", f"imi logs {run.short}" if run is not None else ""),
    ]
    lines = [item_lookup.title_line(item), *(f"  {name:<9} {text}" for name, text in pairs if text)]
    lines += [f"  {safe(line, 300)}" for line in item.text.split("\n") if item.text]
    for one in tried:
        seen = ", ".join(safe(each.id, 60) for each in one.sessions)
        where = f"{safe(one.agent_id, 40)} in {safe(one.worktree_name, 60)}"
        lines.append(
            f"  attempt   {time_format.clock(one.started_at)}  {where}: {one.outcome}{f' ({seen})' if seen else ''}"
        )
    return lines


def _title(request: Request) -> str:
    return (request.text("title") or " ".join(request.rest("title"))).strip()


def _checked_text(request: Request) -> str | None:
    text = request.text("text")
    if text is not None and len(text.encode("utf-8", "surrogateescape")) > board.MOST_TEXT:
        raise UsageError(
            "--text has more than 2 KB: write it to a file and name that with --source FILE", code="bad-option"
        )
    return text


def _new_item(request: Request, repo: str | None) -> NewItem:
    title = _title(request)
    if not title:
        raise UsageError("imi item add needs a title, or --from FILE", code="missing")
    to = request.text("for")
    return NewItem(
        title=title,
        text=_checked_text(request) or "",
        priority=item_lookup.priority_of(request.text("priority") or board.MEDIUM),
        batch=item_lookup.label_of(request, "batch"),
        source=item_lookup.label_of(request, "source"),
        external_id=item_lookup.label_of(request, "external-id"),
        team=item_lookup.label_of(request, "team"),
        agent_id=None if to is None else item_lookup.agent_of(to),
        repo_name=repo,
    )


def _changes(request: Request) -> dict[str, object]:
    changes: dict[str, object] = {}
    title, text, priority = request.text("title"), _checked_text(request), request.text("priority")
    if title is not None:
        if not title.strip():
            raise UsageError("the title is empty", code="bad-option")
        changes["title"] = items.stored_title(title)
    if text is not None:
        changes["text"] = text.strip()
    if priority is not None:
        changes["priority"] = item_lookup.priority_of(priority)
    for name in ("team", "batch", "source"):
        if request.text(name) is not None:
            changes[name] = item_lookup.label_of(request, name)
    return changes


ACTIONS = (ItemAddAction(), ItemListAction(), ItemShowAction(), ItemEditAction(), ItemAssignAction())
