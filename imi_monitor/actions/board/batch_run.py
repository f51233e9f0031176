"""Orchestrates a batch: items, a worktree and an agent for each, and their outcomes.

All that it needs to go on after a kill is in the registry: the item is in progress in the transaction that queues its run, and
its worktree is noted before it is made. So a batch that is started again continues, and makes nothing twice.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress

from imi_monitor.actions.action import Request
from imi_monitor.actions.board import item_start_action
from imi_monitor.model import board
from imi_monitor.model.agent import RESTING, WAITING
from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.model.run import ALIVE
from imi_monitor.model.text import safe
from imi_monitor.runs import follower_process, run_stop
from imi_monitor.runs.provider import TASK
from imi_monitor.store import batches, db, item_moves, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.signal_mark import SignalMark
    from imi_monitor.store.items import ItemRow
    from imi_monitor.store.runs import RunRow

_POLL_SECONDS = 0.1
_FOLLOWER_SECONDS = 5.0  # between two checks that a follower runs
_PATIENCE = 5.0  # seconds between asking an agent without work to end and ending it


class BatchRun:
    """One batch while this process orchestrates it. `report(item, what, detail)` is called at each change."""

    def __init__(
        self,
        context: Context,
        session: str,
        wanted: Sequence[ItemRow],
        start: dict[str, object],
        parallel: int,
        report: Callable[[ItemRow, str, str], None],
        changed: Callable[[list[ItemRow]], None],
    ) -> None:
        self._context = context
        self._session = session
        self._ids = [one.id for one in wanted]
        self._start_values = start
        self._parallel = parallel
        self._report = report
        self._changed = changed  # gets all items whenever one of them has changed
        self._known: dict[str, tuple[str, str | None]] = {}
        self._asked_at: dict[str, float] = {}  # run -> when it was asked to end
        self._asks: set[str] = set()  # runs whose question was reported
        self._followed_at = 0.0

    def run(self, stop: SignalMark) -> bool:
        """Go on until no item waits and no agent works; False if a signal or the caller ended it."""
        while True:
            current = self._read()
            self._report_changes(current)
            if stop.signal or self._context.cancelled():
                self._stop_all(current)
                self._report_changes(self._read())
                return False
            alive = self._alive(current)
            for item, run in alive:
                self._attend(item, run)
            waiting = [one for one in current if one.status == board.PENDING]
            if not waiting and not alive:
                return True
            if waiting and len(alive) < self._parallel:
                self._start(waiting[0])
                continue
            self._ensure_follower()
            time.sleep(_POLL_SECONDS)

    def count(self) -> Counter[str]:
        return Counter(one.status for one in self._read())

    def _read(self) -> list[ItemRow]:
        """The items of the batch as they are now, in the order of the file."""
        found = db.read(self._context.connection, batches.list_session, self._session)
        by_id = {one.id: one for one in found}
        return [by_id[ident] for ident in self._ids if ident in by_id]

    def _run_of(self, item: ItemRow) -> RunRow | None:
        return db.read(self._context.connection, runs.by_id, item.run_id) if item.run_id is not None else None

    def _alive(self, current: Sequence[ItemRow]) -> list[tuple[ItemRow, RunRow]]:
        """The items whose run is not over, also those that were blocked or moved meanwhile."""
        found = [(one, self._run_of(one)) for one in current]
        return [(item, run) for item, run in found if run is not None and run.is_open]

    def _report_changes(self, current: list[ItemRow]) -> None:
        news = False
        for one in current:
            state = (one.status, one.run_id)
            if self._known.get(one.id) != state:
                news = True
                if one.id in self._known or one.status != board.PENDING:
                    self._report(one, one.status, one.error or "")
                self._known[one.id] = state
        if news:
            self._changed(current)

    def _start(self, item: ItemRow) -> None:
        """Start an agent on an item; whatever refuses it is the failure of this item alone."""
        try:
            request = Request("item start", {"id": item.id, **self._start_values})
            asked = item_start_action.start_request(self._context, item, request)
            item_start_action.start(self._context, item, asked)
        except RegistryError:
            raise
        except (ImiError, OSError) as error:
            why = error.sentence if isinstance(error, ImiError) else str(error)
            self._fail(item, f"it could not be started: {safe(why, 400)}")

    def _fail(self, item: ItemRow, why: str) -> None:
        def put(connection: sqlite3.Connection) -> None:
            now = next((one for one in batches.list_session(connection, self._session) if one.id == item.id), item)
            if now.status in (board.PENDING, board.IN_PROGRESS):
                item_moves.move(connection, item.id, board.FAILED, reason=why)

        db.transact(self._context.connection, put)

    def _attend(self, item: ItemRow, run: RunRow) -> None:
        """Report a question of the agent once; end an agent whose turn is over."""
        if run.state == WAITING and run.id not in self._asks:
            self._asks.add(run.id)
            self._report(item, "asks", f"imi answer {run.short} yes|no|TEXT")
        if run.state != WAITING:
            self._asks.discard(run.id)
        if run.status != ALIVE or run.state not in RESTING:
            return
        since = self._asked_at.get(run.id)
        if since is None:
            self._asked_at[run.id] = time.monotonic()
            if run.way == TASK:
                run_stop.ask_to_end(run)
        elif time.monotonic() - since >= _PATIENCE:
            self._stop(run)

    def _stop(self, run: RunRow) -> None:
        with suppress(ImiError):  # it goes on: the next round sees it
            run_stop.stop(self._context.connection, run, f"batch {self._session}")

    def _stop_all(self, current: Sequence[ItemRow]) -> None:
        """End all agents of the batch; their items wait again."""
        for _, run in self._alive(current):
            self._stop(run)
        until = time.monotonic() + _PATIENCE
        self._ensure_follower()
        while self._alive(self._read()) and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)

    def _ensure_follower(self) -> None:
        """The follower turns the agents' output into rows: start it again if it was killed."""
        if time.monotonic() - self._followed_at >= _FOLLOWER_SECONDS:
            self._followed_at = time.monotonic()
            follower_process.ensure(self._context.database)
