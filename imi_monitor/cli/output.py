"""What reaches the terminal: everything printed goes through here, made safe, and broken pipes end quietly."""

from __future__ import annotations

import os
import sys

from imi_monitor.fast import json_writer
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Outcome
    from imi_monitor.model.errors import ImiError

SCHEMA = 1  # of the JSON envelope; grows when a field changes its meaning, not when one is added
UNWRITTEN = "output"  # the code of an answer that could not be written: it must be told beside it
_WIDE = 4096  # a line for people may be this long before its middle is cut


def line(text: str) -> None:
    """One line on stdout."""
    _print(safe(text, _WIDE))


def note(text: str) -> None:
    """One line on stderr: progress, warnings, errors."""
    _print_beside(safe(text, _WIDE) + "\n")


def progress(text: str) -> None:
    """A line that replaces the one before, on a terminal; elsewhere there is no such thing and it is left out."""
    if sys.stderr.isatty():
        _print_beside(f"\r\x1b[K{safe(text, 120)}")


def end_progress() -> None:
    if sys.stderr.isatty():
        _print_beside("\r\x1b[K")


def flush() -> None:
    """Write out what stdout still keeps: only then is it known whether the answer arrived."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(error) from error


def _print(text: str, *, at_once: bool = False) -> None:
    try:
        print(text, flush=at_once)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(error) from error


def _print_beside(text: str) -> None:
    try:
        print(text, end="", file=sys.stderr, flush=True)
    except OSError:
        return  # nobody is left who could be told; the exit status still tells


def _unwritable(error: OSError) -> ImiError:
    """stdout leads to a full or broken disk. What is in its buffer must not fail once more when the program ends."""
    from imi_monitor.model.errors import ImiError

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ImiError(f"the answer cannot be written: {error.strerror}", code=UNWRITTEN)


def envelope(success: bool, data: object, error: str | None, code: str | None = None) -> None:
    """The one JSON object of `--json`."""
    tree: dict[str, object] = {"schema": SCHEMA, "success": success, "data": data, "error": error}
    if code is not None:
        tree["code"] = code
    _print(json_writer.dumps(tree, 2 if sys.stdout.isatty() else 0))


def entry(data: dict[str, object]) -> None:
    """One object of a stream, on its own line, at once."""
    _print(json_writer.dumps(data), at_once=True)


def page(lines: list[str], *, clear: bool) -> None:
    """A picture that replaces the one before on a terminal, and follows it elsewhere."""
    text = "\n".join(safe(each, _WIDE) for each in lines)
    print(("\x1b[H\x1b[2J" if clear else "") + text, flush=True)


def reader_gone() -> bool:
    """Whether nobody reads our stdout any more: a stream that has nothing to say would never find out by writing."""
    import select

    poller = select.poll()
    try:
        poller.register(sys.stdout.fileno(), 0)  # errors and hang-ups are reported without being asked for
    except (OSError, ValueError):
        return False  # not a real file: somebody in this process reads it
    return bool(poller.poll(0))


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
        try:
            with open(target, "wb") as file:
                file.write(os.fsencode(path))
        except OSError as error:
            note(f"warning: the shell cannot be told where to go ({error.strerror}): cd to the path below")
