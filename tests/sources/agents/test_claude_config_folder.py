"""Which of Claude's folders are there to be followed: hundreds are not, and asking for each of them again and again costs more
than what they would tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor.sources.agents.claude import config_folder


def test_a_folder_that_was_not_there_is_asked_for_when_something_came_where_it_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, now = config_folder._There(), 100.0
    monkeypatch.setattr(config_folder.time, "monotonic", lambda: now)
    session, below, other = (str(tmp_path / name) for name in ("s", "s/subagents", "t"))
    wanted = [session, below, other]
    assert there.of(wanted) == []
    for folder in (below, other):
        Path(folder).mkdir(parents=True)
    assert there.of(wanted) == [], "nobody told of them yet"
    there.expect([session])
    assert there.of(wanted) == [session, below]
    now += config_folder._MISSED
    assert there.of(wanted) == wanted, "after a while it is asked for all the same"
