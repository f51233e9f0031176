"""imi's server in one settings file of one agent program. How it gets in and out byte for byte: `settings_installation`."""

from __future__ import annotations

from typing import Any

from imi_monitor.actions.hooks.settings_installation import INSTALLED, NOT, OLDER, SERVERS, SettingsInstallation
from imi_monitor.actions.mcp import server_entries
from imi_monitor.actions.mcp.agent_servers import NAME, AgentServers, server_command
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe


class ServerInstallation(SettingsInstallation):
    kind = SERVERS

    def __init__(self, program: AgentServers, path: str) -> None:
        super().__init__(program.cli, path)
        self.program = program

    def state(self) -> str:
        found = self._found()
        if found is None:
            return NOT
        return INSTALLED if _command_of(found) == server_command() else OLDER

    def refuse_foreign(self) -> None:
        """Refuse a file in which another program's server has imi's name."""
        found = self._found()
        if found is not None and _command_of(found)[-1:] != ["mcp"]:
            raise Refused(
                f"{safe(self.path)} has another server called {NAME!r}: rename or remove that one first", code="foreign"
            )

    def content_with(self, base: bytes | None) -> tuple[bytes, dict[str, Any]]:
        """The content with imi's server added to `base`, and the record for its removal."""
        section = self.program.section
        if not section:
            before = self._decoded(base or b"")
            self._parsed(server_entries.find_toml, before)
            after, block = self._parsed(lambda it: server_entries.add_toml(it, server_command()), before)
            return after.encode(), {"block": block}
        text = server_entries.EMPTY if base is None or not base.strip() else self._decoded(base)
        entry = self.program.entry(server_command())
        after, made, insides = self._parsed(lambda it: server_entries.add_json(it, section, entry), text)
        return after.encode(), {"made": made, "insides": insides}

    def _found(self) -> dict[str, object] | None:
        if not (self.data or b"").strip():
            return None
        section = self.program.section
        find = (lambda it: server_entries.find_json(it, section)) if section else server_entries.find_toml
        return self._parsed(find, self._text())

    def _without(self, text: str) -> str:
        section = self.program.section
        if not section:
            return server_entries.remove_toml(text, (self.record or {}).get("block"))
        if not text.strip():
            return text
        made, insides = self._recorded()
        return self._parsed(lambda it: server_entries.remove_json(it, section, made, insides), text)


def _command_of(entry: dict[str, object]) -> list[str]:
    """The command line of an entry, whichever program's form it has."""
    command, rest = entry.get("command"), entry.get("args")
    first = command if isinstance(command, list) else [command]
    return [str(word) for word in [*first, *(rest if isinstance(rest, list) else [])]]
