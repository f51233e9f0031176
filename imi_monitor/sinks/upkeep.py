"""What the commands do for the sinks where no dashboard runs: before old events are deleted, the archive gets some of them."""

from __future__ import annotations

from imi_monitor import sinks
from imi_monitor.model.errors import ImiError
from imi_monitor.sinks import history_sink
from imi_monitor.store import db, event_batches, history_file, registry_identity, retention, sink_cursors
from imi_monitor.store.retention import LIMITS, RetentionLimits

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.config import Settings

_BATCH = 200


def prepare_deletion(
    connection: sqlite3.Connection, settings: Settings, database: str, limits: RetentionLimits = LIMITS
) -> None:
    """If old events are due: record which sinks must have them first, and archive as many as one call deletes."""
    if not retention.has_many_events(connection, limits):
        return
    wanted = sinks.wanted(settings)
    if not db.read(connection, sink_cursors.is_configured, wanted):
        db.transact(connection, sink_cursors.configure, sinks.beginnings(wanted))
    if history_sink.NAME in wanted and not retention.is_history_due(connection, limits):
        try:
            _archive(connection, database, limits.rows_per_call)
        except ImiError as error:
            db.transact_unsynced(connection, sink_cursors.set_problem, history_sink.NAME, error.sentence)


def _archive(connection: sqlite3.Connection, database: str, most: int) -> None:
    """Archive so many events. A relay of another process may do the same: the cursor decides, and no entry is doubled."""
    import sqlite3

    registry = registry_identity.registry_id(connection) or ""
    path = history_file.history_path(database)
    archive = history_file.connect(path)
    try:
        while most > 0:
            batch = db.read(connection, event_batches.read_batch, history_sink.NAME, _BATCH)
            if not batch.events:
                return
            db.sync_to_disk(connection)
            after = batch.events[-1].event.seq
            entries = [history_sink.entry_of(one) for one in batch.events]
            history_file.append(archive, entries, registry, history_sink.EVENTS, after)
            db.transact_unsynced(connection, sink_cursors.advance, history_sink.NAME, batch.cursor, after)
            most -= len(entries)
    except sqlite3.Error as error:
        raise history_file.history_error(error, path) from error
    finally:
        archive.close()
