"""Run as a program: one verb, with the N-th change of the disk or the registry failing, or killing the process.

`python -m tests.actions.crash_child N kill|ERRNO-NAME VERB NAME` in the repository. Exits 0 when N was never reached, 3 on a
refusal, 4 when it succeeded in spite of the failure.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from imi_monitor.model.errors import ImiError
from imi_monitor.store import db
from tests.actions.removal_kit import act

CHANGES = ("rename", "replace", "mkdir", "rmdir", "unlink", "link", "write", "fsync", "fchmod", "chmod")


def main() -> int:
    number, how, verb, name = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
    reached = _arm(number, how)
    values: dict[str, Any] = {"which": name} if verb == "undo" else {"name": name, "force": True}
    if verb == "repair":
        values = {"path": []}
    if verb == "trash purge":
        values = {"which": [name], "yes": True, "wait": True}
    try:
        act(verb, cwd=Path.cwd(), **values)
    except ImiError as error:
        print(error.sentence, file=sys.stderr)
        return 3
    return 4 if reached() else 0


def _arm(number: int, how: str) -> Callable[[], bool]:
    count = 0
    real_transact = db.transact

    def change() -> None:
        nonlocal count
        count += 1
        if count == number and how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if count == number:
            raise OSError(getattr(errno, how), os.strerror(getattr(errno, how)))

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            change()
            return real(*args, **options)

        return call

    for name in CHANGES:
        setattr(os, name, watched(getattr(os, name)))
    if how == "kill":  # before each transaction, and when it is on the disk

        def transact(*args: Any, **options: Any) -> Any:
            change()
            result = real_transact(*args, **options)
            change()
            return result

        db.transact = transact
    return lambda: count >= number


if __name__ == "__main__":
    sys.exit(main())
