"""`imi runs archive` and `imi runs restore`: pack the folder of a run that is over, and bring it back."""

from __future__ import annotations

import os

from imi_monitor.actions.action import Action, Outcome
from imi_monitor.actions.runs import run_lookup
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.runs import run_archive, run_stop, run_upkeep
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.runs import RunRow


class ArchiveRunAction(Action):
    words = ("runs archive",)
    group = "Agents"
    label = "Archive run"
    help = "pack the folder of a run that is over into SAVED_REPORTS/archive"
    more = (
        "The archive is read back and compared before the folder leaves its place; `imi runs restore` brings the folder back."
        " `imi logs` reads the archive. The setting runs.archive_days does this by itself."
    )
    arguments = (run_lookup.RUN,)

    def consequences(self, context: Context, request: Request) -> list[str]:
        row = _over(context, request)
        return [f"packs {safe(row.folder)} into {safe(run_archive.path_of(row))}; `imi runs restore` brings it back"]

    def run(self, context: Context, request: Request) -> Outcome:
        row = _over(context, request)
        try:
            path = run_upkeep.archive(context.connection, row)
        except OSError as error:
            raise Refused(f"{row.short} cannot be packed: {error.strerror}", code="disk") from error
        lines = [f"packed {row.short} into {safe(path)}", f"undo  imi runs restore {row.short}"]
        return Outcome(lines, {"run": row.id, "archive": path})


class RestoreRunAction(Action):
    words = ("runs restore",)
    group = "Agents"
    label = "Restore run"
    help = "bring the folder of an archived run back"
    arguments = (run_lookup.RUN,)

    def consequences(self, context: Context, request: Request) -> list[str]:
        row = _archived(context, request)
        return [f"brings {safe(row.folder)} back; its archive stays"]

    def run(self, context: Context, request: Request) -> Outcome:
        row = _archived(context, request)
        run_archive.restore(row)
        db.transact(context.connection, runs.set_archive, row, None)
        return Outcome([f"restored {safe(row.folder)}"], {"run": row.id, "folder": row.folder})


def _over(context: Context, request: Request) -> RunRow:
    row = run_lookup.find_run(context, request.text("name"))
    if row.is_open:
        raise Refused(f"{row.short} is not over ({row.shown_state}): `imi stop {row.short}` ends it", code="open")
    if row.archive:
        raise Refused(f"{row.short} is packed already: {safe(row.archive)}", code="archived")
    if not os.path.isdir(row.folder):
        raise Refused(f"the folder of {row.short} is gone: {safe(row.folder)}", code="missing")
    if run_stop.list_left_behind([row]):
        raise Refused(f"{row.short} left processes behind: end them with `imi stop {row.short}`", code="left-behind")
    return row


def _archived(context: Context, request: Request) -> RunRow:
    row = run_lookup.find_run(context, request.text("name"))
    if not row.archive:
        raise Refused(f"{row.short} is not archived: its folder is {safe(row.folder)}", code="not-archived")
    return row


ACTIONS = (ArchiveRunAction(), RestoreRunAction())
