"""The chat history of an aider that imi started, as `runs/aider_bridge.py` records it: one record for each of its lines.

It runs until it exits: only then is known that no answer, retry or edit follows. On its own screen (`runs/aider_screen.py`) what
the terminal shows is recorded as well: there it is at its prompt, asks or works.
"""

from __future__ import annotations

from typing import Any

from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, RESTING, RUNNING, WAITING, AgentEvent, SessionFacts
from imi_monitor.model.run import Question
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.aider.reducer import CHAT_START, AiderReducer
from imi_monitor.sources.agents.stream_reader import StreamReader

_START = CHAT_START.decode()
_READY = "ready"
_COMMAND = "Run shell command"
_ANSWERED = ("reply", "report")  # the last line of a chat whose prompt was answered


class AiderStream(StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self._folder = ""
        self._chat: AiderReducer | None = None
        self._lines = 0
        self._ended: str | None = None
        self._why: str | None = None
        self._screen: str | None = None  # asks, ready or busy

    def add_record(self, record: dict[str, Any], position: int, at: str) -> None:
        self.session = fields.text(record.get("session"), 200) or self.session
        if "folder" in record:
            self._folder = fields.path(record["folder"]) or ""
        elif isinstance(record.get("chat"), str):
            self._add_line(record["chat"], at)
        elif "screen" in record:
            self._see(fields.text(record["screen"], 40), fields.table(record.get("ask")), position, at)
        elif "exit" in record:
            self._end(fields.number(record["exit"]), fields.text(record.get("why"), 300), at)

    def _add_line(self, line: str, at: str) -> None:
        if self._chat is None:
            if line.startswith(_START):
                self._chat = AiderReducer(self._folder, line.removeprefix(_START).strip()[:40])
            return
        self._lines += 1
        before = self._chat.prompts
        self.events += self._chat.add(line.encode(), f"{self.session}:{self._lines}", at)
        if self._chat.prompts != before:
            self._chat.turn_at = at

    def _see(self, screen: str | None, asked: dict[str, Any], position: int, at: str) -> None:
        """Update the open question and the state from what the terminal shows now."""
        ident = fields.text(asked.get("id"), 100)
        for known in [known for known in self.asks if known != ident]:
            self.close(known)
        if ident is not None and ident not in self.asks:
            choices = tuple(one for one in (fields.text(each, 60) for each in fields.rows(asked.get("choices"))) if one)
            text = fields.text(asked.get("text"))
            tool = "run" if text is not None and text.startswith(_COMMAND) else "Question"
            self.open(Question(ident, tool, text, at, position, choices))
        before, self._screen = self._screen, screen
        if before not in (None, _READY) and screen == _READY and self._chat is not None and self._chat.prompts:
            self.events += self._chat.end(f"{self.session}:{position}", at)
            self.events.append(AgentEvent(self._rest(), f"{self.session}:{position}:turn", at, self._chat.last.detail))

    def _rest(self) -> str:
        """Return the state of the agent at its prompt."""
        kind = "" if self._chat is None else self._chat.last.kind
        return {"failed": FAILED, "cancelled": CANCELLED}.get(kind, COMPLETED)

    def _end(self, code: int | None, why: str | None, at: str) -> None:
        """Record how the chat ended; an exit in the middle of it says nothing about that."""
        ident, chat = f"{self.session}:exit", self._chat
        if why is not None:
            self._ended, self._why = FAILED, why
            self.events.append(AgentEvent(FAILED, ident, at, why))
            return
        if chat is None or code != 0:
            return
        if self._screen is not None:  # its user has left it
            self._ended = self._rest() if self._screen == _READY else None
            return
        self.events += chat.end(ident, at)
        last = chat.last
        if last.kind in ("failed", "cancelled"):  # the reducer has reported it
            self._ended, self._why = (FAILED, last.detail) if last.kind == "failed" else (CANCELLED, "interrupted")
            return
        self._ended = COMPLETED if last.kind in _ANSWERED else FAILED
        self._why = None if self._ended == COMPLETED else "it ended without an answer"
        self.events.append(AgentEvent(self._ended, ident, at, self._why))

    @property
    def state(self) -> str | None:
        if self._ended is not None:
            return self._ended
        if self.asks:
            return WAITING
        if self._screen == _READY:
            return self._rest()
        return RUNNING if self._chat is not None else None

    @property
    def detail(self) -> str | None:
        if self.asks:
            return next(iter(self.asks.values())).text
        if self._ended is not None or self._chat is None or self._chat.last.kind == "started":
            return self._why
        last = self._chat.last
        return last.detail or (str(last.tool) if last.tool is not None else None)

    @property
    def turn_over(self) -> bool:
        return self.state in RESTING

    @property
    def facts(self) -> SessionFacts:
        return SessionFacts() if self._chat is None else self._chat.facts()
