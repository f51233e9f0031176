"""The real hook program: it prints nothing, always succeeds, and loses and tears no event."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor.sources.agents.hooks.records import END
from tests.helpers import fill
from tests.limits import LIMIT
from tests.sources.agents.hooks_kit import PROGRAM, fire, installed

SHELLS = [shell for shell in ("/bin/dash", "/bin/bash", "/bin/busybox") if os.path.exists(shell)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return installed(tmp_path / "state")


def bodies(folder: Path) -> list[bytes]:
    found = []
    for path in (folder / "spool").glob("e.*"):
        data = path.read_bytes()
        assert data.endswith(END), path
        found.append(data[: -len(END)].partition(b"\n\n")[2])
    return found


def silent(done: subprocess.CompletedProcess[bytes]) -> None:
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_hook_writes_one_private_file_per_event(folder: Path, shell: str) -> None:
    argv = [shell, *(["sh"] if shell.endswith("busybox") else []), str(folder / "imi-hook.sh"), "claude"]
    env = {"PATH": os.environ["PATH"], "CLAUDE_PID": "12", "TMUX_PANE": "%3", "ZELLIJ_PANE_ID": "4"}
    for payload in (b'{"a": "\\u00fc \xc3\xbc"}', b'{"two":\n "lines"}\n', b""):
        silent(subprocess.run(argv, input=payload, capture_output=True, check=False, env=env))
    assert sorted(bodies(folder)) == [b"", b'{"a": "\\u00fc \xc3\xbc"}', b'{"two":\n "lines"}\n']
    for path in (folder / "spool").glob("e.*"):
        head = path.read_bytes().split(b"\n\n")[0].decode().split("\n")
        assert head[0].split(" ")[:3] == ["imi-hook", "1", "claude"]
        assert {"CLAUDE_PID=12", "TMUX_PANE=%3", "ZELLIJ_PANE_ID=4", f"host={os.uname().nodename}"} <= set(head)
        assert path.stat().st_mode & 0o777 == 0o600


def test_concurrent_hooks_lose_and_tear_no_event(folder: Path) -> None:
    """Twelve agents at once, sixteen events each, 300 KB an event."""
    program = folder / "imi-hook.sh"
    child = (
        "import subprocess, sys\n"
        "who, program = sys.argv[1:]\n"
        "for number in range(16):\n"
        "    body = (f'{who}.{number} ' + f'{who}{number}' * 300000)[:300000].encode()\n"
        "    done = subprocess.run(['/bin/sh', program, 'claude'], input=body, capture_output=True)\n"
        "    assert (done.returncode, done.stdout, done.stderr) == (0, b'', b''), done\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", child, f"w{who}", str(program)]) for who in range(12)]
    assert [one.wait(timeout=110) for one in running] == [0] * 12
    kept = {body.split(b" ")[0].decode(): hashlib.sha256(body).hexdigest() for body in bodies(folder)}
    assert kept == {
        f"w{who}.{number}": hashlib.sha256(
            (f"w{who}.{number} " + f"w{who}{number}" * 300000)[:300000].encode()
        ).hexdigest()
        for who in range(12)
        for number in range(16)
    }


def test_a_reused_event_number_overwrites_nothing(folder: Path) -> None:
    """Without a reader, and with a pid that is used again, the first event stays."""
    script = folder / "imi-hook.sh"
    script.write_text(script.read_text().replace("$PPID.$$", "7.7"))
    for number in range(10):
        silent(fire(folder, b"%d" % number))
    assert sorted(bodies(folder)) == [b"%d" % number for number in range(10)]
    silent(fire(folder, b"one too many"))
    assert len(bodies(folder)) == 10


def test_the_hook_succeeds_whatever_is_missing(folder: Path, tmp_path: Path) -> None:
    program = str(folder / "imi-hook.sh")
    for closing in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-", "</dev/null"):
        done = subprocess.run(
            ["/bin/sh", "-c", f"/bin/sh '{program}' claude {closing}"],
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        silent(done)
    assert bodies(folder) == [b""] * 3, "what cannot be read is no event: neither of the two without stdin"
    (folder / "spool").rename(tmp_path / "away")
    silent(fire(folder, b"{}"))
    assert not (folder / "spool").exists()
    (folder / "spool").write_text("a file")
    silent(fire(folder, b"{}"))
    assert (folder / "spool").read_text() == "a file"


def test_a_hook_killed_while_writing_leaves_no_complete_event(folder: Path) -> None:
    """The unfinished file of a hook that its agent killed is not read as an event."""
    process = subprocess.Popen(["/bin/sh", str(folder / "imi-hook.sh"), "claude"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b'{"half": ')
    process.stdin.flush()
    while not any(path.stat().st_size > 20 for path in (folder / "spool").glob("e.*")):
        pass
    process.kill()
    process.stdin.close()
    process.wait(LIMIT)


def test_the_oldest_events_are_dropped_without_a_reader(folder: Path) -> None:
    spool = folder / "spool"
    for number in range(10_100):
        (spool / f"e.1.{number}").touch()
        os.utime(spool / f"e.1.{number}", (number, number))
    for _ in range(64):
        silent(fire(folder, b"new"))
    wait_for(lambda: len(os.listdir(spool)) < 10_080)
    names = set(os.listdir(spool))
    assert "e.1.0" not in names and "e.1.10099" in names and len(names) > 9_900
    assert sum((spool / name).stat().st_size > 0 for name in names) >= 64


def test_large_events_are_dropped_earlier(folder: Path) -> None:
    spool = folder / "spool"
    for number in range(40):
        path = spool / f"e.1.{number}"
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 16 << 20)
        os.utime(path, (number, number))
    (spool / "notes").write_text("not ours")
    (folder / "count").write_text("63\n")
    silent(fire(folder, b"new"))
    wait_for(lambda: len(os.listdir(spool)) <= 34)  # 32 of them, what is new, and what is not ours
    assert (spool / "notes").exists() and (spool / "e.1.39").exists() and b"new" in bodies_of_small(spool)


@pytest.mark.parametrize("broken", ["", "x", "-1", "999999999999999999999", "0x1f", "\0", "1 2"])
def test_a_broken_count_costs_no_event(folder: Path, broken: str) -> None:
    (folder / "count").write_text(broken)
    silent(fire(folder, b"{}"))
    silent(fire(folder, b"{}"))
    assert bodies(folder) == [b"{}", b"{}"]
    assert (folder / "count").read_text().strip().isdigit()


def bodies_of_small(spool: Path) -> bytes:
    return b"".join(path.read_bytes() for path in spool.glob("e.*") if path.stat().st_size < 10_000)


def wait_for(true: object) -> None:
    import time

    end = time.monotonic() + 30
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.getuid() != 0:
        pytest.skip("mounting needs root")
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)], check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=False)
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_costs_the_event_and_nothing_else(small_disk: Path) -> None:
    folder = installed(small_disk / "state")
    silent(fire(folder, b"x" * 5_000_000))
    assert bodies(folder) == [], "no half event stays to fill it"
    fill(small_disk / "full")
    silent(fire(folder, b"{}"))
    assert bodies(folder) == []
    (small_disk / "full").unlink()
    silent(fire(folder, b"{}"))
    assert bodies(folder) == [b"{}"]


def test_a_disk_that_is_read_only(small_disk: Path) -> None:
    folder = installed(small_disk / "state")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    silent(fire(folder, b"{}"))
    assert bodies(folder) == []


def test_the_hook_is_plain_posix_shell() -> None:
    text = PROGRAM.read_text()
    assert text.startswith("#!/bin/sh\n")
    for word in ("[[", "local ", "$RANDOM", "EPOCH", "jq", "date", "python", "function "):
        assert word not in "\n".join(line for line in text.splitlines() if not line.startswith("#")), word
    for shell in SHELLS:
        argv = [shell, *(["sh"] if shell.endswith("busybox") else []), "-n", str(PROGRAM)]
        assert subprocess.run(argv, check=False).returncode == 0
