"""`imi start`: start an agent with a prompt, in a worktree or in a run folder alone; `--continue` takes a session up again."""

from __future__ import annotations

import os
import sys

from imi_monitor import host
from imi_monitor.actions.action import Action, Argument, KeyChoice, Option, Outcome, Preview, Request, WritingAids
from imi_monitor.actions.claims import claim_action, claim_options, ownership
from imi_monitor.actions.contained import contained_option
from imi_monitor.actions.mcp import agent_servers
from imi_monitor.actions.runs import fresh_session, prompt_aids, run_lookup, run_worktree, sandbox_option, several_start
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.git import layout
from imi_monitor.model import names, price
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.run import MOST_PROMPT, QUEUED
from imi_monitor.model.run_modes import ASK, EDITS, PLAN
from imi_monitor.model.text import count, safe
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
    run_stop,
    walls,
    ways,
)
from imi_monitor.runs.agent_variables import RUN_VARIABLE
from imi_monitor.runs.provider import TASK, WINDOW, Spec
from imi_monitor.store import checkpoints, db, runs, sessions
from imi_monitor.store.run_usage import MINUTES, USD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.runs.provider import Provider
    from imi_monitor.runs.run_plan import ContainedWork, RunPlan
    from imi_monitor.store.claim_requests import ClaimAnswer
    from imi_monitor.store.runs import RunRow

_BY_MEMORY = ", or memory is free (set runs.at_once to decide it yourself)"
_GO_ON = "Your last turn was interrupted. Look at what is done, then go on."
_MODES = (
    Option(ASK, "ask for what the program asks for (default)", label="Ask first"),
    Option(EDITS, "edit files without asking", label="Edit files without asking"),
    Option(PLAN, "only read and plan", label="Only read and plan"),
)
_PROMPT_FILE = Option("prompt-file", "read the prompt from a file; - for the standard input", value="FILE")
_WAY = Option(
    "way",
    "window (its own screen in a tmux window, a Zellij tab or dtach) or task (no terminal); default: a window inside of tmux"
    " or Zellij",
    value="WAY",
    choices=provider.WAYS,
)
_WINDOWS = {"tmux": "window of tmux", "zellij": "tab of Zellij", "dtach": "terminal of dtach"}
_OVER_BUDGET = Option(
    "over-budget", "start it although the budget of the day is used up, and allow the same amount again"
)
_FRESH = Option("fresh", "with a new session that begins with what the last checkpoint says, not with the old session")
_OPTIONS = (
    Option("prompt", "what the agent is to do", value="TEXT", needed=True, multiline=True),
    _PROMPT_FILE,
    Option("in", "the worktree to work in; default: the one around you", value="NAME", label="Worktree"),
    Option("new", "make a worktree for it first: feat/NAME, fix/NAME", value="TYPE/NAME", label="New worktree"),
    Option("from", "start point of --new instead of the trunk", value="REF", label="Start from"),
    _WAY,
    sandbox_option.SANDBOX,
    *contained_option.OPTIONS,
    Option("as", "the name of the agent; default: the program and the run's id", value="NAME", label="Agent"),
    Option("task", "the task of its claim", value="TASK"),
    Option("attempt-limit", "refuse it when its task was started so often before", value="N", number=True),
    Option("model", "the model, as the program names it", value="MODEL"),
    *_MODES,
    Option("budget", "interrupt it when it has cost so much, where its program reports money", value="USD"),
    Option("minutes", "interrupt it when it has worked for so long", value="N", number=True),
    _OVER_BUDGET,
    Option("label", "labels of the run: area=docs,team=core", value="K=V"),
    Option("continue", "resume the session of this run, or of the newest", value="RUN", optional_value=True),
    _FRESH,
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
    dialog_options = ("program", "prompt", "model", EDITS, PLAN)
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
        holder = _holder(request, providers.by_name(str(request.text("program"))))
        how = "without a terminal" if holder is None else f"in a new {_WINDOWS[holder['way']]}"
        level = sandbox_option.level(context, request)
        advice = sandbox_option.advice(request, found, level)
        lines = [f"starts {request.text('program')} {where}, {how}", *held, f"it {mode[_mode(request)]}"]
        return [*lines, *(["behind a wall: " + level] if level != walls.OFF else []), *([advice] if advice else [])]

    def run(self, context: Context, request: Request) -> Outcome:
        if "continue" in request.values:
            return resume(context, request, request.text("continue"))
        self.refuse(context, request)
        prompt = _prompt(request)
        assert prompt is not None
        requests = several_start.requests_of(request)
        if len(requests) > 1:
            return several_start.run_all(requests, lambda one: _start(context, one, str(one.text("program")), prompt))
        return _start(context, request, str(requests[0].text("program")), prompt)


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
        " program has lost the session, or with --fresh, a new session begins with the task, the plan, the last message, the"
        " files and the open tool calls of the last checkpoint."
    )
    key = "less_than_sign"
    requires = ("folder",)
    chosen_by_key = "fresh"
    arguments = (run_lookup.MAYBE_RUN,)
    options = (
        Option("prompt", "what to do next", value="TEXT", multiline=True),
        _PROMPT_FILE,
        _WAY,
        sandbox_option.SANDBOX,
        _FRESH,
        _OVER_BUDGET,
    )
    dialog_options = ("prompt",)

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
        what = "begins a new session for" if fresh else "resumes the session of"
        found = run_worktree.find_existing(context, row.worktree_name, row.repo_name) if row.worktree_name else None
        files = fresh_session.uncommitted(context, found)
        lines = [f"{what} {row.short} ({safe(row.agent_id)}), which is {row.shown_state}"]
        return [*lines, f"{count(len(files), 'uncommitted file')}: {safe(', '.join(files[:3]))}"] if files else lines

    def run(self, context: Context, request: Request) -> Outcome:
        return resume(context, request, request.text("name"))


