"""Keeps git from running programs that a repository names, until `imi trust`, and checks who owns a repository.

Agents and pull requests write to a repository, so its configuration is hostile: a filter, hook, textconv or ssh command in it is
a program that runs with the user's rights at the next `git status`. Keys of the repository's own scope that name a program get
the user's own value or none; hooks and fsmonitor are off in every scope. Trust holds for the programs of that time: `fingerprint`
changes with them.

git refuses to work in another user's repository ("dubious ownership"), but only if it discovers the git directory itself. We
pass the directory, so `check_owner` does the check. Only the user's own `safe.directory` allows such a repository; imi adds none.
"""

from __future__ import annotations

import os
import time

from imi_monitor.git.config_scan import BASE_SETTINGS, LOCKED_SETTINGS, scan_config
from imi_monitor.git.environment import git_environment, git_path, never_asking, users_ssh
from imi_monitor.git.spawn import spawn
from imi_monitor.model.errors import GitError

_LARGEST_HOOK = 16 << 20


def neutral_settings(
    common_dir: str, admin_dir: str, trusted: bool, *, thorough: bool = False
) -> list[tuple[str, str]]:
    """Return the settings with which git runs nothing that this repository configures; for a trusted one only the base.

    `thorough` is for commands that run hooks: it also finds those that the user configured for every repository, which may
    be scripts of the checked-out tree.
    """
    if trusted:
        return list(BASE_SETTINGS)
    return [*BASE_SETTINGS, *LOCKED_SETTINGS, *scan_config(common_dir, admin_dir, thorough=thorough).settings]


def programs(common_dir: str) -> list[str]:
    """Return `key=value` of everything that the repository's own configuration could run, in all its worktrees."""
    found: dict[str, None] = {}
    for admin_dir in (common_dir, *configured_worktrees(common_dir)):
        found.update(dict.fromkeys(scan_config(common_dir, admin_dir).programs))
    return list(found)


def fingerprint(common_dir: str) -> str:
    """Return a hash that changes with the repository's programs and hooks: trust holds for those only."""
    from hashlib import sha256

    lines = programs(common_dir)
    digest = sha256("\0".join(lines).encode("utf-8", "surrogateescape"))
    moved = [line.partition("=")[2] for line in lines if line.startswith("core.hookspath=")]
    # a relative hooksPath is another folder in every worktree, so only its value counts
    for folder in (os.path.join(common_dir, "hooks"), *filter(os.path.isabs, moved)):
        for path in _hooks(folder):
            digest.update(sha256(os.fsencode(path)).digest() + sha256(_whole(path)).digest())
    return digest.hexdigest()


def configured_worktrees(common_dir: str) -> list[str]:
    """Return the admin directories of linked worktrees that have their own configuration."""
    root = os.path.join(common_dir, "worktrees")
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return []
    found = (os.path.join(root, name) for name in names)
    return [admin_dir for admin_dir in found if os.path.lexists(os.path.join(admin_dir, "config.worktree"))]


def refused_remote(common_dir: str, admin_dir: str) -> str | None:
    """Return a configured `remote.*.vcs` line, if any: it names a helper program that no setting overrides."""
    for line in scan_config(common_dir, admin_dir).programs:
        key = line.partition("=")[0]
        if key.startswith("remote.") and key.endswith(".vcs"):
            return line
    return None


def ssh_command(common_dir: str, admin_dir: str, trusted: bool) -> str:
    """Return the ssh command that never asks: the user's own, or the repository's if that is trusted."""
    listing = scan_config(common_dir, admin_dir, thorough=True).listing
    found = "ssh"
    for scope, key, value in listing:
        if key == "core.sshcommand" and (trusted or scope in ("system", "global")):
            found = value
    return users_ssh() or never_asking(found)


def has_hooks(common_dir: str) -> bool:
    return bool(_hooks(os.path.join(common_dir, "hooks")))


def _hooks(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if not name.endswith(".sample")]


def _whole(path: str) -> bytes:
    """Return a hook's mode and bytes; an unreadable one has its errno, so that becoming readable is a change."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return f"errno {error.errno}".encode()
    try:
        info = os.fstat(fd)
        with os.fdopen(fd, "rb", closefd=False) as file:
            return f"{info.st_mode:o} {info.st_size} ".encode() + file.read(_LARGEST_HOOK)
    except OSError as error:  # a directory
        return f"errno {error.errno}".encode()
    finally:
        os.close(fd)


_ACCEPTED_SECONDS = 30.0  # how long git's answer about another user's repository is valid
_allowed_until: dict[str, float] = {}


def check_owner(common_dir: str, admin_dir: str, work_tree: str | None) -> None:
    """Raise GitError "dubious-ownership" if the repository is another user's and git has not been told to accept it."""
    me = os.geteuid()
    for path in (work_tree, admin_dir, common_dir):
        if path is not None and _owner(path) not in (me, None):
            _ask_git_to_accept(work_tree or common_dir, path)
            return


def _owner(path: str) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:  # the git command itself will report it
        return None


def _ask_git_to_accept(where: str, foreign: str) -> None:
    if time.monotonic() < _allowed_until.get(where, 0.0):
        return
    env = git_environment([*BASE_SETTINGS[1:], *LOCKED_SETTINGS])  # git has to discover it, even a bare repository
    done = spawn([git_path(), "--no-pager", "-C", where, "rev-parse", "--git-dir"], env=env, timeout=10.0, cap=1 << 16)
    if done.returncode:
        raise _dubious_ownership(where, foreign, done.stderr)
    _allowed_until[where] = time.monotonic() + _ACCEPTED_SECONDS


def _dubious_ownership(where: str, foreign: str, stderr: bytes) -> GitError:
    from imi_monitor.model.redact import printable_lines
    from imi_monitor.model.text import safe

    return GitError(
        f"{safe(foreign)} belongs to another user, so git refuses to work in it; "
        f"if you trust it: git config --global --add safe.directory {safe(where)}",
        code="dubious-ownership",
        stderr="\n".join(printable_lines(stderr)),
    )
