"""A registry that vanished is not silently a new one: what still names it by id and path makes every claim unknown.

Imported only when a registry is about to be made. A new one names itself only after its first commit, so that processes
that make it together never take each other's traces for those of a vanished registry.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Sequence

from imi_monitor.model.errors import RegistryError
from imi_monitor.model.text import safe
from imi_monitor.store import registry_file

CODE = "registry-lost"
_GONE_SENTENCE = (
    "restore a copy of it; until then every worktree counts as claimed, and the next command that needs a registry starts a"
    " new one in which nothing is claimed"
)
GONE, EMPTY, REPLACED = "is gone", "is empty", "was replaced by a new one of another program"
_MOST_BYTES = 1 << 16  # of a file that may name a registry


class RegistryTrace:
    """One thing that names a registry: where it is, and the registry's id, if it holds one."""

    __slots__ = ("place", "registry_id")

    def __init__(self, place: str, registry_id: str | None) -> None:
        self.place = place
        self.registry_id = registry_id


FindTraces = Callable[[str], Sequence[RegistryTrace]]


def refuse_lost(path: str, real: str, state: str, find_traces: FindTraces | None) -> None:
    """Refuse to make a registry at `real` while anything names an earlier one there."""
    traces = [*list_traces(real), *(find_traces(real) if find_traces else ())]
    if traces:
        raise RegistryError(
            f"the registry {safe(path)} {state}, but {safe(traces[0].place)} names it, so every worktree counts as claimed:"
            " restore a copy of it, or run `imi doctor --new-registry` to start a new one in which nothing is claimed",
            code=CODE,
        )


def gone_error(path: str) -> RegistryError:
    """The error of a process whose registry is gone, although nothing else names it."""
    return RegistryError(f"the registry {safe(path)} is gone: {_GONE_SENTENCE}", code=CODE)


def list_traces(real: str) -> list[RegistryTrace]:
    """The traces beside the registry: the ballast, and a log that was left without its registry."""
    found = []
    ballast = registry_file.ballast_path(real)
    named = read_names(ballast).get("registries")
    if isinstance(named, dict) and isinstance(named.get(real), str):
        found.append(RegistryTrace(f"the ballast {ballast}", named[real]))
    if not registry_file.has_content(real) and registry_file.has_content(f"{real}-wal", own=True):
        found.append(RegistryTrace(f"the log {real}-wal", None))
    return found


def set_log_aside(real: str) -> str | None:
    """Rename the log of a registry that is gone or empty, which SQLite would delete; returns its new path."""
    if registry_file.has_content(real) or not registry_file.has_content(f"{real}-wal"):
        return None
    target = f"{real}-wal.aside-{os.getpid()}-{os.stat(f'{real}-wal').st_mtime_ns}"
    os.rename(f"{real}-wal", target)
    return target


def read_names(path: str) -> dict[str, object]:
    """The JSON object in the first line of a small file of this user; empty for anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return {}
    try:
        info = os.fstat(handle)
        own = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid()
        content = os.read(handle, _MOST_BYTES) if own else b""
    except OSError:
        return {}
    finally:
        os.close(handle)
    if not content.startswith(b"{"):
        return {}
    for text in (content.partition(b"\n")[0], content):
        try:
            tree = json.loads(text)
        except ValueError:
            continue
        return tree if isinstance(tree, dict) else {}
    return {}
