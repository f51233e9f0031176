"""`imi doctor`: checks everything that imi depends on. It also works with a broken registry or configuration."""

from __future__ import annotations

import os

from imi_monitor import paths, programs, sinks
from imi_monitor.actions.action import Action, Option, Outcome
from imi_monitor.actions.removal import unlisted_entries
from imi_monitor.actions.setup import new_registry, scratch_worktree
from imi_monitor.git.environment import git_environment, git_path
from imi_monitor.git.runner import git_version
from imi_monitor.git.spawn import spawn
from imi_monitor.links import redis_url, server_check, server_url
from imi_monitor.model import sink_words, times
from imi_monitor.model.checkup import CheckResult, fail, ok, warn
from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.model.text import count, safe
from imi_monitor.mux import zellij
from imi_monitor.mux.pane import run_multiplexer
from imi_monitor.store import registry_access, registry_health, sink_cursors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.config import Settings
    from imi_monitor.model.snapshot import SinkState

_GOOD_GIT = (2, 38, 0)
_MOST_NAMES = 5
_SERVERS = {"amqp": server_url.parse_amqp, "postgres": server_url.parse_postgres}
_SHELLS = {
    "zsh": 'add `eval "$(imi shell-init zsh)"` to ~/.zshrc',
    "bash": 'add `eval "$(imi shell-init bash)"` to ~/.bashrc',
    "fish": "add `imi shell-init fish | source` to ~/.config/fish/config.fish",
}


class DoctorAction(Action):
    words = ("doctor",)
    group = "Setup"
    label = "Doctor"
    help = "check git, the registry, the shell and optional servers"
    more = "Each problem comes with its remedy. The exit status is 1 when something fails that imi needs."
    options = (Option("new-registry", "start a new registry in place of one that is gone; nothing is claimed in it"),)
    changes = False
    recovers = False  # it must work with a broken registry, and report unfinished operations

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        if request.flag("new-registry"):
            return new_registry.begin(context)
        context.open_known_repositories()
        checks: list[CheckResult] = []
        for step in (_git, _registry, _trash, _folders, _shell, _gh, _zellij, _settings, _sinks, _tasks):
            context.progress(f"checking {step.__name__.strip('_')}")
            checks.extend(step(context))
        failed = sum(check.state == "fail" for check in checks)
        warned = sum(check.state == "warn" for check in checks)
        summary = f"{count(failed, 'failure')}, {count(warned, 'warning')}" if failed or warned else "no problems found"
        data: dict[str, object] = {
            "checks": [check.data() for check in checks],
            "failures": failed,
            "warnings_count": warned,
        }
        return Outcome([*(check.line() for check in checks), summary], data, exit_status=1 if failed else 0)


ACTIONS = (DoctorAction(),)


def _git(_: Context) -> list[CheckResult]:
    try:
        found, program = git_version(), git_path()
    except ImiError as error:
        advice = "install git 2.38 or newer"
        return [fail("git", error.sentence.removesuffix(f": {advice}"), advice)]
    version = ".".join(map(str, found))
    if found < _GOOD_GIT:
        return [
            warn("git", f"{version} at {safe(program)}", "with git 2.38 or newer `imi merge` shows conflicts first")
        ]
    problem = scratch_worktree.find_problem()
    if problem is not None:
        return [fail("git", f"{version} cannot make a worktree in a scratch repository: {problem}", "repair git first")]
    return [ok("git", f"{version} at {safe(program)}, makes worktrees")]


def _registry(context: Context) -> list[CheckResult]:
    changes = tuple(context.notes)
    context.notes.clear()  # named among the checks
    return registry_health.check_registry(context.database, changes, context.find_traces)


def _trash(context: Context) -> list[CheckResult]:
    """Entries that the registry does not list; a registry that is missing or unusable lists none."""
    context.needs_registry = False
    if not os.path.lexists(context.database):
        context.do_without_registry(RegistryError("there is no registry yet", code="registry-missing"))
    found = unlisted_entries.find_unlisted(context)
    if not found:
        return [ok("trash", "the registry lists every entry")]
    names = ", ".join(safe(entry.name, 60) for entry in found[:_MOST_NAMES])
    more = ", …" if len(found) > _MOST_NAMES else ""
    listed = f"{count(len(found), 'entry', 'entries')} that the registry does not list: {names}{more}"
    return [warn("trash", listed, "`imi repair` lists them again, `imi trash list` says more")]


def _folders(_: Context) -> list[CheckResult]:
    """imi's other files, by which another user could run programs as this one: settings name commands, agents call the hook."""
    places = (paths.config_dir(), paths.config_file(), paths.state_dir(), paths.hooks_dir())
    found = [
        warn("folders", problem, f"`chmod go-w {safe(place)}`, or make it yours with `chown`")
        for place in dict.fromkeys(places)
        if (problem := registry_access.describe_open_place(place)) is not None
    ]
    return found or [ok("folders", "only you can write configuration, state and hooks")]


def _shell(_: Context) -> list[CheckResult]:
    around = os.environ.get("IMI_SHELL")  # set by the shell function for this one call
    if around:
        return [ok("shell", f"the function for {safe(around, 20)} is active: `imi go` changes directory")]
    advice = _SHELLS.get(os.path.basename(os.environ.get("SHELL", "")), "see `imi help shell-init`")
    return [
        warn(
            "shell",
            "the shell function of imi is not active: `imi go` prints a path but cannot change directory",
            advice,
        )
    ]


