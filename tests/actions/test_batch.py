"""Batches on fake programs: from a file to items, worktrees, agents and outcomes; cut off anywhere and gone on with."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from typing import Any

import pytest

from imi_monitor import actions
from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from tests.helpers import imi_argv, wait_for
from tests.limits import LIMIT
from tests.runs.conftest import world as world
from tests.runs.run_kit import RunWorld, registry

FILE = "reports/priorities-2026-11-19.md"


def write(world: RunWorld, *blocks: str, name: str = FILE) -> None:
    world.repo.write(name, "\n\n".join(f"# Priority {number}\n{text}" for number, text in enumerate(blocks, 1)))


def batch(world: RunWorld, *words: str) -> list[dict[str, Any]]:
    ran = world.imi("batch", *words, "--json", cwd=world.repo.path, timeout=LIMIT)
    return [json.loads(line) for line in ran.out.splitlines()]


def rows(sql: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{registry()}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def count_running() -> int:
    """0 until the batch has made the registry."""
    with suppress(sqlite3.OperationalError):
        return int(rows("SELECT count(*) FROM runs WHERE state = 'running'")[0][0])
    return 0


def statuses(world: RunWorld) -> dict[str, str]:
    return dict(rows("SELECT title, status FROM items ORDER BY seq"))


def test_a_batch_from_a_file_to_its_outcomes(world: RunWorld) -> None:  # S4.2 S4.3 S4.15 S4.20 S4.21
    write(world, "**Description:** say hello", "**Description:** die [[die]]", "**Description:** report [[report]]")
    listed = batch(world)
    assert [(one["file"], len(one["items"])) for one in listed] == [(FILE, 3)]
    assert [one["title"] for one in batch(world, FILE, "--dry-run")] == [
        "say hello",
        "die [[die]]",
        "report [[report]]",
    ]
    assert rows("SELECT count(*) FROM items") == [(0,)], "a dry run makes nothing"
    said = batch(world, FILE, "--agent", "claude", "--parallel", "2")
    assert statuses(world) == {"say hello": "completed", "die [[die]]": "failed", "report [[report]]": "completed"}
    assert said[-1]["items"]["completed"] == 2 and said[-1]["items"]["failed"] == 1
    trees = [one["worktree_name"] for one in world.imi("list", "--json").data["worktrees"]]
    assert {"feat-say-hello-1", "feat-die-die-2", "feat-report-report-3"} <= set(trees)
    assert "batch" not in world.imi("claims", "--json").out
    again = batch(world, FILE, "--agent", "claude")
    assert again[-1]["items"]["failed"] == 1 and rows("SELECT count(*) FROM runs") == [(3,)], "nothing is made twice"
    home = world.repo.path.parent / "app.worktrees"
    session = said[0]["session"]
    log = home / "logs" / "orchestrator-sessions" / session
    assert "say hello" in (log / "orchestrator.log").read_text()
    assert len(list(log.glob("claude-*-orchestrated.log"))) == 3
    state = json.loads((home / ".compound-state" / session / "orchestrator.json").read_text())
    assert state["status"] == "failed" and state["priorityFile"] == FILE
    assert sorted(state["specialists"].values()) == ["completed", "completed", "failed"]


def test_an_edited_file_changes_what_waits_and_keeps_what_is_done(world: RunWorld) -> None:
    write(world, "**Description:** first", "**Description:** second")
    world.imi("item", "list", cwd=world.repo.path)
    batch(world, FILE, "--agent", "claude", "--parallel", "1")
    write(world, "**Description:** new in front", "**Description:** first", "**Description:** second, changed")
    batch(world, FILE, "--agent", "claude")
    assert statuses(world) == dict.fromkeys(("first", "second", "new in front", "second, changed"), "completed")
    assert rows("SELECT source FROM items WHERE title = 'first'") == [(f"{FILE}#2",)]


def test_only_one_process_orchestrates_a_batch_and_term_ends_its_agents(world: RunWorld) -> None:
    write(world, "**Description:** slow [[slow]]", "**Description:** slow too [[slow]]", "**Description:** third")
    process = start(world, parallel=2)
    wait_for(lambda: count_running() == 2)
    second = world.imi("batch", FILE, cwd=world.repo.path)
    assert second.code == 1 and f"{FILE} is under way already, in process {process.pid}" in second.err
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT) == 128 + signal.SIGTERM
    assert set(statuses(world).values()) == {"pending"}
    assert rows("SELECT count(*) FROM runs WHERE ended_at IS NULL") == [(0,)]
    assert world.imi("claims", "--json").data["claims"] == []


def start(world: RunWorld, parallel: int = 4) -> subprocess.Popen[bytes]:
    argv = imi_argv("batch", FILE, "--agent", "claude", "--parallel", str(parallel))
    quiet = subprocess.DEVNULL
    return subprocess.Popen(argv, cwd=world.repo.path, stdin=quiet, stdout=quiet, stderr=quiet)


def _wait_for_changes(process: subprocess.Popen[bytes], wanted: int) -> None:
    """Return after so many changes of items, worktrees under way and runs, or at the process's end."""
    seen: list[object] = []
    end = time.monotonic() + LIMIT
    while process.poll() is None and len(seen) <= wanted and time.monotonic() < end:
        now = None
        with suppress(sqlite3.OperationalError):  # until the batch has made the registry
            now = rows(
                "SELECT (SELECT group_concat(status) FROM items), (SELECT count(*) FROM operations),"
                " (SELECT group_concat(status) FROM runs), (SELECT count(*) FROM claims)"
            )
        if not seen or now != seen[-1]:
            seen.append(now)
        time.sleep(0.005)


