"""From words to an exit status: 0 done, 1 refused or failed, 2 a request that makes no sense, 130 interrupted.

Asking a person to pick one of several, on a terminal. On stderr, so that stdout stays what was asked for.
"""

from __future__ import annotations

import sys

from imi_monitor.actions.context import Context
from imi_monitor.cli import argument_parser, output
from imi_monitor.model.errors import ImiError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Action, Outcome


def main(argv: list[str] | None = None) -> int:
    """Run one command line. Nothing leaves here but an exit status: no traceback, whatever happens."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    try:
        status = _run(words)
        output.flush()
        return status
    except ImiError as error:
        return _fail(error, as_json)
    except KeyboardInterrupt:
        output.end_progress()
        output.note("imi: interrupted")
        return 130
    except BrokenPipeError:
        return _pipe_closed()
    except Exception as error:  # noqa: BLE001  the last line of defence: a person gets a sentence, the log the rest
        from imi_monitor.cli import crash_log

        return _fail(crash_log.recorded(error), as_json)


def _run(words: list[str]) -> int:
    parsed = argument_parser.parse(words)
    if parsed.flag("version"):
        from imi_monitor import __version__

        output.line(f"imi {__version__}")
        return 0
    if parsed.action is None:
        return _without_verb(parsed)
    if parsed.flag("help"):
        from imi_monitor.cli import help_pages as pages

        return pages.show_action(parsed.action, parsed.request.verb)
    if parsed.action.front_end:
        from imi_monitor.cli import front_end

        return front_end.show(parsed.action, parsed)
    if parsed.request.verb == "status" and parsed.request.flag("watch"):
        from imi_monitor.cli import snapshot_stream

        return snapshot_stream.run(parsed)
    return _run_action(parsed, parsed.action)


def _run_action(parsed: argument_parser.ParsedCommandLine, action: Action) -> int:
    as_json = parsed.flag("json")
    quiet = as_json or parsed.flag("quiet")

    def emit(text: str, data: dict[str, object]) -> None:
        if as_json:
            output.entry(data)
        else:
            for each in text.split("\n"):
                output.line(each)
            output.flush()

    def choose(title: str, lines: list[str]) -> int | None:

        return None if as_json else choose_on_terminal(title, lines)

    context = Context(
        database=parsed.option("db"),
        repo=parsed.option("repo"),
        progress=output.progress if sys.stderr.isatty() and not quiet else None,
        emit=emit,
        choose=choose,
    )
    context.process_ends = action.hot
    if action.streams:
        context.cancelled = output.reader_gone
    with context:
        settled = _settle(context) if action.recovers and not action.hot else []
        result = action.run(context, parsed.request)
    output.end_progress()
    if settled and as_json:
        result.data["settled"] = list(settled)
    elif settled:
        for text in settled:
            output.note(f"imi: {text}")
    _show(action, result, as_json)
    return result.exit_status


def _settle(context: Context) -> list[str]:
    """Finish or take back what a crash left half done, before anything else is done on top of it.

    And this is the moment for the registry's upkeep: its ballast, if a full disk has cost it, and its oldest history.
    """
    from imi_monitor.actions import recovery
    from imi_monitor.store import db, retention

    settled = recovery.recover(context)
    db.restore_ballast(context.database)
    if retention.is_history_due(context.connection):
        db.transact(context.connection, retention.trim_history)
    keep_days = _keep_days(context)
    if keep_days is not None and retention.are_sessions_due(context.connection, keep_days):
        db.transact(context.connection, retention.trim_sessions, keep_days)
    return settled


def _keep_days(context: Context) -> int | None:
    """For how long sessions are kept; None when the settings cannot be read, which is for those to say who need one."""
    try:
        return context.settings.number("sessions.keep_days")
    except UsageError:
        return None


def _show(action: Action, result: Outcome, as_json: bool) -> None:
    if result.path is not None:
        output.tell_shell(result.path)
    if not (action.streams and as_json):
        output.outcome(result, as_json=as_json)


def _without_verb(parsed: argument_parser.ParsedCommandLine) -> int:
    """Plain `imi`, `imi --help`, `imi help VERB`, or a word that is no verb."""
    from imi_monitor.cli import help_pages as pages

    if parsed.words[:1] == ["help"]:
        return pages.show(parsed.words[1:])
    if parsed.flag("help"):
        return pages.show([])
    if parsed.words and not _is_repository(parsed.words[0]):
        raise UsageError(pages.unknown_verb(parsed.words[0]), code="unknown-verb")
    from imi_monitor.cli import dashboard_command

    return dashboard_command.show_default(parsed)


def _is_repository(word: str) -> bool:
    import os

    return os.path.isdir(word)


def _fail(error: ImiError, as_json: bool) -> int:
    output.end_progress()
    try:
        output.failure(error, as_json=as_json and error.code != output.UNWRITTEN)
        output.flush()
    except BrokenPipeError:
        return _pipe_closed()
    except ImiError as unwritten:
        output.note(f"imi: {unwritten.sentence}")
    return error.exit_status


def _pipe_closed() -> int:
    """The reader went away (`imi list | head`): that is its right, and nobody is there to be told."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def choose_on_terminal(title: str, lines: list[str]) -> int | None:
    """The index of the line that was picked; None when there is no terminal, or the person leaves it."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    output.end_progress()
    digits = len(str(len(lines)))
    for number, text in enumerate(lines, 1):
        output.note(f"{number:>{digits}}  {text}")
    output.note(f"{title} (1-{len(lines)}, or nothing to leave):")
    answer = sys.stdin.readline().strip()
    if answer.isascii() and answer.isdecimal() and 1 <= int(answer[:9]) <= len(lines):
        return int(answer) - 1
    return None