def _gh(_: Context) -> list[CheckResult]:
    program = programs.find("gh")
    if program is None:
        return [ok("gh", "not installed; reviews use plain git", "install it for titles, authors and forks")]
    try:
        # `gh auth token` uses no network; its output is discarded
        done = spawn([program, "auth", "token"], env=git_environment([]), cwd="/", timeout=5.0, cap=4096)
    except OSError as error:
        return [warn("gh", f"cannot be started ({error.strerror})", "reinstall it; reviews use plain git meanwhile")]
    if done.returncode == 0:
        return [ok("gh", f"{safe(program)}, logged in")]
    return [warn("gh", "not logged in; reviews use plain git", "run `gh auth login`")]


def _zellij(_: Context) -> list[CheckResult]:
    """Report what this version of Zellij cannot do; imi does that in another way or leaves it out."""
    if programs.find("zellij") is None:
        return []
    try:
        version = zellij.parse_version(run_multiplexer("zellij", "--version"))
    except ImiError as error:
        return [warn("zellij", error.sentence, "reinstall it")]
    shown = ".".join(map(str, version))
    lacks = zellij.lacking(version)
    if lacks:
        return [warn("zellij", f"{shown}: {', '.join(lacks)}", "0.45 or newer does all of it")]
    return [ok("zellij", shown)]


def _settings(context: Context) -> list[CheckResult]:
    try:
        settings = context.settings
    except ImiError as error:
        return [fail("config", error.sentence, "`imi help config` lists the settings")]
    found = [_server(settings, name) for name in _SERVERS if settings.text(f"servers.{name}_url")]
    if settings.text("servers.redis_url"):
        found = [*_redis(settings), *found]
    config = ok("config", "no problems")
    if old := [f"{name} {says}" for name, says, _ in settings.old_names if says.startswith("is now ")]:
        config = ok(
            "config", f"older names of settings: {', '.join(old)}", "they keep working; `imi config` lists them"
        )
    return [config, *(found or [ok("servers", "none configured, none needed")])]


def _sinks(context: Context) -> list[CheckResult]:
    """Return how far each receiver of events is."""
    try:
        wanted = sinks.wanted(context.settings)
    except ImiError:
        return []  # the check of the settings reports it
    if context.registry_problem is not None or not wanted:
        return [] if wanted else [ok("events", "nothing is archived: history.enabled is off")]
    known = {one.name: sink_cursors.to_model(one) for one in sink_cursors.list_sinks(context.connection)}
    return [_sink(name, known.get(name)) for name in wanted]


def _tasks(context: Context) -> list[CheckResult]:
    """Whether a task may be given to two homes."""
    try:
        settings = context.settings
    except ImiError:
        return []
    if not (settings.text("servers.amqp_url") and settings.text("tasks.queue")):
        return []
    queue = safe(settings.text("tasks.queue"), 60)
    if settings.text("servers.redis_url") or settings.text("servers.postgres_url"):
        return [ok("tasks", f"come from the queue {queue}, each to one home")]
    return [
        warn(
            "tasks",
            f"come from the queue {queue}; after a crash one may be on the boards of two homes, and says so",
            'set servers.redis_url or servers.postgres_url, in which homes reserve tasks; or tasks.queue = ""',
        )
    ]


def _sink(name: str, one: SinkState | None) -> CheckResult:
    title = f"events to {sink_words.name(name)}"
    if one is None:
        return ok(title, "nothing was delivered yet", "a dashboard, `imi serve` or `imi archive` does it")
    says = sink_words.sentence(one, times.now())
    if sink_words.needs_attention(one, times.now()):
        return warn(title, says, "`imi archive` delivers now, and says what is in the way")
    return ok(title, says)


_SHARED = {
    "counts": "names of repositories, worktrees, branches, owners and agents, states and counts, sums of a day's"
    " work (sessions, time, tokens, money); no file names",
    "names": "also names of changed files, what tools work on, and subjects of commits",
    "titles": "also titles of sessions, and what agents wait for",
    "prompts": "to PostgreSQL also the last prompt and message of each session",
}

_SHARED_OF_TERMINALS = (
    "intents and milestones with their artifacts, the host, names of sessions, tabs, programs and last folders;"
    " no whole paths, no command lines"
)


def _redis(settings: Settings) -> list[CheckResult]:
    try:
        address = redis_url.parse(settings.text("servers.redis_url"), insecure=settings.flag("team.insecure"))
    except ImiError as error:
        return [fail("redis", error.sentence, "see `imi config`")]
    problem = server_check.check_redis(address)
    advice = "imi works without it on this machine; start it, or correct servers.redis_url"
    share = settings.text("team.share")
    levels = list(_SHARED)[: list(_SHARED).index(share) + 1]
    return [
        warn("redis", f"{address.shown} {problem}", advice) if problem else ok("redis", f"{address.shown} answers"),
        ok("team", f"{settings.text('team.name')} gets, redacted: {'; '.join(_SHARED[level] for level in levels)}"),
        ok("terminals", f"the team gets, redacted: {_SHARED_OF_TERMINALS}"),
    ]


def _server(settings: Settings, name: str) -> CheckResult:
    try:
        address = _SERVERS[name](settings.text(f"servers.{name}_url"), insecure=settings.flag("team.insecure"))
    except ImiError as error:
        return fail(name, error.sentence, "see `imi config`")
    host, _, port = address.shown.rpartition(":")
    problem = server_check.check_tcp(host, int(port)) if port.isdecimal() else None
    if problem is None:
        return ok(name, f"{address.shown} answers")
    return warn(
        name, f"{address.shown} {problem}", "imi works without it on this machine; start it, or correct its URL"
    )
