"""The follower is woken by a request, and not by other files; without a watch it waits as long as it is told."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from threading import Timer

import pytest

from imi_monitor.runs.contained import request_folder
from imi_monitor.runs.contained.request_watch import RequestWatch
from tests.limits import LIMIT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


def test_a_request_ends_the_wait_and_another_file_does_not(tmp_path: Path) -> None:
    watch = RequestWatch()
    folders = [str(tmp_path / name) for name in ("a", "b")]
    for folder in folders:
        Path(folder).mkdir()
    assert watch.wait(0.01, folders) is False
    (tmp_path / "a" / "half.json~").write_text("{")
    assert watch.wait(0.01, folders) is False, "it is not whole yet"
    Timer(0.05, request_folder.ask, (folders[1], "deliver", "a.md")).start()
    began = time.monotonic()
    assert watch.wait(LIMIT, folders) is True
    assert time.monotonic() - began < LIMIT / 2
    assert watch.wait(0.01, folders) is False, "it is told once"
    request_folder.ask(folders[0], "deliver", "a.md")
    assert watch.wait(LIMIT, folders) is True
    watch.close()


def test_folders_come_go_and_may_be_missing(tmp_path: Path) -> None:
    watch, folder = RequestWatch(), tmp_path / "a"
    assert watch.wait(0.01, [str(folder)]) is False, "it is not there yet"
    folder.mkdir()
    assert watch.wait(0.01, [str(folder)]) is False
    request_folder.ask(str(folder), "deliver", "a.md")
    assert watch.wait(LIMIT, [str(folder)]) is True
    assert watch.wait(0.01, []) is False, "the run is over"
    request_folder.ask(str(folder), "deliver", "a.md")
    assert watch.wait(0.01, []) is False
    shutil.rmtree(folder)
    folder.mkdir()
    watch.wait(0.01, [str(folder)])  # its end may be told as well
    request_folder.ask(str(folder), "deliver", "a.md")
    assert watch.wait(LIMIT, [str(folder)]) is True
    watch.close()