def _prompt(request: Request) -> str | None:
    """The prompt of the command line, a file or the standard input."""
    given, file = request.text("prompt"), request.text("prompt-file")
    if given is not None and file is not None:
        raise UsageError("give --prompt or --prompt-file, not both", code="bad-option")
    if request.rest("flags")[:1] == ["-"]:
        raise UsageError("use `--prompt-file -` to read the prompt from the standard input", code="bad-option")
    text = given if file is None else _read_prompt(file)
    if text is None:
        return None
    if not text.strip():
        raise UsageError("the prompt is empty", code="no-prompt")
    if "\0" in text:
        raise UsageError("the prompt contains a NUL character, which no program takes", code="bad-prompt")
    size = len(text.encode("utf-8", "surrogateescape"))
    if size > MOST_PROMPT:
        raise UsageError(
            f"the prompt has {size >> 10} KB, at most {MOST_PROMPT >> 10} are possible: write it to a file in the worktree"
            " and let the prompt name the file",
            code="long-prompt",
        )
    return text


def _read_prompt(file: str) -> str:
    try:
        if file == "-":
            return sys.stdin.read(MOST_PROMPT + 1)
        with open(file, encoding="utf-8") as opened:
            return opened.read(MOST_PROMPT + 1)
    except UnicodeDecodeError as error:
        raise UsageError(f"the prompt file {safe(file)} is not UTF-8 text", code="bad-prompt") from error
    except OSError as error:
        raise UsageError(f"the prompt file {safe(file)} cannot be read: {error.strerror}", code="bad-prompt") from error


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
            mode=_mode(request),
            model=request.text("model"),
            flags=tuple(_flags(request)),
            walled=sandbox_option.level(context, request) != walls.OFF,
            tools=_tools(context, run_id),
        )
        operation = made.operation if made is not None else None
        return _begin(context, request, name, spec, found, operation=operation, work=work)
    except ImiError as error:
        if made is not None:
            error.details = (*error.details, *run_worktree.remove_unused(context, made))
        raise


def _look(context: Context, request: Request, name: str) -> None:
    """Refuse everything that can be refused before anything is made."""
    context.open_known_repositories()  # programs inside their worktrees are not run
    wanted = providers.by_name(name)
    found = provider.find_program(wanted)
    flags = tuple(_flags(request))
    _refuse_unknown_way(request)
    contained_option.refuse(request)
    sandbox_option.refuse(context, request)
    spec = Spec(found, "", "", "", _mode(request), request.text("model"), flags)
    way = TASK if _holder(request, wanted) is None else WINDOW
    provider.launch_of(wanted, spec, way, "")  # refuses what it cannot do
    _labels(request)
    if _budget(context, request, name) and way == WINDOW:
        raise UsageError("--budget and --minutes need --way task: in a window you see what it does", code="bad-option")
    _refuse_used_up(context, request)
    _refuse_attempt(context, request)
    agent = request.text("as")
    problem = names.agent_problem(agent) if agent is not None else None
    if problem:
        raise UsageError(f"agent {safe(agent or '')!r} {problem}", code="bad-agent")
    if request.text("in") is not None and request.text("new") is not None:
        raise UsageError("give --in or --new, not both", code="bad-option")


