"""The environment git gets from us: nothing of GIT_* inherited by accident, nobody asked, nothing executed.

Settings passed by environment (GIT_CONFIG_COUNT) override every configuration file. What git cannot be told by a
setting (transports, lazy fetches, a proxy command, prompts) has a variable here.
"""

from __future__ import annotations

import os

from imi_monitor.model.errors import GitError

# The user's own choices among git's variables; any other would point git at another repository or program.
_KEPT = frozenset(
    (
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_ATTR_NOSYSTEM",
        "GIT_EXEC_PATH",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
        "GIT_SSL_CAINFO",
        "GIT_SSL_CAPATH",
        "GIT_SSL_CERT",
        "GIT_SSL_KEY",
        "GIT_SSL_NO_VERIFY",
    )
)
_DROPPED = frozenset(("LANGUAGE", "SSH_ASKPASS", "PATH"))
_FIXED = {
    "LC_ALL": "C.UTF-8",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # empty, not absent: only so does it override core.askPass
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_PAGER": "cat",
}
# Taken down again for a trusted repository.
FENCE_VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "https:ssh:git:file",
    # a partial clone fetches a missing object in the middle of `show`, by the upload-pack command it configures
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PROXY_COMMAND": "",  # the first core.gitProxy wins, so no later setting could override it
}


def git_environment(settings: list[tuple[str, str]]) -> dict[str, str]:
    """The whole environment of a git process that asks nobody and runs nothing; `settings` override all files."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in _DROPPED and (not name.startswith("GIT_") or name in _KEPT)
    }
    env["PATH"] = search_path()
    env.update(_FIXED)
    env.update(FENCE_VARIABLES)
    env["GIT_SSH_COMMAND"] = users_ssh() or never_asking("ssh")
    env["GIT_CONFIG_COUNT"] = str(len(settings))
    for index, (key, value) in enumerate(settings):
        env[f"GIT_CONFIG_KEY_{index}"] = key
        env[f"GIT_CONFIG_VALUE_{index}"] = value
    return env


def search_path() -> str:
    """PATH without relative entries: with the work tree as directory they would name programs of the repository."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if os.path.isabs(entry)) or os.defpath


_git_in: dict[str, str] = {}


def git_path() -> str:
    """git's absolute path, looked up once for each PATH."""
    path = search_path()
    if path not in _git_in:
        _git_in[path] = _find_git(path)
    return _git_in[path]


def _find_git(path: str) -> str:
    for folder in path.split(os.pathsep):
        program = os.path.join(folder, "git")
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    raise GitError("git is not installed (there is no git in PATH): install git 2.38 or newer", code="git-missing")


def users_ssh() -> str:
    """The ssh command the user has chosen by environment, if any; it is not the repository's, so it is kept."""
    command = os.environ.get("GIT_SSH_COMMAND", "")
    program = os.environ.get("GIT_SSH", "")
    if not command and program:
        command = "'" + program.replace("'", "'\\''") + "'"
    return never_asking(command)


def never_asking(command: str) -> str:
    """The same ssh command, but it fails where it would ask for a password or an unknown host."""
    words = command.split()
    plain = bool(words) and os.path.basename(words[0].strip("'\"")) in ("ssh", "ssh.exe")
    return f"{command} -o BatchMode=yes" if plain else command
