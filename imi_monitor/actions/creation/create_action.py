"""`imi feat|fix|aiops|devops NAME` and `imi add TYPE NAME`: a worktree on a branch of its own, ready to work in.

What making a worktree will do, told without going to the network: for whoever has to decide.
"""

from __future__ import annotations

import os
import time

from imi_monitor.actions import repository_commands
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.creation import creation_request, start_point, worktree_creation
from imi_monitor.actions.creation.worktree_creation import CreationPlan
from imi_monitor.git import heads
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.creation_request import CreationRequest
    from imi_monitor.store.operations import Operation


_NAME = Argument("name", "what it is about, such as user-auth")
_REPO = Argument("repo", "the repository: a path or a name from the registry", optional=True)
_OPTIONS = (
    Option("from", "start there instead of at the trunk: a branch, tag, commit or HEAD", value="REF"),
    Option("branch", "the branch's name, if it should not follow the directory's", value="BRANCH"),
    Option("agent", "who makes it; for the log", value="ID", aliases=("agent-id", "yi-id")),
)
_MORE = """If it exists already, it is only gone to. An existing branch of that name, here or on the remote, is taken over
as it is. Else the branch starts at the trunk, which is fetched first; without a network, at the trunk as it is here.
The last line is the path; `imi shell-init` gives the shell function that goes there."""
_WAIT_SECONDS = 600.0
_SETTLE_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_OVERTAKEN = ("checked-out", "path-exists", "branch-exists", "half-made")


class _CreateAction(Action):
    group = "Worktrees"
    label = "New worktree"
    more = _MORE
    options = _OPTIONS
    dialog_options = ("from", "branch")
    makes_new = True
    opens_worktree = True

    def refuse(self, context: Context, request: Request) -> None:
        self.wanted(context, request)

    def consequences(self, context: Context, request: Request) -> list[str]:

        return preview(context, self.wanted(context, request))

    def choices(self, context: Context, name: str) -> list[str]:
        from imi_monitor.store import worktree_types

        if name != "type":
            return []
        return [kind.name for kind in worktree_types.list_types(context.connection) if kind.name != "review"]

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        wanted = self.wanted(context, request)
        agent = context.agent(request)
        give_up = time.monotonic() + _WAIT_SECONDS
        while True:
            wait_for_others(context, wanted, give_up)
            try:
                found = creation_request.find_existing(context, wanted)
                if found is not None:
                    return creation_request.open_existing(context, wanted, found, agent)
                return _make(context, wanted, agent)
            except Refused as problem:
                if time.monotonic() > give_up or not is_overtaken(context, wanted, problem.code):
                    raise

    def wanted(self, context: Context, request: Request) -> CreationRequest:
        return creation_request.parse_request(
            context,
            request.text("type") or request.verb,
            request.text("name") or "",
            branch=request.text("branch"),
            source=request.text("from"),
            repo=request.text("repo"),
        )


class FeatAction(_CreateAction):
    words = ("feat", "fix", "aiops", "devops")
    help = "make a worktree for a feature (or a fix, aiops, devops), or go to it"
    arguments = (_NAME, _REPO)


class AddAction(_CreateAction):
    words = ("add",)
    help = "make a worktree of any type, or go to it"
    key = "n"
    key_bar = 75
    arguments = (Argument("type", "feat, fix, … (`imi types list`)"), _NAME, _REPO)


def wait_for_others(context: Context, wanted: CreationRequest, give_up: float) -> None:
    """Let another process that is at work on this very worktree come to its end, or end what a dead one began."""
    patience = min(give_up, time.monotonic() + _SETTLE_SECONDS)
    while (other := creation_request.at_work(context, wanted)) is not None:
        if other.abandoned:
            _settle(context, other, patience)
        elif other.kind != worktree_creation.CREATE or other.abandoned is None or time.monotonic() > give_up:
            raise creation_request.busy(wanted, other)
        else:
            context.progress(f"waiting for process {other.pid}, which is making {safe(wanted.name)}")
        if context.cancelled():
            raise Refused(f"waiting for {safe(wanted.name)} was cancelled", code="cancelled")
        time.sleep(_LOOK_SECONDS)


