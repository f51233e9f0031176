"""Everything that the command line prints: made safe for the terminal, with the JSON envelope of `--json`."""

from __future__ import annotations

import os
import sys

from imi_monitor.fast import json_writer
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from imi_monitor.actions.action import Outcome
    from imi_monitor.model.errors import ImiError

SCHEMA = 1  # of the JSON envelope; incremented when a field changes its meaning, not when one is added
UNWRITTEN = "output"  # the code of an error in writing stdout; it is reported on stderr
_WIDE = 4096  # longer lines of text lose their middle and their colours


_progress_shown = False  # on the terminal's last line
colours = False  # whether stdout gets them; the command runner sets it


class ReaderGone(Exception):
    """The reader of stdout has closed the pipe (`imi list | head`), which is no error."""


def line(text: str) -> None:
    """One line on stdout."""
    _print(shown(text))


def shown(text: str) -> str:
    """The text made safe, with the colours of its styles where they are used."""
    if colours and len(text) <= _WIDE:
        from imi_monitor.cli import terminal_style
        from imi_monitor.model.styled_text import StyledText

        if isinstance(text, StyledText):
            return terminal_style.paint(text)
    return safe(text, _WIDE)


def note(text: str) -> None:
    """One line on stderr: progress, warnings, errors."""
    _print_beside(safe(text, _WIDE) + "\n")


def progress(text: str) -> None:
    """A line on stderr that replaces the previous one; nothing when stderr is not a terminal."""
    global _progress_shown
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        _progress_shown = True
        _print_beside(f"\r\x1b[K{safe(text, 120)}")


def end_progress() -> None:
    global _progress_shown
    if _progress_shown:
        _progress_shown = False
        _print_beside("\r\x1b[K")


def flush() -> None:
    """Write out the buffer of stdout; raises ReaderGone, or an ImiError with the code UNWRITTEN."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _unwritable(error) from error


def discard(stream: TextIO) -> None:
    """Let what the stream still holds, and what follows, go to /dev/null: a second failure at exit would change the status."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return  # no descriptor left, or a stream without one


def _print(text: str, *, at_once: bool = False) -> None:
    try:
        _write(sys.stdout, text + "\n")
        if at_once:
            sys.stdout.flush()
    except OSError as error:
        raise _unwritable(error) from error


def _print_beside(text: str) -> None:
    try:
        _write(sys.stderr, text)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)  # closed or full: the exit status still reports the result


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:  # the stream's encoding lacks a character, as with PYTHONIOENCODING=ascii
        stream.write(text.encode("ascii", "backslashreplace").decode("ascii"))


def _unwritable(error: OSError) -> Exception:
    """The error of a stdout that is closed, or on a full or broken disk; nothing more is written to it."""
    from imi_monitor.model.errors import ImiError

    discard(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return ReaderGone()
    return ImiError(f"the output cannot be written: {error.strerror}", code=UNWRITTEN)


def envelope(success: bool, data: object, error: str | None, code: str | None = None) -> None:
    """The one JSON object of `--json`."""
    tree: dict[str, object] = {"schema": SCHEMA, "success": success, "data": data, "error": error}
    if code is not None:
        tree["code"] = code
    _print(json_writer.dumps(tree, 2 if sys.stdout.isatty() else 0))


def entry(data: dict[str, object]) -> None:
    """One object of a stream, on its own line, flushed."""
    _print(json_writer.dumps(data), at_once=True)


def page(lines: list[str], *, clear: bool) -> None:
    """Lines that replace the previous ones on a terminal (`clear`) and follow them elsewhere."""
    text = "\n".join(map(shown, lines))
    _print(("\x1b[H\x1b[2J" if clear else "") + text, at_once=True)


def reader_gone() -> bool:
    """Whether the reader of stdout is gone. A stream without changes writes nothing and so gets no error."""
    import select

    poller = select.poll()
    try:
        poller.register(sys.stdout.fileno(), 0)  # poll always reports errors and hang-ups
    except (OSError, ValueError):
        return False  # not a real file: captured in this process
    return bool(poller.poll(0))


def lines(texts: list[str]) -> None:
    """Lines on stdout."""
    for text in texts:
        line(text)


def outcome(result: Outcome, *, as_json: bool, print_lines: Callable[[list[str]], None] = lines) -> None:
    """The outcome of an action. The path is the last line, so that scripts can use it."""
    if as_json:
        data = dict(result.data)
        if result.warnings:
            data["warnings"] = list(result.warnings)
        envelope(result.exit_status == 0, data, None)
        return
    print_lines(result.lines)
    for text in result.warnings:
        note(f"warning: {text}")
    if result.path is not None:
        line(result.path)


def failure(error: ImiError, *, as_json: bool) -> None:
    """An error: the envelope of `--json`, else its sentence and details on stderr."""
    if as_json:
        data = dict(error.data or {})
        if error.details:
            data.setdefault("details", list(error.details))
        envelope(False, data or None, error.sentence, error.code)
        return
    note(f"imi: {error.sentence}")
    for text in error.details:
        note(f"  {text}")


def write_path_for_shell(path: str) -> None:
    """Write the exact path to the file of the shell function, which then changes directory."""
    target = os.environ.get("IMI_CD_FILE")
    if target:
        try:
            with open(target, "wb") as file:
                file.write(os.fsencode(path))
        except OSError as error:
            note(f"warning: the shell function cannot change directory ({error.strerror}): cd to the path below")
