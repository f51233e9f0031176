"""Which dashboards run, and which ended badly: a small file each, gone when it ended in order. The next one tells it, once."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from imi_monitor import host, paths
from imi_monitor.fast import json_writer
from imi_monitor.model import times
from imi_monitor.model.text import safe

_MOST_TOLD = 3


def _folder() -> str:
    return os.path.join(paths.state_dir(), "monitors")


class CrashMarker:
    """The file of this process. What cannot be written is not worth keeping a dashboard shut for."""

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

    def ended_badly(self) -> list[str]:
        """What to tell about dashboards that are gone without having ended in order; it is told once."""
        return [said for name in _names() if (said := self._last_words(os.path.join(_folder(), name)))][:_MOST_TOLD]

    def _last_words(self, path: str) -> str | None:
        if path == self.path:
            return None
        found = _read(path)
        if found is None or (not found.get("said") and _alive(found) is not False):
            return None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
            return _sentence(found)
        return None  # another dashboard was quicker to tell it

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
