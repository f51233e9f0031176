"""What imi adds to one settings file of one agent program, with a record of it: installed, and removed byte for byte.

A record in imi's folder keeps what imi changed, with a copy of the original file. If the file is unchanged since, removal
restores the original bytes; otherwise it removes imi's part only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

from imi_monitor import paths
from imi_monitor.actions.hooks import settings_file
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

INSTALLED: Final = "installed"
PARTLY: Final = "partly installed"
OLDER: Final = "of an older version"
NOT: Final = "not installed"

HOOKS: Final = "installed.json"
SERVERS: Final = "servers.json"
_KINDS: Final = (HOOKS, SERVERS)

T = TypeVar("T")


class SettingsInstallation:
    """`path` may be a link to the settings file. `kind` is the file of the records of what is installed."""

    kind = ""

    def __init__(self, cli: str, path: str) -> None:
        self.cli = cli
        self.path = path
        self.data = settings_file.read(path)
        self.record = read_records(self.kind).get(self._key)

    @property
    def _key(self) -> str:
        return f"{self.cli}:{os.path.realpath(self.path)}"

    def state(self) -> str:
        """Whether it is installed, as a word for people."""
        raise NotImplementedError

    def is_installed(self) -> bool:
        return self.state() == INSTALLED

    def refuse_foreign(self) -> None:
        """Refuse a file in which what is not imi's has imi's name."""

    def content_with(self, base: bytes | None) -> tuple[bytes, dict[str, Any]]:
        """The content with imi's part added to `base`, and the record for its removal."""
        raise NotImplementedError

    def content_without(self) -> bytes | None:
        """The content without imi's part; None when the file should not exist."""
        if self.data is None:
            return None
        if self.record is not None and checksum(self.data) == self.record.get("after"):
            return self._before()
        text = self._without(self._text())
        return None if self._is_bare(text) else text.encode()

    def _without(self, text: str) -> str:
        raise NotImplementedError

    def _is_bare(self, text: str) -> bool:
        """Whether a file of this text exists because of imi alone."""
        return "".join(text.split()) in ("", "{}") and self.record is not None and self.record.get("before") is None

    # -- changes ---------------------------------------------------------------------------------------------------------

    def install(self, base: bytes | None, after: bytes, record: dict[str, Any]) -> None:
        os.makedirs(paths.hooks_dir(), mode=0o700, exist_ok=True)
        if base is not None:
            settings_file.write(self._copy(), base)
        folders = [*(self.record or {}).get("folders", []), *settings_file.make_folders(self.path)]
        known = {
            **record,
            "before": None if base is None else checksum(base),
            "after": checksum(after),
            "folders": folders,
        }
        # the record first: a crash leaves an unused record, never an installation without a record
        write_record(self.kind, self._key, known)
        settings_file.write(self.path, after, expected=self.data)

    def uninstall(self, after: bytes | None) -> None:
        if after is None:
            settings_file.delete(self.path, self.data)
        else:
            settings_file.write(self.path, after, expected=self.data)
            self._pass_on()
        left = settings_file.remove_folders((self.record or {}).get("folders", []))
        self.forget()
        _keep_folders(left)
        if os.path.lexists(self._copy()):
            os.unlink(self._copy())

    def forget(self) -> None:
        """Delete the record of the file."""
        if self.record is not None:
            write_record(self.kind, self._key, None)

    def _pass_on(self) -> None:
        """Let what else imi has in the file know that imi made the file."""
        if self.record is None or self.record.get("before") is not None:
            return
        for kind in _KINDS:
            found = read_records(kind).get(self._key)
            if kind != self.kind and found is not None:
                write_record(kind, self._key, {**found, "before": None, "after": None})

    # -- helpers ---------------------------------------------------------------------------------------------------------

    def _before(self) -> bytes | None:
        if self.record is None or self.record.get("before") is None:
            return None
        copy = settings_file.read(self._copy())
        if copy is None or checksum(copy) != self.record["before"]:
            return self._without(self._text()).encode()
        return copy

    def _recorded(self) -> tuple[list[str] | None, dict[str, str]]:
        record = self.record or {}
        made, insides = record.get("made"), record.get("insides")
        return made if isinstance(made, list) else None, insides if isinstance(insides, dict) else {}

    def _copy(self) -> str:
        kind = "" if self.kind == HOOKS else "server-"
        return os.path.join(
            paths.hooks_dir(), f"{kind}{self.cli}-{checksum(os.path.realpath(self.path).encode())[:16]}.before"
        )

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


def has_records(kind: str) -> bool:
    return bool(read_records(kind))


def recorded_files(kind: str) -> list[tuple[str, str]]:
    """The program and path of each settings file in which imi's part is recorded."""
    keys = (key.partition(":") for key in read_records(kind))
    return [(cli, path) for cli, _, path in keys if path]


def checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_records(kind: str) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(settings_file.read(os.path.join(paths.hooks_dir(), kind)) or b"{}")
    except ValueError:
        return {}  # without records, imi's part is recognised by its command
    return {key: value for key, value in found.items() if isinstance(value, dict)} if isinstance(found, dict) else {}


def write_record(kind: str, key: str, value: dict[str, Any] | None) -> None:
    records = read_records(kind)
    records.pop(key, None)
    if value is not None:
        records[key] = value
    os.makedirs(paths.hooks_dir(), mode=0o700, exist_ok=True)
    settings_file.write(os.path.join(paths.hooks_dir(), kind), json.dumps(records, indent=1).encode())


def _keep_folders(folders: list[str]) -> None:
    """Record these folders for another settings file in them, with which they are removed."""
    for kind in _KINDS:
        for key, record in read_records(kind).items():
            if folders and key.partition(":")[2].startswith(folders[-1] + "/"):
                write_record(kind, key, {**record, "folders": [*folders, *record.get("folders", [])]})
                return
