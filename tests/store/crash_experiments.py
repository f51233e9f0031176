"""Experiments that need processes to fork and kill: run as a program of their own, because pytest's has threads.

`experiment("kills", …)` starts `python -m tests.store.crash_experiments kills '{…}'` and returns the JSON it prints.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import random
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from imi_monitor.model.errors import RegistryError
from imi_monitor.store import db, events, registry_file, schema, upgrade
from tests.helpers import ROOT, Repo
from tests.limits import read_some, wait_pid

WORKTREES = 4


def experiment(name: str, timeout: float = 100, before: tuple[str, ...] = (), **settings: Any) -> Any:
    """Run one of the functions below in a process of its own, which the command `before` may start."""
    done = subprocess.run(
        [*before, sys.executable, "-m", "tests.store.crash_experiments", name, json.dumps(settings)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# What a writer does -------------------------------------------------------------------------------------------------


def grant(connection: sqlite3.Connection, worktree: str, key: str) -> int:
    """State and event in one transaction; the same key again is the same command."""
    known = connection.execute("SELECT epoch FROM events WHERE agent_id = ?", (key,)).fetchone()
    if known:
        return int(known[0])
    epoch = change(connection, worktree, key)
    tell(connection, worktree, key, epoch)
    return epoch


def change(connection: sqlite3.Connection, worktree: str, key: str) -> int:
    row = connection.execute(
        "INSERT INTO claims (repo_name, worktree_name, agent_id, epoch) VALUES ('app', ?, ?, 1)"
        " ON CONFLICT DO UPDATE SET epoch = epoch + 1, agent_id = excluded.agent_id RETURNING epoch",
        (worktree, key),
    ).fetchone()
    return int(row[0])


def tell(connection: sqlite3.Connection, worktree: str, key: str, epoch: int) -> None:
    events.append_row(
        connection, "worktree.claimed", "app", worktree, agent_id=key, epoch=epoch, data={"pad": "x" * 200}
    )


def act(
    connection: sqlite3.Connection, worktree: str, key: str, acknowledge: Callable[[int], None], mutant: str
) -> None:
    """Run one command, then acknowledge it. The mutants are faults that the tests must detect."""
    if mutant == "ack-early":

        def early(inner: sqlite3.Connection) -> None:
            acknowledge(grant(inner, worktree, key))

        db.transact(connection, early)
    elif mutant == "two-transactions":
        epoch = db.transact(connection, change, worktree, key)
        db.transact(connection, tell, worktree, key, epoch)
        acknowledge(epoch)
    else:
        acknowledge(db.transact(connection, grant, worktree, key))


def write(path: str, name: str, first: int, out: int, mutant: str) -> None:
    """Run commands without end, each acknowledged on `out`."""
    connection = db.connect(path)
    number = first
    while True:
        key, worktree = f"{name}:{number}", f"feat-{number % WORKTREES}"
        os.write(out, f"try {key}\n".encode())
        act(connection, worktree, key, lambda epoch: os.write(out, f"ack {key} {epoch}\n".encode()), mutant)  # noqa: B023
        number += 1


def forked(job: Callable[[], object]) -> int:
    """A child process that does the job and exits."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        job()
        status = 0
    except RegistryError as error:
        print(error.sentence, file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def check(path: str) -> dict[str, Any]:
    """Whether the registry is intact, and state and events agree."""
    connection = db.connect(path)
    connection.execute("PRAGMA synchronous = OFF")  # only read here
    try:
        told: dict[str, list[int]] = {}
        for worktree, epoch in connection.execute("SELECT worktree_name, epoch FROM events ORDER BY seq"):
            told.setdefault(worktree, []).append(epoch)
        state = dict(connection.execute("SELECT worktree_name, epoch FROM claims"))
        return {
            "sound": connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok",
            "together": all(told.get(name) == list(range(1, epoch + 1)) for name, epoch in state.items())
            and told.keys() <= state.keys(),
            "events": sum(map(len, told.values())),
        }
    finally:
        connection.close()


# D1 -----------------------------------------------------------------------------------------------------------------


def kills(path: str, rounds: int, writers: int = 2, mutant: str = "", seed: int = 1) -> dict[str, Any]:
    """Kill writers with SIGKILL at random moments, restart them; compare the acknowledged commands with the rows."""
    chance = random.Random(seed)
    db.connect(path).close()
    tried: set[str] = set()
    acked: dict[str, int] = {}
    following = dict.fromkeys((f"w{n}" for n in range(writers)), 0)
    unsound = apart = 0
    slowest = 0.0
    for turn in range(rounds):
        reader, out = os.pipe()
        pids = [forked(partial(write, path, name, first, out, mutant)) for name, first in following.items()]
        os.close(out)
        said = _listen(reader, pids, 0.003 + chance.random() * 0.03)
        for line in said.splitlines():
            word, key, *epoch = line.split()
            tried.add(key) if word == "try" else acked.__setitem__(key, int(epoch[0]))
        for name in following:  # the command without acknowledgement is repeated
            following[name] = sum(key.startswith(f"{name}:") for key in acked)
        before = time.monotonic()
        db.connect(path).close()
        slowest = max(slowest, time.monotonic() - before)
        if turn % 10 == 9 or turn == rounds - 1:
            found = check(path)
            unsound, apart = unsound + (not found["sound"]), apart + (not found["together"])
    connection = db.connect(path)
    kept: dict[str, list[int]] = {}
    for key, epoch in connection.execute("SELECT agent_id, epoch FROM events"):
        kept.setdefault(key, []).append(epoch)
    connection.close()
    return {
        "acked": len(acked),
        "lost": sum(kept.get(key) != [epoch] for key, epoch in acked.items()),
        "phantom": sum(key not in tried for key in kept),
        "twice": sum(len(epochs) > 1 for epochs in kept.values()),
        "silent": sum(key not in acked for key in kept),
        "unsound": unsound,
        "apart": apart,
        "slowest_start": slowest,
    }


def _listen(reader: int, pids: list[int], seconds: float) -> str:
    """The output of the writers until they are killed, `seconds` after the first line."""
    said = b""
    until: float | None = None
    while True:
        wait = 10.0 if until is None else max(0.0, until - time.monotonic())
        ready = select.select([reader], [], [], wait)[0]
        if not ready:
            break
        said += read_some(reader, 65536)
        until = until or time.monotonic() + seconds
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        wait_pid(pid)
    while chunk := read_some(reader, 65536):
        said += chunk
    os.close(reader)
    return said[: said.rfind(b"\n") + 1].decode()


def leave_wal(path: str, commands: int, mutant: str = "") -> dict[str, Any]:
    """A registry whose writer was killed: its commands are only in the -wal."""

    def job() -> None:
        connection = db.connect(path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for number in range(commands):
            act(connection, f"feat-{number % WORKTREES}", f"w:{number}", lambda _: None, mutant)
        os.kill(os.getpid(), signal.SIGKILL)

    wait_pid(forked(job))
    return {"wal": os.stat(path + "-wal").st_size}


# D7 -----------------------------------------------------------------------------------------------------------------


def killed_upgrade(path: str, statement: int, mutant: str = "") -> dict[str, Any]:
    """Open the registry in a child that dies before its n-th statement (0: before the log is switched)."""
    _die_at(statement)
    if mutant == "ddl-by-script":
        upgrade.upgrade = _upgrade_by_script  # type: ignore[assignment]
    status = wait_pid(forked(lambda: db.connect(path)))
    return {"killed": os.WIFSIGNALED(status)}


def _die_at(statement: int) -> None:
    whole, switch = schema.statements, upgrade.enable_wal
    numbers = itertools.count(1)  # through all scripts

    def dying(script: str) -> Any:
        for text in whole(script):
            if next(numbers) == statement:
                os.kill(os.getpid(), signal.SIGKILL)
            yield text

    def dying_switch(*args: Any) -> None:
        if statement == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        switch(*args)

    schema.statements = dying  # type: ignore[assignment]
    upgrade.enable_wal = dying_switch


def _upgrade_by_script(connection: sqlite3.Connection, *_: object) -> None:
    """The mutant: `executescript` commits, so that each statement is a transaction of its own."""
    for script in schema.MIGRATIONS:
        for text in schema.statements(script):
            connection.executescript(text)
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {schema.VERSION}")


def kill_upgrades(path: str, milliseconds: float) -> dict[str, Any]:
    """Kill the upgrade after a time."""
    pid = forked(lambda: db.connect(path))
    time.sleep(milliseconds / 1000)
    os.kill(pid, signal.SIGKILL)
    status = wait_pid(pid)
    return {"killed": os.WIFSIGNALED(status)}


def first_opens(path: str, processes: int) -> dict[str, Any]:
    """Many processes open a registry that is not there, or is iMi's, at the same moment."""
    gate, opener = os.pipe()

    def job() -> None:
        os.close(opener)
        read_some(gate, 1)  # ends when the parent closes its side
        db.connect(path).close()

    pids = [forked(job) for _ in range(processes)]
    os.close(opener)
    return {"failed": sum(wait_pid(pid) != 0 for pid in pids)}


# D4 -----------------------------------------------------------------------------------------------------------------


def full_disk(path: str, mutant: str = "") -> dict[str, Any]:
    """Run commands on a file system of 2 MB until it is full, and after that, in a mount namespace of its own."""
    if mutant == "no-ballast":
        registry_file.lay_ballast = lambda *_: None
    connection = db.connect(path)
    acked = {f"before:{number}": db.transact(connection, grant, "feat-0", f"before:{number}") for number in range(20)}
    filler = _fill(os.path.dirname(path))
    refusals: set[str] = set()

    def more(name: str, connection: sqlite3.Connection, commands: int) -> int:
        done = 0
        for number in range(commands):
            key = f"{name}:{number}"
            try:
                acked[key] = db.transact(connection, grant, "feat-0", key)
                done += 1
            except RegistryError as error:
                refusals.add(error.code)
        return done

    through_ballast = more("full", connection, 3)
    until_the_end = more("end", connection, 200)
    _fill(os.path.dirname(path), "filler-2")
    connection.close()
    anew = _told(path)
    os.unlink(filler)
    connection = db.connect(path)
    after = more("after", connection, 3)
    db.leave_trace(connection)
    laid = registry_file.ballast_size(path) == registry_file.BALLAST_BYTES
    kept = dict(connection.execute("SELECT agent_id, epoch FROM events"))
    connection.close()
    return {
        "through_ballast": through_ballast,
        "until_the_end": until_the_end,
        "lost": sum(kept.get(key) != epoch for key, epoch in acked.items()),
        "phantom": len(kept) - len(acked),
        "refusals": sorted(refusals),
        "opened_anew": anew,
        "after": after,
        "laid_again": laid,
        **check(path),
    }


def full_disk_at_start(path: str) -> dict[str, Any]:
    """A new process on a full disk can still open the registry and release a claim."""
    connection = db.connect(path)
    db.transact(connection, grant, "feat-0", "before")
    connection.close()
    _fill(os.path.dirname(path))
    return {
        "opened": _told(path, lambda connection: db.transact(connection, grant, "feat-0", "released")),
        **check(path),
    }


def full_disk_rounds(path: str, repo: str, rounds: int, runaway: bool) -> dict[str, Any]:
    """Claim and release by the real command on a disk without a free byte; `runaway`: a writer takes what becomes free."""
    folder = os.path.dirname(path)
    others = ["feat-b", "feat-c", "feat-d"]
    for name in ("feat-a", *others):
        assert _imi(path, repo, "claim", name, "--agent", "first") == "done"
    assert _imi(path, repo, "release", "feat-a", "--agent", "first") == "done"
    _fill(folder)
    seen: dict[str, list[str]] = {"claim": [], "release": [], "last": []}
    for number in range(rounds):
        for verb in ("claim", "release"):
            if verb == "claim" or seen["claim"][-1] == "done":
                seen[verb].append(_imi(path, repo, verb, "feat-a", "--agent", f"agent-{number}"))
            if runaway:
                _fill(folder, f"filler-{number}-{verb}")
    seen["last"] = [_imi(path, repo, "release", name, "--agent", "first") for name in others]
    return {verb: sorted(set(found)) for verb, found in seen.items()} | {"claims": seen["claim"].count("done")}


def full_disk_removals(path: str, names: list[str]) -> dict[str, Any]:
    """Remove worktrees by the real command and bring one back, with their repository on the full disk too."""
    repo = Repo.create(Path(path).parent / "app")
    for name in names:
        repo.worktree(name)
    assert _imi(path, str(repo.path), "claim", names[0], "--agent", "first") == "done"
    assert _imi(path, str(repo.path), "claims") == "done"
    _fill(os.path.dirname(path))
    removed = [_imi(path, str(repo.path), "remove", name, "--agent", "first") for name in names]
    return {"removed": removed, "undone": _imi(path, str(repo.path), "undo", names[-1]), **check(path)}


def _imi(path: str, repo: str, *words: str) -> str:
    """The code of the answer, or "done"."""
    argv = [sys.executable, "-m", "imi_monitor", *words, "--db", path, "--json"]
    done = subprocess.run(argv, cwd=repo, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 0:
        return "done"
    assert "Traceback" not in done.stderr, done.stderr
    return str(json.loads(done.stdout)["code"])


def _fill(folder: str, name: str = "filler") -> str:
    target = os.path.join(folder, name)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT)
    for size in (65536, 4096, 1):
        try:
            while True:
                os.write(handle, b"x" * size)
        except OSError as error:
            assert error.errno == errno.ENOSPC
    os.close(handle)
    return target


def _told(path: str, job: Callable[[sqlite3.Connection], object] = lambda _: None) -> str:
    try:
        connection = db.connect(path)
        try:
            job(connection)
        finally:
            connection.close()
    except RegistryError as error:
        return error.code
    return "done"


# The log under load -------------------------------------------------------------------------------------------------


def load(path: str, processes: int, seconds: float) -> dict[str, Any]:
    """Writers without a pause: the size of the log, the checkpoints at once, and the longest wait."""
    db.connect(path).close()
    reader, out = os.pipe()
    inside = os.open(path + ".inside", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    checkpoint = db.checkpoint

    def watched(connection: sqlite3.Connection, mode: str) -> None:
        os.write(inside, b"+")
        try:
            checkpoint(connection, mode)
        finally:
            os.write(inside, b"-")

    db.checkpoint = watched

    def job() -> None:
        connection = db.connect(path)
        worst, done, until = 0.0, 0, time.monotonic() + seconds
        while time.monotonic() < until:
            before = time.monotonic()
            db.transact(connection, events.append_row, "load", data={"pad": "x" * 400})
            worst, done = max(worst, time.monotonic() - before), done + 1
        connection.close()
        os.write(out, f"{done} {worst}\n".encode())

    pids = [forked(job) for _ in range(processes)]
    os.close(out)
    largest, failed = _largest(path + "-wal", pids)
    lines = [line.split() for line in read_some(reader, 65536).decode().splitlines()]
    steps = os.pread(inside, 1 << 20, 0)
    depth = highest = 0
    for step in steps:
        depth += 1 if step == ord("+") else -1
        highest = max(highest, depth)
    return {
        "failed": failed,
        "largest": largest,
        "checkpoints": steps.count(b"+"),
        "at_once": highest,
        "written": sum(int(line[0]) for line in lines),
        "worst": max(float(line[1]) for line in lines),
        "kept": check(path)["events"],
    }


def _largest(path: str, pids: list[int]) -> tuple[int, int]:
    largest = failed = 0
    left = set(pids)
    while left:
        with contextlib.suppress(FileNotFoundError):
            largest = max(largest, os.stat(path).st_size)
        time.sleep(0.005)
        for pid in list(left):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                left.discard(pid)
                failed += status != 0
    return largest, failed


if __name__ == "__main__":
    chosen: Callable[..., dict[str, Any]] = globals()[sys.argv[1]]
    print(json.dumps(chosen(**json.loads(sys.argv[2]))))