def _refuse_unknown_way(request: Request) -> None:
    way = request.text("way")
    if way is not None and way not in provider.WAYS:
        raise UsageError(f"--way {safe(way)!r} is unknown: use one of {', '.join(provider.WAYS)}", code="bad-option")


def _holder(request: Request, wanted: Provider) -> dict[str, str] | None:
    """What will hold the agent's window; None: it runs without a terminal."""
    way = request.text("way")
    if way == WINDOW:
        return ways.needed_holder()
    # an agent that starts another one is no person who would look at a window
    return None if way == TASK or RUN_VARIABLE in os.environ or not wanted.has_window else ways.find_holder()


def _mode(request: Request) -> str:
    given = [one.name for one in _MODES if request.flag(one.name)]
    if len(given) > 1:
        raise UsageError(f"give one of --{', --'.join(given)}", code="bad-option")
    return given[0] if given else ASK


def _flags(request: Request) -> list[str]:
    flags = request.rest("flags")
    if flags and not flags[0].startswith("-"):
        raise UsageError(
            f"imi start takes no argument {safe(flags[0])!r}: quote the prompt, as --prompt TEXT", code="extra"
        )
    return flags


def _tools(context: Context, run_id: str) -> tuple[str, ...]:
    """The command line of imi's tools for this run."""
    if not context.settings.flag("runs.tools"):
        return ()
    return (*agent_servers.server_command(), "--run", run_id, "--db", context.database)


