"""What names a registry outside of its own folder: notes of trash entries, presence locks, and the hooks' folder.

Only files of this user count that name the registry by its id and its real path. A registry that was used with `--db` or
by another user is never meant by them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from imi_monitor import host, paths
from imi_monitor.fast import json_writer
from imi_monitor.git import layout
from imi_monitor.model.errors import ImiError
from imi_monitor.store.lost_registry import RegistryTrace, read_names

TRASH_NOTE = "note.json"
HOOKS_NOTE = "registry.json"


def find_traces(real: str, repositories: list[layout.Repository]) -> list[RegistryTrace]:
    """The traces of the registry at `real` in these repositories and in the hooks' folder."""
    found = [trace for repository in repositories for trace in _in_repository(real, repository)]
    return [*found, *_trace(real, read_names(hooks_note()), f"the hooks' folder {paths.hooks_dir()}")]


def hooks_note() -> str:
    return os.path.join(paths.hooks_dir(), HOOKS_NOTE)


def write_hooks_note(real: str, registry_id: str) -> None:
    """Name the registry in the folder of the installed hooks."""
    folder = paths.hooks_dir()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    temporary = os.path.join(folder, f"{HOOKS_NOTE}.{os.getpid()}~")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, json_writer.dumps({"registry": {"id": registry_id, "path": real}}).encode() + b"\n")
    finally:
        os.close(handle)
    os.replace(temporary, hooks_note())


def _in_repository(real: str, repository: layout.Repository) -> Iterator[RegistryTrace]:
    for root in _trash_roots(repository):
        for name in _names(root):
            note = os.path.join(root, name, TRASH_NOTE)
            yield from _trace(real, read_names(note), f"the trash entry {os.path.dirname(note)}")
    for lock in _presence_locks(repository):
        content = read_names(lock)
        if content.get("hostname") == host.hostname():
            named: dict[str, object] = {"registry": {"id": content.get("registry_id"), "path": content.get("registry")}}
            yield from _trace(real, named, f"the presence lock {lock}")


def _trace(real: str, content: dict[str, object], place: str) -> Iterator[RegistryTrace]:
    named = content.get("registry")
    if not isinstance(named, dict):
        return
    ident, path = named.get("id"), named.get("path")
    if isinstance(ident, str) and isinstance(path, str) and os.path.isabs(path) and os.path.realpath(path) == real:
        yield RegistryTrace(place, ident)


def _trash_roots(repository: layout.Repository) -> list[str]:
    """The folders that may hold the repository's trash: in its git directory, or beside a worktree."""
    beside = [repository.home, *(item.path for item in _linked(repository))]
    siblings = [os.path.join(os.path.dirname(path), ".imi-trash") for path in beside]
    return list(dict.fromkeys([os.path.join(repository.common_dir, "imi", "trash"), *siblings]))


def _linked(repository: layout.Repository) -> list[layout.LinkedWorktree]:
    try:
        return layout.linked_worktrees(repository.common_dir)
    except (ImiError, OSError):
        return []


def _presence_locks(repository: layout.Repository) -> list[str]:
    if repository.cluster is None:
        return []
    folder = os.path.join(repository.cluster, ".iMi", "presence")
    return [os.path.join(folder, name) for name in _names(folder) if name.endswith(".lock")]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
