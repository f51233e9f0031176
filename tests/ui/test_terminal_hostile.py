"""Texts from outside that would steer the terminal (T2) or break the program (T3), in every field, on every screen."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor import actions
from imi_monitor.command_table import VIEWS
from imi_monitor.ui.app import ImiApp
from tests.helpers import Repo, imi
from tests.ui import sample_agents, sample_snapshots
from tests.ui.payloads import PAYLOADS, bad_characters, leaked
from tests.ui.pty_kit import ESCAPE, Terminal
from tests.ui.snapshot_kit import no_context, stand_still, text_of

SIZES = [(140, 40), (100, 30), (60, 20)]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size[0]))
def test_no_payload_reaches_the_terminal_from_any_field(tmp_path: Path, size: tuple[int, int]) -> None:
    """All payloads one after the other, between two harmless worlds, the last of which is still shown."""
    names = ["busy", *(f"hostile:{name}" for name in PAYLOADS)]
    with Terminal(
        [sys.executable, "-m", "tests.ui.dashboard_process", *names, "taken_over"], cwd=tmp_path, size=size
    ) as terminal:
        terminal.until(b"feat-api")
        for number in range(len(names)):
            seen = len(terminal.output)
            os.kill(terminal.process.pid, signal.SIGUSR1)
            terminal.until(lambda: published(tmp_path) > number + 1 and len(terminal.output) > seen)  # noqa: B023
            # 1 to 5 in turn, so that on a narrow screen each panel is seen; a look at another worktree
            terminal.send(b"%d" % (number % 5 + 1))
            terminal.send(b"\x1b[B")
        terminal.send(ESCAPE)
        terminal.send(b"1")
        terminal.until(b"codex-2")
        terminal.send(b"q")
        assert terminal.ended() == 0, terminal.after_screen()
        assert leaked(bytes(terminal.output)) == []
        assert terminal.modes_left() == set()


def published(folder: Path) -> int:
    file = folder / "published"
    return int(file.read_text() or 0) if file.exists() else 0


# One of each kind within the first few characters, which are what a narrow column shows.
MIXED = "\x1b]0;o\x07[/x]\x9b2J\u202e\udcff日\n\t[b]"


@pytest.mark.parametrize(
    ("payload", "size"),
    [(MIXED, SIZES[0]), (MIXED, SIZES[2]), (PAYLOADS["markup"], SIZES[1]), ("漢" * 5_000, SIZES[2]), ("", SIZES[0])],
    ids=["mixed 140", "mixed 60", "markup 100", "long 60", "empty 140"],
)
def test_every_screen_sanitises_hostile_text(
    payload: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A field that is not made safe shows any payload; that `safe` knows them all is tested where it is."""
    stand_still(monkeypatch)
    world = sample_snapshots.hostile(sample_agents.rich(), payload)
    bad: dict[str, list[str]] = {}

    def look(app: ImiApp, place: str) -> None:
        bad[place] = bad_characters(text_of(app), but="\n")

    async def play() -> None:
        app = ImiApp(sample_snapshots.live(world), no_context)
        app.animation_level = "none"
        async with app.run_test(size=size, tooltips=True, notifications=True) as pilot:
            while app.home.snapshot is not world:
                await pilot.pause(0.05)
            for place, keys in screens():
                await visit(pilot, keys)
                look(app, place)
                await home(pilot)

    asyncio.run(play())
    assert {place: found for place, found in bad.items() if found} == {}


def screens() -> list[tuple[str, tuple[str, ...]]]:
    """Every panel, view and dialog, and how to get there."""
    found = [(f"panel {number}", (number, "down", "z")) for number in "12345"]
    found += [(f"view {view['word']}", (view["key"], "down", "enter")) for view in VIEWS]
    found += [(f"dialog {action.words[0]}", (action.key,)) for action in actions.all_actions() if action.key]
    found += [
        ("files of batches", ("B", "f", "down")),
        ("peek", ("1", "space", "right")),
        ("chosen agent", ("3", "down", "space")),
        ("chosen one explained", ("3", "E", "end")),
    ]
    return [*found, ("filter", ("slash", "a")), ("help", ("question_mark",)), ("last", ("end",))]


