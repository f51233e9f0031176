"""Whether the files of the code that a long-lived process runs were replaced since it began: an upgrade, or a new checkout."""

from __future__ import annotations

import os
import sys
import time

_LOOK_SECONDS = 2.0
_PACKAGE = __name__.partition(".")[0]


class RunningCode:
    """Compares the files of the loaded modules with what they were when they were loaded."""

    def __init__(self, files: list[str] | None = None, pause: float = _LOOK_SECONDS) -> None:
        self._files, self._pause = _loaded() if files is None else files, pause
        self._before = self._stamps()
        self._last = self._before
        self._due = 0.0
        self._changed = False

    def has_changed(self) -> bool:
        """True once the files differ and are at rest, so that no half of an upgrade is run; looks after each pause."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._pause
            last, self._last = self._last, self._stamps()
            self._changed = self._last != self._before and self._last == last and None not in self._last
        return self._changed

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._files]


def _loaded() -> list[str]:
    ours = (_PACKAGE, "__main__")  # a process of one module has it under that name alone
    modules = [one for name, one in sys.modules.items() if name.partition(".")[0] in ours]
    return sorted(path for one in modules if isinstance(path := getattr(one, "__file__", None), str))


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
