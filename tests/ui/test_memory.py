"""The dashboard's memory does not grow: closed screens are freed, and nothing is kept without bound."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest

from imi_monitor.command_table import ACTIONS, VIEWS
from tests.helpers import Repo, imi
from tests.limits import LIMIT
from tests.ui.pty_kit import Terminal
from tests.ui.pty_kit import imi as imi_argv

ESCAPE = "\x1b"
PAUSE = 0.04  # seconds without output: the screen is drawn
SCREEN = 400  # bytes: less than any screen takes
MENUS = ("?", ":", "T", "a", "y", "O")


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def press(terminal: Terminal, key: str, least: int = 1) -> bool:
    """Send a key and wait until what it changed is drawn; whether it changed that many bytes."""
    before, end = len(terminal.output), time.monotonic() + 2
    terminal.send(key.encode())
    while len(terminal.output) < before + least and time.monotonic() < end:
        time.sleep(0.002)
    seen = -1
    while seen != len(terminal.output):
        seen = len(terminal.output)
        time.sleep(PAUSE)
    return seen >= before + least


def growth(terminal: Terminal, keys: Iterator[tuple[str, str]], openings: int) -> float:
    """Open and close that many screens; the growth in the second half, in MB."""
    middle, opened = 0.0, 0
    for number, (opening, closing) in enumerate(islice(keys, openings)):
        if number == openings // 2:
            middle = resident_mb(terminal.process.pid)
        opened += press(terminal, opening, SCREEN)
        press(terminal, closing)
        assert terminal.process.poll() is None, f"{opening} or {closing} ended the dashboard"
    assert opened > 0.9 * openings
    return resident_mb(terminal.process.pid) - middle


def started(repo: Repo) -> Terminal:
    for name in ("feat-api", "feat-ui", "fix-bug"):
        repo.worktree(name)
    return Terminal(imi_argv("monitor"), cwd=repo.path, size=(140, 40))


def test_memory_does_not_grow_with_openings_of_the_help(repo: Repo) -> None:  # K1
    """As broken it grew by 0.35 MB with each opening: a cache of Textual kept the painted lines of closed screens."""
    with started(repo) as terminal:
        terminal.until(b"fix-bug")
        assert growth(terminal, cycle([("?", "?")]), 60) < 5
        assert quit_dashboard(terminal) == 0


@pytest.mark.soak
def test_memory_does_not_grow_with_two_thousand_openings_and_a_day_of_work(repo: Repo) -> None:  # K1
    with started(repo) as terminal:
        terminal.until(b"fix-bug")
        grown = growth(terminal, work_between(repo, all_screens()), 2000)
        print(f"{grown:.1f} MB in the second half, {resident_mb(terminal.process.pid):.0f} MB at the end")
        assert grown < 5
        assert quit_dashboard(terminal) == 0


def quit_dashboard(terminal: Terminal) -> int:
    """Close what is open and quit; an escape that a busy machine reads together with the q is alt+q, so both are repeated."""
    end = time.monotonic() + LIMIT
    while terminal.process.poll() is None and time.monotonic() < end:
        press(terminal, ESCAPE)
        press(terminal, "q")
    return terminal.ended()


def all_screens() -> list[tuple[str, str]]:
    """(key that opens it, key that closes it) of every view, dialog and menu."""
    views = [view["key"] for view in VIEWS if len(view["key"]) == 1]
    dialogs = [action["key"] for action in ACTIONS if len(action["key"]) == 1]
    return [(key, ESCAPE) for key in (*views, *dialogs, *MENUS)]


def work_between(repo: Repo, screens: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """All screens, again and again, with the writes and claims of a day spread over them."""
    for number, screen in enumerate(cycle(screens)):
        tree = repo.path.parent / ("feat-api", "feat-ui", "fix-bug")[number % 3]
        (tree / f"work-{number % 40}.py").write_text(f"work {number}\n")
        if number % 10 == 0:
            imi("claim", tree.name, "--agent", "ada", cwd=repo.path)
            imi("release", tree.name, "--agent", "ada", cwd=repo.path)
        yield screen
