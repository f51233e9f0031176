"""The reader of the spool: exact, cheap without events, considerate of other monitors, and bounded on disk."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.model.agent import COMPLETED, RUNNING, WAITING
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext
from imi_monitor.sources.agents.hooks.reader import HookReader, make
from tests.audit_events import recorded
from tests.limits import wait_pid
from tests.sources.agents.hooks_kit import Feed, bash, claude, fire, installed


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "home", tmp_path / "tree")


def test_without_hooks_there_are_no_folders_and_sightings(tmp_path: Path) -> None:
    reader, world = make(), ReadContext(1.0, str(tmp_path), {}, (str(tmp_path),))
    assert reader.watch_folders(world) == ()
    assert reader.read(world, None) == reader.read(world, frozenset()) == []


def test_the_event_of_a_real_hook_is_the_state_at_the_next_read(tmp_path: Path) -> None:
    folder = installed(tmp_path / "state" / "imi" / "hooks")
    tree = tmp_path / "tree"
    tree.mkdir()
    reader = HookReader()

    def world() -> ReadContext:
        return ReadContext(time.time(), str(tmp_path), {"XDG_STATE_HOME": str(tmp_path / "state")}, (str(tree),))

    assert reader.watch_folders(world()) == (str(folder / "spool"),)
    for payload, state in (
        (claude("UserPromptSubmit", prompt="x", cwd=str(tree)), RUNNING),
        (bash("PreToolUse", "make", "t1", cwd=str(tree)), RUNNING),
        (bash("PermissionRequest", "make", None, cwd=str(tree)), WAITING),
        (claude("Stop", cwd=str(tree), background_tasks=[]), COMPLETED),
    ):
        import json

        before = set(os.listdir(folder / "spool"))
        assert fire(folder, json.dumps(payload).encode(), TMUX_PANE="%4").returncode == 0
        (name,) = set(os.listdir(folder / "spool")) - before
        (seen,) = reader.read(world(), frozenset({str(folder / "spool" / name)}))
        assert [one.state for one in seen.evidence] == [state]
        assert seen.facts.tmux == "%4"


def test_hook_sessions_outside_of_the_worktrees_are_ignored(feed: Feed, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(feed.tree)
    feed.put(claude("UserPromptSubmit", session="in", prompt="x", cwd=f"{link}/sub"))
    feed.put(claude("UserPromptSubmit", session="out", prompt="x", cwd=str(tmp_path)))
    feed.put(claude("UserPromptSubmit", session="beside", prompt="x", cwd=f"{feed.tree}-2"))
    assert [one.session for one in feed.read()] == ["in"]


def test_an_event_that_is_being_written_waits_until_it_is_whole(feed: Feed) -> None:
    feed.see(claude("UserPromptSubmit", prompt="x"))
    path = feed.put(claude("Stop", background_tasks=[]))
    whole = path.read_bytes()
    for cut in {*range(0, 40), *range(len(whole) - 60, len(whole)), len(whole) // 2}:
        path.write_bytes(whole[:cut])
        feed.read(frozenset({str(path)}))
        assert feed.truth().state == RUNNING, cut
    path.write_bytes(whole)
    os.utime(path, ns=(int(feed.now * 1e9), int(feed.now * 1e9)))
    feed.read(frozenset({str(path)}))
    assert feed.truth().state == COMPLETED


def test_a_tick_opens_and_lists_nothing(feed: Feed) -> None:
    for number in range(20):
        feed.put(bash("PreToolUse", "x", f"t{number}"))
    feed.put(claude("Stop"), whole=False)
    feed.read()
    with recorded("open", "os.scandir", "os.listdir") as looked:
        assert len(feed.read(frozenset())) == 1
        assert len(feed.read(frozenset({"/somewhere/else", str(feed.spool / ".other")}))) == 1
    assert looked == []


def test_each_file_is_read_once(feed: Feed) -> None:
    paths = [feed.put(bash("PreToolUse", "x", f"t{number}")) for number in range(10)]
    with recorded("open", below=feed.spool) as opened:
        for path in paths:
            feed.read(frozenset({str(path)}))
        feed.read()
    assert sorted(opened) == sorted(map(str, paths))


def test_many_old_events_are_read_in_slices_after_those_of_the_state(feed: Feed) -> None:
    feed.reader = HookReader(longest_read=4096 * 30)
    for number in range(100):
        feed.put(bash("PreToolUse", "x", f"t{number}", session=f"s{number % 7}"))
    feed.put(bash("PermissionRequest", "x", None, session="s1"))
    states = {one.session: one.evidence[0].state for one in feed.read()}
    assert states["s1"] == WAITING and feed.reader.has_more
    looks = 1
    while feed.reader.has_more:
        feed.read(frozenset())
        looks += 1
    assert looks == 4


def test_old_events_are_deleted_unless_a_state_rests_on_them(feed: Feed) -> None:
    other = Feed(feed.home, feed.tree)
    feed.read()
    for number in range(50):
        feed.put(bash("PreToolUse", "x", f"t{number}"))
        feed.put(bash("PostToolUse", "x", f"t{number}"))
    feed.put(bash("PreToolUse", "y", "t99"))
    feed.put(bash("PermissionRequest", "y", None))
    feed.put(claude("Stop"), whole=False)
    feed.read()
    other.now = feed.now
    other.read()
    feed.read()
    assert len(os.listdir(feed.spool)) > 100, "every monitor has two minutes to read it"
    feed.now += 700
    feed.read()
    assert len(os.listdir(feed.spool)) <= 4
    assert feed.truth().state == WAITING
    other.read()
    assert other.truth().state == WAITING, "nothing was taken from the other monitor"
    other.read()
    assert [one.state for one in Feed(feed.home, feed.tree, now=feed.now).read()[0].evidence] == [WAITING]


def test_events_deleted_by_another_monitor_leave_the_right_state(feed: Feed) -> None:
    sleeper = Feed(feed.home, feed.tree)
    feed.read()
    feed.put(bash("PreToolUse", "x", "t1"))
    feed.put(bash("PermissionRequest", "x", None))
    sleeper.now = feed.now
    sleeper.read()
    assert sleeper.truth().state == WAITING
    feed.put(bash("PostToolUse", "x", "t1"))
    feed.put(bash("PreToolUse", "z", "t2"))
    feed.now += 300
    feed.read()
    sleeper.now = feed.now
    sleeper.read()
    assert sleeper.truth().state == RUNNING


def test_a_clock_set_forward_deletes_no_event_that_is_new(feed: Feed) -> None:
    """Another monitor may not have read it."""
    feed.read()
    for _ in range(3):
        feed.put(claude("Stop", background_tasks=[]))
    feed.read()
    feed.now += 100
    feed.clock_set = 8 * 86400.0
    feed.read()
    assert len(os.listdir(feed.spool)) == 3
    feed.now += 30
    feed.read()
    assert len(os.listdir(feed.spool)) < 3


def test_a_single_read_deletes_no_event(feed: Feed) -> None:
    for _ in range(5):
        feed.put(claude("Stop", background_tasks=[]))
    feed.now += 7000
    feed.read()
    feed.read(frozenset())
    assert len(os.listdir(feed.spool)) == 5


def test_sessions_of_the_day_before_are_not_shown(feed: Feed) -> None:
    feed.see(claude("Stop", background_tasks=[]))
    feed.now += 86400 + 10
    assert feed.read() == []


def test_links_and_other_files_in_the_spool_are_ignored(feed: Feed, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    (feed.spool / "e.9.1").symlink_to(secret)
    (feed.spool / "readme").write_text("mine")
    os.mkfifo(feed.spool / "e.9.2")
    (feed.spool / "e.9.3").mkdir()
    feed.read()
    feed.now += 100000
    feed.read()
    assert secret.read_text() == "x" and (feed.spool / "readme").exists()


def test_the_process_of_a_hook_is_older_than_its_event(feed: Feed) -> None:
    mine = host.start_time(os.getpid())
    assert mine is not None

    def process(began_at: float, pid: int = 77) -> AgentProcess:
        return AgentProcess("codex", pid, mine, str(feed.tree), ("codex",), began_at, frozenset({78}))

    feed.cli = "codex"
    feed.processes = (process(feed.now - 50),)
    feed.see(claude("UserPromptSubmit", prompt="x"))
    assert (feed.one().pid, feed.one().pid_started, feed.one().alive) == (77, mine, True)
    feed.processes = (process(feed.now + 50),)
    assert feed.one().pid is None, "the number is another's now"
    feed.processes = (process(feed.now - 50, 99),)
    assert (feed.one().pid, feed.one().alive) == (None, None)


def test_a_claude_without_its_process_is_dead(feed: Feed) -> None:
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    wait_pid(gone)
    feed.put(claude("UserPromptSubmit", prompt="x"), env=f"CLAUDE_PID={gone}\n")
    feed.read()
    assert (feed.one().pid, feed.one().alive) == (gone, False)
    feed.put(claude("UserPromptSubmit", session="there", prompt="x"), env=f"CLAUDE_PID={gone}\nhost=elsewhere\n")
    assert [one.alive for one in feed.read() if one.session == "there"] == [None], "a container has numbers of its own"
