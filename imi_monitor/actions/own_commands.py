"""The own commands of a worktree: those of the user's config file, and those of its repository once they are trusted.

A repository declares them in `.iMi/commands.toml` of its main worktree, which agents and pull requests can write. So a person
confirms them in `imi trust`, the registry keeps the file's hash, and a changed file runs nothing until it is trusted again.
What runs is what was hashed: the file is read once. Scripts that a command calls are not pinned.
"""

from __future__ import annotations

import os
import stat

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import own_command
from imi_monitor.model.errors import ImiError, Refused, UsageError
from imi_monitor.model.own_command import OwnCommand
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.git.layout import Repository

_FILE = os.path.join(".iMi", "commands.toml")
_MOST_BYTES = 1 << 16
_REPOSITORY_FIELDS = "a command of a repository has no key: bind one to a command of your own file"


@dataclass(frozen=True, slots=True)
class CommandsFile:
    """A repository's commands with the hash of their file."""

    path: str
    fingerprint: str
    commands: dict[str, OwnCommand]


@dataclass(frozen=True, slots=True)
class AvailableCommand:
    """A command and who declares it: `user` or `repository`. `why_not` says why it cannot run now."""

    command: OwnCommand
    origin: str
    why_not: str = ""


def list_available(context: Context, repository: Repository | None) -> list[AvailableCommand]:
    """The user's commands, then the repository's; the user's wins where both have the name."""
    settings = context.settings_of(repository)
    own = settings.own_commands()
    found = [AvailableCommand(command, "user") for command in own.values()]
    if repository is None:
        return found
    try:
        file = read_file(repository)
    except ImiError as problem:
        context.notes.append(problem.sentence)
        return found
    if file is None:
        return found
    why_not = "" if is_trusted(context, file) else _untrusted(repository, file)
    for name, command in file.commands.items():
        hidden = f"your own command {name} has the same name" if name in own else ""
        found.append(AvailableCommand(command, "repository", hidden or why_not))
    return found


def find(context: Context, repository: Repository | None, name: str) -> OwnCommand:
    """The command of this name; Refused when there is none, or it is not trusted."""
    named = [one for one in list_available(context, repository) if one.command.name == name]
    if not named:
        raise Refused(
            f"there is no command {safe(name)!r}: `imi commands` lists them; declare one in [commands] of your config file",
            code="no-command",
        )
    if named[0].why_not:
        raise Refused(named[0].why_not, code="untrusted")
    return named[0].command


def read_file(repository: Repository) -> CommandsFile | None:
    """The repository's commands; None when it declares none. UsageError for a file that cannot be read or parsed."""
    path = path_in(repository)
    content = _content(path)
    if content is None or not content.strip():
        return None
    import tomllib
    from hashlib import sha256

    try:
        tree = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _bad_file(f"{safe(path)} is not valid TOML: {safe(str(error))}") from error
    other = next((key for key in tree if key != "commands"), None)
    if other is not None:
        raise _bad_file(f"unknown table {safe(other)!r} in {safe(path)}: only [commands] is read there")
    commands = own_command.parse_all(tree.get("commands", {}), path)
    if any(one.key for one in commands.values()):
        raise _bad_file(f"{safe(path)}: {_REPOSITORY_FIELDS}")
    return CommandsFile(path, sha256(content).hexdigest(), commands)


def path_in(repository: Repository) -> str:
    """Return where a repository declares its commands."""
    return os.path.join(repository.home, _FILE)


def is_trusted(context: Context, file: CommandsFile) -> bool:
    """Whether a person has trusted this file with this content."""
    from imi_monitor.store import repositories

    return repositories.trusted_fingerprint(context.connection, file.path) == file.fingerprint


def _untrusted(repository: Repository, file: CommandsFile) -> str:
    return (
        f"the commands of {safe(repository.home)} are not trusted, or {os.path.basename(file.path)} has changed: read them "
        "with `imi trust --show`, then run `imi trust` in a terminal"
    )


def _content(path: str) -> bytes | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _bad_file(f"cannot read {safe(path)}: {error.strerror}") from error
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _bad_file(f"{safe(path)} is not a regular file")
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise _bad_file(f"{safe(path)} is larger than {_MOST_BYTES >> 10} KB: its commands are not read")
    return content


def _bad_file(sentence: str) -> UsageError:
    return UsageError(sentence, code="bad-setting")
