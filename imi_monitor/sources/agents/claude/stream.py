"""The output of a Claude Code that imi started: the records of a transcript, the questions, and the result of each turn."""

from __future__ import annotations

from dataclasses import replace

from imi_monitor.model import usage_limit
from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, WAITING, AgentEvent, SessionFacts
from imi_monitor.model.run import NO, YES, Question
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.claude import records
from imi_monitor.sources.agents.claude.records import QUESTION, JsonObject
from imi_monitor.sources.agents.claude.reducer import ClaudeReducer
from imi_monitor.sources.agents.stream_reader import StreamReader

_CONVERSATION = ("user", "assistant")


class ClaudeStream(StreamReader):
    """Reads `--output-format stream-json`."""

    def __init__(self) -> None:
        super().__init__()
        self._reducer = ClaudeReducer("its output")
        self._calls: dict[str, str] = {}  # tool call -> the question about it
        self._result: tuple[str, str | None] | None = None  # (state, detail) of the last turn, once it is over
        self._cost: float | None = None
        self._result_tokens: tuple[int, int, int] | None = None
        self._limit: str | None = None  # the reason, while its requests are rejected for a usage limit

    def add_record(self, record: JsonObject, position: int, at: str) -> None:
        kind = record.get("type")
        if kind in _CONVERSATION:
            self._converse(record, at)
        elif kind == "system":
            self._system(record, at)
        elif kind == "result":
            self._end_turn(record, at)
        elif kind == "control_request":
            self._ask(record, position, at)
        elif kind == "control_response":  # it repeats the answer that it takes: the tool may run for long now
            self.close(str(fields.table(record.get("response")).get("request_id")))
        elif kind == "control_cancel_request":
            self.close(str(record.get("request_id")))
        elif kind == "rate_limit_event":
            self._limited(fields.table(record.get("rate_limit_info")))

    @property
    def state(self) -> str | None:
        if self.asks:
            return WAITING
        if self._result is not None:
            return self._result[0]
        if self._limit is not None:
            return FAILED  # it may wait for the end of the limit within its turn and go on by itself
        found = self._reducer.evidence()
        return found.state if found is not None else None

    @property
    def detail(self) -> str | None:
        if self.asks:
            return next(iter(self.asks.values())).text
        if self._result is not None or self._limit is not None:
            return self._result[1] if self._result is not None else self._limit
        found = self._reducer.evidence()
        return str(found.tool) if found is not None and found.tool is not None else None

    @property
    def turn_over(self) -> bool:
        return self._result is not None and not self._reducer.calls.background

    @property
    def facts(self) -> SessionFacts:
        known = self._reducer.known_facts(self._result_tokens or self._reducer.tokens.counted)
        return replace(known, cost_usd=self._cost)

    def _converse(self, record: JsonObject, at: str) -> None:
        self.session = records.session_id(record.get("session_id")) or self.session
        record.setdefault("timestamp", at)
        record["isSidechain"] = record.get("parent_tool_use_id") is not None
        if "tool_use_result" in record:
            record["toolUseResult"] = record["tool_use_result"]
        if not record["isSidechain"]:
            self._result = None
        if record.get("type") == "assistant" and record.get("isApiErrorMessage") is not True and "error" not in record:
            self._limit = None  # the model answers
        if self.asks:
            for block in records.rows(fields.table(record.get("message")).get("content")):
                asked = self._calls.get(str(block.get("tool_use_id")))
                if asked is not None:
                    self.close(asked)
        self._reducer.add_record(record)
        self.events += self._reducer.take_events()

    def _system(self, record: JsonObject, at: str) -> None:
        if record.get("subtype") != "init":
            record.setdefault("timestamp", at)
            self._reducer.add_record(record)
            return
        self.session = records.session_id(record.get("session_id")) or self.session
        self._reducer.version = fields.text(record.get("claude_code_version"), 40) or self._reducer.version
        self._reducer.model = fields.text(record.get("model"), 80) or self._reducer.model
        self._reducer.cwd = fields.path(record.get("cwd")) or self._reducer.cwd
        self._reducer.mode = fields.text(record.get("permissionMode"), 40) or self._reducer.mode
        self._result = None  # each turn begins with it

    def _ask(self, record: JsonObject, position: int, at: str) -> None:
        request = fields.table(record.get("request"))
        ident = fields.text(record.get("request_id"), 200)
        if ident is None or request.get("subtype") != "can_use_tool":
            return
        block = {"name": request.get("tool_name"), "input": request.get("input"), "id": request.get("tool_use_id")}
        tool = records.tool_of(block, self._reducer.cwd)
        asked = records.question_of(block) if tool.name == QUESTION else None
        text = f"question: {asked}" if asked else f"permission for {tool}"
        choices = records.choices_of(block) if asked else (YES, NO)
        self.open(Question(ident, tool.name, text, at, position, choices))
        if tool.id is not None:
            self._calls[tool.id] = ident
        if asked is None:
            self.events.append(AgentEvent("waits", f"{ident}:waits", at, text, tool))

    def _limited(self, info: JsonObject) -> None:
        """Read a rate limit record: one comes before each request. A rejection stands until the next answer."""
        if _is_rejected(info):
            self._limit = usage_limit.sentence(usage_limit.of_seconds(info.get("resetsAt")))
        elif info:
            self._limit = None

    def _end_turn(self, record: JsonObject, at: str) -> None:
        self.session = records.session_id(record.get("session_id")) or self.session
        state, detail = _outcome(record)
        found = self._reducer.evidence()
        if state == FAILED and found is not None and found.state == CANCELLED:
            state, detail = CANCELLED, found.detail
        if state == FAILED and self._limit is not None:
            detail = self._limit
        self._limit = None
        self._result = (state, detail)
        cost = record.get("total_cost_usd")
        self._cost = float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else self._cost
        self._result_tokens = _tokens(fields.table(record.get("modelUsage"))) or self._result_tokens
        for asked in list(self.asks):
            self.close(asked)
        if state == CANCELLED:
            return  # its interrupt is an event already
        ident = fields.text(record.get("uuid"), 200) or f"result:{at}"
        self.events.append(AgentEvent(state, f"{ident}:{state}", at, detail))


def _is_rejected(info: JsonObject) -> bool:
    """Return whether the limit rejects requests, or the extra usage that the user pays for is used up."""
    extra = info.get("isUsingOverage") is True and info.get("overageStatus") == "rejected"
    return info.get("status") == "rejected" or extra


def _outcome(record: JsonObject) -> tuple[str, str | None]:
    """(state, detail) of a finished turn."""
    kind, text = str(record.get("subtype")), fields.text(record.get("result"), 300)
    if kind == "success" and record.get("is_error") is not True:
        denied = records.rows(record.get("permission_denials"))
        return COMPLETED, f"{len(denied)} tool calls were refused" if denied else None
    errors = [one for one in fields.rows(record.get("errors")) if isinstance(one, str)]
    return FAILED, text or "; ".join(errors)[:300] or kind.removeprefix("error_").replace("_", " ")


def _tokens(usage: JsonObject) -> tuple[int, int, int] | None:
    tables = [fields.table(one) for one in usage.values()]
    if not tables:
        return None

    def add(*names: str) -> int:
        return sum(fields.number(one.get(name)) or 0 for one in tables for name in names)

    return add("inputTokens", "cacheCreationInputTokens"), add("outputTokens"), add("cacheReadInputTokens")
