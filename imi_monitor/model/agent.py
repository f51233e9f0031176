"""A coding agent as observed from outside: its state, since when, and the evidence for it.

How each program shows its state is known in `sources/agents/`. A state without evidence is unknown, and each piece of
evidence names its source and its moment.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from imi_monitor.model.snapshot import Key

PLANNING: Final = "planning"
RUNNING: Final = "running"
WAITING: Final = "waiting_for_input"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
DEAD: Final = "dead"
UNKNOWN: Final = "unknown"

STATES: Final = (PLANNING, RUNNING, WAITING, COMPLETED, FAILED, CANCELLED, DEAD, UNKNOWN)
WORKING: Final = frozenset({PLANNING, RUNNING})
RESTING: Final = frozenset({COMPLETED, FAILED, CANCELLED})  # a turn is over; the agent may still run

# The sources of evidence, the most reliable first. `run` is the output of an agent that imi started; `registry` is an
# agent's own list of its live sessions (Claude's sessions/<pid>.json); `socket` is its daemon's answer; `permission` is the
# hook that fires when a dialog opens.
SOURCES: Final = ("run", "registry", "socket", "permission", "transcript", "hook", "title", "process")

WORKSPACE: Final = "workspace"  # the source of what a watched workspace of another program says

NOTHING_ASKED: Final = "nothing was asked yet"  # the detail of COMPLETED for an agent that never had a prompt

EXACT: Final = "exact"
LIKELY: Final = "likely"
GUESS: Final = "guess"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One use of a tool by an agent: `Edit src/api.ts`, `Bash pytest -q`."""

    name: str
    target: str | None = None
    id: str | None = None  # the agent program's own id of this call

    def __str__(self) -> str:
        return f"{self.name} {self.target}" if self.target else self.name


@dataclass(frozen=True, slots=True)
class Evidence:
    """One statement about an agent's state.

    `standing` evidence is a reading of the present (a live registry, a terminal title) and holds until that source is
    read again; other evidence is an event. `or_else` are states that this source cannot distinguish from `state`.
    """

    source: str
    state: str
    at: str  # since when, as far as this source shows
    says: str  # one sentence for a person: what was read, and where
    detail: str | None = None  # what it waits for, why it failed, or which retry
    tool: ToolCall | None = None
    standing: bool = False
    or_else: frozenset[str] = frozenset()
    read_at: str | None = field(default=None, compare=False)  # when standing evidence was read; None: not recorded
    in_child: bool = False  # its tool runs in a child process, so without a child it waits


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What is known of a session besides its state. None is unknown, never zero."""

    version: str | None = None
    model: str | None = None
    title: str | None = None
    branch: str | None = None
    started_at: str | None = None
    ended_at: str | None = None  # when the agent itself recorded the end of the session
    turn_at: str | None = None  # when the current or last turn began
    prompt: str | None = None  # the last prompt of a person
    last_message: str | None = None  # the agent's last message
    tokens_in: int | None = None  # uncached input, each message counted once
    tokens_out: int | None = None
    tokens_cached: int | None = None
    cost_usd: float | None = None  # only from programs that record it
    context_used: int | None = None  # tokens in the context window now
    context_size: int | None = None
    files: tuple[str, ...] = ()  # absolute paths of files it wrote, the newest last
    subagents: int | None = None  # working now
    parent: str | None = None  # the session it was forked from or works for
    tmux: str | None = None  # %pane
    zellij: str | None = None  # session:pane
    ask: str | None = None  # the id of its question, if imi can give the answer
    format_note: str | None = None  # what in its records could not be parsed, with the program's version


NOTHING_KNOWN: Final = SessionFacts()


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """One thing that an agent did. `id` is unique within its session, so an event reported twice is stored once.

    kind            text                tool          ok
    started         how it started
    prompt          the prompt
    message         the message
    plan            the plan
    tool_started                        the call
    tool_finished   the output          the call      success; None: cancelled
    waits           what it waits for   the call
    answered        the answer
    failed          why
    cancelled
    completed
    compacted
    ended           why
    """

    kind: str
    id: str
    at: str
    text: str | None = None
    tool: ToolCall | None = None
    ok: bool | None = None
    files: tuple[str, ...] = ()  # absolute paths of files it wrote
    subagent: str | None = None  # the subagent that did it


@dataclass(frozen=True, slots=True)
class RejectedEvidence:
    """Evidence that was not used, and why."""

    evidence: Evidence
    why: str


@dataclass(frozen=True, slots=True)
class Truth:
    """The state of an agent, with the evidence for it and the evidence that was rejected."""

    state: str
    since: str | None
    source: str | None
    confidence: str
    detail: str | None = None
    tool: ToolCall | None = None
    used: tuple[Evidence, ...] = ()
    rejected: tuple[RejectedEvidence, ...] = ()
    ended: bool = False  # its process is gone


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent in the snapshot. `id` stays the same for the whole session."""

    id: str  # cli:session, or cli:pid:number for a process without a session
    cli: str
    name: str  # as shown: the owner of the claim if this agent holds it, else its label
    key: Key | None  # its worktree
    cwd: str | None
    session: str | None
    pid: int | None
    pid_started: str | None
    truth: Truth
    facts: SessionFacts = NOTHING_KNOWN
    seen_at: str | None = None  # the newest sign of activity
    claim: str | None = None  # mine, other or none; None: its worktree or who claims that is unknown
    claimed_by: str | None = None
    suspended: bool = False  # its process is stopped (ctrl-z, SIGSTOP); `state` is the one it continues in
    label: str | None = None  # its own name, `claude-1`; the same for its whole life
    looked_at: bool = False  # a person has looked at its present state
    run: str | None = None  # the run by which imi started it
    wall: str | None = (
        None  # the level of the wall that imi keeps it behind: write, strict or off; None: imi did not start it
    )
    starters: frozenset[int] = frozenset()  # the pids of its wrappers and of the processes that started them

    @property
    def state(self) -> str:
        return self.truth.state

    @property
    def never_asked(self) -> bool:
        """True if it is proven that it had no prompt yet."""
        return self.truth.state == COMPLETED and self.truth.detail == NOTHING_ASKED

    @property
    def ready(self) -> bool:
        """True if it stands at its prompt, and no turn of it is known: it had no prompt, or none that is recorded."""
        if self.truth.state != COMPLETED or self.truth.ended:
            return False
        facts = self.facts
        no_turn = facts.turn_at is None and facts.prompt is None and facts.last_message is None
        return self.never_asked or (self.truth.source == "title" and no_turn)

    @property
    def intruder(self) -> bool:
        """True if it works in a worktree that another agent has claimed."""
        return self.claim == "other" and not self.truth.ended
