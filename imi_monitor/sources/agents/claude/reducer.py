"""One conversation of Claude Code, its own or a subagent's, record by record: what it does after each of them.

What the files cannot tell: whether an unanswered tool call runs or waits for permission (`or_else`), an Esc while the
model's server is asked again and again (nothing is written), and the end of the process.
"""

from __future__ import annotations

from collections.abc import Callable
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
)
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.claude.records import (
    ENTER_PLAN,
    PLAN,
    JsonObject,
    Key,
    OpenCall,
    TokenCounter,
    TokenLedger,
    ToolCalls,
    rows,
    text_of,
)

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
_LASTING: Final = (
    "mode",
    "prompt",
    "turn_at",
    "title",
    "last_message",
    "model",
    "cost",
    "version",
    "branch",
    "cwd",
    "at",
)
_CONVERSATION: Final = ("user", "assistant", "system")


class ClaudeReducer:
    """`take` one record after the other; the attributes then say what is so."""

    def __init__(self, name: str, ledger: TokenLedger | None = None) -> None:
        self.name = name  # of the file, for people
        self.calls = ToolCalls()
        self.usage = TokenCounter(ledger)
        self.version: str | None = None
        self.model: str | None = None
        self.branch: str | None = None
        self.cwd: str | None = None
        self.title: str | None = None
        self.mode: str | None = None
        self.turn_at: str | None = None
        self.prompt: str | None = None
        self.last_message: str | None = None
        self.cost: float | None = None
        self.ended_at: str | None = None
        self.at: str | None = None  # of the newest record of the conversation
        self.only_below = False  # its turn is over, its subagents go on
        self.strange: str | None = None  # what could not be understood
        self._state: str | None = None
        self._since = ""
        self._says = ""
        self._detail: str | None = None
        self._message: str | None = None
        self._unanswered = False  # the model was asked, and asked again, and said nothing yet
        self._maybe_last = False  # old versions do not say which message ends a turn
        self._takers: dict[str, Callable[[JsonObject], list[AgentEvent]]] = {
            "user": self._user,
            "assistant": self._assistant,
            "system": self._system,
            "queue-operation": self._queue,
            "permission-mode": self._mode,
            "cost-state": self._cost,
            "custom-title": self._named,
            "ai-title": self._named,
            "summary": self._named,
        }

    def take(self, record: JsonObject, *, aside: bool = False) -> list[AgentEvent]:
        """What happened by this record. `aside`: this is a subagent's conversation."""
        kind = record.get("type")
        taker = self._takers.get(kind) if isinstance(kind, str) else None
        if taker is None:
            return self._unknown(kind, record)
        if kind in _CONVERSATION:
            if (record.get("isSidechain") is True) != aside:
                self._count(record, aside=True)  # an older version's subagents stand in its own file
                return []
            self._common(record)
        return taker(record)

    def evidence(self, asked: bool = False) -> Evidence | None:
        """What the last relevant record says. `asked`: it is known that the agent asks for permission now."""
        if self._state is None:
            return None
        calls = list(self.calls.open.values())
        if self._state in RESTING or not calls:
            return self._plain()
        return self._of_a_call(calls[0] if asked else calls[-1])

    def inherit(self, earlier: ClaudeReducer) -> None:
        """What was so before the first record that was taken here, where none of them said otherwise."""
        for name in _LASTING:
            if getattr(self, name) is None:
                setattr(self, name, getattr(earlier, name))
        if self._state is None:
            self._state, self._since, self._says, self._detail = (
                earlier._state,
                earlier._since,
                earlier._says,
                earlier._detail,
            )
            self.calls.open, self._unanswered = earlier.calls.open, earlier._unanswered
        self.calls.background = earlier.calls.background | self.calls.background

    @property
    def knows(self) -> bool:
        """Whether anything it took says what is so."""
        return self._state is not None

    @property
    def working(self) -> bool:
        return self._state is not None and self._state not in RESTING

    def asking(self) -> OpenCall | None:
        """The call that a dialog is most likely about: they are asked for in their order."""
        return next(iter(self.calls.open.values()), None) if self.working else None

    def _plain(self) -> Evidence:
        state = PLANNING if self._state == RUNNING and self.mode == "plan" else self._state or RUNNING
        says = f"{self.name} {self._says}"
        return Evidence("transcript", state, self._since, says, self._detail, or_else=self._doubts())

    def _doubts(self) -> frozenset[str]:
        """What the file would look the same for."""
        if self._unanswered:
            return frozenset({CANCELLED})  # an Esc before the model said anything is written nowhere
        if self._maybe_last:
            return frozenset({COMPLETED, CANCELLED})
        return frozenset({RUNNING}) if self._state == COMPLETED and self.calls.background else frozenset()

    def _of_a_call(self, call: OpenCall) -> Evidence:
        if call.question is not None:
            says = f"{self.name} ends with {call.tool.name}, not answered yet"
            return Evidence("transcript", WAITING, call.at, says, call.question, call.tool)
        state = PLANNING if self.mode == "plan" else RUNNING
        says = f"{self.name} ends with a call of {call.tool}, without a result yet"
        return Evidence("transcript", state, call.at, says, None, call.tool, or_else=frozenset({WAITING}))

    def _set(self, state: str, record: JsonObject, says: str, detail: str | None = None) -> None:
        self._state, self._since, self._says, self._detail = state, self._moment(record), says, detail
        self.only_below = self._unanswered = self._maybe_last = False

    def _moment(self, record: JsonObject) -> str:
        return fields.moment(record.get("timestamp")) or self.at or "1970-01-01T00:00:00.000000+00:00"

    def _common(self, record: JsonObject) -> None:
        self.at = self._moment(record)
        self.ended_at = None  # it goes on
        self.version = fields.text(record.get("version"), 40) or self.version
        self.cwd = fields.path(record.get("cwd")) or self.cwd
        self.branch = fields.text(record.get("gitBranch"), 300) or self.branch

    # -- what a person or a tool says ---------------------------------------------------------------------------------

    def _user(self, record: JsonObject) -> list[AgentEvent]:
        message = record.get("message")
        if not isinstance(message, dict):
            return self._odd("a user record without a message")
        content = message.get("content")
        results = [one for one in rows(content) if one.get("type") == "tool_result"]
        if results:
            return [happened for one in results for happened in self._result(one, record)]
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
        """A background task ended and the model is told: a turn that nobody asked for."""
        self.calls.over(words)
        self._begin(record, "ends with the end of a background task: the model has it now")
        return []

    def _prompted(self, record: JsonObject, words: str | None) -> list[AgentEvent]:
        self.prompt = words
        self._begin(record, "ends with a prompt: the model has it now")
        return [AgentEvent("prompt", self._ident(record, "prompt"), self._moment(record), words)]

    def _begin(self, record: JsonObject, says: str) -> None:
        self.mode = fields.text(record.get("permissionMode"), 40) or self.mode
        self.turn_at = self._moment(record)
        self.calls.open.clear()  # what never got a result died with an earlier process
        self._set(RUNNING, record, says)
        self._unanswered = True

    # -- what the model says ------------------------------------------------------------------------------------------

    def _assistant(self, record: JsonObject) -> list[AgentEvent]:
        message = record.get("message")
        if not isinstance(message, dict):
            return self._odd("an assistant record without a message")
        if record.get("isApiErrorMessage") is True:
            return self._failed(record, text_of(message.get("content")))
        model = fields.text(message.get("model"), 80)
        if model == _SYNTHETIC:
            return []  # a stand-in that the program wrote, such as "No response requested."
        self.model = model or self.model
        return self._blocks(record, message, ":".join(self._count(record)))

    def _count(self, record: JsonObject, *, aside: bool = False) -> Key:
        """What the message used; gives its name."""
        message = fields.table(record.get("message"))
        ident = fields.text(message.get("id"), 200) or self._ident(record, "message")
        request = fields.text(record.get("requestId"), 200) or fields.text(record.get("requestRef"), 200) or ""
        self.usage.take((ident, request), fields.table(message.get("usage")), aside=aside)
        return ident, request

    def _failed(self, record: JsonObject, words: str | None) -> list[AgentEvent]:
        self.calls.open.clear()
        why = words or fields.text(record.get("error"), 200) or "the model could not be asked"
        self._set(FAILED, record, "ends with an error of the model's server", why[:300])
        return [AgentEvent("failed", self._ident(record, "failed"), self._moment(record), why)]

    def _blocks(self, record: JsonObject, message: JsonObject, ident: str) -> list[AgentEvent]:
        made: list[AgentEvent] = []
        at = self._moment(record)
        if ident != self._message:  # every call of a message is answered before the next one comes
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

    # -- what the program says ----------------------------------------------------------------------------------------

    def _system(self, record: JsonObject) -> list[AgentEvent]:
        kind = record.get("subtype")
        if kind == "turn_duration":
            self._turn_over(record)
        elif kind == "api_error":
            self._set(RUNNING, record, "ends with an error of the model's server, which is asked again", _retry(record))
            self._unanswered = True
        elif kind == "compact_boundary":
            self.usage.context = None
            return [AgentEvent("compacted", self._ident(record, "compacted"), self._moment(record))]
        return []

    def _turn_over(self, record: JsonObject) -> None:
        pending = fields.number(record.get("pendingBackgroundAgentCount")) or 0
        if pending:
            agents = "a subagent works" if pending == 1 else f"{pending} subagents work"
            self._set(RUNNING, record, "says that its turn is over while subagents work", f"{agents} in the background")
            self.only_below = True
        elif self.working:
            self.calls.open.clear()
            self._set(COMPLETED, record, "says that its turn is over")

    def _queue(self, record: JsonObject) -> list[AgentEvent]:
        words = record.get("content")
        if isinstance(words, str) and words.startswith(_NOTIFICATION):
            self.calls.over(words)
        return []

    def _mode(self, record: JsonObject) -> list[AgentEvent]:
        self.mode = fields.text(record.get("permissionMode"), 40) or self.mode
        return []

    def _cost(self, record: JsonObject) -> list[AgentEvent]:
        """Written when the session is closed."""
        cost = record.get("totalCostUSD")
        self.cost = float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else self.cost
        began, took = fields.number(record.get("startTime")), fields.number(record.get("totalDuration"))
        self.ended_at = fields.moment(began + took) if began is not None and took is not None else self.at
        return []

    def _named(self, record: JsonObject) -> list[AgentEvent]:
        keys = ("customTitle", "aiTitle", "summary")
        self.title = next((name for key in keys if (name := fields.text(record.get(key), 200))), self.title)
        return []

    def _unknown(self, kind: object, record: JsonObject) -> list[AgentEvent]:
        """Kinds come and go; only one that is part of the conversation may have changed what is so."""
        if "message" in record and "uuid" in record and kind != "progress":
            return self._odd(f"a record of the kind {str(kind)[:40]!r}")
        return []

    def _odd(self, what: str) -> list[AgentEvent]:
        self.strange = what
        return []

    def _ident(self, record: JsonObject, kind: str) -> str:
        return f"{fields.text(record.get('uuid'), 200) or self._moment(record)}:{kind}"


def _is_prompt(record: JsonObject, words: str | None, content: object) -> bool:
    if words is None:
        return bool(rows(content))  # a picture
    if words.startswith(_OWN_COMMAND):  # a command of the user's starts a turn, one of the program's does not
        return "permissionMode" in record or "promptSource" in record
    return not words.startswith(_NOT_ASKED)


def _retry(record: JsonObject) -> str:
    attempt, most = fields.number(record.get("retryAttempt")), fields.number(record.get("maxRetries"))
    error = fields.table(record.get("error"))
    why = fields.text(error.get("formatted"), 120) or fields.text(error.get("message"), 120)
    count = f" {attempt}/{most}" if attempt is not None and most is not None else ""
    return f"retrying{count}" + (f": {why}" if why else "")
