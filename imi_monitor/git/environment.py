"""The environment of our git processes: no inherited GIT_* variables, no prompts, no programs started.

Settings in the environment (GIT_CONFIG_COUNT) override every configuration file. What has no setting (transports, lazy
fetches, a proxy command, prompts) has a variable here.
"""

from __future__ import annotations

import os

from imi_monitor import programs
from imi_monitor.model.errors import GitError

# Variables that are the user's own choices; any other would point git to another repository or program.
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
_FIXED = {
    "LC_ALL": "C.UTF-8",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # an empty value overrides core.askPass, an absent one does not
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_PAGER": "cat",
}
# Removed for a trusted repository.
FENCE_VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "https:ssh:git:file",
    # a partial clone fetches a missing object during `show`, with the upload-pack command it configures
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PROXY_COMMAND": "",  # the first core.gitProxy wins, so no later setting could override it
}


def git_environment(settings: list[tuple[str, str]]) -> dict[str, str]:
    """Return the environment of a git process without prompts and programs; `settings` override all configuration files."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name != "LANGUAGE" and (not name.startswith("GIT_") or name in _KEPT)
    }
    env["PATH"] = programs.search_path()
    if not programs.is_outside(env.get("GIT_EXEC_PATH", "/")):
        del env["GIT_EXEC_PATH"]
    env.update(_FIXED)
    env.update(FENCE_VARIABLES)
    env["GIT_SSH_COMMAND"] = users_ssh() or never_asking("ssh")
    env["GIT_CONFIG_COUNT"] = str(len(settings))
    for index, (key, value) in enumerate(settings):
        env[f"GIT_CONFIG_KEY_{index}"] = key
        env[f"GIT_CONFIG_VALUE_{index}"] = value
    return env


def git_path() -> str:
    """Return git's absolute path."""
    program = programs.find("git")
    if program is None:
        raise GitError(f"git {programs.why_missing('git')}: install git 2.38 or newer", code="git-missing")
    return program


def users_ssh() -> str:
    """Return the ssh command of the user's environment, if any; it does not come from the repository, so it is kept."""
    command = os.environ.get("GIT_SSH_COMMAND", "")
    program = os.environ.get("GIT_SSH", "")
    if not command and program and ("/" not in program or programs.is_outside(program)):
        command = "'" + program.replace("'", "'\\''") + "'"
    return never_asking(command)


def never_asking(command: str) -> str:
    """Return the ssh command with an option to fail instead of asking for a password or about an unknown host."""
    words = command.split()
    plain = bool(words) and os.path.basename(words[0].strip("'\"")) in ("ssh", "ssh.exe")
    return f"{command} -o BatchMode=yes" if plain else command
