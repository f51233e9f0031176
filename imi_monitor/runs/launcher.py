"""Starts runs: one way for a command and for the queue.

    begin    launch folder, run folder; then claim, row and place in the queue in one transaction
    start    the first of the queue that has a place: keeper, agent, its claim bound to the agent's process, first messages

Each step is recorded before it acts, so that recovery (`run_recovery`) ends what a crash interrupts.
"""

from __future__ import annotations

import os
import time

from imi_monitor import host
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.run import STARTING, RunVerdict
from imi_monitor.model.session_record import stored_text
from imi_monitor.model.text import safe
from imi_monitor.runs import (
    job_log,
    launch_folder,
    providers,
    run_claim,
    run_end,
    run_folder,
    run_upkeep,
    run_wall,
    state_files,
    ways,
)
from imi_monitor.runs.provider import WINDOW, Spec
from imi_monitor.runs.run_plan import REQUESTS
from imi_monitor.store import claim_requests, db, item_moves, operations, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from imi_monitor.runs.launch_folder import Birth, LaunchFolder
    from imi_monitor.runs.run_plan import RunPlan
    from imi_monitor.store.runs import RunRow

_GREETING_SECONDS = 2.0
_START_SECONDS = 30.0  # of another process; a keeper that does not answer is given up then
_POLL_SECONDS = 0.02


def begin(connection: sqlite3.Connection, plan: RunPlan) -> RunRow:
    """Put a run into the queue, with its folders and its claim; whatever fails leaves nothing behind."""
    folder, made = launch_folder.folder_of(plan.id), run_folder.path_of(plan.home, plan.id)
    try:
        env = plan.environment(made)
        folder.make(_launch(connection, plan, made, env), env, plan.spec.prompt, plan.files())
        if plan.wall is not None:
            plan.wall.protect()
        run_folder.make(made, folder.file("out"))
        if plan.takes_requests:
            os.mkdir(os.path.join(made, REQUESTS), 0o700)
        row = db.transact(connection, _insert, plan, made)
    except OSError as error:
        where = safe(error.filename or (made if os.path.isdir(made) else folder.path), 200)
        _remove(folder, made)
        raise Refused(f"the run cannot be prepared in {where}: {error.strerror}", code="disk") from error
    except BaseException:
        _remove(folder, made)
        raise
    run_folder.write_start(row)
    job_log.begin(row, db.read(connection, runs.by_id, plan.parent) if plan.parent else None)
    state_files.write_run(connection, row)
    run_claim.mirror(connection, row)
    return row


def _launch(connection: sqlite3.Connection, plan: RunPlan, made: str, env: Mapping[str, str]) -> dict[str, object]:
    """What the keeper reads, and what is needed to remove both folders if this process dies before their run is recorded."""
    held: dict[str, object] = {"pipe": True}
    if plan.holder is not None:
        held = {"holder": plan.holder, "prompt": plan.launch.prompt, "pipe": plan.launch.pipe}
    me = host.identify_process(os.getpid())
    about = {"registry": run_upkeep.registry_of(connection), "run_folder": made, "starter": [me.pid, me.started]}
    cwd = plan.spec.cwd or made
    argv = plan.launch.argv if plan.wall is None else plan.wall.command(plan.launch.argv, cwd, made, env)
    return {"argv": argv, "cwd": cwd, "contained": plan.contained is not None, **about, **held}


def _remove(folder: LaunchFolder, made: str) -> None:
    run_wall.forget(folder)
    folder.remove()
    run_folder.remove_unused(made)


def _insert(connection: sqlite3.Connection, plan: RunPlan, folder: str) -> RunRow:
    epoch = None
    if plan.target is not None:
        answer = claim_requests.claim_target(
            connection, plan.target, run_claim.request(plan.agent, plan.id, None, plan.task)
        )
        if not answer.granted:
            raise plan.refuse_claim(answer)
        epoch = answer.claim.epoch
    values: dict[str, object] = {
        "id": plan.id,
        "program": plan.program,
        "way": plan.way,
        "agent_id": plan.agent,
        "user": plan.user,
        "session": plan.launch.session,
        "repo_name": plan.target.repo_name if plan.target else plan.repo_name,
        "worktree_name": plan.target.name if plan.target else plan.worktree_name,
        "epoch": epoch,
        "cwd": plan.spec.cwd or folder,
        "folder": folder,
        "prompt": stored_text(plan.spec.prompt),
        "resumed_from": plan.resumed_from,
    }
    if plan.operation is not None:
        operations.finish(connection, plan.operation)
    made = runs.insert(connection, values, plan.stored_launch())
    if plan.task is not None:
        item_moves.begin(connection, plan.task, made.agent_id, made.repo_name, made.worktree_name, made.id)
    return made


