"""`imi feat|fix|aiops|devops NAME` and `imi add TYPE NAME`: create a worktree with its own branch, or go to it."""

from __future__ import annotations

import os
import time

from imi_monitor.actions import repository_commands
from imi_monitor.actions.action import Action, Argument, Option, Outcome, WritingAids
from imi_monitor.actions.creation import creation_request, start_point, worktree_creation
from imi_monitor.actions.creation.worktree_creation import CreationPlan
from imi_monitor.git import heads
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.run_modes import EDITS, PLAN
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.creation_request import CreationRequest
    from imi_monitor.store.operations import Operation


_NAME = Argument("name", "name of the work, such as user-auth")
_REPO = Argument("repo", "the repository: a path, or a name from the registry", optional=True)
_OPTIONS = (
    Option("from", "start point instead of the trunk: a branch, tag, commit or HEAD", value="REF", label="Start from"),
    Option("branch", "name of the branch (default: from the folder's name)", value="BRANCH"),
    Option("agent", "your name, for the log", value="ID", aliases=("agent-id", "yi-id")),
    Option(
        "start",
        "start this agent in it, or several with one prompt, each in a worktree of its own: claude,codex",
        value="PROGRAM",
        label="Agent",
        listed=True,
    ),
    Option("prompt", "what the agent is to do", value="TEXT", goes_with=("start",), needed=True, multiline=True),
    Option(EDITS, "it edits files without asking", label="It edits files without asking", goes_with=("start",)),
    Option(PLAN, "let the agent only read and plan", label="It only reads and plans", goes_with=("start",)),
    Option(
        "sandbox",
        "a wall around it: write, strict or off, as `imi start --sandbox`",
        value="LEVEL",
        label="Behind a wall: it changes its worktree and nothing else",
        goes_with=("start",),
        ticked="write",
    ),
)
_MORE = """If the worktree exists, imi goes to it. An existing branch of that name, here or on the remote, is used as it is.
Else the branch starts at the trunk, which is fetched first; without a network, at the local trunk.
With --start the worktree is claimed for an agent, which starts with the prompt, as `imi start --new` does it.
The last line of the output is the path; the shell function of `imi shell-init` changes to it."""
_WAIT_SECONDS = 600.0
_RECOVERY_SECONDS = 30.0
_POLL_SECONDS = 0.05
_OVERTAKEN = ("checked-out", "path-exists", "branch-exists", "half-made")


class _CreateAction(Action):
    group = "Worktrees"
    label = "New worktree"
    more = _MORE
    options = _OPTIONS
    dialog_options = ("start", "prompt", EDITS, PLAN, "sandbox", "from", "branch")
    makes_new = True
    returns_path = True
    opens_worktree = True

    def refuse(self, context: Context, request: Request) -> None:
        self.wanted(context, request)
        start = _start_request(request)
        if start is not None:
            _start_action().refuse(context, start)

    def consequences(self, context: Context, request: Request) -> list[str]:
        wanted, start = self.wanted(context, request), _start_request(request)
        if start is None:
            return _preview(context, wanted)
        lines = [] if "," in str(start.text("program")) else _preview(context, wanted)[:2]
        return [*lines, *_start_action().consequences(context, start)]

    def writing_aids(self, context: Context, request: Request) -> WritingAids:
        from imi_monitor.actions.runs import prompt_aids

        return prompt_aids.of_repository(context)

    def choices(self, context: Context, name: str) -> list[str]:
        from imi_monitor.store import worktree_types

        if name == "start":
            return _start_action().choices(context, "program")
        if name != "type":
            return []
        return [kind.name for kind in worktree_types.list_types(context.connection) if kind.name != "review"]

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        wanted, start = self.wanted(context, request), _start_request(request)
        if start is not None:
            return _start_action().run(context, start)
        agent = context.agent(request)
        give_up = time.monotonic() + _WAIT_SECONDS
        while True:
            wait_for_others(context, wanted, give_up)
            try:
                found = creation_request.find_existing(context, wanted)
                if found is not None:
                    return creation_request.open_existing(context, wanted, found, agent)
                return _create(context, wanted, agent)
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


def _start_request(request: Request) -> Request | None:
    """The request of `imi start`; None without --start."""
    from imi_monitor.actions.action import Request as ActionRequest

    given = [name for name in ("prompt", EDITS, PLAN, "sandbox") if name in request.values]
    if request.text("start") is None:
        if given:
            raise UsageError(f"--{given[0]} needs --start PROGRAM", code="bad-option")
        return None
    passed = {name: request.values[name] for name in (*given, "from", "branch", "repo") if name in request.values}
    new = f"{request.text('type') or request.verb}/{request.text('name') or ''}"
    return ActionRequest("start", {**passed, "program": request.text("start"), "new": new})


