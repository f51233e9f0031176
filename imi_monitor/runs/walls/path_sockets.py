"""The sockets with a path that programs of this machine listen on."""

from __future__ import annotations

import os
import stat

_MOST = 300
_PATH = 7  # the column of /proc/net/unix


def find_sockets() -> list[str]:
    """The paths of all bound sockets that this user can see; empty where there is no /proc."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.rstrip("\n").split(None, _PATH) for line in file]
    except OSError:
        return []
    listed = {row[_PATH] for row in rows[1:] if len(row) > _PATH and row[_PATH].startswith("/")}
    return sorted({os.path.realpath(path) for path in listed if _is_socket(path)})[:_MOST]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False
