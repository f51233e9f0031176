"""What the hooks of a Claude Code in a window write: its state, its tool calls, its questions and the ends of its turns."""

from __future__ import annotations

from imi_monitor.model.agent import RESTING, WAITING, AgentEvent, Evidence, SessionFacts
from imi_monitor.model.run import NO, YES, Question
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.claude import records
from imi_monitor.sources.agents.claude.records import JsonObject
from imi_monitor.sources.agents.hooks import records as kinds
from imi_monitor.sources.agents.hooks import reducer
from imi_monitor.sources.agents.hooks.records import HookRecord
from imi_monitor.sources.agents.stream_reader import StreamReader


class ClaudeHookStream(StreamReader):
    """Reads the lines of `run-hook.sh`: `hook` is the event, `ask` the id of the hook that waits for an answer or has got it."""

    counts_session = True

    def __init__(self) -> None:
        super().__init__()
        self._reducer = reducer.HookReducer()
        self._asked: dict[str, HookRecord] = {}  # question -> its event
        self._files: dict[str, None] = {}
        self._log: list[AgentEvent] = []

    def add_record(self, record: JsonObject, position: int, at: str) -> None:
        ident = fields.text(record.get("ask"), 200)
        if record.get("answered") is True:
            self._answered(ident or "")
            return
        payload = fields.table(record.get("hook"))
        made = kinds.of_claude(str(position), at, payload)
        if made is None:
            return
        if made.helper is None:
            self.session = made.session
            self.transcript = fields.path(payload.get("transcript_path")) or self.transcript
        call = self._reducer.call_of(made) if made.kind == kinds.ASKS else None
        self._reducer.add(made)
        self._files.update(dict.fromkeys(made.files))
        found = _events(made, call)
        self.events += found
        self._log += found or _texts(made)
        if made.kind == kinds.ASKS and ident:
            block = {"name": payload.get("tool_name"), "input": payload.get("tool_input")}
            tool = made.tool.name if made.tool is not None else "?"
            choices = records.choices_of(block) if tool == records.QUESTION else (YES, NO)
            self.open(Question(ident, tool, made.text, at, position, choices))
            self._asked[ident] = made
        still = {one.name for one in self._reducer.asks.values()}
        for name in [name for name, one in self._asked.items() if one.name not in still]:
            del self._asked[name]
            self.close(name)

    def take_events(self) -> tuple[AgentEvent, ...]:
        self._log = []
        return super().take_events()

    def take_log(self) -> tuple[AgentEvent, ...]:
        found = tuple(self._log)
        self.take_events()
        return found

    def _answered(self, ident: str) -> None:
        """Close the question that imi has answered: its tool may run for long before the next event."""
        asked = self._asked.pop(ident, None)
        if asked is not None:
            self._reducer.asks = {key: one for key, one in self._reducer.asks.items() if one.name != asked.name}
            self.close(ident)

    @property
    def state(self) -> str | None:
        if self.asks:
            return WAITING
        found = self._evidence()
        return found.state if found is not None else None

    @property
    def detail(self) -> str | None:
        found = self._evidence()
        if found is None:
            return None
        return found.detail or (str(found.tool) if found.tool is not None else None)

    @property
    def turn_over(self) -> bool:
        return self.state in RESTING

    @property
    def facts(self) -> SessionFacts:
        prompt, said, started = self._reducer.prompt, self._reducer.said, self._reducer.started
        return SessionFacts(
            model=started.model if started else None,
            title=started.title if started else None,
            started_at=started.at if started else None,
            turn_at=prompt.at if prompt else None,
            prompt=prompt.text if prompt else None,
            last_message=said.text if said else None,
            files=tuple(self._files),
        )

    def _evidence(self) -> Evidence | None:
        return next(iter(reducer.evidence_of(self._reducer)), None)


def _texts(made: HookRecord) -> list[AgentEvent]:
    """Prompts, last messages and ends of turns."""
    if made.helper is not None:
        return []
    if made.kind == kinds.PROMPT:
        return [AgentEvent("prompt", f"{made.name}:prompt", made.at, made.text)]
    if made.kind == kinds.OVER:
        said = [AgentEvent("message", f"{made.name}:message", made.at, made.text)] if made.text else []
        return [*said, AgentEvent("completed", f"{made.name}:completed", made.at)]
    if made.kind in (kinds.FAILED, kinds.CANCELLED):
        return [AgentEvent(made.kind, f"{made.name}:{made.kind}", made.at, made.text)]
    return []


def _events(made: HookRecord, call: HookRecord | None) -> list[AgentEvent]:
    """Calls and questions, with the ids that they have in the transcript; prompts and messages have ids only there."""
    known = made.tool.id if made.tool is not None else None
    if made.tool is not None and known is not None:
        if made.kind == kinds.BEFORE:
            return [AgentEvent("tool_started", f"{known}:started", made.at, None, made.tool, subagent=made.helper)]
        if made.kind == kinds.AFTER:
            return [
                AgentEvent(
                    "tool_finished",
                    f"{known}:finished",
                    made.at,
                    None,
                    made.tool,
                    ok=made.ok,
                    files=made.files,
                    subagent=made.helper,
                )
            ]
    return reducer.events_of(made, call) if made.kind == kinds.ASKS else []
