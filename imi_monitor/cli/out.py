"""What reaches the terminal: everything printed goes through here, made safe, and broken pipes end quietly."""

from __future__ import annotations

import os
import sys

from imi_monitor.model import jsontext
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.base import Outcome
    from imi_monitor.model.errors import ImiError

SCHEMA = 1  # of the JSON envelope; grows when a field changes its meaning, not when one is added
_WIDE = 4096  # a line for people may be this long before its middle is cut


def line(text: str) -> None:
    """One line on stdout."""
    print(safe(text, _WIDE))


def note(text: str) -> None:
    """One line on stderr: progress, warnings, errors."""
    print(safe(text, _WIDE), file=sys.stderr, flush=True)


def progress(text: str) -> None:
    """A line that replaces the one before, on a terminal; elsewhere there is no such thing and it is left out."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{safe(text, 120)}", end="", file=sys.stderr, flush=True)


def end_progress() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def envelope(success: bool, data: object, error: str | None, code: str | None = None) -> None:
    """The one JSON object of `--json`."""
    tree: dict[str, object] = {"schema": SCHEMA, "success": success, "data": data, "error": error}
    if code is not None:
        tree["code"] = code
    print(jsontext.dumps(tree, 2 if sys.stdout.isatty() else 0))


def entry(data: dict[str, object]) -> None:
    """One object of a stream, on its own line, at once."""
    print(jsontext.dumps(data), flush=True)


def outcome(result: Outcome, *, as_json: bool) -> None:
    """What came of an action. The path comes last, so that scripts can take the last line."""
    if as_json:
        data = dict(result.data)
        if result.warnings:
            data["warnings"] = list(result.warnings)
        envelope(result.exit_status == 0, data, None)
        return
    for text in result.lines:
        line(text)
    for text in result.warnings:
        note(f"warning: {text}")
    if result.path is not None:
        line(result.path)


def failure(error: ImiError, *, as_json: bool) -> None:
    if as_json:
        data = dict(error.data or {})
        if error.details:
            data.setdefault("details", list(error.details))
        envelope(False, data or None, error.sentence, error.code)
        return
    note(f"imi: {error.sentence}")
    for text in error.details:
        note(f"  {text}")


def tell_shell(path: str) -> None:
    """Hand the exact path to the shell function of `imi shell-init`, which changes directory with it."""
    target = os.environ.get("IMI_CD_FILE")
    if target:
        with open(target, "wb") as file:
            file.write(os.fsencode(path))
