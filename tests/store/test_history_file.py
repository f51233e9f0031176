"""The embedded archive: what is stored once stays, is found by its words, and can be forgotten on purpose."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor.store import history_file, history_search
from imi_monitor.store.history_file import HistoryEntry, HistoryError
from imi_monitor.store.history_search import HistoryQuery


def entry(number: int, words: str, **more: str | None) -> HistoryEntry:
    fields: dict[str, str | None] = {
        "type": "worktree.claimed",
        "at": f"2026-01-{number % 28 + 1:02}T10:00:00.000000+00:00",
        "repo_name": "app",
        "worktree_name": "feat-x",
        "agent_id": "claude-1",
        **more,
    }
    return HistoryEntry(
        f"id-{number:04}", "r1", str(fields["type"]), str(fields["at"]), "h", fields["repo_name"], fields["worktree_name"],
        fields["agent_id"], 1, "{}", words,
    )  # fmt: skip


@pytest.fixture(params=["index", "scan"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """An archive, and one of an SQLite without FTS5."""
    with closing(history_file.connect(str(tmp_path / "history.db"))) as connection:
        if request.param == "scan":
            connection.execute("DROP TABLE found")
        yield connection


def add(connection: sqlite3.Connection, *entries: HistoryEntry, upto: int = 0) -> int:
    return history_file.append(connection, entries, "r1", "events", upto)


def found(connection: sqlite3.Connection, *words: str, **more: object) -> list[str]:
    query = HistoryQuery(words=words, **more)  # type: ignore[arg-type]
    return [hit.id for hit in history_search.search(connection, query, 50)]


def test_an_entry_that_is_delivered_twice_is_stored_once(archive: sqlite3.Connection) -> None:
    assert add(archive, entry(1, "one"), entry(2, "two"), upto=2) == 2
    assert add(archive, entry(2, "two"), entry(3, "three"), upto=3) == 1
    assert found(archive) == ["id-0003", "id-0002", "id-0001"]
    assert history_file.position(archive, "r1", "events") == 3
    assert history_file.position(archive, "another", "events") == 0


def test_all_words_must_occur_and_the_last_may_be_a_beginning(archive: sqlite3.Connection) -> None:
    add(archive, entry(1, "claude-1 claimed feat-x\ntoken refresh"), entry(2, "codex-1 removed feat-y\nTokens"))
    assert found(archive, "token") == ["id-0002", "id-0001"]
    assert found(archive, "token", "claimed") == ["id-0001"]
    assert found(archive, "TOKEN", "refr") == ["id-0001"]
    assert found(archive, "nothing") == []


@pytest.mark.parametrize("word", ['"', "a OR b", "NEAR(", "*", "words : x", "^feat", "' --", "%", "\0", "é", "{}"])
def test_no_word_is_an_operator(archive: sqlite3.Connection, word: str) -> None:
    add(archive, entry(1, "claude-1 claimed feat-x"))
    assert found(archive, *word.split()) in ([], ["id-0001"])


def test_filters_narrow_the_search(archive: sqlite3.Connection) -> None:
    add(
        archive,
        entry(1, "token", agent_id="codex-1"),
        entry(2, "token", repo_name="other's"),
        entry(3, "token", type="session.prompt"),
        entry(4, "token", worktree_name="fix-1"),
    )
    assert found(archive, "token", agent="codex-1") == ["id-0001"]
    assert found(archive, repo_name="other's") == ["id-0002"]
    assert found(archive, types=("session.*",)) == ["id-0003"]
    assert found(archive, types=("session.prompt", "session.ended")) == ["id-0003"]
    assert found(archive, worktree_name="fix-1") == ["id-0004"]
    assert found(archive, "token", since="2026-01-04T00:00:00") == ["id-0004", "id-0003"]
    assert found(archive, "token", since="2030-01-01T00:00:00") == []
    assert found(archive, until="2026-01-03T00:00:00") == ["id-0001"]
    third = history_search.find(archive, "id-0003")[0]
    assert found(archive, before=third.seq) == ["id-0002", "id-0001"]


def test_the_newest_come_first_in_whatever_order_they_were_archived(archive: sqlite3.Connection) -> None:
    add(archive, entry(5, "token"), entry(2, "token"), entry(9, "token", at="never"), entry(8, "token", at="never"))
    add(
        archive,
        *(entry(number, "token", at="2026-01-03T00:00:00+00:00") for number in range(100, 140)),
        entry(4, "token"),
    )
    numbers = found(archive, "token")
    assert numbers[:4] == ["id-0005", "id-0004", "id-0002", "id-0139"] and numbers[-2:] == ["id-0008", "id-0009"]
    assert history_file.count(archive) == 45


def test_texts_that_no_database_takes_are_stored_as_far_as_possible(archive: sqlite3.Connection) -> None:
    add(archive, entry(1, "nul \0 inside"), entry(2, "half \ud800 surrogate"), entry(3, "big " + "word " * 500_000))
    assert found(archive, "inside") == ["id-0001"] and found(archive, "surrogate") == ["id-0002"]
    assert len(history_search.find(archive, "id-0003")[0].words.encode()) <= history_file.MOST_WORDS


def test_what_is_forgotten_is_gone_from_the_file_and_does_not_come_back(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(history_file.connect(str(path))) as connection:
        add(connection, *(entry(number, f"harmless {number}") for number in range(50)), entry(99, "hunter2secretword"))
        assert history_file.forget(connection, "id-0099") == 1
        assert found(connection, "hunter2secretword") == [] and found(connection, "harmless", "49") == ["id-0049"]
        assert add(connection, entry(99, "hunter2secretword")) == 0, "a second delivery does not bring it back"
        connection.execute("INSERT INTO found (found) VALUES ('integrity-check')")
    assert all(b"hunter2secretword" not in file.read_bytes() for file in tmp_path.glob("history.db*"))


def test_a_full_disk_is_said_and_undoes_the_transaction(tmp_path: Path) -> None:
    path = str(tmp_path / "history.db")
    with closing(history_file.connect(path)) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(sqlite3.OperationalError) as caught:
            add(connection, *(entry(number, f"long {'word ' * 900}") for number in range(20)), upto=20)
        assert "is full: free some space" in history_file.history_error(caught.value, path).sentence
        connection.execute("PRAGMA max_page_count = 1000000")
        assert found(connection) == [] and history_file.position(connection, "r1", "events") == 0
        assert add(connection, entry(1, "word"), upto=1) == 1


def test_the_archive_is_private_and_refuses_what_is_none(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    history_file.connect(str(path)).close()
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(HistoryError, match="cannot open"):
        history_file.connect(str(tmp_path / "none.db"), create=False)
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"no database" * 1000)
    with pytest.raises(HistoryError, match="is damaged"):
        history_file.connect(str(damaged))
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as foreign:
        foreign.execute("CREATE TABLE songs (x)")
    with pytest.raises(HistoryError, match="another program"):
        history_file.connect(str(tmp_path / "foreign.db"))
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 99")
    with pytest.raises(HistoryError, match="newer imi"):
        history_file.connect(str(path))
