"""Own commands: shell commands with a name, declared in `[commands]` by the user or by a repository."""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

OWN_PREFIX = "command:"  # of an own command's name among the dashboard's commands
_LONGEST_NAME = 40
_TEXTS = ("run", "key", "label", "help")
_FIELDS = (*_TEXTS, "pane")


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A shell command that runs in a worktree. Without a `pane` the dashboard runs it unseen and shows how it ended."""

    name: str
    run: str
    key: str = ""
    label: str = ""
    help: str = ""
    pane: bool = True

    @property
    def word(self) -> str:
        """Return the command's name among the dashboard's commands."""
        return f"{OWN_PREFIX}{self.name}"


def parse(name: str, value: object, origin: str) -> OwnCommand:
    """Return the command that `name = "…"` or `[commands.NAME]` declares; UsageError names what is wrong."""
    shown = f"commands.{safe(name, 60)}"
    if not _is_name(name):
        raise _error(f"{shown} in {safe(origin)} must have a name of at most {_LONGEST_NAME} letters, digits, - and _")
    table = {"run": value} if isinstance(value, str) else value
    if not isinstance(table, dict):
        raise _error(f'{shown} in {safe(origin)} must be a command, or a table with run = "…"')
    for key, entry in table.items():
        if key not in _FIELDS:
            raise UsageError(
                f"unknown setting '{shown}.{safe(key)}' in {safe(origin)}: use {', '.join(_FIELDS)}",
                code="unknown-setting",
            )
        if not isinstance(entry, bool if key == "pane" else str):
            raise _error(f"{shown}.{key} in {safe(origin)} must be {'true or false' if key == 'pane' else 'a text'}")
    texts = {key: str(table.get(key, "")).strip() for key in _TEXTS}
    if not texts["run"] or "\0" in texts["run"]:
        raise _error(f"{shown} in {safe(origin)} must say what it runs")
    return OwnCommand(
        name,
        texts["run"],
        key=texts["key"],
        label=safe(texts["label"], 40) or name,
        help=safe(texts["help"], 200) or safe(texts["run"], 200),
        pane=table.get("pane") is not False,
    )


def parse_all(table: object, origin: str) -> dict[str, OwnCommand]:
    """Return the commands of a whole `[commands]` table by name."""
    if not isinstance(table, dict):
        raise _error(f'commands in {safe(origin)} must be a table: [commands] with lines such as test = "make test"')
    return {name: parse(name, value, origin) for name, value in table.items()}


def _is_name(name: str) -> bool:
    plain = name.replace("-", "").replace("_", "")
    return plain.isascii() and plain.isalnum() and not name.startswith("-") and len(name) <= _LONGEST_NAME


def _error(sentence: str) -> UsageError:
    return UsageError(sentence, code="bad-setting")
