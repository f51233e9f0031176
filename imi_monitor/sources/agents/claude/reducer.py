"""Folds one conversation of Claude Code, a session's or a subagent's, record by record into what it does now.

The file does not show whether an unanswered tool call runs or waits for permission (`or_else`), an Esc while the model's
server is being retried (nothing is written), or the end of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    FAILED,
    PLANNING,
    RESTING,
    RUNNING,
    WAITING,
    AgentEvent,
    Evidence,
    SessionFacts,
)
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.claude.records import (
    ENTER_PLAN,
    PLAN,
    JsonObject,
    MessageKey,
    OpenCall,
    TokenCounter,
    TokenLedger,
    ToolCalls,
    matters,
    parse,
    rows,
    text_of,
)
from imi_monitor.sources.agents.session_reducer import SessionReducer, TokenCounts

_INTERRUPTED: Final = "[Request interrupted by user"
_NOT_ASKED: Final = ("<command-name>", "<local-command-", "<bash-", "<system-reminder>")  # the program's own commands
_OWN_COMMAND: Final = "<command-message>"
_NOTIFICATION: Final = "<task-notification>"
_SYNTHETIC: Final = "<synthetic>"
_ENDS: Final = {
    "end_turn": (COMPLETED, None),
    "stop_sequence": (COMPLETED, None),
    "max_tokens": (COMPLETED, "its answer was cut at the limit of tokens"),
    "refusal": (FAILED, "the model refused to answer"),
    "model_context_window_exceeded": (FAILED, "the context window is full"),
}
_CONVERSATION: Final = ("user", "assistant", "system")
_MOST_UNREADABLE = 2  # lines torn by a crash or two are no sign of a new format


class ClaudeReducer(SessionReducer):
    """Takes in one line after the other; the attributes then describe the conversation."""

    def __init__(self, name: str, ledger: TokenLedger | None = None, *, subagent: bool = False) -> None:
        """`name`: of the file, for people. `subagent`: the file is a subagent's conversation."""
        super().__init__()
        self.name = name
        self.calls = ToolCalls(self.files)
        self.tokens = TokenCounter(ledger)
        self.older_tokens: TokenCounter | None = None
        self.cwd: str | None = None
        self.mode: str | None = None
        self.at: str | None = None  # of the newest record of the conversation
        self.only_subagents = False  # the turn is over while its subagents work
        self._subagent = subagent
        self._about: tuple[object, ...] = ()  # version, folder and branch as the last record named them
        self._unknown: str | None = None
        self._unreadable = 0
        self._state: str | None = None
        self._since = ""
        self._says = ""
        self._detail: str | None = None
        self._message: str | None = None
        self._unanswered = False  # the model was asked and has not answered yet
        self._maybe_last = False  # old versions do not mark the message that ends a turn
        self._line_at = ""
        self._handlers: dict[str, Callable[[JsonObject], list[AgentEvent]]] = {
            "user": self._user,
            "assistant": self._assistant,
            "system": self._system,
            "queue-operation": self._queue,
            "permission-mode": self._permission_mode,
            "cost-state": self._cost,
            "custom-title": self._named,
            "ai-title": self._named,
            "summary": self._named,
        }

    def add(self, line: bytes, at: str) -> None:
        if not matters(line):
            return
        self._line_at = at or self._line_at
        record = parse(line)
        if record is None:
            self._unreadable += 1
        else:
            self.add_record(record)

    def add_record(self, record: JsonObject) -> None:
        self._events += self._events_of(record)

    def _events_of(self, record: JsonObject) -> list[AgentEvent]:
        kind = record.get("type")
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        if handler is None:
            return self._unknown_record(kind, record)
        if kind in _CONVERSATION:
            if (record.get("isSidechain") is True) != self._subagent:
                self._count(record, own_window=False)  # an older version writes its subagents into the same file
                return []
            self._common(record)
        return handler(record)

    def inherit(self, older: ClaudeReducer) -> None:
        self._inherit_facts(older)
        self.mode, self.cwd, self.at = self.mode or older.mode, self.cwd or older.cwd, self.at or older.at
        if self._state is None:
            self._state, self._since = older._state, older._since
            self._says, self._detail = older._says, older._detail
            self.calls.open, self._unanswered = older.calls.open, older._unanswered
            self.only_subagents, self._maybe_last = older.only_subagents, older._maybe_last
        self.calls.inherit(older.calls)
        self.older_tokens = older.tokens
        self._unreadable += older._unreadable

    # -- the result ---------------------------------------------------------------------------------------------------

    def known_facts(self, tokens: TokenCounts | None) -> SessionFacts:
        return replace(super().known_facts(tokens), context_used=self.tokens.context)

    @property
    def has_state(self) -> bool:
        """True if a record showed what the conversation does."""
        return self._state is not None

    @property
    def working(self) -> bool:
        return self._state is not None and self._state not in RESTING

    @property
    def format_problem(self) -> str | None:
        if self._unreadable > _MOST_UNREADABLE:
            return f"{self._unreadable} lines that cannot be read"
        return self._unknown

    def asking(self) -> OpenCall | None:
        """The call that a dialog is most likely about: permissions are asked for in order."""
        return next(iter(self.calls.open.values()), None) if self.working else None

    def evidence(self, asked: bool = False) -> Evidence | None:
        """Return what the last relevant record shows. `asked`: the agent is known to ask for permission now."""
        state = self._state
        if state is None:
            return None
        calls = list(self.calls.open.values())
        if state in RESTING or not calls:
            return self._evidence_without_call(state)
        return self._evidence_of_call(calls[0] if asked else calls[-1])

    def _evidence_without_call(self, state: str) -> Evidence:
        shown = PLANNING if state == RUNNING and self.mode == "plan" else state
        says = f"{self.name} {self._says}"
        return Evidence("transcript", shown, self._since, says, self._detail, or_else=self._doubts())

    def _doubts(self) -> frozenset[str]:
        """Other states in which the file would look the same."""
        if self._unanswered:
            return frozenset({CANCELLED})  # an Esc before the first answer is not recorded
        if self._maybe_last:
            return frozenset({COMPLETED, CANCELLED})
        return frozenset({RUNNING}) if self._state == COMPLETED and self.calls.background else frozenset()

    def _evidence_of_call(self, call: OpenCall) -> Evidence:
        if call.question is not None:
            says = f"{self.name} ends with {call.tool.name}, not answered yet"
            return Evidence("transcript", WAITING, call.at, says, call.question, call.tool)
        state = PLANNING if self.mode == "plan" else RUNNING
        says = f"{self.name} ends with a call of {call.tool}, without a result yet"
        return Evidence("transcript", state, call.at, says, None, call.tool, or_else=frozenset({WAITING}))

    def _set(self, state: str, record: JsonObject, says: str, detail: str | None = None) -> None:
        self._state, self._since, self._says, self._detail = state, self._moment(record), says, detail
        self.only_subagents = self._unanswered = self._maybe_last = False

    def _moment(self, record: JsonObject) -> str:
        return fields.moment(record.get("timestamp")) or self.at or self._line_at

    def _common(self, record: JsonObject) -> None:
        self.at = self._moment(record)
        self.ended_at = None  # the conversation goes on
        about = record.get("version"), record.get("cwd"), record.get("gitBranch")
        if about != self._about:  # each record repeats them
            self._about = about
            self.version = fields.text(about[0], 40) or self.version
            self.cwd = fields.path(about[1]) or self.cwd
            self.branch = fields.text(about[2], 300) or self.branch

    # -- prompts and tool results -------------------------------------------------------------------------------------

    def _user(self, record: JsonObject) -> list[AgentEvent]:
        message = record.get("message")
        if not isinstance(message, dict):
            return self._report("a user record without a message")
        content = message.get("content")
        results = [one for one in rows(content) if one.get("type") == "tool_result"]
        if results:
            return [event for one in results for event in self._result(one, record)]
        words = text_of(content)
        if words is not None and words.startswith(_INTERRUPTED):
            return self._interrupted(record)
        if record.get("isMeta") is True or record.get("isCompactSummary") is True:
            return []
        if words is not None and words.startswith(_NOTIFICATION):
            return self._notified(record, words)
        return self._prompted(record, words) if _is_prompt(record, words, content) else []

    def _result(self, block: JsonObject, record: JsonObject) -> list[AgentEvent]:
        call = self.calls.open.get(str(block.get("tool_use_id")))
        if block.get("is_error") is not True:
            self._change_mode(call.tool.name if call else None, fields.table(record.get("toolUseResult")))
        made = self.calls.finish(block, self._moment(record), record.get("toolUseResult"))
        self._set(RUNNING, record, "ends with the result of a tool: the model has it now")
        return made

    def _change_mode(self, tool: str | None, result: JsonObject) -> None:
        if tool == PLAN or "plan" in result:
            self.mode = "default"  # the plan was approved
        elif tool == ENTER_PLAN:
            self.mode = "plan"

    def _interrupted(self, record: JsonObject) -> list[AgentEvent]:
        at = self._moment(record)
        dropped = self.calls.drop(at)
        self._set(CANCELLED, record, "ends with an interrupt by the person", "interrupted by the person")
        return [*dropped, AgentEvent("cancelled", self._ident(record, "cancelled"), at)]

    def _notified(self, record: JsonObject, words: str) -> list[AgentEvent]:
        """A background task ended, which starts a turn without a prompt."""
        self.calls.end_background(words)
        self._begin(record, "ends with the end of a background task: the model has it now")
        return []

    def _prompted(self, record: JsonObject, words: str | None) -> list[AgentEvent]:
        self.prompt = words
        self._begin(record, "ends with a prompt: the model has it now")
        return [AgentEvent("prompt", self._ident(record, "prompt"), self._moment(record), words)]

    def _begin(self, record: JsonObject, says: str) -> None:
        self.mode = fields.text(record.get("permissionMode"), 40) or self.mode
        self.turn_at = self._moment(record)
        self.calls.open.clear()  # a call without a result was lost with an earlier process
        self._set(RUNNING, record, says)
        self._unanswered = True

    # -- answers of the model -----------------------------------------------------------------------------------------

    def _assistant(self, record: JsonObject) -> list[AgentEvent]:
        message = record.get("message")
        if not isinstance(message, dict):
            return self._report("an assistant record without a message")
        if record.get("isApiErrorMessage") is True:
            return self._failed(record, text_of(message.get("content")))
        model = fields.text(message.get("model"), 80)
        if model == _SYNTHETIC:
            return []  # a placeholder of the program, such as "No response requested."
        self.model = model or self.model
        return self._blocks(record, message, ":".join(self._count(record)))

    def _count(self, record: JsonObject, *, own_window: bool = True) -> MessageKey:
        """Count the tokens of a message; returns its key."""
        message = fields.table(record.get("message"))
        ident = fields.text(message.get("id"), 200) or self._ident(record, "message")
        request = fields.text(record.get("requestId"), 200) or fields.text(record.get("requestRef"), 200) or ""
        self.tokens.count((ident, request), fields.table(message.get("usage")), own_window=own_window)
        return ident, request

    def _failed(self, record: JsonObject, words: str | None) -> list[AgentEvent]:
        self.calls.open.clear()
        why = words or fields.text(record.get("error"), 200) or "the model could not be asked"
        self._set(FAILED, record, "ends with an error of the model's server", why[:300])
        return [AgentEvent("failed", self._ident(record, "failed"), self._moment(record), why)]

    def _blocks(self, record: JsonObject, message: JsonObject, ident: str) -> list[AgentEvent]:
        made: list[AgentEvent] = []
        at = self._moment(record)
        if ident != self._message:  # all calls of a message have results before the next message
            self._message = ident
            self.calls.open.clear()
        for block in rows(message.get("content")):
            if block.get("type") == "tool_use":
                made += self.calls.start(block, at, self.cwd)
        words = text_of(message.get("content"))
        if words is not None:
            self.last_message = words
            made.append(AgentEvent("message", self._ident(record, "message"), at, words))
        return made + self._stopped(record, message.get("stop_reason"), ident)

    def _stopped(self, record: JsonObject, reason: object, ident: str) -> list[AgentEvent]:
        state, detail = _ENDS.get(reason, (RUNNING, None)) if isinstance(reason, str) else (RUNNING, None)
        if state == RUNNING:
            self._set(RUNNING, record, "ends with a message that is not the last of its turn")
            self._maybe_last = reason is None and not self.calls.open
            return []
        self._set(state, record, f"ends with a message that ends its turn ({reason})", detail)
        return [AgentEvent(state, f"{ident}:{state}", self._moment(record), detail)]

    # -- records of the program itself --------------------------------------------------------------------------------

    def _system(self, record: JsonObject) -> list[AgentEvent]:
        kind = record.get("subtype")
        if kind == "turn_duration":
            self._turn_over(record)
        elif kind == "api_error":
            self._set(RUNNING, record, "ends with an error of the model's server, which is asked again", _retry(record))
            self._unanswered = True
        elif kind == "compact_boundary":
            self.tokens.context = None
            return [AgentEvent("compacted", self._ident(record, "compacted"), self._moment(record))]
        return []

    def _turn_over(self, record: JsonObject) -> None:
        pending = fields.number(record.get("pendingBackgroundAgentCount")) or 0
        if pending:
            agents = "a subagent works" if pending == 1 else f"{pending} subagents work"
            self._set(RUNNING, record, "says that its turn is over while subagents work", f"{agents} in the background")
            self.only_subagents = True
        elif self.working:
            self.calls.open.clear()
            self._set(COMPLETED, record, "says that its turn is over")

    def _queue(self, record: JsonObject) -> list[AgentEvent]:
        words = record.get("content")
        if isinstance(words, str) and words.startswith(_NOTIFICATION):
            self.calls.end_background(words)
        return []

    def _permission_mode(self, record: JsonObject) -> list[AgentEvent]:
        self.mode = fields.text(record.get("permissionMode"), 40) or self.mode
        return []

    def _cost(self, record: JsonObject) -> list[AgentEvent]:
        """Totals, written when the session is closed."""
        cost = record.get("totalCostUSD")
        self.cost = float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else self.cost
        began, took = fields.number(record.get("startTime")), fields.number(record.get("totalDuration"))
        self.ended_at = fields.moment(began + took) if began is not None and took is not None else self.at
        return []

    def _named(self, record: JsonObject) -> list[AgentEvent]:
        keys = ("customTitle", "aiTitle", "summary")
        self.title = next((name for key in keys if (name := fields.text(record.get(key), 200))), self.title)
        return []

    def _unknown_record(self, kind: object, record: JsonObject) -> list[AgentEvent]:
        """Reports an unknown kind only if it is part of the conversation; others cannot change the state."""
        if "message" in record and "uuid" in record and kind != "progress":
            return self._report(f"a record of the kind {str(kind)[:40]!r}")
        return []

    def _report(self, what: str) -> list[AgentEvent]:
        self._unknown = what
        return []

    def _ident(self, record: JsonObject, kind: str) -> str:
        return f"{fields.text(record.get('uuid'), 200) or self._moment(record)}:{kind}"


def _is_prompt(record: JsonObject, words: str | None, content: object) -> bool:
    if words is None:
        return bool(rows(content))  # an image
    if words.startswith(_OWN_COMMAND):  # a command of the user starts a turn, one of the program does not
        return "permissionMode" in record or "promptSource" in record
    return not words.startswith(_NOT_ASKED)


def _retry(record: JsonObject) -> str:
    attempt, most = fields.number(record.get("retryAttempt")), fields.number(record.get("maxRetries"))
    error = fields.table(record.get("error"))
    why = fields.text(error.get("formatted"), 120) or fields.text(error.get("message"), 120)
    count = f" {attempt}/{most}" if attempt is not None and most is not None else ""
    return f"retrying{count}" + (f": {why}" if why else "")
