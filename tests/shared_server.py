"""One server for all workers of a test session: the first that needs it starts it, the last that ends stops it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def shared_server(
    root: Path, name: str, start: Callable[[], dict[str, Any]], stop: Callable[[dict[str, Any]], None]
) -> Iterator[dict[str, Any]]:
    """What `start` returned in the first process. `root` is a folder of this session that all workers have."""
    mine = os.getpid()
    with _state(root / f"{name}.json") as state:
        if not state:
            state["info"], state["users"] = start(), []
        state["users"].append(mine)
        info = state["info"]
    try:
        yield info
    finally:
        with _state(root / f"{name}.json") as state:
            state["users"] = [pid for pid in state["users"] if pid != mine and os.path.exists(f"/proc/{pid}")]
            if not state["users"]:
                stop(state["info"])
                state.clear()


@contextmanager
def _state(path: Path) -> Iterator[dict[str, Any]]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(handle, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read()
        state: dict[str, Any] = json.loads(text) if text else {}
        yield state
        file.seek(0)
        file.truncate()
        file.write(json.dumps(state) if state else "")
