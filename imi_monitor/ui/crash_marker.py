"""A small file for each running dashboard, deleted when it ends in order. The next dashboard reports the ones left over, once."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from imi_monitor import host, paths
from imi_monitor.fast import json_writer
from imi_monitor.model import times
from imi_monitor.model.text import safe

_MOST_REPORTED = 3


def _folder() -> str:
    return os.path.join(paths.state_dir(), "monitors")


class CrashMarker:
    """The file of this process. Errors in writing it are ignored: the dashboard starts without it."""

    def __init__(self) -> None:
        self.path = os.path.join(_folder(), f"{os.getpid()}.json")
        self._since = times.stamp()

    def begin(self) -> None:
        self._write(None)

    def crashed(self, sentence: str) -> None:
        self._write(sentence)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def take_reports(self) -> list[str]:
        """Return a sentence for each dashboard that crashed or was killed, and delete its file."""
        return [text for name in _names() if (text := self._take_report(os.path.join(_folder(), name)))][
            :_MOST_REPORTED
        ]

    def _take_report(self, path: str) -> str | None:
        if path == self.path:
            return None
        found = _read(path)
        if found is None or (not found.get("said") and _alive(found) is not False):
            return None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
            return _sentence(found)
        return None  # another dashboard has reported it

    def _write(self, said: str | None) -> None:
        me = host.identify_process(os.getpid())
        content = {"boot": me.boot, "pid": me.pid, "started": me.started, "since": self._since, "said": said}
        with contextlib.suppress(OSError):
            os.makedirs(_folder(), mode=0o700, exist_ok=True)
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(handle, "w", encoding="utf-8") as file:
                file.write(json_writer.dumps(content))


def _names() -> list[str]:
    try:
        return sorted(os.listdir(_folder()))
    except OSError:
        return []


def _read(path: str) -> dict[str, Any] | None:
    import json  # takes longer to load than a start may wait for it

    try:
        with open(path, encoding="utf-8") as file:
            found = json.loads(file.read(1 << 16))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _alive(found: dict[str, Any]) -> bool | None:
    pid = found.get("pid")
    return host.is_alive(
        None, str(found.get("boot") or ""), pid if isinstance(pid, int) else None, found.get("started")
    )


def _sentence(found: dict[str, Any]) -> str:
    age = times.age_of(str(found.get("since")))
    if found.get("said"):
        return f"The dashboard started {age} ago ended: {safe(str(found['said']), 600)}"
    return (
        f"The dashboard started {age} ago was killed, or the machine went down. Nothing is lost by that;"
        f" errors, if there were any, are in {safe(paths.error_log())}"
    )