async def visit(pilot: Pilot[Any], keys: tuple[str, ...]) -> None:
    await pilot.press(*keys)


async def home(pilot: Pilot[Any]) -> None:
    """Steps out until nothing is left to step out of."""
    await pilot.press("escape", "escape", "escape")


def test_hostile_repository_is_harmless_in_a_terminal(tmp_path: Path) -> None:  # T2
    """Files, branches, commits, authors, tasks and reasons of a real repository, through every view and dialog."""
    hostile_through(hostile_repository(tmp_path), SIZES[0])


@pytest.mark.soak
@pytest.mark.parametrize("size", [*SIZES, (40, 12)], ids=lambda size: str(size[0]))
def test_hostile_repository_is_harmless_at_every_width(tmp_path: Path, size: tuple[int, int]) -> None:  # T2
    hostile_through(hostile_repository(tmp_path), size)


BRANCH = "feat/\u202ex\u200b\x9b]b"  # git takes it, and C1 controls in it


def hostile_repository(folder: Path) -> Repo:
    repo = Repo.create(folder / "app")
    tree = repo.worktree("feat-x", BRANCH)
    for number, payload in enumerate(PAYLOADS.values()):
        name, text = file_name(payload), raw(payload)
        (tree.path / f"{number}.txt").write_bytes(text)
        tree.git("add", f"{number}.txt")
        author = " ".join(file_name(payload).decode("utf-8", "replace").split()).strip("<>") or "x"
        subprocess.run(
            [
                "git",
                "-c",
                f"user.name={author}",
                "commit",
                "-q",
                "--allow-empty-message",
                "--cleanup=verbatim",
                "-F",
                "-",
            ],
            cwd=tree.path,
            input=text,
            check=True,
            capture_output=True,
        )
        for place in (tree.path, repo.path):  # in both: they collide
            with open(os.path.join(os.fsencode(place), b"%d" % number + name), "wb") as file:
                file.write(text)
    task = PAYLOADS["clipboard bel"] + PAYLOADS["markup"]
    assert imi("claim", "feat-x", "--agent", "one", "--task", task, cwd=repo.path).code == 0
    forced = imi("claim", "feat-x", "--agent", "two", "--force", "--reason", task, "--task", task, cwd=repo.path)
    assert forced.code == 0, forced.err
    return repo


def raw(payload: str) -> bytes:
    """As bytes that somebody else could have written; half a surrogate pair is none."""
    return payload.replace("\ud800", "").encode("utf-8", "surrogateescape").replace(b"\0", b"")


def file_name(payload: str) -> bytes:
    """As much of it as a file system takes."""
    return raw(payload).replace(b"/", b"_")[:200]


def hostile_through(repo: Repo, size: tuple[int, int]) -> None:
    argv = [sys.executable, "-m", "imi_monitor", "monitor", "--repo", str(repo.path)]
    with Terminal(argv, cwd=repo.path, size=size) as terminal:
        terminal.until(b"feat-x")
        terminal.until(lambda: "?2048" in terminal.modes_left())
        for keys in (*"12345", *(f"{view['key']}jjG" for view in VIEWS), "dt", "L\r", *"DcRiNaYPZy?"):
            seen = len(terminal.output)
            terminal.send(keys.encode())
            terminal.until(lambda: len(terminal.output) > seen)  # noqa: B023
            rest(terminal)
            terminal.send(ESCAPE * 2)
        terminal.send(b"q")
        assert terminal.ended() == 0, terminal.after_screen()
        assert leaked(bytes(terminal.output)) == []
        assert terminal.modes_left() == set()


def rest(terminal: Terminal) -> None:
    """Until nothing more comes: the answers of git and the registry are on the screen."""
    seen = -1
    while seen != len(terminal.output):
        seen = len(terminal.output)
        time.sleep(0.25)
