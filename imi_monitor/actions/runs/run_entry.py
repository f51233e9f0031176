"""A run of a request: its plan, its place in the queue, and what the user is told of it."""

from __future__ import annotations

import os

from imi_monitor.actions.action import Outcome
from imi_monitor.actions.claims import claim_action, ownership
from imi_monitor.actions.contained import contained_option
from imi_monitor.actions.runs import budget_options, run_lookup, run_options, sandbox_option, several_start
from imi_monitor.git import layout
from imi_monitor.model.errors import Refused
from imi_monitor.model.run import QUEUED
from imi_monitor.model.text import safe
from imi_monitor.runs import (
    day_budget,
    follower_process,
    launch_folder,
    launcher,
    provider,
    providers,
    run_budget,
    run_claim,
    run_folder,
    run_limit,
    walls,
)
from imi_monitor.runs.agent_variables import RUN_VARIABLE
from imi_monitor.runs.provider import TASK, WINDOW
from imi_monitor.store import db, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.runs.provider import Spec
    from imi_monitor.runs.run_plan import ContainedWork, RunPlan
    from imi_monitor.store.claim_requests import ClaimAnswer
    from imi_monitor.store.runs import RunRow

_BY_MEMORY = ", or memory is free (set runs.at_once to decide it yourself)"


def begin(
    context: Context,
    request: Request,
    name: str,
    spec: Spec,
    found: Target | None,
    before: RunRow | None = None,
    operation: str | None = None,
    work: ContainedWork | None = None,
) -> Outcome:
    """Put the run into the queue, and start what has a place; `before`: the run whose work it goes on with."""
    from imi_monitor.runs.run_plan import RunPlan

    wanted, folder = providers.by_name(name), launch_folder.folder_of(spec.session)
    walled = sandbox_option.level(context, request, before) != walls.OFF
    holder = None if walled else run_options.holder(request, wanted)
    way = TASK if holder is None else WINDOW
    agent = request.text("as") or (before.agent_id if before else f"{name}-{spec.session[:8]}")
    claimed = _claimed(context, request, found, agent, spec)
    repository = found.repository if found else None
    plan = RunPlan(
        id=spec.session,
        program=name,
        way=way,
        agent=agent,
        user=context.agent(request),
        spec=spec,
        launch=provider.launch_of(wanted, spec, way, folder.path),
        holder=holder,
        home=run_folder.home_of(repository, context.settings.text("runs.home")),
        refuse_claim=lambda answer: _refuse_claim(found, answer, agent, spec),
        target=ownership.claim_target(context, found) if found and claimed else None,
        repo_name=found.repo_name if found else None,
        worktree_name=found.name if found else None,
        base=_head(found),
        task=request.text("task"),
        labels=run_options.labels(request),
        wall=sandbox_option.wall_of(context, request, name, spec, found, before, work is not None),
        contained=work,
        budget=budget_options.given(context, request, name, way)
        or (run_budget.limits_of(before) if before else budget_options.usual(context, name, way)),
        resumed_from=before.id if before else None,
        parent=os.environ.get(RUN_VARIABLE),
        operation=operation,
        group=request.text("group") or (several_start.group_of(before) if before else None),
    )
    advice = sandbox_option.advice(request, found, sandbox_option.level(context, request, before))
    return _enqueue(context, request, plan, advice)


def _enqueue(context: Context, request: Request, plan: RunPlan, advice: str | None) -> Outcome:
    """Put the run into the queue, and start what has a place."""
    if request.flag("over-budget"):
        day_budget.grant(context.connection, context.settings)
    row = contained_option.begin(context.connection, plan)
    launcher.start_queued(context.connection, run_limit.at_once(context.connection, context.settings))
    follower_process.ensure(context.database)
    launcher.wait_for_start(context.connection, row.id)
    outcome = _outcome(context, row.id, plan)
    outcome.warnings += [one for one in (advice, plan.wall.warning if plan.wall is not None else None) if one]
    return outcome


def _claimed(context: Context, request: Request, found: Target | None, agent: str, spec: Spec) -> bool:
    """Whether the run claims its worktree: not the trunk, and not one that the caller holds already."""
    if found is None or found.is_main:
        return False
    claim_action.refuse_foreign(found)
    wanted = run_claim.request(agent, spec.session, None)
    claim_action.displaced_owner(context, found, wanted)
    held = ownership.claim_of(context, found)
    return held is None or held.agent_id != context.agent(request)


def _refuse_claim(found: Target | None, answer: ClaimAnswer, agent: str, spec: Spec) -> Refused:
    assert found is not None
    return claim_action.refusal(found, answer, run_claim.request(agent, spec.session, None), None)


def _head(found: Target | None) -> str | None:
    if found is None or found.admin_dir is None:
        return None
    return layout.read_head(found.admin_dir, found.repository.common_dir)[1]


def _outcome(context: Context, run_id: str, plan: RunPlan) -> Outcome:
    row = db.read(context.connection, runs.by_id, run_id)
    assert row is not None
    if row.status == "failed":
        raise Refused(f"{row.program} was not started: {row.detail}", code="not-started", data=run_lookup.run_data(row))
    data = run_lookup.run_data(row)
    where = f" in {safe(row.worktree_name)}" if row.worktree_name else ""
    if row.status == QUEUED:
        place = db.read(context.connection, runs.place_in_queue, row)
        data["place"] = place
        data["waits_for"] = why = _waits_for(context)
        return Outcome(
            [f"{row.short} waits in the queue, place {place}: {row.program}{where}", f"starts when {why}"], data
        )
    lines = [f"{row.short} started: {row.agent_id}{where}", f"folder  {safe(row.folder)}"]
    warnings = [f"it may act without asking: {safe(' '.join(plan.launch.dangerous))}"] if plan.launch.dangerous else []
    return Outcome([*lines, f"follow  imi logs {row.short} -f"], data, warnings=warnings)


def _waits_for(context: Context) -> str:
    used_up = day_budget.list_used_up(context.connection, context.settings)
    if used_up:
        return f"the day ends, or you allow more: {day_budget.sentence(used_up)}"
    return "one of those that work has ended its turn" + ("" if context.settings.number("runs.at_once") else _BY_MEMORY)
