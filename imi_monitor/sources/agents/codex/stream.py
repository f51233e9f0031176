"""The output of a Codex app-server that imi started: answers to imi's requests, notifications, and requests for approval."""

from __future__ import annotations

from collections.abc import Callable

from imi_monitor.model import usage_limit
from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    FAILED,
    RUNNING,
    UNKNOWN,
    WAITING,
    AgentEvent,
    SessionFacts,
    ToolCall,
)
from imi_monitor.model.run import NO, YES, Question
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.codex.record_types import Payload, command, content, error_text, finished, question
from imi_monitor.sources.agents.stream_reader import StreamReader

THREAD_REQUEST = "imi-thread"  # the id of the request that starts the thread
RESUME_REQUEST = "imi-resume"
TURN_REQUEST = "imi-turn"
UNOBSERVED = "imi/unobserved"  # imi's own record: the program in this window has no server that imi can ask
_ENDS = {"completed": COMPLETED, "interrupted": CANCELLED, "failed": FAILED}
_MESSAGES = {"userMessage": "prompt", "agentMessage": "message", "plan": "plan"}
_TOOLS = ("commandExecution", "fileChange", "mcpToolCall", "webSearch")


class CodexStream(StreamReader):
    """Reads the JSON-RPC messages of `codex app-server` on its standard output."""

    counts_session = True

    def __init__(self) -> None:
        super().__init__()
        self.turn: str | None = None  # the running turn
        self.version: str | None = None
        self._state: str | None = None
        self._detail: str | None = None
        self._model: str | None = None
        self._prompt: str | None = None
        self._last_message: str | None = None
        self._turn_at: str | None = None
        self._files: dict[str, None] = {}
        self._tokens: Payload = {}
        self._window: int | None = None
        self._limits: Payload = {}  # how much of each usage limit is used, and when it begins anew
        self._handlers: dict[str, Callable[[Payload, str], None]] = {
            "turn/started": self._begin,
            "turn/completed": self._end,
            "item/started": self._item_began,
            "item/completed": self._item_ended,
            "thread/tokenUsage/updated": self._count,
            "error": self._error,
            "account/rateLimits/updated": self._limited,
        }

    def add_record(self, record: Payload, position: int, at: str) -> None:
        method, params = record.get("method"), fields.table(record.get("params"))
        if method is None:
            self._answered(record, at)
        elif "id" in record:
            self._ask(str(record["id"]), str(method), params, position, at)
        elif method == UNOBSERVED:
            self._state = UNKNOWN
        elif method == "serverRequest/resolved":
            self.close(str(params.get("requestId")))
        elif isinstance(method, str) and method in self._handlers:
            self._handlers[method](params, at)

    @property
    def state(self) -> str | None:
        return WAITING if self.asks else self._state

    @property
    def detail(self) -> str | None:
        return next(iter(self.asks.values())).text if self.asks else self._detail

    @property
    def turn_over(self) -> bool:
        return self.turn is None and self._state not in (None, RUNNING, UNKNOWN)

    @property
    def facts(self) -> SessionFacts:
        total = fields.table(self._tokens.get("total"))
        whole, cached = fields.number(total.get("inputTokens")), fields.number(total.get("cachedInputTokens"))
        return SessionFacts(
            version=self.version,
            model=self._model,
            turn_at=self._turn_at,
            prompt=self._prompt,
            last_message=self._last_message,
            tokens_in=None if whole is None else max(0, whole - (cached or 0)),
            tokens_out=fields.number(total.get("outputTokens")),
            tokens_cached=cached,
            context_used=fields.number(fields.table(self._tokens.get("last")).get("totalTokens")),
            context_size=self._window,
            files=tuple(self._files),
        )

    # -- answers to imi's requests ------------------------------------------------------------------------------------

    def _answered(self, record: Payload, at: str) -> None:
        ident, result = record.get("id"), fields.table(record.get("result"))
        if "error" in record:
            if ident == RESUME_REQUEST:
                self.refused = self._detail = error_text(record["error"]) or "its server refused the request"
            elif ident == THREAD_REQUEST or str(ident).startswith(TURN_REQUEST):
                self._state, self._detail = FAILED, error_text(record["error"]) or "its server refused the request"
            return
        agent = fields.text(result.get("userAgent"), 200)
        if agent is not None:
            self.version = agent.partition("/")[2].partition(" ")[0] or None
        if ident in (THREAD_REQUEST, RESUME_REQUEST):
            self.session = fields.text(fields.table(result.get("thread")).get("id"), 100)
            self._model = fields.text(result.get("model"), 100)
            if self.refused is not None:
                self._detail = self.note_new_session(at)

    # -- turns and items ----------------------------------------------------------------------------------------------

    def _begin(self, params: Payload, at: str) -> None:
        self.turn = fields.text(fields.table(params.get("turn")).get("id"), 100)
        self._state, self._detail, self._turn_at = RUNNING, None, at

    def _end(self, params: Payload, at: str) -> None:
        turn = fields.table(params.get("turn"))
        state = _ENDS.get(str(turn.get("status")), FAILED)
        self._detail = self._reason(error_text(turn["error"]), at) if turn.get("error") else None
        self._state, self.turn = state, None
        for ident in list(self.asks):
            self.close(ident)
        ident = fields.text(turn.get("id"), 100) or at
        self.events.append(AgentEvent(state, f"{ident}:{state}", at, self._detail or self._last_message))

    def _item_began(self, params: Payload, at: str) -> None:
        item = fields.table(params.get("item"))
        tool = _tool(item)
        if tool is not None:
            self._detail = str(tool)
            self.events.append(AgentEvent("tool_started", f"{tool.id}:started", at, None, tool))

    def _item_ended(self, params: Payload, at: str) -> None:
        item = fields.table(params.get("item"))
        ident, kind = fields.text(item.get("id"), 100), str(item.get("type"))
        if ident is None:
            return
        if kind in _MESSAGES:
            self._said(_MESSAGES[kind], ident, content(item.get("content")) or fields.text(item.get("text")), at)
        elif kind in _TOOLS:
            self._finished(item, ident, at)

    def _said(self, kind: str, ident: str, text: str | None, at: str) -> None:
        if text is None:
            return
        if kind == "prompt":
            self._prompt = text
        elif kind == "message":
            self._last_message = text
        self.events.append(AgentEvent(kind, f"{ident}:{kind}", at, text))

    def _finished(self, item: Payload, ident: str, at: str) -> None:
        self._detail = None
        ok = item.get("status") == "completed" and item.get("exitCode") in (0, None)
        paths = [fields.path(fields.table(one).get("path")) for one in fields.rows(item.get("changes"))]
        files = tuple(one for one in paths if one) if ok else ()
        self._files.update(dict.fromkeys(files))
        self.events.append(finished(ident, at, fields.text(item.get("aggregatedOutput")), ok, files))

    def _count(self, params: Payload, at: str) -> None:
        self._tokens = fields.table(params.get("tokenUsage"))
        self._window = fields.number(self._tokens.get("modelContextWindow")) or self._window

    def _error(self, params: Payload, at: str) -> None:
        if params.get("willRetry") is True:
            self._detail = f"retrying: {error_text(params.get('error'))}"

    def _limited(self, params: Payload, at: str) -> None:
        self._limits = fields.table(params.get("rateLimits")) or self._limits

    def _reason(self, text: str | None, at: str) -> str | None:
        """Return why the turn failed; of a usage limit the end that the server gives as a number."""
        if text is None or usage_limit.said_in(text, at) is None:
            return text
        windows = [fields.table(self._limits.get(name)) for name in ("primary", "secondary")]
        full = [one for one in windows if (fields.number(one.get("usedPercent")) or 0) >= 100]
        used_up = [usage_limit.of_seconds(one.get("resetsAt")) for one in full]
        ends = [one for one in used_up if one is not None]
        return usage_limit.sentence(max(ends)) if ends else text

    # -- questions ----------------------------------------------------------------------------------------------------

    def _ask(self, ident: str, method: str, params: Payload, position: int, at: str) -> None:
        if method == "item/tool/requestUserInput":
            asked = question(params)
            choices = _labels(params)
            self.open(Question(ident, "Question", f"question: {asked}", at, position, choices))
            return
        if not method.endswith("requestApproval"):
            return
        tool = _approval_tool(method, params)
        reason = fields.text(params.get("reason"), 300)
        text = f"permission for {tool}" + (f": {reason}" if reason else "")
        self.open(Question(ident, tool.name, text, at, position, (YES, NO)))
        turn = fields.text(params.get("turnId"), 100)
        self.events.append(AgentEvent("waits", f"{turn}:{ident}:waits", at, text, tool))


