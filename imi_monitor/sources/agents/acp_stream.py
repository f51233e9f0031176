"""The output of a program that speaks the Agent Client Protocol, version 1: Gemini, opencode, Copilot and others.

A session that is loaded is replayed first; nothing before the answer to the request that opened it is new. The protocol
has no times, so an event happened when its line was read.
"""

from __future__ import annotations

from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, RUNNING, WAITING, AgentEvent, SessionFacts, ToolCall
from imi_monitor.model.run import Question
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.fields import rows, table, text
from imi_monitor.sources.agents.stream_reader import StreamReader

HELLO, OPEN, LOAD, PROMPT = "imi-hello", "imi-session", "imi-load", "imi-prompt"  # the requests of the provider
PROTOCOL = 1
_ENDS = {"end_turn": COMPLETED, "cancelled": CANCELLED}
_ENDED_CALL = {"completed": True, "failed": False}
_KINDS = {"execute": "Bash", "edit": "Edit", "delete": "Edit", "move": "Edit", "read": "Read", "fetch": "WebFetch"}


class AcpStream(StreamReader):
    """Reads the JSON-RPC messages on the program's standard output."""

    def __init__(self) -> None:
        super().__init__()
        self.greeted = False  # it answered who it is
        self.opened = False  # its session is new or loaded
        self.ask_ids: dict[str, object] = {}  # open questions: the id as the program wrote it
        self._state: str | None = None
        self._detail: str | None = None
        self._version: str | None = None
        self._words: list[str] = []  # of the message that is being written
        self._number = 0
        self._last_message: str | None = None
        self._calls: dict[str, ToolCall] = {}
        self._started: set[str] = set()
        self._asked: dict[str, str] = {}  # tool call -> the question about it
        self._files: dict[str, None] = {}

    def add_record(self, record: dict[str, object], position: int, at: str) -> None:
        method, params = record.get("method"), table(record.get("params"))
        self.session = text(params.get("sessionId"), 200) or self.session
        if method is None:
            self._answered(str(record.get("id")), record, at)
        elif method == "session/update" and self.opened:
            self._update(table(params.get("update")), at)
        elif method == "session/request_permission" and "id" in record:
            self._ask(record["id"], params, position, at)

    @property
    def state(self) -> str | None:
        return WAITING if self.asks else self._state

    @property
    def detail(self) -> str | None:
        return next(iter(self.asks.values())).text if self.asks else self._detail

    @property
    def turn_over(self) -> bool:
        return self._state is not None and self._state != RUNNING

    @property
    def facts(self) -> SessionFacts:
        return SessionFacts(version=self._version, last_message=self._last_message, files=tuple(self._files))

    # -- answers to imi's requests ------------------------------------------------------------------------------------

    def _answered(self, ident: str, record: dict[str, object], at: str) -> None:
        result = table(record.get("result"))
        if "error" in record and ident == LOAD:
            self.refused = self._detail = _error(table(record["error"]))
        elif "error" in record:
            self._end(FAILED, ident, _error(table(record["error"])), at)
        elif ident == HELLO:
            self._version = text(table(result.get("agentInfo")).get("version"), 40)
            if result.get("protocolVersion") == PROTOCOL:
                self.greeted = True
            else:
                self._end(
                    FAILED, ident, f"it speaks version {result.get('protocolVersion')} of the protocol, not 1", at
                )
        elif ident in (OPEN, LOAD):
            self.session = text(result.get("sessionId"), 200) or self.session
            self.opened = True
            if self.refused is not None:
                self._detail = self.note_new_session(at)
        elif ident.startswith(PROMPT):
            reason = str(result.get("stopReason"))
            state = _ENDS.get(reason, FAILED)
            self._end(state, ident, reason.replace("_", " ") if state == FAILED else None, at)

    def _end(self, state: str, ident: str, detail: str | None, at: str) -> None:
        self._end_message(at)
        self._state, self._detail = state, detail
        for asked in list(self.asks):
            self.close(asked)
        for call in (one for one in self._calls.values() if one.id in self._started):
            self.events.append(AgentEvent("tool_finished", f"{call.id}:finished", at, None, call, None))
        self._calls.clear()
        self.events.append(AgentEvent(state, f"{ident}:{state}", at, detail))

    # -- what the agent does ------------------------------------------------------------------------------------------

    def _update(self, update: dict[str, object], at: str) -> None:
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            self._state = RUNNING
            words = table(update.get("content")).get("text")
            self._words.append(words if isinstance(words, str) else "")
            return
        if kind in ("tool_call", "tool_call_update"):
            self._end_message(at)
            self._tool(update, at)
        elif kind == "plan":
            self._end_message(at)
            steps = [text(table(one).get("content"), 300) for one in rows(update.get("entries"))]
            self.events.append(AgentEvent("plan", self._ident("plan"), at, "\n".join(filter(None, steps))))

    def _end_message(self, at: str) -> None:
        words, self._words = text("".join(self._words)), []
        if words is not None:
            self._last_message = words
            self.events.append(AgentEvent("message", self._ident("message"), at, words))

    def _ident(self, kind: str) -> str:
        self._number += 1
        return f"{self._number}:{kind}"

    def _tool(self, update: dict[str, object], at: str) -> None:
        self._state = RUNNING
        ident = text(update.get("toolCallId"), 200)
        if ident is None:
            return
        if ident in self._asked:
            self.close(self._asked.pop(ident))
        call = self._named_call(update, ident)
        status = str(update.get("status"))
        if status == "pending":
            return  # its arguments may follow
        self._start_call(call, at)
        ok = _ENDED_CALL.get(status)
        if ok is None:
            return
        del self._calls[ident]
        self._detail = None
        paths = [fields.path(table(one).get("path")) for one in rows(update.get("content")) if _is_diff(one)]
        files = tuple(one for one in paths if one) if ok else ()
        self._files.update(dict.fromkeys(files))
        self.events.append(AgentEvent("tool_finished", f"{ident}:finished", at, _output(update), call, ok, files))

    def _named_call(self, update: dict[str, object], ident: str) -> ToolCall:
        """The call as far as it is known; a later record may name it better."""
        known, said = self._calls.get(ident), _call(update, ident)
        if known is None or said.target is not None:
            known = ToolCall(known.name if known is not None and said.name == "Tool" else said.name, said.target, ident)
        self._calls[ident] = known
        return known

    def _start_call(self, call: ToolCall, at: str) -> None:
        self._detail = str(call)
        if call.id is not None and call.id not in self._started:
            self._started.add(call.id)
            self.events.append(AgentEvent("tool_started", f"{call.id}:started", at, None, call))

    def _ask(self, ident: object, params: dict[str, object], position: int, at: str) -> None:
        asked = table(params.get("toolCall"))
        call = text(asked.get("toolCallId"), 200)
        tool = self._named_call(asked, call) if call is not None else _call(asked, None)
        names = (text(table(one).get("name"), 200) for one in rows(params.get("options")))
        said = f"permission for {tool}"
        self._end_message(at)
        self._start_call(tool, at)
        self.open(Question(str(ident), tool.name, said, at, position, tuple(one for one in names if one)))
        self.ask_ids[str(ident)] = ident
        if call is not None:
            self._asked[call] = str(ident)
        self.events.append(AgentEvent("waits", f"{call}:{ident}:waits", at, said, tool))

    def close(self, ident: str) -> None:
        super().close(ident)
        self.ask_ids.pop(ident, None)


def _call(update: dict[str, object], ident: str | None) -> ToolCall:
    given = table(update.get("rawInput"))
    target = text(given.get("command")) or text(update.get("title"))
    return ToolCall(_KINDS.get(str(update.get("kind")), "Tool"), fields.one_line(target), ident)


def _error(error: dict[str, object]) -> str:
    """Return what is said in detail, where the message is a phrase such as `Internal error`."""
    data = error.get("data")
    said = (
        text(data) or text(table(data).get("details")) or text(table(data).get("message")) or text(error.get("message"))
    )
    return (said or "it refused the request").split("\n")[0][:300]


def _is_diff(one: object) -> bool:
    return table(one).get("type") == "diff"


def _output(update: dict[str, object]) -> str | None:
    parts = (text(table(table(one).get("content")).get("text")) for one in rows(update.get("content")))
    return text("\n".join(one for one in parts if one))