def _start_action() -> Action:
    from imi_monitor.actions import find

    found = find("start")
    assert found is not None
    return found


class FeatAction(_CreateAction):
    words = ("feat", "fix", "aiops", "devops")
    examples = (
        ("imi feat user-auth", "make feat-user-auth on the branch feat/user-auth"),
        ("imi feat user-auth --from v1.2", "start from the tag v1.2"),
    )
    help = "make a worktree for a feature (or a fix, aiops, devops), or go to it"
    arguments = (_NAME, _REPO)


class AddAction(_CreateAction):
    words = ("add",)
    help = "make a worktree of any type, or go to it"
    key = "n"
    key_bar = 75
    arguments = (Argument("type", "feat, fix, … (`imi types list`)"), _NAME, _REPO)


def wait_for_others(context: Context, wanted: CreationRequest, give_up: float) -> None:
    """Wait for another process that works on this worktree, and recover the operation of a dead one."""
    patience = min(give_up, time.monotonic() + _RECOVERY_SECONDS)
    while (other := creation_request.running_operation(context, wanted)) is not None:
        if other.abandoned:
            _recover(context, other, patience)
        elif other.kind != worktree_creation.CREATE or other.abandoned is None or time.monotonic() > give_up:
            raise creation_request.busy_refusal(wanted, other)
        else:
            context.progress(f"waiting for process {other.pid}, which is creating {safe(wanted.name)}")
        if context.cancelled():
            raise Refused(f"waiting for {safe(wanted.name)} was cancelled", code="cancelled")
        time.sleep(_POLL_SECONDS)


def _recover(context: Context, other: Operation, patience: float) -> None:
    """Recover the operation of a dead process; its git may need a moment to end."""
    from imi_monitor.actions import recovery

    lines = recovery.recover(context)
    for line in lines:
        context.progress(line)
    if time.monotonic() > patience:
        why = (
            lines[-1]
            if lines
            else f"the interrupted {safe(other.kind)} of {safe(other.worktree_name)} is not recovered"
        )
        raise Refused(why, code="busy")


def is_overtaken(context: Context, wanted: CreationRequest, code: str) -> bool:
    """True if the refusal has one reason: another process is creating, or has just created, the same worktree."""
    if code == "busy":
        return True
    return (
        code in _OVERTAKEN
        and (creation_request.running_operation(context, wanted) or creation_request.find_existing(context, wanted))
        is not None
    )


def _create(context: Context, wanted: CreationRequest, agent: str) -> Outcome:
    git = context.git(wanted.repository)
    start = start_point.find_start(context, git, wanted)
    plan = CreationPlan(
        repository=wanted.repository,
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
    context.progress(f"creating {safe(wanted.name)}")
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
        return f"made {name} on the existing branch {branch}{at}, unchanged"
    if plan.took_over == "remote":
        return f"made {name} on {branch}, taken over from {safe(plan.shown or '')}{at}"
    return f"made {name} on the new branch {branch}, from {safe(plan.shown or '')}{at}"


def _preview(context: Context, wanted: CreationRequest) -> list[str]:
    """Directory, branch and start point, without using the network; raises the conflicts that are known already."""
    found = creation_request.find_existing(context, wanted)
    if found is not None:
        branch = f"on {safe(found.branch)}" if found.branch else "on no branch"
        return [f"{safe(found.name)} already exists, {branch}: you are taken to it", f"folder  {safe(found.path)}"]
    if os.path.lexists(wanted.path):
        raise Refused(f"{safe(wanted.path)} exists: choose another name", code="path-exists")
    return [
        f"creates {safe(wanted.name)}",
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
        return "which exists and stays unchanged"
    if wanted.branch in known.remote:
        return f"taken over from {safe(remote)}"
    trunk = start_point.trunk_branch(context, wanted, known)
    start_point.refuse_without_commit(wanted, known, remote, trunk)
    if trunk is None:
        return "new; its start point is unknown, because no trunk was found"
    shown = f"{safe(remote)}/{safe(trunk)}, which is fetched first" if trunk in known.remote else safe(trunk)
    return f"new, from {shown}"


ACTIONS = (FeatAction(), AddAction())