def _tool(item: Payload) -> ToolCall | None:
    ident, kind = fields.text(item.get("id"), 100), item.get("type")
    if kind == "commandExecution":
        return ToolCall("Bash", fields.one_line(_plain(item.get("command"))), ident)
    if kind == "fileChange":
        first = fields.table(next(iter(fields.rows(item.get("changes"))), None))
        return ToolCall("Edit", fields.one_line(fields.path(first.get("path"))), ident)
    if kind == "mcpToolCall":
        return ToolCall(f"{item.get('server')}.{item.get('tool')}", None, ident)
    return ToolCall("WebSearch", fields.one_line(fields.text(item.get("query"))), ident) if kind in _TOOLS else None


def _approval_tool(method: str, params: Payload) -> ToolCall:
    call = fields.text(params.get("itemId"), 100)
    if "commandExecution" in method:
        return ToolCall("Bash", fields.one_line(_plain(params.get("command"))), call)
    return ToolCall("Edit" if "fileChange" in method else "More rights", None, call)


def _plain(value: object) -> str | None:
    """A command line without the login shell around it."""
    if isinstance(value, str):
        import shlex

        try:
            return command(shlex.split(value))
        except ValueError:
            return value
    return command(value)


def _labels(params: Payload) -> tuple[str, ...]:
    first = fields.table(next(iter(fields.rows(params.get("questions"))), None))
    labels = (fields.text(fields.table(one).get("label"), 200) for one in fields.rows(first.get("options")))
    return tuple(one for one in labels if one)
