"""The registry's files are opened by SQLite and by nothing else, and no process forks with it open. # D5

Closing any handle on the database drops every lock this process has on it. So no code here may `open` it, not even to
copy it; Python tells each such call to an audit hook, and SQLite's own calls never come by there. One is let through: the
log opened to read, by its number alone, which is how `db.sync_to_disk` has it put on disk. There are no locks on the log.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ROOT, Repo

# Calls that give a handle on a file or put another one in its place; `stat` and `exists` are none of them.
WATCHED = """
import json, os, sys
found, opened = [], [0]
NAMES = ("iMi.db", "iMi.db-wal", "iMi.db-shm", "iMi.db-journal")
FILES = ("open", "os.rename", "os.remove", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "os.utime",
         "shutil.copyfile", "shutil.copymode", "shutil.copystat", "shutil.copytree", "shutil.move", "mmap.__new__")
FORKS = ("os.fork", "os.forkpty", "pty.spawn")

def watch(event, args):
    if event == "sqlite3.connect/handle":
        opened[0] += 1
    elif event in FORKS:
        found.append(event)
    elif event in FILES:
        for arg in args:
            text = os.fsdecode(arg) if isinstance(arg, (str, bytes)) else ""
            settles = event == "open" and text.endswith("-wal") and args[1] is None and not args[2] & (os.O_WRONLY | os.O_RDWR)
            if os.path.basename(text) in NAMES and not settles:
                found.append(f"{event} {text}")

sys.addaudithook(watch)
"""


def watched(program: str, cwd: Path, *args: str) -> dict[str, Any]:
    """What the audit hook saw of a program: forbidden calls, and how many connections SQLite opened."""
    report = cwd / "report.json"
    whole = f"{WATCHED}\ntry:\n    {program}\nfinally:\n    json.dump([found, opened[0]], open(sys.argv.pop(), 'w'))\n"
    done = subprocess.run(
        [sys.executable, "-c", whole, *args, str(report)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    found, opened = json.loads(report.read_text())
    report.unlink()
    return {"found": found, "opened": opened, "said": done.stderr}


COMMAND = "from imi_monitor.cli.command_runner import main; main(sys.argv[1:-1])"


def test_every_command_leaves_the_files_to_sqlite(cluster: Repo) -> None:
    (cluster.path.parent / "sync" / "repo" / ".env").write_text("A=1\n")
    commands = (
        "feat login",
        "list",
        "status",
        "claim login --agent claude-1",
        "heartbeat login --agent claude-1",
        "verify-lock login --agent claude-1",
        "claims",
        "queue",
        "release login --agent claude-1",
        "rename login sign-in",
        "sync",
        "events",
        "remove sign-in",
        "trash list",
        "undo",
        "close sign-in",
        "prune --dry-run",
        "prune",
        "repair",
        "trust",
        "types list",
        "doctor",
        "review 7",
        "go login",
        "merge sign-in",
        "trash purge --yes",
        "sessions",
        "stats",
        "session show x",
    )
    for number, words in enumerate(commands):
        seen = watched(COMMAND, cluster.path, *words.split(), *(["--json"] if number % 2 else []))
        assert seen["found"] == [], words
        assert seen["opened"] > 0, (words, seen["said"])


def test_the_audit_hook_notices_other_writers(tmp_path: Path) -> None:
    """The mutants: a copy of the database by hand, a look into the log, a fork."""
    make = "from imi_monitor.store import db; import shutil; c = db.connect('iMi.db'); "
    for mutant, event in (
        ("shutil.copy('iMi.db', 'backup')", "shutil.copyfile iMi.db"),
        ("shutil.copy('iMi.db', 'backup')", "open iMi.db"),
        ("open('iMi.db-wal', 'rb').close()", "open iMi.db-wal"),
        ("os.close(os.open('iMi.db-wal', os.O_RDWR))", "open iMi.db-wal"),
        ("os.close(os.open('iMi.db-shm', os.O_RDONLY))", "open iMi.db-shm"),
        ("os.close(os.open('iMi.db', os.O_RDONLY))", "open iMi.db"),
        ("os._exit(0) if os.fork() == 0 else os.wait()", "os.fork"),
    ):
        assert event in watched(make + mutant, tmp_path)["found"], mutant
    assert watched(make + "c.close()", tmp_path)["found"] == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_a_child_inherits_no_handle_on_the_registry(tmp_path: Path) -> None:
    """posix_spawn and subprocess: the registry is closed on exec."""
    program = (
        "from imi_monitor.store import db; import subprocess; c = db.connect('iMi.db'); db.leave_trace(c); "
        "out = subprocess.run(['ls', '-l', '/proc/self/fd'], capture_output=True, close_fds=False, text=True).stdout; "
        "found.extend(line for line in out.splitlines() if 'iMi.db' in line); c.close()"
    )
    assert watched(program, tmp_path)["found"] == []
