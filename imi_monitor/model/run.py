"""A run: one agent that imi started. The words for its life, its questions, and the verdict at its end."""

from __future__ import annotations

from typing import Final

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import state_words
from imi_monitor.model.agent import FAILED, RESTING, UNKNOWN, WAITING, WORKING
from imi_monitor.model.contained_names import RUNS_HOME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.agent import SessionFacts, ToolCall
    from imi_monitor.model.snapshot import ClaimState, Key

QUEUED: Final = "queued"
STARTING: Final = "starting"
ALIVE: Final = "alive"
CRASHED: Final = "crashed"
STALLED: Final = "stalled"

TASK: Final = "task"  # the way of a run without a terminal
WATCHED: Final = "watched"  # that of a run of another program, in a workspace that imi only reads

OPEN: Final = (QUEUED, STARTING, ALIVE)  # the statuses of a run that is not over; an end is one of RESTING or crashed
PLACES: Final = (STARTING, ALIVE)  # the statuses that count against the number of runs at once

YES, NO = "yes", "no"
SHORT: Final = 8  # characters of an id, by which commands find a run
STALL_SECONDS: Final = 120.0
FIRST_SIGN_SECONDS: Final = 60.0  # the slowest program that was seen took 56 s for its first line
MOST_PROMPT: Final = 256 << 10

LIMITED: Final = state_words.LIMITED

_WORDS_OF_ENDS = {"completed": state_words.DONE, CRASHED: state_words.DEAD}
_WORDS = {FAILED: state_words.FAILED, WAITING: state_words.ASKS, UNKNOWN: state_words.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent asks. `position` is the place of its record in the output; the answer needs that record."""

    id: str
    tool: str
    text: str | None
    at: str
    position: int = 0
    choices: tuple[str, ...] = (YES, NO)


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """How a run ended, and why."""

    status: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file in a run folder; its path is relative to the folder."""

    path: str
    size: int
    changed_at: str


@dataclass(frozen=True, slots=True)
class WantedDelivery:
    """A file of a contained workspace that is to go elsewhere. `waits`: a person has to allow it."""

    name: str
    target: str
    waits: bool


@dataclass(frozen=True, slots=True)
class Run:
    """One run in the snapshot: one that is open, or ended lately and was not resumed. None is unknown."""

    id: str
    program: str
    agent: str  # its name, which is the owner of its claim
    way: str
    status: str
    state: str | None  # of its agent, as its output says
    shown: str  # the word for what it does
    since: str | None  # since when
    detail: str | None
    session: str | None
    key: Key | None  # its worktree; None: it has only its run folder
    cwd: str
    folder: str
    mode: str
    dangerous: bool  # it may act without asking
    prompt: str | None
    pid: int | None
    pid_started: str | None
    created_at: str
    ended_at: str | None
    place: int | None = None  # in the queue
    question: Question | None = None  # the first open one
    group: str | None = None  # of runs with one prompt, to be compared
    facts: SessionFacts | None = None  # as recorded of its session
    tool: ToolCall | None = None  # that is under way
    gone: bool = False  # its process is gone, and its end is not recorded yet
    resumable: bool = False  # it crashed: its session can be taken up again
    files: tuple[RunFile, ...] = ()  # in its contained workspace and its run folder, the newest first
    wall: str | None = None  # the level of its wall; None: it has none
    workspace: str | None = None  # the path of its contained workspace
    deliveries: tuple[WantedDelivery, ...] = ()
    claim: ClaimState | None = None  # on its workspace, if it has no worktree
    origin: str | None = None  # the program that runs it, if imi only watches its workspace
    log: str | None = None  # the path of its log there

    @property
    def short(self) -> str:
        """The short id that commands accept: the beginning of the id, or the name of a watched run."""
        return self.id[:SHORT] if self.origin is None else self.session or self.id

    @property
    def word(self) -> str:
        """The word for it on screens that show agents: one word for each state."""
        return word_of(self.shown)

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def waiting_deliveries(self) -> tuple[WantedDelivery, ...]:
        return tuple(one for one in self.deliveries if one.waits)


def began_anew(why: str | None) -> str:
    """Return what is reported of a new session in place of one that its program did not resume."""
    return f"its session could not be resumed ({why}): a new one begins with what the last checkpoint says"


def workspace_name(repo: str, name: str) -> str:
    """Return what a worktree, a contained workspace or a run folder is called: `feat-x`, `default`, `run 1b2c3d4e`."""
    return f"run {name}" if repo == RUNS_HOME else name


def word_of(shown: str) -> str:
    """The word of an agent's state for how a run stands: `done` for `completed`."""
    return _WORDS_OF_ENDS.get(shown, shown)


def shown_state(status: str, state: str | None, silent: float | None, *, limited: bool = False) -> str:
    """The word for what a run does: its end, or what its living agent does. `silent`: seconds since its last output.

    `limited`: its turn failed because its program has reached its usage limit.
    """
    if limited and status in (ALIVE, FAILED):
        return LIMITED
    if status != ALIVE:
        return status
    if state is None or state in WORKING:
        least = FIRST_SIGN_SECONDS if state is None else STALL_SECONDS
        return STALLED if silent is not None and silent >= least else state_words.WORKS
    return _WORDS.get(state, state_words.IDLE if state in RESTING else state)


def verdict(turn: str | None, detail: str | None, code: int | None, stopped_by: str | None) -> RunVerdict:
    """How a run ended whose process is gone. The record of its last turn decides, then the intent to stop it, then the exit.

    `turn`: the state of the last turn. `code`: the exit status, negative for a signal, None if unknown.
    """
    if turn in RESTING:
        return RunVerdict(str(turn), detail)
    if stopped_by is not None:
        return RunVerdict("cancelled", f"stopped by {stopped_by}")
    if turn == UNKNOWN and code == 0:
        return RunVerdict("completed")  # a program that reports no turns
    if code is None:
        return RunVerdict(CRASHED, "its process is gone and left no exit status")
    how = f"by signal {-code}" if code < 0 else f"with exit status {code}"
    return RunVerdict(CRASHED, f"its process ended {how} in the middle of its work")
