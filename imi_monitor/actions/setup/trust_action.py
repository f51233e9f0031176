"""`imi trust`: allows imi to run the programs that a repository configures. Without trust none of them runs.

Trust holds for the programs as they are: their fingerprint is stored, and a change of them ends the trust.
"""

from __future__ import annotations

from imi_monitor.actions import own_commands
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.git import layout
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.redact import redact
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, events, repositories

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.own_commands import CommandsFile
    from imi_monitor.git.layout import Repository

TRUSTED = "trusted"
UNTRUSTED = "untrusted"
LOST = "lost"  # trusted before, but the programs have changed


class TrustAction(Action):
    words = ("trust",)
    group = "Setup"
    label = "Trust"
    help = "allow a repository's programs to run: hooks, filters, post-create commands"
    more = """
    A repository can name programs in its configuration, which agents and pull requests can write. Until the repository
    is trusted, imi runs none of them, nor your commands from [repositories.NAME], nor its own commands (.iMi/commands.toml,
    see `imi command`), which need a person at a terminal. Check with --show first. A change of the programs ends the trust.
    """
    arguments = (Argument("repo", "the repository (default: the one around you)", optional=True),)
    options = (
        Option("show", "show what would be trusted and whether it is, and change nothing"),
        Option("revoke", "end the trust"),
    )

    def consequences(self, context: Context, request: Request) -> list[str]:
        repository = context.repository(request.text("repo"))
        programs = _programs(context, repository)
        return [f"these programs of {safe(repository.home)} may run:", *_listed(programs)]

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        show, revoke = request.flag("show"), request.flag("revoke")
        if show and revoke:
            raise UsageError("--show and --revoke exclude each other: use --show first", code="bad-option")
        repository = context.repository(request.text("repo"))
        if show:
            return _show(context, repository)
        return _revoke(context, repository) if revoke else _trust(context, repository)


def state(context: Context, repository: Repository) -> str:
    """TRUSTED, UNTRUSTED, or LOST."""
    if context.trusted(repository):
        return TRUSTED
    return LOST if repositories.trusted_fingerprint(context.connection, repository.common_dir) else UNTRUSTED


def _trust(context: Context, repository: Repository) -> Outcome:
    from imi_monitor.git import safety

    before = state(context, repository)
    fingerprint = safety.fingerprint(repository.common_dir)
    programs = _programs(context, repository)
    if safety.fingerprint(repository.common_dir) != fingerprint:
        raise Refused(
            f"the programs of {safe(repository.home)} changed while imi read them: find out what writes there, then "
            "try again",
            code="changing",
        )

    file = own_commands.read_file(repository)
    if file is not None and not own_commands.is_trusted(context, file):
        _confirm(context, file)

    def put(connection: sqlite3.Connection) -> str:
        name = context.register(repository, connection)
        repositories.store_trust(connection, repository.common_dir, fingerprint)
        if file is not None:
            repositories.store_trust(connection, file.path, file.fingerprint)
        if before != TRUSTED:
            data: dict[str, object] = {"fingerprint": fingerprint, "programs": len(programs)}
            events.record(connection, "repository.trusted", name, data=data)
        return name

    name = db.transact(context.connection, put)
    said = "is trusted already" if before == TRUSTED else "is trusted now"
    what = f"these {count(len(programs), 'program')} may run" if programs else "it configures no programs"
    sentence = f"{safe(name)} {said}: {what}"
    return Outcome([sentence, *_listed(programs)], _data(repository, name, TRUSTED, programs, sentence))


