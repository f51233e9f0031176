"""Commands alone, without a dashboard, archive old events before they are deleted."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from imi_monitor import config
from imi_monitor.sinks import upkeep
from imi_monitor.store import db, history_file, history_search, retention, sink_cursors
from imi_monitor.store.history_search import HistoryQuery
from imi_monitor.store.retention import RetentionLimits
from tests.sinks.sink_kit import add_events, state

SMALL = RetentionLimits(events=100, grants=50, rows_per_call=200)


def test_no_event_is_deleted_that_is_not_archived(tmp_path: Path) -> None:
    path = tmp_path / "iMi.db"
    add_events(path, 700)
    settings = config.Settings()
    with closing(db.connect(str(path))) as connection:
        for _ in range(8):
            upkeep.prepare_deletion(connection, settings, str(path), SMALL)
            if retention.is_history_due(connection, SMALL):
                db.transact(connection, retention.trim_history, SMALL)
        kept = connection.execute("SELECT count(*), max(seq) FROM events").fetchone()
        assert kept[0] <= 300 and kept[1] == 700
        assert sink_cursors.list_sinks(connection)[0].dropped == 0
    with closing(history_file.connect(history_file.history_path(str(path)))) as archive:
        found = history_search.search(archive, HistoryQuery(), 1000)
    assert len(found) + kept[0] >= 700 and len({hit.id for hit in found}) == len(found)


def test_an_archive_that_cannot_be_used_keeps_the_events(tmp_path: Path) -> None:
    path = tmp_path / "iMi.db"
    add_events(path, 500)
    (tmp_path / "history.db").write_bytes(b"no database" * 1000)
    with closing(db.connect(str(path))) as connection:
        upkeep.prepare_deletion(connection, config.Settings(), str(path), SMALL)
        assert not retention.is_history_due(connection, SMALL)
    assert "is damaged" in str(state(path, "history").problem) and state(path, "history").backlog == 500
