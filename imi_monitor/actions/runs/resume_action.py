"""`imi resume`: take up the session of a run that has ended, or begin a new one with what its last checkpoint says."""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.actions.action import Action, KeyChoice, Option, Outcome, Preview, Request, WritingAids
from imi_monitor.actions.contained import contained_option
from imi_monitor.actions.runs import (
    budget_options,
    fresh_session,
    prompt_aids,
    run_entry,
    run_lookup,
    run_options,
    run_worktree,
    sandbox_option,
)
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model import run
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import count, safe
from imi_monitor.runs import launcher, provider, providers, run_stop, walls
from imi_monitor.runs.provider import Spec
from imi_monitor.store import db, runs, sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.store.runs import RunRow

_GO_ON = "Your last turn was interrupted. Look at what is done, then go on."
_GO_ON_WITH = (
    KeyChoice("r", "", "resume its session where it ended"),
    KeyChoice("f", "fresh", "begin a new session with what the last checkpoint says"),
)


class ResumeAction(Action):
    words = ("resume",)
    group = "Agents"
    label = "Resume"
    help = "resume the session of a run that has ended"
    more = (
        "The same as `imi start --continue`. Without a prompt the agent is told to go on where its last turn ended. Where the"
        " program has lost the session or refuses to resume it, or with --fresh, a new session begins with the task, the plan,"
        " the last message, the files and the open tool calls of the last checkpoint."
    )
    key = "less_than_sign"
    requires = ("folder",)
    chosen_by_key = "fresh"
    arguments = (run_lookup.MAYBE_RUN,)
    options = (
        Option("prompt", "what to do next", value="TEXT", multiline=True),
        run_options.PROMPT_FILE,
        run_options.WAY,
        sandbox_option.SANDBOX,
        run_options.FRESH,
        run_options.OVER_BUDGET,
    )
    dialog_options = ("prompt", "sandbox", "over-budget")

    def writing_aids(self, context: Context, request: Request) -> WritingAids:
        return prompt_aids.of_run(context, request.text("name"))

    def preview(self, context: Context, request: Request) -> Preview:
        """What is known of the run, and both ways to go on with it."""
        shown = super().preview(context, request)
        if shown.refusal is not None and shown.refusal.code == "no-session":
            fresh = super().preview(context, Request(request.verb, {**request.values, "fresh": True}))
            return Preview(fresh.lines, fresh.refusal, choices=_GO_ON_WITH[1:])
        return Preview(shown.lines, shown.refusal, choices=() if shown.refusal is not None else _GO_ON_WITH)

    def consequences(self, context: Context, request: Request) -> list[str]:
        fresh = request.flag("fresh")
        row = _ended(context, request.text("name"), fresh=fresh)
        _refuse_used_up(context, request, row)
        what = "begins a new session for" if fresh else "resumes the session of"
        found = run_worktree.find_existing(context, row.worktree_name, row.repo_name) if row.worktree_name else None
        files = fresh_session.uncommitted(context, found)
        lines = [f"{what} {row.short} ({safe(row.agent_id)}; {row.shown_state})"]
        return [*lines, f"{count(len(files), 'uncommitted file')}: {safe(', '.join(files[:3]))}"] if files else lines

    def run(self, context: Context, request: Request) -> Outcome:
        return resume(context, request, request.text("name"))


def resume(context: Context, request: Request, name: str | None, default: str = _GO_ON) -> Outcome:
    """Take up the session of an ended run; `default`: the prompt if none is given, which may be empty in a window."""
    before = _ended(context, name, fresh=request.flag("fresh"))
    run_options.refuse_unknown_way(request)
    left = run_stop.list_left_behind([before]).get(before.id)
    if left:  # one of them may still write the session
        shown = ", ".join(f"{safe(name)} ({pid})" for pid, name in left[:5])
        raise Refused(
            f"{before.short} left {shown} behind: end them with `imi stop {before.short}`", code="left-behind"
        )
    _refuse_used_up(context, request, before)
    words = run_options.prompt(request)
    spec = launcher.spec_of(before, "")
    found = None
    if before.worktree_name is not None:
        found = run_worktree.find_existing(context, before.worktree_name, before.repo_name)
    elif not os.path.isdir(before.cwd):
        raise Refused(f"its folder {safe(before.cwd)} is gone: start it anew", code="missing")
    lost = not request.flag("fresh") and not providers.by_name(before.program).has_session(before.session or "")
    fresh = request.flag("fresh") or lost
    if not fresh:
        _refuse_two_writers(context, before)
    program = provider.find_program(providers.by_name(before.program))
    provider.refuse_logged_out(providers.by_name(before.program), program)
    packet = fresh_session.first_prompt(context, before, found, words)
    again = Spec(
        program=program,
        prompt=packet if fresh else words or default,
        cwd=found.path if found else before.cwd,
        session=(run_id := new_id()),
        mode=spec.mode,
        model=spec.model,
        flags=spec.flags,
        resumes=None if fresh else before.session,
        packet="" if fresh else packet,
        walled=sandbox_option.level(context, request, before) != walls.OFF,
        tools=run_options.tools(context, run_id),
    )
    outcome = run_entry.begin(
        context, request, before.program, again, found, before, work=contained_option.work_of(before)
    )
    if lost:
        outcome.warnings.append(run.began_anew(f"{before.program} has no record of it"))
    return outcome


def _refuse_used_up(context: Context, request: Request, before: RunRow) -> None:
    budget_options.refuse_used_up(context, request)
    if not request.flag("over-budget"):
        budget_options.refuse_run_used_up(context, before)


def _refuse_two_writers(context: Context, before: RunRow) -> None:
    """Refuse a session that another process has open: of another run, or started without imi."""
    other = db.read(context.connection, runs.find_open_session, before)
    if other is not None:
        raise Refused(
            f"the session of {before.short} goes on in {other.short} ({other.shown_state}): `imi say {other.short} TEXT`",
            code="two-writers",
        )
    for one in db.read(context.connection, sessions.find_by_prefix, f"{before.program}:{before.session}"):
        if one.ended_at is None and host.is_alive(one.host, one.boot, one.pid, one.pid_started):
            raise Refused(
                f"the session of {before.short} is open in process {one.pid}: end that first", code="two-writers"
            )


def _ended(context: Context, name: str | None, *, fresh: bool = False) -> RunRow:
    """The run of this name, if its session can be taken up again, or with `fresh` its work."""
    found = run_lookup.find_run(context, name)
    if found.is_open:
        raise Refused(f"{found.short} is not over ({found.shown_state}): `imi say {found.short} TEXT` talks to it")
    if found.session is None and not fresh:
        raise Refused(
            f"{found.short} ended before it had a session: `imi resume {found.short} --fresh` begins a new one",
            code="no-session",
        )
    return found


ACTIONS = (ResumeAction(),)
