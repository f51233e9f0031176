"""Everything as large as it gets: a change of 300 MB, a log of a million commits, 2,000 worktrees, 10,000 changed files (T5).

Only in the long form, for it measures: how soon something is painted, how soon a key shows, how much memory it takes.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import Repo
from tests.ui.pty_kit import Terminal, imi

FIRST_PAINT, KEY, MEMORY = 1.0, 0.1, 300  # seconds, seconds for 99 of 100 keys, MB
KEYS = 100
MB = 1 << 20


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_nothing_is_too_large(tmp_path: Path) -> None:  # T5
    repo = huge(tmp_path)
    argv = imi("monitor", "--repo", str(repo.path))
    with Terminal(argv, cwd=repo.path, size=(140, 40)) as terminal:
        terminal.until(b"feat-0001", 60)
        first = time.perf_counter() - terminal.started
        said = {"first paint": first}
        assert first < FIRST_PAINT, said
        terminal.until(lambda: "?2048" in terminal.modes_left())
        said["2,000 worktrees"] = latency(terminal)
        for name, key, wanted in (
            ("feat-big", b"d", "big.txt"),
            ("feat-dirty", b"f", "10,0"),
            ("feat-dirty", b"d", "files"),
            ("feat-long", b"L", "commit"),
        ):
            select(terminal, name)
            seen = len(terminal.output)
            terminal.send(key)
            terminal.until(lambda: wanted.encode() in terminal.output[seen:], 60)  # noqa: B023
            said[f"{name} {key.decode()}"] = latency(terminal)
            terminal.send(b"\x1b")
            time.sleep(0.5)
        said["MB"] = memory(terminal.process.pid)
        terminal.send(b"q")
        assert terminal.ended() == 0
    print(said)
    assert said.pop("MB") < MEMORY, said
    said.pop("first paint")
    assert max(said.values()) < KEY, said


def select(terminal: Terminal, name: str) -> None:
    terminal.send(b"/")
    time.sleep(0.3)
    terminal.send(name.encode())
    time.sleep(1.0)
    terminal.send(b"\r")
    time.sleep(0.5)


def latency(terminal: Terminal) -> float:
    """Seconds between a key and what it paints, for the 99th of a hundred keys."""
    waited = []
    for number in range(KEYS):
        seen, start = len(terminal.output), time.perf_counter()
        terminal.send(b"j" if number % 20 < 15 else b"k")
        while len(terminal.output) == seen and time.perf_counter() - start < 2:
            time.sleep(0.001)
        waited.append(time.perf_counter() - start)
        time.sleep(0.03)
    return sorted(waited)[KEYS * 99 // 100 - 1]


def memory(pid: int) -> float:
    """MB that a process and its children have in memory."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,rss="], capture_output=True, text=True, check=True).stdout
    rows = [tuple(map(int, line.split())) for line in listed.splitlines()]
    return sum(rss for one, parent, rss in rows if pid in (one, parent)) / 1024


def huge(folder: Path) -> Repo:
    repo = Repo.create(folder / "app")
    for number in range(1, 2001):
        repo.worktree(f"feat-{number:04d}")
    repo.worktree("feat-big").write("big.txt", "a line of text that is as long as lines are\n" * (300 * MB // 44))
    dirty = repo.worktree("feat-dirty")
    for number in range(10_000):
        dirty.write(f"d{number // 100}/f{number}.txt", "changed\n")
    subprocess.run(["git", "fast-import", "--quiet"], cwd=repo.path, input=b"".join(history(1_000_000)), check=True)
    repo.git("worktree", "add", "-q", "--no-checkout", str(folder / "feat-long"), "feat/long")
    return repo


def history(commits: int) -> Iterator[bytes]:
    yield b"reset refs/heads/feat/long\nfrom refs/heads/main^0\n"
    for number in range(commits):
        subject = b"commit number %d" % number
        yield b"commit refs/heads/feat/long\ncommitter Ada <ada@example.invalid> %d +0000\n" % (1_700_000_000 + number)
        yield b"data %d\n%s\n" % (len(subject), subject)
