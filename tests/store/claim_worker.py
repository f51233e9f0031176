"""A process that claims: `python -m tests.store.claim_worker MODE ARGS…`. Prints JSON lines on stdout."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable

from imi_monitor import host
from imi_monitor.store import claim_requests, claims, db
from imi_monitor.store.claims import ClaimRequest

REPO = "app"


def say(**values: object) -> None:
    print(json.dumps(values), flush=True)


def wait_for(path: str) -> None:
    """Wait for the file that starts all workers at once."""
    while not os.path.exists(path):
        time.sleep(0.001)


def contend(database: str, witness: str, start: str, name: str, worktrees: str, grants: str) -> None:
    """C1: claim and release at random until this process was granted `grants` claims.

    The witness is a file made with O_EXCL while the claim is held: two holders at once cannot both make it.
    """
    connection = db.connect(database)
    request = ClaimRequest(name, host.identify_process(os.getpid()))
    dice = random.Random(name)
    waits: list[float] = []
    doubled = 0
    wait_for(start)
    while len(waits) < int(grants):
        worktree = f"feat-{dice.randrange(int(worktrees))}"
        begun = time.perf_counter()
        if dice.random() < 0.9:
            answer = claim_requests.request_claim(connection, claim_requests.ClaimTarget(REPO, worktree), request)
        else:  # directly, without the check that avoids the write lock
            answer = db.transact(connection, claim_requests.claim, REPO, worktree, request)
        if not answer.granted:
            continue
        waits.append(time.perf_counter() - begun)
        path = os.path.join(witness, worktree)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            doubled += 1
        else:
            time.sleep(dice.random() * 0.0005)
            os.unlink(path)
        db.transact_unsynced(connection, claim_requests.release, REPO, worktree, name, answer.claim.epoch)
    say(doubled=doubled, waits=waits)
    connection.close()


def contend_all(processes: str, database: str, witness: str, start: str, worktrees: str, grants: str) -> None:
    """`contend` in that many processes, forked from one that has the modules loaded; each prints its line."""
    children, failed = set(), False
    with tempfile.TemporaryDirectory() as folder:
        for number in range(int(processes)):
            child = os.fork()
            if child == 0:
                os.dup2(os.open(os.path.join(folder, str(number)), os.O_CREAT | os.O_WRONLY), 1)
                contend(database, witness, start, f"agent-{number}", worktrees, grants)
                os._exit(0)
            children.add(child)
        while children:  # the test gives this process up when it takes too long
            ended, status = os.waitpid(-1, os.WNOHANG)
            children.discard(ended)
            failed = failed or (ended != 0 and status != 0)
            time.sleep(0.01)
        for number in range(int(processes)):
            with open(os.path.join(folder, str(number))) as lines:
                print(lines.read(), end="")
    sys.exit(failed)


def reclaim(database: str, start: str, name: str, worktrees: str) -> None:
    """C3: claim each worktree once, whose holders are all dead; print which were granted."""
    connection = db.connect(database)
    request = ClaimRequest(name, host.identify_process(None))
    wait_for(start)
    won = []
    for number in range(int(worktrees)):
        if db.transact(connection, claim_requests.claim, REPO, f"feat-{number}", request).granted:
            won.append(number)
    say(won=won)
    connection.close()


def hold(database: str, name: str) -> None:
    """C4: for each line of stdin either claim, or try to act with the epoch claimed last."""
    connection = db.connect(database)
    request = ClaimRequest(name, host.identify_process(os.getpid()), ttl=0.01)
    epoch = 0
    for line in sys.stdin:
        if line.strip() == "claim":
            epoch = db.transact(connection, claim_requests.claim, REPO, "feat-0", request).claim.epoch
            say(epoch=epoch)
            continue
        beaten, _ = db.transact(connection, claim_requests.heartbeat, REPO, "feat-0", name, epoch)
        released, _ = db.transact(connection, claim_requests.release, REPO, "feat-0", name, epoch)
        try:
            db.transact(connection, claims.close, REPO, "feat-0", epoch=epoch, how="worktree_removed", by=name)
            removed = True
        except Exception as error:  # noqa: BLE001  the test looks at what it says
            removed = not str(error)
        say(heartbeat=beaten, release=released, removed=removed)
    connection.close()


MODES: dict[str, Callable[..., None]] = {"contend_all": contend_all, "reclaim": reclaim, "hold": hold}

if __name__ == "__main__":
    MODES[sys.argv[1]](*sys.argv[2:])
