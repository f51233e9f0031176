"""imi's hooks in one settings file of one agent: their state, installation and removal.

A record in imi's folder keeps what imi changed, with a copy of the original file. If the file is unchanged since, removal
restores the original bytes; otherwise it removes imi's hooks only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

from imi_monitor import paths
from imi_monitor.actions.hooks import agent_hooks, hook_entries, settings_file
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
    """`path` may be a link to the settings file."""

    def __init__(self, agent: AgentHooks, path: str) -> None:
        self.agent = agent
        self.path = path
        self.data = settings_file.read(path)
        self.record = _read_records().get(self._key)

    @property
    def _key(self) -> str:
        return f"{self.agent.cli}:{os.path.realpath(self.path)}"

    @property
    def is_plugin(self) -> bool:
        return self.path.endswith(".js")

    # -- state -----------------------------------------------------------------------------------------------------------

    def state(self) -> str:
        if self.data is None:
            return NOT
        if self.is_plugin:
            found = (
                NOT
                if not self.data.startswith(_PLUGIN_MARK)
                else INSTALLED
                if self.data == agent_hooks.plugin_source()
                else OLDER
            )
        else:
            found = self._state_of_hooks()
        if found == INSTALLED and not agent_hooks.is_script_current():
            return OLDER if settings_file.read(agent_hooks.script_path()) is not None else PARTLY
        return UNTRUSTED if found == INSTALLED and self.agent.untrusted(self.path) else found

    def _state_of_hooks(self) -> str:
        present = self._parsed(hook_entries.find_hooks, self._text())
        wanted = {event: _command(group) for event, group in self.agent.groups().items()}
        if not present:
            return NOT
        if any(set(commands) != {wanted.get(event, "")} for event, commands in present.items() if event in wanted):
            return OLDER
        return INSTALLED if wanted.keys() <= present.keys() else PARTLY

    # -- texts -----------------------------------------------------------------------------------------------------------

    def content_without_hooks(self) -> bytes | None:
        """The content without imi's hooks; None when the file should not exist."""
        if self.data is None:
            return None
        if self.record is not None and _checksum(self.data) == self.record.get("after"):
            return self._before()
        if self.is_plugin:
            if not self.data.startswith(_PLUGIN_MARK):
                raise Refused(f"{safe(self.path)} is not imi's plugin: move it away first", code="foreign")
            return None
        made, insides = self._recorded()
        text = self._parsed(lambda it: hook_entries.remove_hooks(it, made, insides), self._text())
        bare = text.strip() == "{}" and self.record is not None and self.record.get("before") is None
        return None if bare else text.encode()

    def content_with_hooks(self, base: bytes | None) -> tuple[bytes, dict[str, Any]]:
        """The content with imi's hooks added to `base`, and the record for their removal."""
        if self.is_plugin:
            return agent_hooks.plugin_source(), {}
        text = hook_entries.EMPTY if base is None or not base.strip() else self._decoded(base)
        done = self._parsed(lambda it: hook_entries.add_hooks(it, self.agent.groups()), text)
        return done.text.encode(), {"made": done.made, "insides": done.insides}

    # -- changes ---------------------------------------------------------------------------------------------------------

    def install(self, base: bytes | None, after: bytes, record: dict[str, Any]) -> None:
        if base is not None:
            settings_file.write(self._copy(), base)
        folders = [*(self.record or {}).get("folders", []), *settings_file.make_folders(self.path)]
        known = {
            **record,
            "before": None if base is None else _checksum(base),
            "after": _checksum(after),
            "folders": folders,
        }
        # the record first: a crash leaves an unused record, never hooks without a record
        _write_record(self._key, known)
        settings_file.write(self.path, after, expected=self.data)

    def uninstall(self, after: bytes | None) -> None:
        if after is None:
            settings_file.delete(self.path, self.data)
        else:
            settings_file.write(self.path, after, expected=self.data)
        left = settings_file.remove_folders((self.record or {}).get("folders", []))
        self.forget()
        _keep_folders(left)
        if os.path.lexists(self._copy()):
            os.unlink(self._copy())

    def forget(self) -> None:
        """Delete the record of the file."""
        if self.record is not None:
            _write_record(self._key, None)

    # -- helpers ---------------------------------------------------------------------------------------------------------

    def _before(self) -> bytes | None:
        if self.record is None or self.record.get("before") is None:
            return None
        copy = settings_file.read(self._copy())
        if copy is None or _checksum(copy) != self.record["before"]:
            made, insides = self._recorded()
            return self._parsed(lambda it: hook_entries.remove_hooks(it, made, insides), self._text()).encode()
        return copy

    def _recorded(self) -> tuple[list[str] | None, dict[str, str]]:
        record = self.record or {}
        made, insides = record.get("made"), record.get("insides")
        return made if isinstance(made, list) else None, insides if isinstance(insides, dict) else {}

    def _copy(self) -> str:
        name = f"{self.agent.cli}-{_checksum(os.path.realpath(self.path).encode())[:16]}.before"
        return os.path.join(paths.hooks_dir(), name)

    def _text(self) -> str:
        return self._decoded(self.data or b"")

    def _decoded(self, data: bytes) -> str:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused(f"{safe(self.path)} is not UTF-8: imi does not change it", code="not-json") from error

    def _parsed(self, act: Callable[[str], T], text: str) -> T:
        try:
            return act(text)
        except Refused as error:
            raise Refused(f"{safe(self.path)} is not changed: {error.sentence}", code=error.code) from error


def has_records() -> bool:
    return bool(_read_records())


def recorded_files() -> list[tuple[str, str]]:
    """The program and path of each settings file in which imi's hooks are recorded."""
    keys = (key.partition(":") for key in _read_records())
    return [(cli, path) for cli, _, path in keys if path]


def _command(group: hook_entries.HookGroup) -> str:
    handlers = group["hooks"]
    return str(handlers[0]["command"]) if isinstance(handlers, list) else ""


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _records_path() -> str:
    return os.path.join(paths.hooks_dir(), "installed.json")


def _read_records() -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(settings_file.read(_records_path()) or b"{}")
    except ValueError:
        return {}  # without records, imi's hooks are recognised by their command
    return {key: value for key, value in found.items() if isinstance(value, dict)} if isinstance(found, dict) else {}


def _keep_folders(folders: list[str]) -> None:
    """Record these folders for another settings file in them, with which they are removed."""
    for key, record in _read_records().items():
        if folders and key.partition(":")[2].startswith(folders[-1] + "/"):
            _write_record(key, {**record, "folders": [*folders, *record.get("folders", [])]})
            return


def _write_record(key: str, value: dict[str, Any] | None) -> None:
    records = _read_records()
    records.pop(key, None)
    if value is not None:
        records[key] = value
    os.makedirs(paths.hooks_dir(), mode=0o700, exist_ok=True)
    settings_file.write(_records_path(), json.dumps(records, indent=1).encode())