def _settle(context: Context, other: Operation, patience: float) -> None:
    """End what a dead process began; its git may need a moment to come to its own end."""
    from imi_monitor.actions import recovery

    lines = recovery.recover(context)
    for line in lines:
        context.progress(line)
    if time.monotonic() > patience:
        why = (
            lines[-1] if lines else f"the interrupted {safe(other.kind)} of {safe(other.worktree_name)} is not settled"
        )
        raise Refused(why, code="busy")


def is_overtaken(context: Context, wanted: CreationRequest, code: str) -> bool:
    """Whether it was refused only because another process is making, or has just made, the same worktree."""
    if code == "busy":
        return True
    return (
        code in _OVERTAKEN
        and (creation_request.at_work(context, wanted) or creation_request.find_existing(context, wanted)) is not None
    )


def _make(context: Context, wanted: CreationRequest, agent: str) -> Outcome:
    git = context.git(wanted.repository)
    start = start_point.find_start(context, git, wanted)
    plan = CreationPlan(
        wanted.repository,
        kind=wanted.kind,
        name=wanted.name,
        path=wanted.path,
        branch=wanted.branch,
        sha=start.sha,
        new_branch=start.new_branch,
        agent=agent,
        shown=start.shown,
        base=start.base,
        took_over=start.took_over,
        upstream=start.upstream,
    )
    context.progress(f"making {safe(wanted.name)}")
    warnings = start.warnings + worktree_creation.create_worktree(context, git, plan)
    status, more = repository_commands.run_post_create(context, wanted.repository, plan.path, plan.name)
    line = _summary(plan)
    return Outcome(
        [line],
        creation_request.result_data(context, wanted, branch=plan.branch, path=plan.path, message=line, plan=plan),
        path=plan.path,
        warnings=warnings + more,
        exit_status=status,
    )


def _summary(plan: CreationPlan) -> str:
    name, branch = safe(plan.name), safe(plan.branch)
    at = f" ({plan.sha[:10]})"
    if plan.took_over == "local":
        return f"made {name} on the existing branch {branch}{at}, taken over as it is"
    if plan.took_over == "remote":
        return f"made {name} on {branch}, taken over from {safe(plan.shown or '')}{at}"
    return f"made {name} on the new branch {branch}, from {safe(plan.shown or '')}{at}"


def preview(context: Context, wanted: CreationRequest) -> list[str]:
    """The directory, the branch and where that starts; raises what is in the way already now."""
    found = creation_request.find_existing(context, wanted)
    if found is not None:
        branch = f"on {safe(found.branch)}" if found.branch else "on no branch"
        return [f"{safe(found.name)} exists already, {branch}: goes there", f"folder  {safe(found.path)}"]
    if os.path.lexists(wanted.path):
        raise Refused(f"there is something at {safe(wanted.path)} already: choose another name", code="path-exists")
    return [
        f"makes   {safe(wanted.name)}",
        f"branch  {safe(wanted.branch)}, {_start_preview(context, wanted)}",
        f"folder  {safe(wanted.path)}",
    ]


def _start_preview(context: Context, wanted: CreationRequest) -> str:
    git = context.git(wanted.repository)
    remote = start_point.remote_name(context)
    known = heads.read_heads(git, remote)
    start_point.refuse_known_conflicts(git, wanted, known, remote)
    if wanted.source is not None:
        return f"new, from {safe(wanted.source)}"
    if wanted.branch in known.local:
        return "which exists and is taken over as it is"
    if wanted.branch in known.remote:
        return f"taken over from {safe(remote)}"
    trunk = start_point.trunk_branch(context, wanted, known)
    if trunk is None:
        return "new; it is not clear where it starts, as no trunk is known"
    shown = f"{safe(remote)}/{safe(trunk)}, which is fetched first" if trunk in known.remote else safe(trunk)
    return f"new, from {shown}"


ACTIONS = (FeatAction(), AddAction())
