"""Runs of other programs in watched workspaces as the dashboard's rows. Pure: what was read goes in, rows come out.

The id of such a row is that of its session in the registry, so that logs and views find it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from imi_monitor.model import board, times
from imi_monitor.model.agent import CANCELLED, COMPLETED, DEAD, FAILED, UNKNOWN, WAITING
from imi_monitor.model.foreign_run import OVER, ForeignRun
from imi_monitor.model.run import ALIVE, CRASHED, WATCHED, Run, RunFile, shown_state
from imi_monitor.model.session_record import stored_text
from imi_monitor.model.state_file import AgentState, SessionFiles
from imi_monitor.model.text import safe

MOST = 200  # rows
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
# for how long after its last sign a row is shown: no process proves that a run of another program is still at work
_SHOWN = {COMPLETED: _HOUR, CANCELLED: _HOUR, UNKNOWN: _HOUR, FAILED: _DAY, CRASHED: _DAY, WAITING: 7 * _DAY}
_LONGEST_ID = 250


def is_shown(one: Run, now: datetime) -> bool:
    """Whether it is at work, or ended lately; what a person should see is shown for longer."""
    said = times.parse(one.since)
    state = one.state if one.status == ALIVE else one.status
    return said is not None and now - said <= _SHOWN.get(str(state), _DAY)


def newest(found: Sequence[Run], now: datetime) -> tuple[Run, ...]:
    """Return the runs to show, newest first; of two with the same id only the newer one."""
    shown: dict[str, Run] = {}
    for one in sorted(found, key=lambda one: (one.since or "", one.id), reverse=True):
        if is_shown(one, now):
            shown.setdefault(one.id, one)
    return tuple(shown.values())[:MOST]


def of_run(run: ForeignRun) -> Run:
    """The row of a run, a job, or an agent of a registry; with the files that it lists itself."""
    return _row(
        stored_text(run.ident, _LONGEST_ID) or run.ident,
        run.name,
        run.program,
        run.status,
        folder=run.records or run.folder,
        agent=run.agent,
        moments=(run.started_at, run.updated_at),
        texts=(run.problem, run.prompt),
        log=run.log,
        files=tuple(RunFile(one.path, one.size or 0, one.at) for one in run.files),
    )


def of_session(state: SessionFiles, folder: str) -> Run | None:
    """The row of a session of be-agents-service; None for one that imi itself has written, whose runs are rows already."""
    if any(one.ours for one in state.agents) or (state.started_at is None and not state.agents):
        return None
    last = max(filter(None, (state.started_at, state.ended_at, *map(_last_moment, state.agents))), default=None)
    return _row(
        stored_text(state.name, 200) or state.name,
        state.name,
        "be-agents",
        state.status,
        folder=folder,
        agent="orchestrator",
        moments=(state.started_at, last),
        texts=(_progress(state.agents), state.source or state.branch),
        log=None,
        files=(),
    )


def _last_moment(one: AgentState) -> str | None:
    return one.ended_at or one.started_at


def _progress(agents: Sequence[AgentState]) -> str | None:
    """`2 of 3 done, 1 failed`; the error of the first that failed behind it."""
    if not agents:
        return None
    done = sum(one.status == board.COMPLETED for one in agents)
    failed = [one for one in agents if one.status == board.FAILED]
    text = f"{done} of {len(agents)} done" + (f", {len(failed)} failed" if failed else "")
    return f"{text}: {failed[0].error}" if failed and failed[0].error else text


def _row(
    ident: str,
    name: str,
    program: str,
    status: str,
    *,
    folder: str,
    agent: str | None,
    moments: tuple[str | None, str | None],
    texts: tuple[str | None, str | None],
    log: str | None,
    files: tuple[RunFile, ...],
) -> Run:
    """`moments`: its beginning and its last sign. `texts`: what it says of its state, and what it is to do."""
    over = status if status in OVER else CRASHED if status == DEAD else None
    started, last = moments
    detail, prompt = texts
    detail = detail or (prompt if status == WAITING else None)  # a waiting run records only its prompt
    return Run(
        id=ident,
        program=program,
        agent=safe(agent or program, 80),
        way=WATCHED,
        status=over or ALIVE,
        state=status,
        shown=shown_state(over or ALIVE, status, None),
        since=last or started,
        detail=stored_text(detail) if detail else None,
        session=safe(name, 200),
        key=None,
        cwd=folder,
        folder=folder,
        mode="",
        dangerous=False,
        prompt=stored_text(prompt) if prompt else None,
        pid=None,
        pid_started=None,
        created_at=started or last or times.stamp(),
        ended_at=last if over else None,
        files=files,
        origin=program,
        log=log,
    )
