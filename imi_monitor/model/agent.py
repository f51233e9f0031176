"""A coding agent as it is seen from outside: what it does, since when, and how we know.

Nothing here says how a program shows its state: that is for `sources/agents/`. A state without evidence is unknown,
and evidence always names its source and its moment.
"""

from __future__ import annotations

from typing import Final

from imi_monitor.fast.frozen_dataclass import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
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
RESTING: Final = frozenset({COMPLETED, FAILED, CANCELLED})  # a turn is over; the agent may be there still

# Where a state was learnt, the best authority first. `registry` is an agent's own list of what lives (Claude's
# sessions/<pid>.json); `socket` is its daemon's answer; `permission` is the one hook that fires when a dialog opens.
SOURCES: Final = ("registry", "socket", "permission", "transcript", "hook", "title", "process")

EXACT: Final = "exact"
LIKELY: Final = "likely"
GUESS: Final = "guess"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that an agent uses: `Edit src/api.ts`, `Bash pytest -q`."""

    name: str
    target: str | None = None
    id: str | None = None  # the agent's own name of this one call

    def __str__(self) -> str:
        return f"{self.name} {self.target}" if self.target else self.name


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one source says about an agent's state.

    `standing`: a reading of what is so now (a live registry, a title), not something that happened; it holds until that
    source is read again. `or_else`: states which this source cannot tell from the one it names.
    """

    source: str
    state: str
    at: str  # since when it is so, as far as this source knows
    says: str  # one sentence for a person: what was read, and where
    detail: str | None = None  # what it waits for; why it failed; which retry
    tool: ToolCall | None = None
    standing: bool = False
    or_else: frozenset[str] = frozenset()
    read_at: str | None = field(default=None, compare=False)  # a standing one: when it was read; None: not asked


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What is known of a session beside its state. None is unknown, never zero."""

    version: str | None = None
    model: str | None = None
    title: str | None = None
    branch: str | None = None
    started_at: str | None = None
    ended_at: str | None = None  # the agent itself said that the session is over
    turn_at: str | None = None  # when the current or last turn began
    prompt: str | None = None  # the last thing a person asked
    last_message: str | None = None  # the last thing the agent said
    tokens_in: int | None = None  # fresh input, each message counted once
    tokens_out: int | None = None
    tokens_cached: int | None = None
    cost_usd: float | None = None  # only where the agent tells it
    context_used: int | None = None  # tokens in the context window now
    context_size: int | None = None
    files: tuple[str, ...] = ()  # which it wrote, the last ones last, absolute
    subagents: int | None = None  # at work now
    parent: str | None = None  # the session it was forked from or works for
    tmux: str | None = None  # %pane
    zellij: str | None = None  # session:pane
    format_note: str | None = None  # what in its records we could not understand, with the version


NOTHING_KNOWN: Final = SessionFacts()


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """One thing that an agent did, for the record. `id` is unique within its session: told twice, it is kept once.

    kind            text                tool          ok
    started         how it started
    prompt          what was asked
    message         what it said
    plan            the plan
    tool_started                        which, what
    tool_finished   what came of it     which         whether; None: cancelled
    waits           what for            which
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
    files: tuple[str, ...] = ()  # it wrote, absolute
    subagent: str | None = None  # which of its subagents did it


@dataclass(frozen=True, slots=True)
class RejectedEvidence:
    """Evidence that did not decide, and why not."""

    evidence: Evidence
    why: str


@dataclass(frozen=True, slots=True)
class Truth:
    """The one state of an agent, what it rests on and what was set aside."""

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
    """One agent in the snapshot. `id` stays the same for as long as it is this session."""

    id: str  # cli:session, or cli:pid:number for a process without a session
    cli: str
    name: str  # as it is shown: the claim's agent where it holds the worktree, else the program
    key: Key | None  # its worktree
    cwd: str | None
    session: str | None
    pid: int | None
    pid_started: str | None
    truth: Truth
    facts: SessionFacts = NOTHING_KNOWN
    seen_at: str | None = None  # the newest sign of life
    claim: str | None = None  # mine, other, none; None: its worktree is not known
    claimed_by: str | None = None
    suspended: bool = False  # its process is stopped (ctrl-z, SIGSTOP): its state is what it will be in when it goes on

    looked_at: bool = False  # a person here has looked at it as it stands now

    @property
    def state(self) -> str:
        return self.truth.state

    @property
    def intruder(self) -> bool:
        """It works where another agent holds the claim."""
        return self.claim == "other" and not self.truth.ended
