"""The saved layout of the dashboard, one file per set of repositories: order, groups, filter, theme, panels."""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from textual.app import App
from textual.timer import Timer

from imi_monitor import paths
from imi_monitor.fast.frozen_dataclass import dataclass

_MOST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class SavedLayout:
    """The content of the file."""

    sort: str = "attention"
    backwards: bool = False
    group: str = "none"
    folded: tuple[str, ...] = ()
    theme: str = ""  # empty: the configured one
    detail: int = 2
    only: bool = False
    interval: float = 0.0  # 0: the configured one
    displaced_keys: str = ""  # the last notice about default keys that `[ui.keymap]` took
    preset: str = ""  # empty: all panels


def path_for(common_dirs: Sequence[str] | None) -> str:
    """Return the file for these repositories; None stands for all that are registered."""
    scope = "\0".join(sorted(common_dirs)) if common_dirs else "everything"
    whole = os.fsencode(scope)
    name = f"{zlib.crc32(whole):08x}{zlib.adler32(whole):08x}"  # importing hashlib takes longer than reading the file
    return os.path.join(paths.state_dir(), "dashboard", f"{name}.json")


def load(path: str) -> SavedLayout:
    """Return the saved layout; missing and invalid values are the defaults."""
    try:
        with open(path, "rb") as file:
            text = file.read(_MOST_BYTES)
        import json

        content = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return SavedLayout()
    return _read(content) if isinstance(content, dict) else SavedLayout()


def _read(content: dict[str, Any]) -> SavedLayout:
    fresh = SavedLayout()
    sound: dict[str, Any] = {}
    for field in fields(SavedLayout):
        value, wanted = content.get(field.name), type(getattr(fresh, field.name))
        if wanted is tuple and isinstance(value, list) and all(isinstance(item, str) for item in value):
            sound[field.name] = tuple(value)
        elif wanted is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            sound[field.name] = float(value)
        elif type(value) is wanted:
            sound[field.name] = value
    return replace(fresh, **sound)


def save(path: str, what: SavedLayout) -> None:
    """Write the file atomically; OSError if that fails."""
    import json
    import tempfile

    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=folder, prefix=".new-")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(what), file)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


class LayoutFile:
    """Saves the layout half a second after a change, in a thread; only the first failure is reported."""

    def __init__(self, app: App[Any], path: str, current: Callable[[], SavedLayout]) -> None:
        self._app = app
        self._path = path  # empty: nothing is saved
        self._current = current
        self._timer: Timer | None = None
        self._failed = False

    def load(self) -> SavedLayout:
        return load(self._path) if self._path else SavedLayout()

    def schedule(self) -> None:
        if self._path and self._timer is None:
            self._timer = self._app.set_timer(0.5, self._start_saving)

    def flush(self) -> None:
        """Save what is scheduled at once."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
            try:
                save(self._path, self._current())
            except OSError:
                self._app.log("the layout could not be saved")

    def _start_saving(self) -> None:
        self._timer = None
        self._app.run_worker(self._save())

    async def _save(self) -> None:
        try:
            await asyncio.to_thread(save, self._path, self._current())
        except OSError as error:
            if not self._failed:
                self._failed = True
                self._app.notify(f"the layout of the dashboard cannot be saved: {error.strerror}", markup=False)