def _killed_and_taken_up_again(world: RunWorld, kills: int, items: int) -> None:
    write(world, *(f"**Description:** thing {number}" for number in range(1, items + 1)))
    draw = random.Random(18)
    for _ in range(kills):
        process = start(world)
        _wait_for_changes(
            process, draw.randint(0, 6)
        )  # on a busy machine, time alone would end it before it does anything
        with suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0.0, 0.4))
        process.kill()
        process.wait(LIMIT)
    try:
        said = batch(world, FILE, "--agent", "claude", "--parallel", "4")
    except subprocess.TimeoutExpired:
        found = rows("SELECT id, status, run_id, error FROM items")
        pytest.fail(f"{found} {rows('SELECT id, status, state, detail, pid FROM runs')}")
    assert said[-1]["items"]["completed"] == items, said
    assert rows("SELECT count(*) FROM items") == [(items,)]
    runs = rows("SELECT worktree_name, count(*) FROM runs WHERE status = 'completed' GROUP BY worktree_name")
    assert sorted(runs) == sorted((f"feat-thing-{number}-{number}", 1) for number in range(1, items + 1))
    assert rows("SELECT count(*) FROM operations") == [(0,)]
    made = [one for one in os.listdir(world.repo.path.parent / "app.worktrees") if one.startswith("feat-thing")]
    assert len(made) == items


def test_a_batch_that_was_killed_goes_on_and_makes_nothing_twice(world: RunWorld) -> None:
    _killed_and_taken_up_again(world, kills=3, items=4)


def test_a_batch_in_the_background_has_the_options_of_its_dialog(
    world: RunWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `S` on the board starts it: from a process whose own command line is another one."""
    write(world, "**Description:** say hello", "**Description:** die [[die]]")
    monkeypatch.chdir(world.repo.path)
    monkeypatch.setattr(sys, "argv", ["imi"])
    action = actions.find("batch")
    assert action is not None
    values = {"file": FILE, "agent": "codex", "parallel": 1.0, "detach": True}
    with Context() as context:
        outcome = action.run(context, Request("batch", values))
    assert outcome.lines == [f"{FILE} goes on in the background: `imi board` shows it"]

    def over() -> bool:
        with suppress(sqlite3.OperationalError):  # until the batch has made the registry
            return sorted(statuses(world).values()) == ["completed", "failed"]
        return False

    wait_for(over)
    assert rows("SELECT DISTINCT program FROM runs") == [("codex",)], "not the first program that is installed"


@pytest.mark.soak
def test_a_batch_of_twelve_is_killed_at_twenty_moments(world: RunWorld) -> None:
    _killed_and_taken_up_again(world, kills=20, items=12)


def test_files_that_make_no_batch_are_refused(world: RunWorld) -> None:
    world.repo.write("tasks/torn.json", '{"type": "mark')
    world.repo.write("tasks/whole.json", '{"type": "marketing-campaign", "priority": "high"}')
    (world.repo.path / "tasks" / "link.json").symlink_to("/etc/passwd")
    listed = {one["file"]: one for one in batch(world)}
    assert listed["tasks/torn.json"]["problem"] == "the file is no JSON in line 1"
    assert listed["tasks/whole.json"]["kind"] == "marketing-campaign" and "tasks/link.json" not in listed
    for words, code, sentence in (
        (("tasks/torn.json",), 1, "tasks/torn.json cannot be used: the file is no JSON in line 1"),
        (("tasks/no.json",), 2, "there is no file tasks/no.json: `imi batch` lists those of this worktree"),
        (("tasks/whole.json", "--parallel", "0"), 2, "--parallel takes a number from 1 to 64"),
        (("tasks/whole.json", "--agent", "nano"), 2, "imi cannot start 'nano': use one of"),
    ):
        ran = world.imi("batch", *words, cwd=world.repo.path)
        assert ran.code == code and ran.err.startswith(f"imi: {sentence}"), ran
    assert rows("SELECT count(*) FROM items") == [(0,)]