def start_queued(connection: sqlite3.Connection, at_once: int) -> list[RunRow]:
    """Start the queued runs that have a place, one after the other; returns those that were tried."""
    tried: list[RunRow] = []
    while (row := db.transact(connection, runs.take_next, at_once)) is not None:
        start(connection, row)
        tried.append(row)
    return tried


def wait_for_start(connection: sqlite3.Connection, ident: str) -> None:
    """Wait until a run is started, or has failed, that another process has taken from the queue, as a follower may."""
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        row = db.read(connection, runs.by_id, ident)
        if row is None or row.status != STARTING:
            return
        time.sleep(_POLL_SECONDS)


def start(connection: sqlite3.Connection, row: RunRow) -> None:
    """Start the agent of a run that this process has taken from the queue. A failure is the run's end, not an error."""
    folder = launch_folder.folder_of(row.id)
    try:
        _refuse_lost_claim(connection, row)
        ways.start(folder, row.worktree_name or row.agent_id, row.cwd)
        born = folder.birth()
        if born is None:
            raise Refused("its keeper died before it started the agent", code="keeper")
    except (ImiError, OSError) as error:
        if isinstance(error, OSError) and not folder.shut_gate() and (born := folder.birth()) is not None:
            adopt(connection, row, born)  # its keeper was faster than what failed here
            return
        why = error.sentence if isinstance(error, ImiError) else error.strerror or "the system refused it"
        folder.remove_environment()
        fail(connection, row, f"it could not be started: {why}")
        return
    adopt(connection, row, born)


def _refuse_lost_claim(connection: sqlite3.Connection, row: RunRow) -> None:
    """An agent without the claim on its worktree is not started: it was taken or released while the run was in the queue."""
    owner = db.read(connection, run_claim.lost_to, row)
    if owner is not None:
        whose = f"{safe(owner)} has claimed" if owner else "its claim was released on"
        raise Refused(f"{whose} {safe(row.worktree_name or '')} meanwhile", code="claim-lost")


def adopt(connection: sqlite3.Connection, row: RunRow, born: Birth) -> None:
    """Record that the agent runs, bind its claim to its process, and send what it is to get first."""
    db.transact(connection, _mark_alive, row, born)
    job_log.write_about(db.read(connection, runs.by_id, row.id) or row)
    if row.way == WINDOW:
        return
    try:
        _greet(row, launch_folder.folder_of(row.id))
    except Refused:
        return  # it ended at once: its output and its exit say why


def _greet(row: RunRow, folder: LaunchFolder) -> None:
    """Wait for what must be known before the prompt can be sent; the follower goes on where this gives up."""
    until = time.monotonic() + _GREETING_SECONDS
    while not greet(row, folder) and time.monotonic() < until and not folder.process().over:
        time.sleep(0.02)


def greet(row: RunRow, folder: LaunchFolder) -> bool:
    """Send the next message before the prompt is under way, if it can be sent now; whether nothing is left to send.

    The first ones are the provider's opening, also where the starter died before it sent them.
    """
    provider = providers.by_name(row.program)
    reader = provider.reader(row.way)
    position = 0
    for line in folder.read_output(0, 1 << 20).split(b"\n")[:-1]:
        reader.add(line, position, row.created_at)
        position += len(line) + 1
    spec = spec_of(row, folder.prompt(), folder.packet())
    opening = list(provider.start(spec).opening)
    waits = False

    def choose(sent: list[dict[str, object]]) -> list[dict[str, object]]:
        nonlocal waits
        if opening and not sent:
            waits = True
            return opening
        messages = provider.greet(reader, sent, spec)
        waits = messages == [] and reader.state is None
        return messages or []

    folder.send_next(choose)
    return not waits


def _mark_alive(connection: sqlite3.Connection, row: RunRow, born: Birth) -> None:
    if runs.mark_alive(connection, row, born.pid, born.started, born.boot):
        run_claim.bind(connection, row, born.pid)


def fail(connection: sqlite3.Connection, row: RunRow, why: str, *, starter_died: bool = False) -> None:
    """End a run whose agent never ran, and give its claim back. Its item failed, or waits again if its starter died."""

    def end(inner: sqlite3.Connection) -> None:
        if runs.end(inner, row, RunVerdict("failed", stored_text(why)), None):
            run_claim.release(inner, row)
            if starter_died:
                item_moves.forget_run(inner, row.id)

    db.transact(connection, end)
    run_end.settle(connection, row)


def spec_of(row: RunRow, prompt: str, packet: str = "") -> Spec:
    """The request of a stored run."""
    import json

    launch = json.loads(row.launch)
    return Spec(
        program=str(launch["argv"][0]),
        prompt=prompt,
        cwd=row.cwd,
        session=row.id,
        mode=str(launch["mode"]),
        model=launch["model"],
        flags=tuple(launch["flags"]),
        resumes=launch["resumes"],
        packet=packet,
        walled=bool(launch.get("sandbox")),
        tools=tuple(launch.get("tools", ())),
    )
