"""The follower is woken by a request and by the end of a process, and not by other files; without a watch it waits to the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer

import pytest

from imi_monitor import host
from imi_monitor.runs.contained import request_folder
from imi_monitor.runs.run_watch import RunWatch
from tests.limits import LIMIT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify and pidfds are Linux's")


def test_a_request_ends_the_wait_and_another_file_does_not(tmp_path: Path) -> None:
    watch = RunWatch()
    folders = [str(tmp_path / name) for name in ("a", "b")]
    for folder in folders:
        Path(folder).mkdir()
    assert watch.wait(0.01, folders, {}) == set()
    (tmp_path / "a" / "half.json~").write_text("{")
    assert watch.wait(0.01, folders, {}) == set(), "it is not whole yet"
    Timer(0.05, request_folder.ask, (folders[1], "deliver", "a.md")).start()
    began = time.monotonic()
    assert watch.wait(LIMIT, folders, {}) == {folders[1]}
    assert time.monotonic() - began < LIMIT / 2
    assert watch.wait(0.01, folders, {}) == set(), "it is told once"
    request_folder.ask(folders[0], "deliver", "a.md")
    assert watch.wait(LIMIT, folders, {}) == {folders[0]}
    watch.close()


def test_folders_come_go_and_may_be_missing(tmp_path: Path) -> None:
    watch, folder = RunWatch(), tmp_path / "a"
    assert watch.wait(0.01, [str(folder)], {}) == set(), "it is not there yet"
    folder.mkdir()
    assert watch.wait(0.01, [str(folder)], {}) == set()
    request_folder.ask(str(folder), "deliver", "a.md")
    assert watch.wait(LIMIT, [str(folder)], {}) == {str(folder)}
    assert watch.wait(0.01, [], {}) == set(), "the run is over"
    request_folder.ask(str(folder), "deliver", "a.md")
    assert watch.wait(0.01, [], {}) == set()
    shutil.rmtree(folder)
    folder.mkdir()
    watch.wait(0.01, [str(folder)], {})  # its end may be told as well
    request_folder.ask(str(folder), "deliver", "a.md")
    assert watch.wait(LIMIT, [str(folder)], {}) == {str(folder)}
    watch.close()


def test_the_end_of_a_process_ends_the_wait_once_also_of_one_that_nothing_reaps(tmp_path: Path) -> None:
    watch = RunWatch()
    with subprocess.Popen(["sleep", str(LIMIT)]) as first, subprocess.Popen(["sleep", str(LIMIT)]) as second:
        processes = {one.pid: host.start_time(one.pid) for one in (first, second)}
        assert watch.wait(0.01, [], processes) == set()
        Timer(0.05, os.kill, (first.pid, signal.SIGKILL)).start()
        began = time.monotonic()
        assert watch.wait(LIMIT, [str(tmp_path)], processes) == {first.pid}
        assert time.monotonic() - began < LIMIT / 2
        assert watch.wait(0.01, [str(tmp_path)], processes) == set(), "it is told once"
        second.kill()
        assert watch.wait(LIMIT, [str(tmp_path)], processes) == {second.pid}
    watch.close()


def test_a_process_that_is_gone_before_the_watch_and_one_with_its_number_count_as_ended() -> None:
    watch = RunWatch()
    gone = subprocess.Popen(["true"])
    gone.wait(LIMIT)
    assert watch.wait(LIMIT, [], {gone.pid: "1"}) == {gone.pid}
    assert watch.wait(LIMIT, [], {gone.pid: "1", os.getpid(): "1"}) == {os.getpid()}, "another one has its number"
    assert watch.wait(0.01, [], {gone.pid: "1", os.getpid(): "1"}) == set()
    watch.close()


def test_watched_processes_leave_no_descriptor_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    watch = RunWatch()
    with subprocess.Popen(["sleep", str(LIMIT)]) as one:
        watch.wait(0.01, [], {one.pid: host.start_time(one.pid)})
        assert len(os.listdir("/proc/self/fd")) == before + 1
        watch.wait(0.01, [], {})
        assert len(os.listdir("/proc/self/fd")) == before
        watch.wait(0.01, [], {one.pid: host.start_time(one.pid)})
        one.kill()
        watch.close()
    assert len(os.listdir("/proc/self/fd")) == before
