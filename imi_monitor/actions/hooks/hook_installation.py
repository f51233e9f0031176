"""One settings file of one agent: what is in it of ours, and the text with our hooks and without them.

What we did to a file is noted in our own folder, with a copy of what it was: if nobody has touched it since, it comes back
exactly; if somebody has, only ours goes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

from imi_monitor import paths
from imi_monitor.actions.hooks import hook_entries, hook_script, settings_file
from imi_monitor.actions.hooks.agent_hooks import AgentHooks
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

INSTALLED: Final = "installed"
PARTLY: Final = "partly installed"
OLDER: Final = "of an older version"
NOT: Final = "not installed"
UNTRUSTED: Final = "not trusted"

T = TypeVar("T")

_PLUGIN_MARK: Final = b"// imi's plugin, version "


class HookInstallation:
    """`path` as a person names it; it may be a link to the file that is meant."""

    def __init__(self, agent: AgentHooks, path: str) -> None:
        self.agent = agent
        self.path = path
        self.data = settings_file.read(path)
        self.note = _notes().get(self._key)

    @property
    def _key(self) -> str:
        return f"{self.agent.cli}:{os.path.realpath(self.path)}"

    @property
    def is_plugin(self) -> bool:
        return self.path.endswith(".js")

    # -- what is there --------------------------------------------------------------------------------------------------

    def state(self) -> str:
        if self.data is None:
            return NOT
        if self.is_plugin:
            found = (
                NOT
                if not self.data.startswith(_PLUGIN_MARK)
                else INSTALLED
                if self.data == hook_script.plugin()
                else OLDER
            )
        else:
            found = self._state_of_hooks()
        if found == INSTALLED and not hook_script.current():
            return OLDER if settings_file.read(hook_script.path()) is not None else PARTLY
        return UNTRUSTED if found == INSTALLED and self.agent.untrusted(self.path) else found

    def _state_of_hooks(self) -> str:
        present = self._understood(hook_entries.find_hooks, self._text())
        wanted = {event: _command(group) for event, group in self.agent.groups().items()}
        if not present:
            return NOT
        if any(set(commands) != {wanted.get(event, "")} for event, commands in present.items() if event in wanted):
            return OLDER
        return INSTALLED if wanted.keys() <= present.keys() else PARTLY

    # -- what it would be -----------------------------------------------------------------------------------------------

    def without(self) -> bytes | None:
        """Its content without ours, None for no file at all."""
        if self.data is None:
            return None
        if self.note is not None and _sum(self.data) == self.note.get("after"):
            return self._before()
        if self.is_plugin:
            if not self.data.startswith(_PLUGIN_MARK):
                raise Refused(f"{safe(self.path)} is not imi's: move it away first", code="foreign")
            return None
        made, insides = self._noted()
        text = self._understood(lambda it: hook_entries.remove_hooks(it, made, insides), self._text())
        bare = text.strip() == "{}" and self.note is not None and self.note.get("before") is None
        return None if bare else text.encode()

    def with_ours(self, base: bytes | None) -> tuple[bytes, dict[str, Any]]:
        """The content with our hooks in it, made from one without, and the note that leads back."""
        if self.is_plugin:
            return hook_script.plugin(), {}
        text = hook_entries.EMPTY if base is None or not base.strip() else self._decoded(base)
        done = self._understood(lambda it: hook_entries.add_hooks(it, self.agent.groups()), text)
        return done.text.encode(), {"made": done.made, "insides": done.insides}

    # -- doing it -----------------------------------------------------------------------------------------------------------

    def install(self, base: bytes | None, after: bytes, note: dict[str, Any]) -> None:
        if base is not None:
            settings_file.write(self._copy(), base)
        folders = [*(self.note or {}).get("folders", []), *settings_file.make_folders(self.path)]
        known = {**note, "before": None if base is None else _sum(base), "after": _sum(after), "folders": folders}
        _note(
            self._key, known
        )  # first: a crash leaves a note too many, never hooks that nobody knows the way back from
        settings_file.write(self.path, after, expected=self.data)

    def uninstall(self, after: bytes | None) -> None:
        if after is None:
            settings_file.delete(self.path, self.data)
        else:
            settings_file.write(self.path, after, expected=self.data)
        left = settings_file.remove_folders((self.note or {}).get("folders", []))
        self.forget()
        _hand_on(left)
        if os.path.lexists(self._copy()):
            os.unlink(self._copy())

    def forget(self) -> None:
        """That anything was ever done to it."""
        if self.note is not None:
            _note(self._key, None)

    # -- small things -------------------------------------------------------------------------------------------------------

    def _before(self) -> bytes | None:
        if self.note is None or self.note.get("before") is None:
            return None
        copy = settings_file.read(self._copy())
        if copy is None or _sum(copy) != self.note["before"]:
            made, insides = self._noted()
            return self._understood(lambda it: hook_entries.remove_hooks(it, made, insides), self._text()).encode()
        return copy

    def _noted(self) -> tuple[list[str] | None, dict[str, str]]:
        note = self.note or {}
        made, insides = note.get("made"), note.get("insides")
        return made if isinstance(made, list) else None, insides if isinstance(insides, dict) else {}

    def _copy(self) -> str:
        name = f"{self.agent.cli}-{_sum(os.path.realpath(self.path).encode())[:16]}.before"
        return os.path.join(paths.hooks_dir(), name)

    def _text(self) -> str:
        return self._decoded(self.data or b"")

    def _decoded(self, data: bytes) -> str:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused(f"{safe(self.path)} is not UTF-8: it is left alone", code="not-json") from error

    def _understood(self, act: Callable[[str], T], text: str) -> T:
        try:
            return act(text)
        except Refused as error:
            raise Refused(f"{safe(self.path)} is left alone: {error.sentence}", code=error.code) from error


def any_noted() -> bool:
    return bool(_notes())


def _command(group: hook_entries.HookGroup) -> str:
    handlers = group["hooks"]
    return str(handlers[0]["command"]) if isinstance(handlers, list) else ""


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _notes_path() -> str:
    return os.path.join(paths.hooks_dir(), "installed.json")


def _notes() -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(settings_file.read(_notes_path()) or b"{}")
    except ValueError:
        return {}  # without notes only ours is taken out, by what it looks like
    return {key: value for key, value in found.items() if isinstance(value, dict)} if isinstance(found, dict) else {}


def _hand_on(folders: list[str]) -> None:
    """A folder that we made holds another file of ours now: it goes with that one."""
    for key, note in _notes().items():
        if folders and key.partition(":")[2].startswith(folders[-1] + "/"):
            _note(key, {**note, "folders": [*folders, *note.get("folders", [])]})
            return


def _note(key: str, value: dict[str, Any] | None) -> None:
    notes = _notes()
    notes.pop(key, None)
    if value is not None:
        notes[key] = value
    os.makedirs(paths.hooks_dir(), mode=0o700, exist_ok=True)
    settings_file.write(_notes_path(), json.dumps(notes, indent=1).encode())
