"""What git may execute: nothing that a repository names, until somebody says `imi trust` for it.

A repository is written to by agents and pull requests, so its configuration is hostile text: a filter, a hook, a
textconv or an ssh command in it is a program that runs with the user's rights at the next `git status`. Keys of the
repository's own scope that name a program get the user's own value back, or none; hooks and fsmonitor are off wherever
they come from. Trust is given to the programs as they are then: `fingerprint` tells when they are others.
"""

from __future__ import annotations

import os

from imi_monitor.git.environ import FENCES, environment, git_path, never_asking, users_ssh
from imi_monitor.git.scan import HABITS, LOCKED, pinned, scan

__all__ = [
    "FENCES",
    "configured_worktrees",
    "environment",
    "fingerprint",
    "git_path",
    "neutral_settings",
    "pinned",
    "programs",
    "refused_remote",
    "ssh_command",
    "users_ssh",
]

_LARGEST_HOOK = 16 << 20


def neutral_settings(
    common_dir: str, admin_dir: str, trusted: bool, *, thorough: bool = False
) -> list[tuple[str, str]]:
    """The settings under which git runs nothing that this repository configures; with `trusted` only our own habits.

    `thorough` is for commands that fire hooks: it also finds those that the user configured for every repository,
    which may well be scripts of the checked-out tree.
    """
    if trusted:
        return list(HABITS)
    return [*HABITS, *LOCKED, *scan(common_dir, admin_dir, thorough=thorough).settings]


def programs(common_dir: str) -> list[str]:
    """`key=value` of everything the repository's own configuration could run, in all its worktrees."""
    found: dict[str, None] = {}
    for admin_dir in (common_dir, *configured_worktrees(common_dir)):
        found.update(dict.fromkeys(scan(common_dir, admin_dir).programs))
    return list(found)


def fingerprint(common_dir: str) -> str:
    """Changes when the repository's programs or hooks change: trust was given to the old ones only."""
    from hashlib import sha256

    lines = programs(common_dir)
    digest = sha256("\0".join(lines).encode("utf-8", "surrogateescape"))
    moved = [line.partition("=")[2] for line in lines if line.startswith("core.hookspath=")]
    # a relative hooksPath is another directory in every worktree: its value is all that can be held on to
    for folder in (os.path.join(common_dir, "hooks"), *filter(os.path.isabs, moved)):
        for path in _hooks(folder):
            digest.update(sha256(os.fsencode(path)).digest() + sha256(_whole(path)).digest())
    return digest.hexdigest()


def configured_worktrees(common_dir: str) -> list[str]:
    """The admin directories of the linked worktrees that have a configuration of their own."""
    root = os.path.join(common_dir, "worktrees")
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return []
    found = (os.path.join(root, name) for name in names)
    return [admin_dir for admin_dir in found if os.path.lexists(os.path.join(admin_dir, "config.worktree"))]


def refused_remote(common_dir: str, admin_dir: str) -> str | None:
    """A configured `remote.*.vcs` line: it names a helper program that no setting can take back."""
    for line in scan(common_dir, admin_dir).programs:
        key = line.partition("=")[0]
        if key.startswith("remote.") and key.endswith(".vcs"):
            return line
    return None


def ssh_command(common_dir: str, admin_dir: str, trusted: bool) -> str:
    """How to run ssh so that it never asks: the user's own command; the repository's only when that is trusted."""
    listing = scan(common_dir, admin_dir, thorough=True).listing
    found = "ssh"
    for scope, key, value in listing:
        if key == "core.sshcommand" and (trusted or scope in ("system", "global")):
            found = value
    return users_ssh() or never_asking(found)


def _hooks(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if not name.endswith(".sample")]


def _whole(path: str) -> bytes:
    """A hook's mode and bytes; one that cannot be read has a mark of its own, so that becoming readable is a change."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return f"errno {error.errno}".encode()
    try:
        info = os.fstat(fd)
        with os.fdopen(os.dup(fd), "rb") as file:
            return f"{info.st_mode:o} {info.st_size} ".encode() + file.read(_LARGEST_HOOK)
    except OSError as error:  # a directory
        return f"errno {error.errno}".encode()
    finally:
        os.close(fd)
