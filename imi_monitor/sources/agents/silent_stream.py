"""For a program in a window that reports nothing to imi: its run has no state of its own. What is seen of it has one."""

from __future__ import annotations

from imi_monitor.model.agent import UNKNOWN, SessionFacts
from imi_monitor.sources.agents.claude.records import JsonObject
from imi_monitor.sources.agents.stream_reader import StreamReader


class SilentStream(StreamReader):
    def add_record(self, record: JsonObject, position: int, at: str) -> None:
        return

    @property
    def state(self) -> str | None:
        return UNKNOWN

    @property
    def detail(self) -> str | None:
        return None

    @property
    def turn_over(self) -> bool:
        return False

    @property
    def facts(self) -> SessionFacts:
        return SessionFacts()