def _confirm(context: Context, file: CommandsFile) -> None:
    """Let a person at a terminal read and confirm the repository's commands. An agent cannot answer for the user."""
    from imi_monitor.store import claim_holder

    why = "in an agent's shell" if claim_holder.is_agent_session() else "without a terminal"
    shown = [f"{safe(name)}: {redact(safe(one.run, 1000))}" for name, one in file.commands.items()]
    answer = None
    if not claim_holder.is_agent_session():
        for text in shown:
            context.notify(text)
        answers = ["trust nothing", f"trust these {count(len(shown), 'command')}"]
        answer = context.choose(f"Trust the commands of {safe(file.path)}?", answers)
    if answer != 1:
        raise Refused(
            f"nothing is trusted: {why} no person can confirm the commands of {safe(file.path)}; run `imi trust` in a terminal",
            code="not-confirmed",
            details=shown,
        )


def _revoke(context: Context, repository: Repository) -> Outcome:
    name = context.repo_name(repository)

    def revoke(connection: sqlite3.Connection) -> bool:
        was = repositories.revoke_trust(connection, repository.common_dir)
        was = repositories.revoke_trust(connection, own_commands.path_in(repository)) or was
        if was:
            events.record(connection, "repository.untrusted", name)
        return was

    was = db.transact(context.connection, revoke)
    shown = safe(name or layout.repository_name(repository))
    sentence = f"{shown} is no longer trusted: nothing it configures runs" if was else f"{shown} was not trusted"
    return Outcome([sentence], _data(repository, name, UNTRUSTED, _programs(context, repository), sentence))


def _show(context: Context, repository: Repository) -> Outcome:
    name = context.repo_name(repository)
    shown = safe(name or layout.repository_name(repository))
    programs = _programs(context, repository)
    now = state(context, repository)
    sentence = {
        TRUSTED: f"{shown} is trusted: these may run",
        UNTRUSTED: f"{shown} is not trusted: none of these runs until `imi trust`",
        LOST: f"{shown} was trusted, but its programs have changed since: none runs until `imi trust` again",
    }[now]
    lines = _listed(programs) or ["  (it configures no programs)"]
    data = _data(repository, name, now, programs, sentence)
    data["commands_trusted"] = not _has_untrusted_commands(context, repository)
    if not data["commands_trusted"]:
        lines.append(
            f"its own commands ({safe(own_commands.path_in(repository))}) are new or changed: none of them runs"
        )
    return Outcome([sentence, *lines], data)


def _programs(context: Context, repository: Repository) -> list[str]:
    """The programs that trust covers: those of the repository's configuration, its hooks, the user's commands for it."""
    from imi_monitor.git import safety

    name = context.repo_name(repository) or layout.repository_name(repository)
    own = [
        f"{moment}: {command}"
        for moment in ("post_create", "pre_remove")
        for command in context.settings.commands(name, moment)
    ]
    return [*safety.programs(repository.common_dir), *_hooks(repository.common_dir), *own, *_commands(repository)]


def _commands(repository: Repository) -> list[str]:
    try:
        file = own_commands.read_file(repository)
    except ImiError as problem:
        return [f"commands: {problem.sentence}"]
    return [f"command {name}: {one.run}" for name, one in file.commands.items()] if file is not None else []


def _has_untrusted_commands(context: Context, repository: Repository) -> bool:
    try:
        file = own_commands.read_file(repository)
    except ImiError:
        return True
    return file is not None and not own_commands.is_trusted(context, file)


def _hooks(common_dir: str) -> list[str]:
    import os

    folder = os.path.join(common_dir, "hooks")
    try:
        found = sorted(os.listdir(folder))
    except OSError:
        return []
    return [f"hook {name}" for name in found if not name.endswith(".sample") and os.access(f"{folder}/{name}", os.X_OK)]


def _listed(programs: list[str]) -> list[str]:
    return [f"  {redact(safe(program, 1000))}" for program in programs]


def _data(repository: Repository, name: str | None, now: str, programs: list[str], message: str) -> dict[str, object]:
    return {
        "message": message,
        "repo_name": name,
        "path": repository.home,
        "state": now,
        "trusted": now == TRUSTED,
        "programs": [redact(program) for program in programs],
    }


ACTIONS = (TrustAction(),)
