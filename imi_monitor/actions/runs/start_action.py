"""`imi start`: start an agent with a prompt, in a worktree or in a run folder alone; `--continue` takes a session up again."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument, Option, Outcome, Request, WritingAids
from imi_monitor.actions.contained import contained_option
from imi_monitor.actions.runs import (
    budget_options,
    prompt_aids,
    resume_action,
    run_entry,
    run_options,
    run_worktree,
    sandbox_option,
    several_start,
)
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model import names
from imi_monitor.model.errors import ImiError, UsageError
from imi_monitor.model.run_modes import ASK, EDITS, PLAN
from imi_monitor.model.text import safe
from imi_monitor.runs import provider, providers, walls
from imi_monitor.runs.provider import TASK, WINDOW, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.actions.context import Context

_WINDOWS = {"tmux": "window of tmux", "zellij": "tab of Zellij", "dtach": "terminal of dtach"}
_OPTIONS = (
    Option("prompt", "what the agent is to do", value="TEXT", needed=True, multiline=True),
    run_options.PROMPT_FILE,
    Option("in", "the worktree to work in; default: the one around you", value="NAME", label="Worktree"),
    Option("new", "make a worktree for it first: feat/NAME, fix/NAME", value="TYPE/NAME", label="New worktree"),
    Option("from", "start point of --new instead of the trunk", value="REF", label="Start from"),
    run_options.WAY,
    sandbox_option.SANDBOX,
    *contained_option.OPTIONS,
    Option("as", "the name of the agent; default: the program and the run's id", value="NAME", label="Agent"),
    Option("task", "the task of its claim", value="TASK"),
    Option("attempt-limit", "refuse it when its task was started so often before", value="N", number=True),
    Option("model", "the model, as the program names it", value="MODEL"),
    *run_options.MODES,
    Option("budget", "interrupt it when it has cost so much, where its program reports money", value="USD"),
    Option("minutes", "interrupt it when it has worked for so long", value="N", number=True),
    run_options.OVER_BUDGET,
    Option("label", "labels of the run: area=docs,team=core", value="K=V"),
    Option("continue", "resume the session of this run, or of the newest", value="RUN", optional_value=True),
    run_options.FRESH,
)


class StartAction(Action):
    words = ("start",)
    group = "Agents"
    label = "Start"
    examples = (
        ('imi start claude --new feat/login --prompt "write the login page"', "make a worktree and start Claude in it"),
        ("imi start codex --in fix-bug --prompt-file task.md", "start Codex with a prompt from a file"),
        (
            'imi start claude,codex --new feat/login --prompt "write the login page"',
            "start both with one prompt, in feat-login-claude and feat-login-codex",
        ),
        ("imi start --continue 1b2c3d4e", "resume the session of an interrupted run"),
    )
    help = "start an agent with a prompt"
    more = (
        "Without --in and --new the agent works in the worktree around you, else in its run folder alone. The worktree is"
        " claimed for it until it ends. Inside of tmux or Zellij it has its own screen in a new window or tab (`imi attach`"
        " goes there), else it runs without a terminal; it goes on whatever happens to imi. `imi runs` shows what it does,"
        " `imi answer` answers its questions, `imi logs -f` follows it. More than `runs.at_once` agents"
        " wait in the queue. Several programs (claude,codex) with --new work on one prompt, each in a worktree of its own;"
        " `imi compare` shows what they made of it, `imi keep` keeps one."
        " Words behind -- go to the program unchanged; only there it can be allowed everything."
    )
    key = "greater_than_sign"
    worktree_option = "in"
    requires = ("folder",)
    dialog_options = ("program", "prompt", "model", EDITS, PLAN, "sandbox", "contained")
    arguments = (
        Argument(
            "program",
            f"the agent program: {', '.join(providers.NAMES)}; with --new several: claude,codex",
            optional=True,
            choices=providers.NAMES,
        ),
        Argument("flags", "arguments for the program, after --", optional=True, rest=True),
    )
    options = _OPTIONS

    def shared_values(self, worktrees: Sequence[str]) -> dict[str, object]:
        return {"group": several_start.name_group(worktrees)}

    def choices(self, context: Context, name: str) -> list[str]:
        from imi_monitor import programs

        if name != "program":
            return []
        installed = [one for one in providers.NAMES if programs.find(one) is not None]
        return installed or list(providers.NAMES)  # the refusal says how to install the chosen one

    def writing_aids(self, context: Context, request: Request) -> WritingAids:
        return prompt_aids.of_worktree(context, request)

    def refuse(self, context: Context, request: Request) -> None:
        if "continue" in request.values:
            return
        name = request.text("program")
        if name is None:
            raise UsageError(f"imi start needs a program: one of {', '.join(providers.NAMES)}", code="missing")
        for one in several_start.requests_of(request):
            _look(context, one, str(one.text("program")))
        if request.text("prompt") is None and request.text("prompt-file") is None:
            raise UsageError("give the agent something to do: --prompt TEXT or --prompt-file FILE", code="no-prompt")

    def consequences(self, context: Context, request: Request) -> list[str]:
        requests = several_start.requests_of(request)
        if len(requests) > 1:
            return several_start.consequences(requests, lambda one: self.consequences(context, one))
        new = request.text("new")
        found = run_worktree.find(context, request) if new is None else None
        where = (
            f"in the new worktree {safe(new)}" if new else f"in {safe(found.name)}" if found else "in its run folder"
        )
        mode = {ASK: "asks for permissions", EDITS: "edits files without asking", PLAN: "only reads and plans"}
        claimed = new is not None or (found is not None and not found.is_main)
        held = ["claims it until the agent ends"] if claimed else []
        holder = run_options.holder(request, providers.by_name(str(request.text("program"))))
        how = "without a terminal" if holder is None else f"in a new {_WINDOWS[holder['way']]}"
        level = sandbox_option.level(context, request)
        advice = sandbox_option.advice(request, found, level)
        lines = [f"starts {request.text('program')} {where}, {how}", *held, f"it {mode[run_options.mode(request)]}"]
        return [*lines, *(["behind a wall: " + level] if level != walls.OFF else []), *([advice] if advice else [])]

    def run(self, context: Context, request: Request) -> Outcome:
        if "continue" in request.values:
            return resume_action.resume(context, request, request.text("continue"))
        self.refuse(context, request)
        prompt = run_options.prompt(request)
        assert prompt is not None
        requests = several_start.requests_of(request)
        for one in requests:  # each before anything is made
            wanted = providers.by_name(str(one.text("program")))
            provider.refuse_logged_out(wanted, provider.find_program(wanted))
        if len(requests) > 1:
            return several_start.run_all(requests, lambda one: _start(context, one, str(one.text("program")), prompt))
        return _start(context, request, str(requests[0].text("program")), prompt)


def _start(context: Context, request: Request, name: str, prompt: str) -> Outcome:
    program = provider.find_program(providers.by_name(name))
    made = run_worktree.make(context, request)
    try:
        work = contained_option.prepare(context, request)
        if work is not None:
            found, prompt = None, contained_option.prompt_of(work, prompt)
        else:
            found = run_worktree.find(context, request) if made is None else made.found
        spec = Spec(
            program=program,
            prompt=prompt,
            cwd=work.path if work is not None else found.path if found else "",
            session=(run_id := new_id()),
            mode=run_options.mode(request),
            model=request.text("model"),
            flags=tuple(run_options.flags(request)),
            walled=sandbox_option.level(context, request) != walls.OFF,
            tools=run_options.tools(context, run_id),
        )
        operation = made.operation if made is not None else None
        return run_entry.begin(context, request, name, spec, found, operation=operation, work=work)
    except ImiError as error:
        if made is not None:
            error.details = (*error.details, *run_worktree.remove_unused(context, made))
        raise


def _look(context: Context, request: Request, name: str) -> None:
    """Refuse everything that can be refused before anything is made."""
    context.open_known_repositories()  # programs inside their worktrees are not run
    wanted = providers.by_name(name)
    found = provider.find_program(wanted)
    flags = tuple(run_options.flags(request))
    run_options.refuse_unknown_way(request)
    contained_option.refuse(request)
    sandbox_option.refuse(context, request)
    spec = Spec(found, "", "", "", run_options.mode(request), request.text("model"), flags)
    way = TASK if run_options.holder(request, wanted) is None else WINDOW
    provider.launch_of(wanted, spec, way, "")  # refuses what it cannot do
    run_options.labels(request)
    budget_options.given(context, request, name, way)
    budget_options.refuse_used_up(context, request)
    budget_options.refuse_attempt(context, request)
    agent = request.text("as")
    problem = names.agent_problem(agent) if agent is not None else None
    if problem:
        raise UsageError(f"agent {safe(agent or '')!r} {problem}", code="bad-agent")
    if request.text("in") is not None and request.text("new") is not None:
        raise UsageError("give --in or --new, not both", code="bad-option")


ACTIONS = (StartAction(),)
