"""The user's commands of a repository (`[repositories.NAME]`): post_create and pre_remove.

They run in the worktree and may run content of a branch (`npm install`, `make`), so only after `imi trust`.
"""

from __future__ import annotations

import os

from imi_monitor.actions import worktree_program
from imi_monitor.git import layout
from imi_monitor.git.spawn import spawn
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.redact import redact
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.git.layout import Repository
    from imi_monitor.git.spawn import FinishedProcess


TIMEOUT = 600.0
_KEPT_LINES = 20
_LONGEST_LINE = 1 << 11  # a program may write megabytes without a line break
_SAME_OUTPUT = 'exec >&2; exec /bin/sh -c -- "$0"'  # one stream keeps the order of stdout and stderr


class CommandReport:
    """The commands that ran, their last lines of output, and warnings for the user."""

    __slots__ = ("failed", "output", "ran", "warnings")

    def __init__(
        self,
        ran: tuple[str, ...] = (),
        output: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
        failed: str | None = None,
    ) -> None:
        self.ran = ran
        self.output = output
        self.warnings = warnings
        self.failed = failed


def run(
    context: Context,
    repository: Repository,
    stage: str,
    worktree_path: str,
    worktree_name: str,
    *,
    timeout: float = TIMEOUT,
) -> CommandReport | None:
    """Run the `post_create` or `pre_remove` commands one after the other; None when there are none.

    A failure skips the rest. After a creation it is a warning, since the worktree exists; before a removal it is Refused,
    since the command may have been saving data.
    """
    name = context.repo_name(repository) or layout.repository_name(repository)
    commands = context.settings.commands(name, stage)
    if not commands:
        return None
    if not context.trusted(repository):
        return CommandReport(warnings=(_untrusted(name, stage, len(commands)),))
    env = worktree_program.environment(worktree_path, worktree_name, name)
    tail = _OutputTail(context)
    ran: list[str] = []
    for command in commands:
        ran.append(command)
        context.progress(f"{stage}: {safe(command)}")
        done = _run_one(context, command, env, worktree_path, tail, timeout)
        failure = _failure(stage, command, done, timeout)
        if failure is not None:
            return _failed(stage, failure, tuple(ran), tuple(tail.lines))
    return CommandReport(tuple(ran), tuple(tail.lines))


def _run_one(
    context: Context, command: str, env: dict[str, str], folder: str, tail: _OutputTail, timeout: float
) -> FinishedProcess:
    argv = ["/bin/sh", "-c", _SAME_OUTPUT, command]
    try:
        done = spawn(argv, env=env, cwd=folder, timeout=timeout, on_stderr=tail.feed, cancelled=context.cancelled)
    except OSError as error:
        raise ImiError(f"cannot start {safe(command, 200)!r}: {error.strerror}", code="not-started") from error
    tail.flush()
    return done


def _failure(stage: str, command: str, done: FinishedProcess, timeout: float) -> str | None:
    what = f"the {stage} command {safe(command, 200)!r}"
    if done.cancelled:
        raise ImiError(f"{what} was cancelled", code="cancelled")
    if done.timed_out:
        return f"{what} took longer than {timeout:g} s and was stopped"
    if done.returncode < 0:
        return f"{what} was killed by signal {-done.returncode}"
    return f"{what} failed with exit status {done.returncode}" if done.returncode else None


def _failed(stage: str, failure: str, ran: tuple[str, ...], output: tuple[str, ...]) -> CommandReport:
    if stage == "pre_remove":
        raise Refused(f"{failure}: nothing was removed", code="pre-remove-failed", details=output)
    return CommandReport(ran, output, (f"{failure}; the worktree itself is ready", *output), failure)


def _untrusted(name: str, stage: str, number: int) -> str:
    verb = "was" if number == 1 else "were"
    skipped = f"{safe(name)} is not trusted, so {count(number, f'{stage} command')} {verb} skipped"
    return f"{skipped}: check with `imi trust --show`, then run `imi trust`"


class _OutputTail:
    """Reports output line by line and keeps the last lines, sanitised and without secrets."""

    def __init__(self, context: Context) -> None:
        from collections import deque  # 1 ms that only a trusted repository with commands needs

        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._context = context
        self._pending = b""

    def feed(self, data: bytes) -> None:
        *whole, self._pending = (self._pending + data).split(b"\n")
        for line in whole[-1000:]:  # of a flood only the end is shown
            self._show(line)
        if len(self._pending) > _LONGEST_LINE:
            self.flush()

    def flush(self) -> None:
        rest, self._pending = self._pending, b""
        self._show(rest)

    def _show(self, raw: bytes) -> None:
        seen = raw.rstrip()[-_LONGEST_LINE:].rpartition(b"\r")[2]  # the last state of a progress bar
        line = safe(redact(seen.decode("utf-8", "surrogateescape")))
        if line:
            self.lines.append(line)
            self._context.progress(line)


def run_post_create(context: Context, repository: layout.Repository, path: str, name: str) -> tuple[int, list[str]]:
    """Run the post_create commands in the finished worktree; returns (exit status, warnings).

    The worktree stays even if a command fails.
    """
    warnings = _filter_warnings(context, repository, path)
    if os.path.lexists(os.path.join(path, ".gitmodules")):
        warnings.append("submodules are not checked out: run `git submodule update --init` there")
    known_as = context.repo_name(repository) or layout.repository_name(repository)
    if not context.settings.commands(known_as, "post_create"):
        return 0, warnings
    try:
        report = run(context, repository, "post_create", path, name)
    except KeyboardInterrupt:
        return 130, [*warnings, f"interrupted: {safe(name)} exists, but not all of its post_create commands have run"]
    except ImiError as problem:
        return 1, [*warnings, f"{safe(name)} exists, but {problem.sentence}"]
    return 0, warnings + list(report.warnings if report else ())


def _filter_warnings(context: Context, repository: layout.Repository, path: str) -> list[str]:
    """A warning if filters such as git-lfs were skipped for lack of trust, so that files lack their real content."""
    attributes = layout.read_small(os.path.join(path, ".gitattributes")) or ""
    if "filter=" not in attributes or context.trusted(repository):
        return []
    from imi_monitor.git import safety

    keys = (line.partition("=")[0] for line in safety.programs(repository.common_dir))
    names = sorted({key.removeprefix("filter.").rpartition(".")[0] for key in keys if key.startswith("filter.")})
    if not names:
        return []
    return [
        f"the repository's filters ({', '.join(map(safe, names))}) have not run on its files: see `imi trust --show`"
    ]
