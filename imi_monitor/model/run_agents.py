"""The agents of runs: what a run's output says becomes the state of the agent that the readers found, or of one of its own.

A run is the best evidence of its agent: its output and its process belong to imi. Where the output of a program says nothing of
its state, what the readers found stays.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.model import run as words
from imi_monitor.model.agent import (
    DEAD,
    EXACT,
    LIKELY,
    NOTHING_KNOWN,
    PLANNING,
    RUNNING,
    UNKNOWN,
    WAITING,
    WORKING,
    WORKSPACE,
    Agent,
    Evidence,
    RejectedEvidence,
    ToolCall,
    Truth,
)
from imi_monitor.model.agent_walls import NO_WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from imi_monitor.model.agent import SessionFacts
    from imi_monitor.model.run import Question, Run

_GONE = "its process is gone, and its end is not recorded yet"


class RunAgents:
    """Joins agents and runs; an agent of an unchanged run and sighting stays the same object."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Run, Agent | None, Agent]] = {}  # by the run's id

    def join(self, agents: tuple[Agent, ...], runs: Sequence[Run]) -> tuple[Agent, ...]:
        """The agents, each of a run with what the run says; then the agents of runs that no reader found."""
        if not runs:
            return agents
        found = _sightings(agents, runs)
        made: dict[str, tuple[Run, Agent | None, Agent]] = {}
        for one in runs:
            seen = found.get(one.id)
            known = self._made.get(one.id)
            same = known is not None and known[0] == one and known[1] is seen
            made[one.id] = known if known is not None and same else (one, seen, _agent_of(one, seen))
        self._made = made
        joined = {id(seen): agent for _, seen, agent in made.values() if seen is not None}
        alone = [agent for _, seen, agent in made.values() if seen is None]
        processes = {(one.pid, one.pid_started) for one in runs if one.pid is not None}
        twins = {id(one) for one in agents if one.session is None and (one.pid, one.pid_started) in processes}
        return (*(joined.get(id(one), one) for one in agents if id(one) in joined or id(one) not in twins), *alone)


def agent_id(one: Run) -> str:
    """The id of the agent: that of its session, and of the run before the session is known or where both are one."""
    if one.origin is not None:
        return one.id
    return f"{one.program}:{one.session or one.id}"


def _sightings(agents: Iterable[Agent], runs: Sequence[Run]) -> dict[str, Agent]:
    """The agent that the readers found, by the id of its run; the newest run of a session has it."""
    by_id = {one.id: one for one in agents}
    by_process = {(one.pid, one.pid_started): one for one in agents if one.pid is not None}
    found: dict[str, Agent] = {}
    taken: set[str] = set()
    for one in runs:
        seen = by_id.get(agent_id(one))
        if seen is None and one.pid is not None:
            seen = by_process.get((one.pid, one.pid_started))
        if seen is not None and seen.id not in taken and not _lives_elsewhere(one, seen):
            taken.add(seen.id)
            found[one.id] = seen
    return found


def _lives_elsewhere(one: Run, seen: Agent) -> bool:
    """Whether a run is over and another process has taken up its session since."""
    return not one.is_open and not seen.truth.ended and seen.pid is not None and seen.pid != one.pid


def _agent_of(one: Run, seen: Agent | None) -> Agent:
    told = _truth(one)
    if seen is None:
        return Agent(
            id=agent_id(one),
            cli=one.program,
            name=one.agent,
            key=one.key,
            cwd=one.cwd,
            session=one.session,
            pid=one.pid,
            pid_started=one.pid_started,
            truth=told,
            facts=_facts(one),
            seen_at=one.since,
            claim="mine" if one.key is not None else None,
            claimed_by=one.agent if one.key is not None else None,
            label=one.agent,
            run=one.id,
            wall=one.wall or NO_WALL,
        )
    truth = seen.truth if told.state == UNKNOWN or _says_the_same(told, seen.truth) else _outranked(told, seen.truth)
    relation = "mine" if seen.claim == "other" and seen.claimed_by == one.agent else seen.claim
    found = replace(seen, name=one.agent, key=one.key or seen.key, truth=truth, run=one.id, claim=relation)
    found = replace(found, wall=one.wall or NO_WALL)
    if seen.session is not None:
        return found
    return replace(found, id=agent_id(one), session=one.session, facts=_facts(one))  # only its process was found


def _facts(one: Run) -> SessionFacts:
    known = one.facts or NOTHING_KNOWN
    return replace(known, prompt=known.prompt or one.prompt, started_at=known.started_at or one.created_at)


def _truth(one: Run) -> Truth:
    state, detail = _state(one)
    since, tool = one.since, one.tool
    if one.question is not None:
        since, tool = one.question.at, _asked_tool(one.question)
    over = not one.is_open or one.gone
    source, says = ("run", f"run {one.short}") if one.origin is None else (WORKSPACE, f"the workspace of {one.origin}")
    evidence = Evidence(source, state, since or one.created_at, f"{says} says {one.shown}", detail, tool)
    sure = EXACT if one.origin is None or over else LIKELY
    return Truth(state, since, source, sure, detail, tool, used=(evidence,), ended=over)


def _asked_tool(asked: Question) -> ToolCall | None:
    """The tool call that a permission is asked for: `permission for Bash npm test`."""
    head, _, rest = (asked.text or "").partition(f" for {asked.tool}")
    return ToolCall(asked.tool, rest.strip() or None) if head == "permission" else None


def _state(one: Run) -> tuple[str, str | None]:
    """The status of the agent, and its detail."""
    if one.status == words.QUEUED:
        return words.QUEUED, f"place {one.place} in the queue" if one.place is not None else None
    if one.status == words.STARTING:
        return PLANNING, "starting"
    if one.status == words.CRASHED:
        return DEAD, one.detail
    if not one.is_open:
        return one.status, one.detail
    if one.gone:
        return DEAD, _GONE
    if one.question is not None:
        return WAITING, one.question.text or one.question.tool
    if one.shown == words.STALLED:
        return words.STALLED, "no sign of progress"
    if one.state is None and one.way == words.TASK:
        return PLANNING, None  # it has said nothing yet
    if one.state is None or one.state == UNKNOWN:
        return UNKNOWN, None
    if one.state in WORKING and one.origin is None:
        return RUNNING if one.tool is not None else PLANNING, None
    return one.state, one.detail


def _says_the_same(told: Truth, seen: Truth) -> bool:
    """Whether both mean one state; then the reader's has more details: the tool, the question, the last message."""
    working = told.state in WORKING and seen.state in WORKING
    return (working or told.state == seen.state != WAITING) and told.ended == seen.ended


def _outranked(told: Truth, seen: Truth) -> Truth:
    why = "the output of the run says otherwise"
    return replace(told, rejected=(*seen.rejected, *(RejectedEvidence(one, why) for one in seen.used)))
