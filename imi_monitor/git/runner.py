"""Runs git: the only module that does so, with an explicit repository, no programs of it, and limits of time and output.

`Git` names a worktree by its git directories, never by discovery from a folder that others write to. Every failure is a
`GitError` with one sentence; git's own message, redacted and without control characters, is in its `stderr`.
"""

from __future__ import annotations

import os
import time

from imi_monitor.git import safety
from imi_monitor.git.config_scan import pinned_variables
from imi_monitor.git.environment import FENCE_VARIABLES, git_environment, git_path, users_ssh
from imi_monitor.git.spawn import FinishedProcess, spawn
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypedDict, Unpack

    class Options(TypedDict, total=False):
        """The keyword arguments of `Git.run`."""

        timeout: float
        cap: int
        stdin: bytes | None
        ok: tuple[int, ...]
        env: dict[str, str] | None
        on_progress: Callable[[str], None] | None
        on_stdout: Callable[[bytes], None] | None
        cancelled: Callable[[], bool] | None
        settings: Sequence[tuple[str, str]]


_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4)  # seconds before `git worktree` is run again
_NO_DRIVERS = ("--no-ext-diff", "--no-textconv")
# `dirty` still compares the recorded commit with the nested HEAD, but starts no git inside a nested repository
_NO_NESTED = ("--ignore-submodules=dirty",)
# What only arguments can switch off. They come first, so that a caller's argument has priority.
_GUARDS: dict[str, tuple[str, ...]] = {
    "blame": ("--no-textconv",),
    "diff": _NO_DRIVERS + _NO_NESTED,
    "diff-files": _NO_DRIVERS + _NO_NESTED,
    "diff-index": _NO_DRIVERS + _NO_NESTED,
    "diff-tree": _NO_DRIVERS,
    "fetch": ("--upload-pack=git-upload-pack", "--no-recurse-submodules"),
    "format-patch": _NO_DRIVERS,
    "log": _NO_DRIVERS,
    "ls-remote": ("--upload-pack=git-upload-pack",),
    "push": ("--receive-pack=git-receive-pack",),
    "show": _NO_DRIVERS,
    "status": _NO_NESTED,
}
_NETWORK = frozenset(("fetch", "ls-remote", "push"))
# Verbs that only read, so that no hook can run; every other verb gets the thorough scan of the configuration.
_READING = frozenset(
    (
        "blame",
        "cat-file",
        "check-attr",
        "check-ignore",
        "check-ref-format",
        "cherry",
        "config",
        "diff",
        "diff-files",
        "diff-index",
        "diff-tree",
        "for-each-ref",
        "log",
        "ls-files",
        "ls-tree",
        "merge-base",
        "merge-tree",
        "patch-id",
        "rev-list",
        "rev-parse",
        "show",
        "show-ref",
        "status",
        "symbolic-ref",
        "var",
        "version",
    )
)
# Verbs that start git in nested repositories, which none of their arguments prevents.
_ENTERING = frozenset(("add", "checkout", "commit", "merge", "read-tree", "reset", "restore", "rm", "stash", "switch"))
# What imi must never do to a user's work (safety rules 2 and 8) or cannot make safe; `Git.run` refuses it.
_NEVER: dict[str, frozenset[str]] = {
    "branch": frozenset(("-D", "-f", "--force")),
    "checkout": frozenset(("-f", "--force")),
    "clean": frozenset(),
    "clone": frozenset(),
    "gc": frozenset(),
    "maintenance": frozenset(),
    "prune": frozenset(),
    "pull": frozenset(),
    "push": frozenset(("-f", "--force", "--mirror")),
    "remote": frozenset(("prune", "show", "update")),
    "reset": frozenset(("--hard",)),
    "stash": frozenset(("clear", "drop", "pop")),
    "submodule": frozenset(),
    "switch": frozenset(("-f", "--force", "--discard-changes")),
    "worktree": frozenset(("-f", "--force", "prune")),
}


class GitResult:
    """The result of a git process."""

    __slots__ = ("returncode", "stderr", "stdout")

    def __init__(self, returncode: int, stdout: bytes, stderr: bytes) -> None:
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr


