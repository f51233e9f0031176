"""A program that the user runs in a worktree, with the terminal: its environment, its end, and the record of both."""

from __future__ import annotations

import time

from imi_monitor import programs
from imi_monitor.actions import worktree_lookup
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git import layout
from imi_monitor.model.errors import ImiError
from imi_monitor.model.redact import redact
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target

_MOST_CHARS = 500  # of a command line in the record
# They would redirect git, or belong to the shell function that started imi.
_MISLEADING = frozenset(
    (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_COMMON_DIR",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_NAMESPACE",
        "GIT_CEILING_DIRECTORIES",
        "IMI_CD_FILE",
        "IMI_SHELL",
    )
)


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a program ended in one worktree; killed by a signal it has the status of a shell, 128 and the signal."""

    worktree: str
    status: int
    seconds: float

    @property
    def sentence(self) -> str:
        return f"ended with status {self.status} after {self.seconds:.1f} s"


def environment(
    path: str, name: str, repo_name: str, *, branch: str | None = None, pr_number: int | None = None
) -> dict[str, str]:
    """The user's environment with the worktree's facts, without what misleads git or reads `PATH` relative to the worktree."""
    env = {key: value for key, value in programs.users_environment().items() if key not in _MISLEADING}
    env.update(IMI_WORKTREE=name, IMI_WORKTREE_PATH=path, IMI_REPOSITORY=repo_name)
    for variable, fact in (("IMI_BRANCH", branch), ("IMI_PR", pr_number)):
        env.pop(variable, None)  # that of an outer worktree
        if fact is not None:
            env[variable] = str(fact)
    return env


def run(context: Context, target: Target, argv: Sequence[str], line: str, name: str | None = None) -> ProgramEnd:
    """Run a program in the worktree until it ends, and record its command line, status and time.

    Interrupts from the terminal are the program's. In JSON mode its output goes to stderr.
    """
    if target.missing:
        raise worktree_lookup.missing_folder(target)
    repo_name = target.repo_name or layout.repository_name(target.repository)
    pr_number = target.row.pr_number if target.row else None
    env = environment(target.path, target.name, repo_name, branch=target.branch, pr_number=pr_number)
    recordable = context.registry_problem is None
    if recordable:
        context.close()  # the program may run for hours: the registry that is there afterwards gets the record
    started = time.monotonic()
    status = _wait(argv, target.path, env, context.prints_json)
    end = ProgramEnd(target.name, status, round(time.monotonic() - started, 2))
    if recordable:
        try:
            _record(context, target, line, name, end)
        except ImiError as problem:
            context.notes.append(f"the end of the command is not recorded: {problem.sentence}")
    return end


def _wait(argv: Sequence[str], folder: str, env: dict[str, str], prints_json: bool) -> int:
    import signal
    import subprocess

    before = signal.signal(signal.SIGINT, _leave_to_program)
    try:
        process = subprocess.Popen(argv, cwd=folder, env=env, stdout=2 if prints_json else None)
        status = process.wait()
    except OSError as error:
        raise ImiError(f"cannot start {safe(argv[0], 200)}: {error.strerror}", code="not-started") from error
    finally:
        signal.signal(signal.SIGINT, before)
    return status if status >= 0 else 128 - status


def _leave_to_program(_number: int, _frame: object) -> None:
    """The terminal sends ctrl-c to the program too; imi waits for its end."""


def _record(context: Context, target: Target, line: str, name: str | None, end: ProgramEnd) -> None:
    from imi_monitor.store import db, events

    data: dict[str, object] = {"line": redact(safe(line, _MOST_CHARS)), "status": end.status, "seconds": end.seconds}
    if name is not None:
        data["name"] = name

    def put(connection: sqlite3.Connection) -> None:
        repo_name = context.register(target.repository, connection)
        events.record(connection, "command.ended", repo_name, target.name, data=data)

    db.transact(context.connection, put)