def _labels(request: Request) -> dict[str, str]:
    text = request.text("label")
    pairs = [part.partition("=") for part in text.split(",")] if text else []
    if any(not key.strip() or not separator for key, separator, _ in pairs):
        raise UsageError("--label takes KEY=VALUE, several separated by commas", code="bad-option")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _begin(
    context: Context,
    request: Request,
    name: str,
    spec: Spec,
    found: Target | None,
    before: RunRow | None = None,
    operation: str | None = None,
    work: ContainedWork | None = None,
) -> Outcome:
    from imi_monitor.runs.agent_variables import RUN_VARIABLE
    from imi_monitor.runs.run_plan import RunPlan

    wanted, folder = providers.by_name(name), launch_folder.folder_of(spec.session)
    walled = sandbox_option.level(context, request, before) != walls.OFF
    holder = None if walled else _holder(request, wanted)
    agent = request.text("as") or (before.agent_id if before else f"{name}-{spec.session[:8]}")
    claimed = _claimed(context, request, found, agent, spec)
    repository = found.repository if found else None
    plan = RunPlan(
        id=spec.session,
        program=name,
        way=TASK if holder is None else WINDOW,
        agent=agent,
        user=context.agent(request),
        spec=spec,
        launch=provider.launch_of(wanted, spec, TASK if holder is None else WINDOW, folder.path),
        holder=holder,
        home=run_folder.home_of(repository, context.settings.text("runs.home")),
        refuse_claim=lambda answer: _refuse_claim(found, answer, agent, spec),
        target=ownership.claim_target(context, found) if found and claimed else None,
        repo_name=found.repo_name if found else None,
        worktree_name=found.name if found else None,
        base=_head(found),
        task=request.text("task"),
        labels=_labels(request),
        wall=sandbox_option.wall_of(context, request, name, spec, found, before, work is not None),
        contained=work,
        budget=_budget(context, request, name)
        or (run_budget.limits_of(before) if before else _usual_budget(context, name, holder)),
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
    outcome = _outcome(context, row.id, plan)
    outcome.warnings += [advice] if advice else []
    return outcome


def _budget(context: Context, request: Request, program: str) -> dict[str, float]:
    """What --budget and --minutes give."""
    text, minutes = request.text("budget"), request.number("minutes")
    found = {} if not minutes else {MINUTES: float(minutes)}
    if text is None:
        return found
    usd = price.amount(text)
    if usd is None:
        raise UsageError(f"--budget {safe(text, 40)!r} is no amount of money: give it as 5.00", code="bad-option")
    if not _knows_cost(context, program, request.text("model")):
        raise UsageError(
            f"{program} does not report what it costs: use --minutes, or set the price of its model in [runs.prices]",
            code="bad-option",
        )
    return {**found, USD: usd}


def _usual_budget(context: Context, program: str, holder: dict[str, str] | None) -> dict[str, float]:
    """What the settings give to a run without a budget of its own."""
    if holder is not None:
        return {}
    minutes, usd = context.settings.number("runs.minutes"), price.amount(context.settings.text("runs.budget"))
    found = {MINUTES: float(minutes)} if minutes else {}
    return {**found, USD: usd} if usd is not None and _knows_cost(context, program, None) else found


def _knows_cost(context: Context, program: str, model: str | None) -> bool:
    """Whether its program reports money, or there is a price; a model that is not named here may turn out to have none."""
    prices = context.settings.table("runs.prices")
    priced = bool(prices) and (model is None or price.of_model(prices, model) is not None)
    return priced or providers.by_name(program).reports_cost


def _refuse_used_up(context: Context, request: Request) -> None:
    """Refuse a start while the budget of the day is used up; with --over-budget the same amount is allowed again."""
    used_up = day_budget.list_used_up(context.connection, context.settings)
    if used_up and not request.flag("over-budget"):
        raise Refused(
            f"{day_budget.sentence(used_up)}: --over-budget starts it all the same and allows that amount again",
            code="over-budget",
        )


def _refuse_attempt(context: Context, request: Request) -> None:
    """Refuse one more start of a task that was started as often as its user allows."""
    task, most = claim_options.short_text(request, "task"), request.whole("attempt-limit")
    if most is None:
        return
    if task is None:
        raise UsageError("--attempt-limit needs --task, whose starts it counts", code="bad-option")
    before = db.read(context.connection, runs.count_of_task, task)
    if before >= most:
        raise Refused(
            f"{safe(task)} was started {count(before, 'time')} before, and --attempt-limit is {most}",
            code="attempt-limit",
        )


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


def resume(context: Context, request: Request, name: str | None, default: str = _GO_ON) -> Outcome:
    """Take up the session of an ended run; `default`: the prompt if none is given, which may be empty in a window."""
    before = _ended(context, name, fresh=request.flag("fresh"))
    _refuse_unknown_way(request)
    left = run_stop.list_left_behind([before]).get(before.id)
    if left:  # one of them may still write the session
        shown = ", ".join(f"{safe(name)} ({pid})" for pid, name in left[:5])
        raise Refused(
            f"{before.short} left {shown} behind: end them with `imi stop {before.short}`", code="left-behind"
        )
    _refuse_used_up(context, request)
    words = _prompt(request)
    spec = launcher.spec_of(before, "")
    found = None
    if before.worktree_name is not None:
        found = run_worktree.find_existing(context, before.worktree_name, before.repo_name)
    elif not os.path.isdir(before.cwd):
        raise Refused(f"its folder {safe(before.cwd)} is gone: start it anew", code="missing")
    fresh = request.flag("fresh") or _has_lost_session(context, before)
    if not fresh:
        _refuse_two_writers(context, before)
    program = provider.find_program(providers.by_name(before.program))
    again = Spec(
        program=program,
        prompt=fresh_session.first_prompt(context, before, found, words) if fresh else words or default,
        cwd=found.path if found else before.cwd,
        session=(run_id := new_id()),
        mode=spec.mode,
        model=spec.model,
        flags=spec.flags,
        resumes=None if fresh else before.session,
        walled=sandbox_option.level(context, request, before) != walls.OFF,
        tools=_tools(context, run_id),
    )
    return _begin(context, request, before.program, again, found, before, work=contained_option.work_of(before))


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


def _has_lost_session(context: Context, before: RunRow) -> bool:
    """Whether the program has no record of a session that had begun: a resume would go on with nothing, in silence."""
    known = providers.by_name(before.program).has_session(before.session or "")
    return not known and db.read(context.connection, checkpoints.last_number, before.seq) > 0


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


ACTIONS = (StartAction(), ResumeAction())