class Git:
    """git in one worktree, or without one for a bare repository and for questions about refs."""

    __slots__ = ("admin_dir", "cancelled", "common_dir", "trusted", "work_tree")

    def __init__(
        self,
        common_dir: str,
        admin_dir: str | None = None,
        work_tree: str | None = None,
        *,
        trusted: bool = False,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self.common_dir = common_dir
        self.admin_dir = admin_dir or common_dir
        self.work_tree = work_tree
        self.trusted = trusted
        self.cancelled = cancelled  # called while git runs, unless a call has its own

    def at(self, admin_dir: str, work_tree: str | None) -> Git:
        """Return git in another worktree of the same repository, with the same trust."""
        return Git(self.common_dir, admin_dir, work_tree, trusted=self.trusted, cancelled=self.cancelled)

    def run(
        self,
        *args: str | bytes,
        timeout: float = 10.0,
        cap: int = 32 << 20,
        stdin: bytes | None = None,
        ok: tuple[int, ...] = (0,),
        env: dict[str, str] | None = None,
        on_progress: Callable[[str], None] | None = None,
        on_stdout: Callable[[bytes], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        settings: Sequence[tuple[str, str]] = (),
    ) -> GitResult:
        """Run `git args` and return its result; GitError for an exit status that is not in `ok`.

        `on_stdout` receives the output piece by piece; the result then has none.
        """
        verb = _verb(args)
        safety.check_owner(self.common_dir, self.admin_dir, self.work_tree)
        full = {**self._environment(verb, settings), **(env or {})}
        on_stderr = _line_by_line(on_progress) if on_progress else None
        for pause in (*_PAUSES, None):
            try:
                done = spawn(
                    self._argv(verb, args),
                    env=full,
                    stdin=stdin,
                    timeout=timeout,
                    cap=cap,
                    on_stderr=on_stderr,
                    on_stdout=on_stdout,
                    cancelled=cancelled or self.cancelled,
                )
            except (OSError, ValueError) as error:
                raise _not_started(verb, error) from error
            if pause is None or verb != "worktree" or not _met_unfinished_worktree(done):
                break
            time.sleep(pause)
        if done.timed_out or done.capped or done.cancelled or done.returncode not in ok:
            raise self._failure(verb, done, timeout, cap)
        return GitResult(done.returncode, done.stdout, done.stderr)

    def text(self, *args: str | bytes, **options: Unpack[Options]) -> str:
        """Run git and return stdout without its last line break; bytes that are not UTF-8 become surrogates."""
        return os.fsdecode(self.run(*args, **options).stdout.removesuffix(b"\n"))

    def lines0(self, *args: str | bytes, **options: Unpack[Options]) -> list[str]:
        """Run git and return stdout split at its NUL bytes."""
        fields = os.fsdecode(self.run(*args, **options).stdout).split("\0")
        return fields if fields[-1] else fields[:-1]

    def _argv(self, verb: str, args: tuple[str | bytes, ...]) -> list[str | bytes]:
        where = self.common_dir if self.work_tree is None else self.work_tree
        start = [git_path(), "--no-pager", "--no-optional-locks", "-C", where, f"--git-dir={self.admin_dir}"]
        if self.work_tree is not None:
            start.append(f"--work-tree={self.work_tree}")
        guards = () if self.trusted else _GUARDS.get(verb, ())
        return [*start, args[0], *guards, *args[1:]]

    def _environment(self, verb: str, settings: Sequence[tuple[str, str]]) -> dict[str, str]:
        env = git_environment([*self._neutral(verb), *settings])
        env.update(pinned_variables(self.common_dir, self.admin_dir))
        if self.work_tree is None:
            env["GIT_IMPLICIT_WORK_TREE"] = "0"  # otherwise git takes its directory for the work tree
        if self.trusted:
            for name in FENCE_VARIABLES:
                del env[name]
        if verb in _NETWORK:
            self._refuse_helpers(verb)
            env["GIT_SSH_COMMAND"] = safety.ssh_command(self.common_dir, self.admin_dir, self.trusted)
        elif self.trusted and not users_ssh():
            del env["GIT_SSH_COMMAND"]  # a lazy fetch uses the configured command, which has no terminal to ask on
        return env

    def _neutral(self, verb: str) -> list[tuple[str, str]]:
        thorough = verb not in _READING
        neutral = safety.neutral_settings(self.common_dir, self.admin_dir, self.trusted, thorough=thorough)
        if verb == "worktree" and not self.trusted:
            # it starts git in other worktrees, which may have their own configuration
            for other in safety.configured_worktrees(self.common_dir):
                more = safety.neutral_settings(self.common_dir, other, False, thorough=thorough)
                neutral += [setting for setting in more if setting not in neutral]
        if verb in _ENTERING and not self.trusted:
            from imi_monitor.git import nested_repositories

            neutral += nested_repositories.neutral_settings(self)
        return neutral

    def _refuse_helpers(self, verb: str) -> None:
        line = None if self.trusted else safety.refused_remote(self.common_dir, self.admin_dir)
        if line is not None:
            raise GitError(
                f"git {verb} is refused: the repository configures a program for its remote ({safe(line)}); "
                "check it, then remove the line or run `imi trust`"
            )

    def _failure(self, verb: str, done: FinishedProcess, timeout: float, cap: int) -> GitError:
        from imi_monitor.git.lock_files import lock_advice, lock_in_message
        from imi_monitor.model.redact import printable_lines

        lines = printable_lines(done.stderr)
        what = f"git {safe(verb)} in {safe(self.work_tree or self.common_dir)}"
        held = lock_in_message(lines)
        code, sentence = "git", f"{what} failed: {lock_advice(held) if held else _reason(lines, done.returncode)}"
        if done.cancelled:
            code, sentence = "cancelled", f"{what} was cancelled"
        elif done.timed_out:
            code, sentence = "git-timeout", f"{what} took longer than {timeout:g} s and was stopped"
        elif done.capped:
            code, sentence = "git-too-much", f"{what} printed more than {cap} bytes and was stopped"
        elif held:
            code = "git-busy"
        elif b"dubious ownership" in done.stderr:
            code = "dubious-ownership"
        return GitError(sentence, code=code, stderr="\n".join(lines), returncode=done.returncode)


_versions: dict[str, tuple[int, int, int]] = {}


def git_version() -> tuple[int, int, int]:
    """Return the version of git."""
    program = git_path()
    if program not in _versions:
        done = spawn([program, "version"], env=git_environment([]), timeout=10.0, cap=4096)
        _versions[program] = parse_version(done.stdout) or (0, 0, 0)
    if _versions[program] == (0, 0, 0):
        raise GitError(f"{safe(program)} reports no version: is it really git?")
    return _versions[program]


def parse_version(output: bytes) -> tuple[int, int, int] | None:
    """Parse `git version 2.39.5 (Apple Git-154)` or `git version 2.55.0.rc1.g1a2b3c4`."""
    words = output.split()
    numbers = words[2].split(b".")[:3] if words[:2] == [b"git", b"version"] and len(words) > 2 else []
    major, minor, patch = (int(part) if part.isdigit() else 0 for part in [*numbers, b"", b"", b""][:3])
    return (major, minor, patch) if major else None


def _met_unfinished_worktree(done: FinishedProcess) -> bool:
    """Return whether git failed at the admin directory of a worktree that another git is just making."""
    return done.returncode > 0 and b"failed to read " in done.stderr and b"/commondir: Success" in done.stderr


def _verb(args: tuple[str | bytes, ...]) -> str:
    verb = os.fsdecode(args[0]) if args else ""
    if not verb or verb.startswith("-"):  # an option here would be one of git itself: -c, --exec-path, --config-env
        raise ValueError(f"git needs a verb first, not {verb!r}")
    if verb in _NEVER and (not _NEVER[verb] or not _NEVER[verb].isdisjoint(_options(args))):
        raise ValueError(f"imi never runs git {' '.join(map(str, args[:3]))}")
    return verb


def _options(args: tuple[str | bytes, ...]) -> list[str | bytes]:
    """Return the arguments that git reads as options or subcommands: those before the names."""
    ends = [args.index(mark) for mark in ("--", "--end-of-options") if mark in args]
    return list(args[1 : min(ends, default=len(args))])


def _line_by_line(on_progress: Callable[[str], None]) -> Callable[[bytes], None]:
    """Return a receiver of stderr that calls `on_progress` for each line; git ends progress lines with carriage returns."""
    from imi_monitor.model.redact import printable_lines

    rest = bytearray()

    def on_stderr(data: bytes) -> None:
        rest.extend(data.replace(b"\r", b"\n"))
        whole, _, tail = bytes(rest).rpartition(b"\n")
        rest[:] = tail[-4096:]
        for line in printable_lines(whole):
            on_progress(line)

    return on_stderr


def _reason(lines: list[str], returncode: int) -> str:
    """Return the reason: the first line with `fatal:`, else the first with `error:`, else the last line."""
    for mark in ("fatal: ", "error: "):
        for line in lines:
            if line.startswith(mark):
                return line.removeprefix(mark)
    return lines[-1] if lines else f"exit status {returncode}"


def _not_started(verb: str, error: Exception) -> GitError:
    if isinstance(error, FileNotFoundError):
        return GitError("git does not exist any more: install git 2.38 or newer", code="git-missing")
    if isinstance(error, ValueError):
        return GitError(f"git {safe(verb)} cannot be run: one of its names or paths contains a NUL byte")
    return GitError(f"git {safe(verb)} cannot be run: {safe(str(error))}")
