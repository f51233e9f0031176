"""The list of event kinds: nothing else is recorded."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor.store import db, events
from tests.helpers import ROOT


def test_only_declared_event_kinds_and_keys_are_recorded(tmp_path: Path) -> None:
    with closing(db.connect(str(tmp_path / "iMi.db"))) as connection:
        with pytest.raises(KeyError):
            db.transact(connection, events.record, "worktree.painted", "app", "feat-x")
        with pytest.raises(ValueError, match=r"'colour'.*worktree\.moved"):
            db.transact(connection, events.record, "worktree.moved", "app", "feat-x", data={"colour": "red"})
        db.transact(connection, events.record, "worktree.moved", "app", "feat-x", data={"path": "/w"})
        assert [event.type for event in events.list_events(connection)] == ["worktree.moved"]


def test_the_package_records_events_only_through_the_check() -> None:
    users = [path for path in (ROOT / "imi_monitor").rglob("*.py") if "append_row" in path.read_text()]
    assert [path.name for path in users] == ["events.py"]
