"""`imi archive` and `imi history`: what happened stays searchable, also when the registry is gone."""

from __future__ import annotations

import os
import shlex
import sqlite3
import subprocess
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from imi_monitor.model import times
from imi_monitor.model.agent import COMPLETED
from imi_monitor.store import db, sink_cursors
from tests.helpers import ROOT, Repo, imi, imi_argv
from tests.limits import LIMIT
from tests.store import session_kit


@pytest.fixture
def world(tmp_path: Path) -> Repo:
    repo = Repo.create(tmp_path / "app")
    repo.worktree("feat-x")
    assert imi("claim", "feat-x", "--agent", "claude-1", "--task", "T-77", cwd=repo.path).code == 0
    assert imi("release", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0
    return repo


def registry_path() -> Path:
    return Path(os.environ["HOME"]) / ".config" / "iMi" / "iMi.db"


def sentences(world: Repo, *words: str) -> list[str]:
    return [one["sentence"] for one in imi("history", *words, "--json", cwd=world.path).data["entries"]]


def test_what_is_archived_is_found_when_the_registry_is_gone(world: Repo) -> None:  # S2.29 S2.51
    done = imi("archive", cwd=world.path)
    assert done.code == 0 and done.out == "history: 2 events delivered, has every event\n"
    assert imi("archive", "--json", cwd=world.path).data["sinks"][0]["delivered"] == 0
    found = ["claude-1 released feat-x, task T-77", "claude-1 claimed feat-x for T-77"]
    assert sentences(world, "feat-x") == found
    assert sentences(world, "claimed", "T-77") == [found[1]]
    for file in registry_path().parent.iterdir():
        if not file.name.startswith("history"):
            file.unlink()
    assert sentences(world, "feat-x", "--since", "1h") == found
    assert sentences(world, "--agent", "nobody-1") == []


def test_a_search_finds_what_has_just_happened(world: Repo) -> None:
    """Also where nothing archives all the time."""
    assert len(sentences(world, "feat-x")) == 2
    assert imi("claim", "feat-x", "--agent", "claude-2", cwd=world.path).code == 0
    assert sentences(world, "feat-x")[0] == "claude-2 claimed feat-x"
    assert imi("archive", cwd=world.path).out == "history: has every event\n"


def test_a_search_without_an_archive_says_so(world: Repo) -> None:
    (registry_path().parent / "config.toml").write_text("[history]\nenabled = false\n")
    done = imi("history", "feat-x", cwd=world.path)
    assert done.code == 0 and "nothing is archived: history.enabled is off" in done.out
    assert not (registry_path().parent / "history.db").exists()


def test_intents_are_kept_and_found(world: Repo) -> None:  # S2.28 S2.29 S2.48
    assert imi("intent", "mend the flaky tokenizer", cwd=world.path).code == 0
    assert imi("archive", cwd=world.path).code == 0
    with closing(db.connect(str(registry_path()))) as connection:
        db.transact(connection, lambda inner: inner.execute("DELETE FROM events"))
    assert any("mend the flaky tokenizer" in one for one in sentences(world, "flaky", "--type", "intent"))


def test_prompts_and_outcomes_of_sessions_are_found(world: Repo) -> None:
    prompt = session_kit.act("prompt", "p1", 0, "please mend the flaky parser\nwith password=hunter2supersecret")
    ended = session_kit.agent(
        COMPLETED, 10, worktree="feat-x", ended=True, title="Parser", last_message="the tokenizer was wrong"
    )
    with closing(db.connect(str(registry_path()))) as connection:
        session_kit.record_observation(connection, session_kit.agent(worktree="feat-x"), prompt, now=5)
        session_kit.record_observation(connection, ended, now=20)
    assert imi("archive", cwd=world.path).code == 0
    hit = imi("history", "flaky", "--json", cwd=world.path).data["entries"][0]
    assert hit["type"] == "session.prompt" and "please mend the flaky parser" in hit["sentence"]
    assert "hunter2" not in str(hit)
    assert imi("history", "tokenizer", "--json", cwd=world.path).data["entries"][0]["type"] == "session.ended"

    forgotten = imi("history", "--forget", hit["id"], cwd=world.path)
    assert forgotten.code == 0 and forgotten.out.startswith("forgot: ")
    assert sentences(world, "flaky") == []
    with closing(db.connect(str(registry_path()))) as connection:
        assert "flaky" not in "".join(connection.iterdump())
    assert imi("archive", cwd=world.path).code == 0 and sentences(world, "flaky") == []


def test_what_to_forget_must_be_named(world: Repo) -> None:
    imi("archive", cwd=world.path)
    for wanted, says in (("zzz", "no entry has an id"), ("", "2 or more entries have")):
        done = imi("history", "--forget", wanted, cwd=world.path)
        assert (done.code, done.out) == (1, "") and says in done.err


def test_an_archive_that_cannot_be_written_is_said_and_loses_nothing(world: Repo) -> None:
    archive = registry_path().parent / "history.db"
    archive.write_bytes(b"no database" * 1000)
    done = imi("archive", cwd=world.path)
    assert done.code == 1 and "2 events wait, the oldest for" in done.out and "is damaged: move it away" in done.out
    assert imi("claim", "feat-x", "--agent", "claude-2", cwd=world.path).code == 0
    archive.unlink()
    assert imi("archive", cwd=world.path).code == 0 and len(sentences(world)) == 3


def test_an_archive_on_a_disk_that_is_full_is_said_and_catches_up(world: Repo, small_disk: tuple[str, ...]) -> None:
    """A real one of 2 MB. The registry is on another disk."""
    small = Path(small_disk[-1])
    (registry_path().parent / "history.db").symlink_to(small / "history.db")
    command = " ".join(map(shlex.quote, imi_argv()))
    script = f"""touch {small}/history.db; cd {world.path}; imi() {{ {command} "$@" 2>&1; echo "= $?"; }}
        imi archive; head -c 3M /dev/zero >{small}/ballast 2>/dev/null
        imi claim feat-x --agent claude-2; imi archive; imi history claude; imi doctor
        rm {small}/ballast; imi archive; imi history claude-2"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*small_disk, "sh", "-c", script], env=env, capture_output=True, text=True, check=True, timeout=LIMIT
    )
    first, claimed, full, search, doctor, after, found, _ = done.stdout.split("= ")
    assert "2 events delivered" in first and "is claimed by claude-2" in claimed, "no claim needs the archive"
    assert "1 event waits for" in full and "the disk of" in full and "is full: free some space" in full, full
    assert "Traceback" not in done.stdout + done.stderr and "claude-1 claimed feat-x" in search, (
        "what is there is found"
    )
    assert "is full" in doctor and "1 event delivered, has every event" in after and "claude-2 claimed" in found


def test_a_lost_archive_is_made_again_of_what_the_registry_has(world: Repo) -> None:
    assert imi("archive", cwd=world.path).code == 0
    (registry_path().parent / "history.db").unlink()
    assert imi("archive", cwd=world.path).code == 0 and len(sentences(world)) == 2


def test_the_archive_can_be_switched_off(world: Repo) -> None:
    config = Path(os.environ["HOME"]) / ".config" / "iMi" / "config.toml"
    config.write_text("[history]\nenabled = false\n")
    assert "history.enabled is off" in imi("archive", cwd=world.path).out
    with closing(db.connect(str(registry_path()))) as connection:
        assert sink_cursors.floor(connection) is None


def test_an_sqlite_without_fts5_searches_all_the_same_and_says_so(world: Repo) -> None:
    assert imi("archive", cwd=world.path).code == 0
    with closing(sqlite3.connect(registry_path().parent / "history.db")) as archive, archive:
        archive.execute("DROP TABLE found")
    found = imi("history", "claimed", "T-77", cwd=world.path)
    assert found.code == 0 and "claude-1 claimed feat-x for T-77" in found.out and "has no FTS5" in found.err
    assert imi("claim", "feat-x", "--agent", "claude-2", cwd=world.path).code == 0
    assert imi("archive", cwd=world.path).code == 0 and sentences(world, "claude-2") == ["claude-2 claimed feat-x"]


def test_what_waits_for_a_day_is_warned_of(world: Repo) -> None:
    assert imi("archive", "--status", cwd=world.path).code == 1
    assert "ok    events to history: 2 events wait" in imi("doctor", cwd=world.path).out
    with closing(db.connect(str(registry_path()))) as connection, connection:
        moment = times.stamp(times.now() - timedelta(hours=25))
        connection.execute("UPDATE events SET occurred_at = ?", (moment,))
    assert "warn  events to history: 2 events wait, the oldest for 1d" in imi("doctor", cwd=world.path).out
    assert imi("archive", cwd=world.path).code == 0
    assert "ok    events to history: has every event" in imi("doctor", cwd=world.path).out


def test_the_timer_is_printed_and_not_installed(world: Repo) -> None:
    done = imi("archive", "--timer", cwd=world.path)
    assert (
        done.code == 0
        and "OnCalendar=daily" in done.out
        and "* * *" in done.out
        and "nothing was installed" in done.err
    )
