"""imi's hooks in one settings file of one agent: their state and their text. How they get in and out: `settings_installation`."""

from __future__ import annotations

from typing import Any, Final

from imi_monitor.actions.hooks import agent_hooks, hook_entries, settings_file, settings_installation
from imi_monitor.actions.hooks.agent_hooks import AgentHooks
from imi_monitor.actions.hooks.settings_installation import HOOKS, INSTALLED, NOT, OLDER, PARTLY, SettingsInstallation
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

UNTRUSTED: Final = "not trusted"

_PLUGIN_MARK: Final = b"// imi's plugin, version "


class HookInstallation(SettingsInstallation):
    kind = HOOKS

    def __init__(self, agent: AgentHooks, path: str) -> None:
        super().__init__(agent.cli, path)
        self.agent = agent

    @property
    def is_plugin(self) -> bool:
        return self.path.endswith(".js")

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
        if found == INSTALLED and not agent_hooks.are_scripts_current():
            return OLDER if settings_file.read(agent_hooks.script_path()) is not None else PARTLY
        return UNTRUSTED if found == INSTALLED and self.agent.untrusted(self.path) else found

    def is_installed(self) -> bool:
        return self.state() in (INSTALLED, UNTRUSTED)

    def _state_of_hooks(self) -> str:
        present = self._parsed(hook_entries.find_hooks, self._text())
        wanted = {event: set(map(_command, groups)) for event, groups in self.agent.groups().items()}
        if not present:
            return NOT
        if any(set(commands) != wanted[event] for event, commands in present.items() if event in wanted):
            return OLDER
        return INSTALLED if wanted.keys() <= present.keys() else PARTLY

    def content_without(self) -> bytes | None:
        unchanged = self.record is not None and settings_installation.checksum(self.data or b"") == self.record.get(
            "after"
        )
        if self.data is None or not self.is_plugin or unchanged:
            return super().content_without()
        if not self.data.startswith(_PLUGIN_MARK):
            raise Refused(f"{safe(self.path)} is not imi's plugin: move it away first", code="foreign")
        return None

    def _without(self, text: str) -> str:
        made, insides = self._recorded()
        return self._parsed(lambda it: hook_entries.remove_hooks(it, made, insides), text)

    def content_with(self, base: bytes | None) -> tuple[bytes, dict[str, Any]]:
        """The content with imi's hooks added to `base`, and the record for their removal."""
        if self.is_plugin:
            return agent_hooks.plugin_source(), {}
        text = hook_entries.EMPTY if base is None or not base.strip() else self._decoded(base)
        done = self._parsed(lambda it: hook_entries.add_hooks(it, self.agent.groups()), text)
        return done.text.encode(), {"made": done.made, "insides": done.insides}


def _command(group: hook_entries.HookGroup) -> str:
    handlers = group["hooks"]
    return str(handlers[0]["command"]) if isinstance(handlers, list) else ""
