"""Which folder belongs to which short name under `~/.gemini/tmp`: chats do not say where they were held."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator

from imi_monitor.sources.agents import loose
from imi_monitor.sources.agents.base import World

_LONGEST = 4 << 20
_MOST_CHATS = 200  # of one project, the newest
CHAT_ENDINGS = (".jsonl", ".json")


def base(world: World) -> str:
    """`~/.gemini`; Gemini lets its home be moved."""
    return os.path.realpath(os.path.join(world.env.get("GEMINI_CLI_HOME") or world.home, ".gemini"))


def chat_folders(home: str, world: World) -> dict[str, str]:
    """Folders with chats of watched worktrees, and the folder that each was held in."""
    found = {os.path.join(home, "tmp", _hashed(root), "chats"): root for root in world.roots}  # as versions of 2025 did
    for path, name in _registered(home).items():
        if world.watched(path):
            found[os.path.join(home, "tmp", name, "chats")] = os.path.realpath(path)
    return {folder: cwd for folder, cwd in found.items() if os.path.isdir(folder)}


def _hashed(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()


def _registered(home: str) -> dict[str, str]:
    """path -> short name."""
    try:
        with open(os.path.join(home, "projects.json"), "rb") as file:
            listed = loose.record(file.read(_LONGEST)) or {}
    except OSError:
        return {}
    return {
        path: name
        for path, name in loose.table(listed.get("projects")).items()
        if isinstance(name, str) and name and "/" not in name and name not in (".", "..")
    }


def recent_chats(folders: Iterable[str], since: float) -> Iterator[tuple[str, str]]:
    """(folder, path) of chats that moved since then; one that was moved to the newer format counts once."""
    for folder in folders:
        found: dict[str, tuple[float, str]] = {}
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if is_chat(entry.name) and (at := entry.stat().st_mtime) >= since:
                        stem = os.path.splitext(entry.name)[0]
                        found[stem] = max(found.get(stem, (0.0, "")), (at, entry.path), key=_format_and_age)
        except OSError:
            continue
        yield from ((folder, path) for _, path in sorted(found.values(), reverse=True)[:_MOST_CHATS])


def _format_and_age(chat: tuple[float, str]) -> tuple[bool, float]:
    return chat[1].endswith(".jsonl"), chat[0]


def is_chat(name: str) -> bool:
    return name.startswith("session-") and name.endswith(CHAT_ENDINGS)
